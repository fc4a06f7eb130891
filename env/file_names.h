// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The names of the files in a database directory, and CURRENT, the file that
// names the MANIFEST in force. A file number is unique among all kinds of
// files of one directory.
//
// Thread-safety: functions without state.

#include <cstdint>
#include <string>
#include <vector>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

enum class FileType : uint8_t {
  kWal,           // 000007.log
  kTable,         // 000007.sst
  kLevelDbTable,  // 000007.ldb
  kBlob,          // 000007.blob, known so that it can be refused
  kManifest,      // MANIFEST-000007
  kCurrent,       // CURRENT
  kLock,          // LOCK
  kInfoLog,       // LOG, LOG.old, LOG.old.<microseconds>
  kTemp,          // 000007.dbtmp, 000007.log.dbtmp, OPTIONS-000007.dbtmp
  kIdentity,      // IDENTITY
  kOptions,       // OPTIONS-000007
};

// No database gets as far as this; a file of a higher number is not its own.
constexpr uint64_t kMaxFileNumber = uint64_t{1} << 62;
// What must be free below it before a database is written to, so that no
// process makes files which the next one refuses.
constexpr uint64_t kSpareFileNumbers = uint64_t{1} << 32;

// Says what a directory entry is. *number is the number in the name (for an
// old info log, its microseconds), 0 if the name has none. False, and outputs
// untouched, for a name that the engine would not give: of another spelling
// (7.log, MANIFEST-5), or with a number of more than 64 bits.
bool ParseFileName(const std::string& name, uint64_t* number, FileType* type);

std::string WalFileName(const std::string& directory, uint64_t number);
std::string TableFileName(const std::string& directory, uint64_t number);
std::string LevelDbTableFileName(const std::string& directory, uint64_t number);
std::string ManifestFileName(const std::string& directory, uint64_t number);
std::string OptionsFileName(const std::string& directory, uint64_t number);
std::string TempFileName(const std::string& directory, uint64_t number);
std::string CurrentFileName(const std::string& directory);
std::string LockFileName(const std::string& directory);
std::string IdentityFileName(const std::string& directory);
std::string InfoLogFileName(const std::string& directory);
std::string OldInfoLogFileName(const std::string& directory, uint64_t time_us);

// Sorts the names of old info logs, the oldest first, as far as their dates
// tell. Dates later than `now_us` come from a wall clock that was set back
// since, and count as older than all others.
void SortOldInfoLogs(uint64_t now_us, std::vector<std::string>* names);

// The directory that `path` is in; "." if it says nothing of that.
std::string ParentDirectory(const std::string& path);

// For a directory that nothing of ours was made in yet: makes it if it is
// missing, and its name safe, so that no power cut takes it with all that will
// be synced in it. InvalidArgument if it is missing and not to be made.
Status MakeSafeDirectory(Env* env, const std::string& path,
                         bool create_if_missing);

// Makes CURRENT name that MANIFEST, which must be safe, its name too,
// atomically and durably: when this returns OK, a crash cannot bring the
// previous one back. After an error CURRENT names the old or the new one.
// `handle` is the open `directory`; not null.
Status SetCurrentFile(Env* env, const std::string& directory, Directory* handle,
                      uint64_t manifest_number);

// Reads the name of the MANIFEST in force, without the directory. NotFound if
// there is no CURRENT; Corruption if it holds anything but one line with the
// name of a MANIFEST.
Status ReadCurrentFile(Env* env, const std::string& directory,
                       std::string* manifest_name);

}  // namespace varve
