// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The names in a backup directory, which are RocksDB's. Paths are relative to
// the directory:
//
//   meta/<id>                   the list of a backup's files
//   private/<id>/<file>         the files that only this backup has
//   shared_checksum/<number>_s<session>_<size>.sst
//   shared_checksum/<number>_<crc32c>_<size>.sst
//   shared/<number>.sst         without protection against equal numbers
//
// A file that is being written is meta/.<id>.tmp, or .<file>.tmp in its folder.
// Thread-safety: functions without state.

#include <cstdint>
#include <string>

#include "env/file_names.h"
#include "varve/backup_engine.h"

namespace varve {

inline constexpr char kMetaFolder[] = "meta";
inline constexpr char kPrivateFolder[] = "private";
inline constexpr char kSharedFolder[] = "shared";
inline constexpr char kSharedChecksumFolder[] = "shared_checksum";
inline constexpr uint64_t kUnknownSize = UINT64_MAX;

// A path of a backup's file, taken apart.
struct BackupPath {
  bool is_shared = false;
  bool has_checksum_name = false;  // In shared_checksum/.
  std::string folder;              // "private/7", "shared" and so on.
  std::string name;                // In the folder.
  std::string db_name;             // In a database's directory.
  FileKind kind = FileKind::kTemp;
  uint64_t number = 0;           // 0 for a file without one.
  uint64_t size = kUnknownSize;  // As the name says.
};

// Takes a path of backup `id` apart. Returns false, with *result undefined,
// for a path that no engine writes. All others stay in the backup directory,
// and their db_name is a name of a database's file.
bool ParseBackupPath(const std::string& path, BackupID id, BackupPath* result);
// Returns true for a decimal number in [1, UINT32_MAX] without leading zeros.
bool ParseBackupId(const std::string& name, BackupID* id);

// Returns "meta/<id>", and "meta/.<id>.tmp" if it is temporary.
std::string MetaPath(BackupID id, bool is_temporary = false);
// Returns "private/<id>".
std::string PrivateFolder(BackupID id);
// Returns the path with "." before its last part and ".tmp" after it.
std::string TemporaryPath(const std::string& path);
// Returns true for the last part of a path by TemporaryPath, and for RocksDB's
// older form without a dot.
bool IsTemporaryName(const std::string& name);

// Return the path of the table `db_name` in shared_checksum/.
std::string SessionPath(const std::string& db_name, const std::string& session,
                        uint64_t size, bool with_size);
std::string ChecksumPath(const std::string& db_name, uint32_t crc32c,
                         uint64_t size);
// Returns true if the identity can be a part of a name: letters and digits.
bool IsSessionName(const std::string& session);

}  // namespace varve
