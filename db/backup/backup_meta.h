// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The text of a file in meta/, which is RocksDB's. docs/backups.md has the
// format.

#include <cstdint>
#include <string>
#include <vector>

#include "db/backup/backup_names.h"
#include "varve/metadata.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// A file of a backup.
struct BackupFile {
  std::string path;  // In the backup directory.
  // kUnknownSize until it is looked up, if it is not recorded.
  uint64_t size = kUnknownSize;
  bool has_checksum = false;
  uint32_t crc32c = 0;
  Temperature temperature = Temperature::kUnknown;
};

// A backup.
struct BackupMeta {
  BackupID id = 0;
  int64_t timestamp_s = 0;
  uint64_t sequence = 0;  // Approximate.
  std::string app_metadata;
  std::vector<BackupFile> files;
  std::vector<std::string> excluded;  // Paths of files that it leaves out.

  // Returns the sum of the sizes, which must be known.
  uint64_t Size() const;
};

inline constexpr int kMaxSchemaVersion = 2;
inline constexpr size_t kMaxAppMetadataBytes = 1 << 20;

// Reads the text of backup `id`. All paths are as ParseBackupPath allows, and
// no two are the same file of a database. Returns Corruption, or NotSupported
// for a format that only later versions of RocksDB know. *meta is then
// undefined.
Status ParseBackupMeta(const Slice& text, BackupID id, BackupMeta* meta);

// Returns the text. REQUIRES: schema_version in [1, kMaxSchemaVersion]; with 1
// there are no excluded files, and each file has a checksum.
std::string FormatBackupMeta(const BackupMeta& meta, int schema_version);

}  // namespace varve
