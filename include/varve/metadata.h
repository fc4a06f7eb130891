// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The files of an open database, as DB::GetLiveFilesMetaData,
// GetColumnFamilyMetaData, GetLiveFilesStorageInfo and GetSortedWalFiles tell
// of them. The names are RocksDB's.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"

namespace varve {

// The kind of a file of a database.
enum class FileType : uint8_t {
  kWalFile,
  kDBLockFile,
  kTableFile,
  kDescriptorFile,  // A MANIFEST.
  kCurrentFile,
  kTempFile,
  kInfoLogFile,
  kMetaDatabase,
  kIdentityFile,
  kOptionsFile,
  kBlobFile,  // Varve has none.
};

// The temperature of a file's device. Varve knows none.
enum class Temperature : uint8_t { kUnknown = 0, kHot, kWarm, kCold };

// A file of a live database.
struct FileStorageInfo {
  std::string relative_filename;  // In `directory`, without a slash.
  std::string directory;
  uint64_t file_number = 0;  // 0 for a file without a number.
  FileType file_type = FileType::kTempFile;
  uint64_t size = 0;  // The bytes to copy; the file may be longer.
  Temperature temperature = Temperature::kUnknown;
  std::string file_checksum;
  std::string file_checksum_func_name = "Unknown";
};

// A file that belongs to one state of the database.
struct LiveFileStorageInfo : FileStorageInfo {
  // If not empty, the file's contents are these, and not the ones on the device
  // (CURRENT).
  std::string replacement_contents;
  // The file may grow, so copy `size` bytes of it and do not link it.
  bool trim_to_size = false;
};

// Options of DB::GetLiveFilesStorageInfo.
struct LiveFilesStorageInfoOptions {
  bool include_checksum_info = false;
  // Memtables are flushed first if the logs are at least this large. 0 flushes
  // always, UINT64_MAX never.
  uint64_t wal_size_for_flush = 0;
};

// A table of a version. Keys are user keys.
struct SstFileMetaData : FileStorageInfo {
  std::string name;     // "/" and the file's name.
  std::string db_path;  // As `directory`.
  uint64_t smallest_seqno = 0;
  uint64_t largest_seqno = 0;
  std::string smallestkey;
  std::string largestkey;
  uint64_t num_reads_sampled = 0;  // Varve samples none.
  bool being_compacted = false;
  uint64_t num_entries = 0;
  uint64_t num_deletions = 0;
  uint64_t oldest_blob_file_number = 0;
  uint64_t oldest_ancester_time = 0;  // RocksDB's spelling; seconds since 1970.
  uint64_t file_creation_time = 0;
  uint64_t epoch_number = 0;
};

// A table with its family and level.
struct LiveFileMetaData : SstFileMetaData {
  std::string column_family_name;
  int level = 0;
};

// The tables of a level.
struct LevelMetaData {
  int level = 0;
  uint64_t size = 0;
  std::vector<SstFileMetaData> files;
};

// The tables of a family.
struct ColumnFamilyMetaData {
  uint64_t size = 0;
  size_t file_count = 0;
  std::string name;
  std::vector<LevelMetaData> levels;
};

// A table that Checkpoint::ExportColumnFamily made.
struct ExportImportFilesMetaData {
  std::string db_comparator_name;
  std::vector<LiveFileMetaData> files;
};

// Where a log is.
enum class WalFileType : uint8_t { kArchivedLogFile = 0, kAliveLogFile = 1 };

// A write-ahead log.
class VARVE_EXPORT WalFile {
 public:
  virtual ~WalFile() = default;
  // Returns its name in the database's directory, with a slash in front:
  // "/000012.log" or "/archive/000012.log".
  virtual std::string PathName() const = 0;
  virtual uint64_t LogNumber() const = 0;
  virtual WalFileType Type() const = 0;
  // Returns the sequence number of its first update, or 0 if it has none yet.
  virtual uint64_t StartSequence() const = 0;
  virtual uint64_t SizeFileBytes() const = 0;
};

// Logs, oldest first.
using VectorWalPtr = std::vector<std::unique_ptr<WalFile>>;

}  // namespace varve
