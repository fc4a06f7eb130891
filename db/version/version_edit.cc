// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/version_edit.h"

#include <algorithm>

#include "util/bytes/coding.h"

namespace varve {

namespace {

// Tags of an edit's fields. They are stored on disk and must not be renumbered.
enum Tag : uint32_t {
  kComparator = 1,
  kLogNumber = 2,
  kNextFileNumber = 3,
  kLastSequence = 4,
  kCompactCursor = 5,
  kDeletedFile = 6,
  kNewFileLevelDb = 7,
  kPrevLogNumber = 9,
  kMinLogNumberToKeep = 10,
  kNewFile2 = 100,
  kNewFile3 = 102,
  kNewFile4 = 103,
  kColumnFamily = 200,
  kColumnFamilyAdd = 201,
  kColumnFamilyDrop = 202,
  kMaxColumnFamily = 203,
  kInAtomicGroup = 300,
  kBlobFileAddition = 400,
  kBlobFileGarbage = 401,
  kIgnorableBit = 1 << 13,
  kDbId = 8193,
  kOldBlobFileAddition = 8194,
  kOldBlobFileGarbage = 8195,
  kOldWalAddition = 8196,
  kOldWalDeletion = 8197,
  kFullHistoryTsLow = 8198,
  kPersistUserTimestamps = 8201,
  // Varve's own tags, far from RocksDB's. RocksDB skips an unknown field if its
  // tag has the ignorable bit.
  kKeyFolding = kIgnorableBit | 0x560000,
  kLogsAreFiles = kIgnorableBit | 0x560001,
  kLogsEnd = kIgnorableBit | 0x560002,
  kTablesEnd = kIgnorableBit | 0x560003,
};

// Tags of the custom fields of kNewFile4.
enum CustomTag : uint32_t {
  kTerminate = 1,
  kNeedCompaction = 2,
  kMinLogNumberToKeepHack = 3,
  kOldestBlobFile = 4,
  kOldestAncestorTime = 5,
  kFileCreationTime = 6,
  kRangeDeletionSize = 14,
  kTailSize = 15,
  kUserTimestampsPersisted = 16,
  kMustUnderstandBit = 1 << 6,
  kPathId = 65,
};

constexpr size_t kFileBytes = 64;
constexpr size_t kMaxReservedFiles = 65536;

Status Malformed(const char* what) {
  return Status::Corruption(std::string("version edit: bad ") + what);
}

void PutTagged(std::string* out, uint32_t tag, uint64_t value) {
  PutVarint32(out, tag);
  PutVarint64(out, value);
}

void PutNumberField(std::string* out, uint32_t tag, uint64_t number) {
  PutVarint32(out, tag);
  PutVarint32(out, static_cast<uint32_t>(VarintLength(number)));
  PutVarint64(out, number);
}

void EncodeFile(std::string* out, int level, const FileMetaData& file) {
  PutVarint32(out, kNewFile4);
  PutVarint32(out, static_cast<uint32_t>(level));
  PutVarint64(out, file.number);
  PutVarint64(out, file.file_size);
  PutLengthPrefixedSlice(out, file.smallest);
  PutLengthPrefixedSlice(out, file.largest);
  PutVarint64(out, file.smallest_sequence);
  PutVarint64(out, file.largest_sequence);
  if (file.tail_size != 0) {
    // RocksDB writes it since 8.3, and 7.8 skips it.
    PutNumberField(out, kTailSize, file.tail_size);
  }
  if (file.times.oldest_ancestor_s != 0) {
    PutNumberField(out, kOldestAncestorTime, file.times.oldest_ancestor_s);
  }
  if (file.times.file_creation_s != 0) {
    PutNumberField(out, kFileCreationTime, file.times.file_creation_s);
  }
  if (file.marked_for_compaction) {
    PutVarint32(out, kNeedCompaction);
    PutLengthPrefixedSlice(out, Slice("\1", 1));
  }
  out->append(file.other_fields);
  PutVarint32(out, kTerminate);
}

// Skips a log addition of an older RocksDB, which has no length before it.
bool SkipOldWalAddition(Slice* input) {
  uint64_t ignored;
  if (!GetVarint64(input, &ignored)) return false;
  for (;;) {
    uint32_t tag;
    if (!GetVarint32(input, &tag)) return false;
    if (tag == 1) return true;
    if (tag != 2 || !GetVarint64(input, &ignored)) return false;
  }
}

bool GetInternalKey(Slice* input, std::string* key) {
  Slice bytes;
  if (!GetLengthPrefixedSlice(input, &bytes) || bytes.size() < kTrailerSize) {
    return false;
  }
  *key = bytes.ToString();
  return true;
}

// RocksDB's num_levels may be above kNumLevels. More levels than this are
// certainly damage, because they would hold more than any device.
constexpr uint32_t kMostLevels = 256;

bool GetLevel(Slice* input, int* level) {
  uint32_t value;
  if (!GetVarint32(input, &value) || value >= kMostLevels) return false;
  *level = static_cast<int>(value);
  return true;
}

// Returns NotSupported if Varve does not have the level.
Status CheckLevel(int level) {
  if (level < kNumLevels) return Status::OK();
  return Status::NotSupported("more than " + std::to_string(kNumLevels) +
                              " levels");
}

// Skips what RocksDB records of a blob file: its number and two counts, its
// checksum if it is a new one, and further fields up to a tag of 0.
bool SkipBlobFile(Slice* input, bool is_new) {
  uint64_t number;
  Slice bytes;
  for (int i = 0; i < 3; ++i) {
    if (!GetVarint64(input, &number)) return false;
  }
  for (int i = 0; i < 2 && is_new; ++i) {
    if (!GetLengthPrefixedSlice(input, &bytes)) return false;
  }
  for (;;) {
    uint32_t tag;
    if (!GetVarint32(input, &tag)) return false;
    if (tag == 0) return true;
    if (!GetLengthPrefixedSlice(input, &bytes)) return false;
  }
}

// Decodes the fields up to the last one, also after one that is not supported.
Status DecodeCustomFields(Slice* input, FileMetaData* file,
                          std::optional<uint64_t>* min_log_number) {
  Status unsupported;
  const auto refuse = [&unsupported](const std::string& feature) {
    if (unsupported.ok()) unsupported = Status::NotSupported(feature);
  };
  for (;;) {
    uint32_t tag;
    if (!GetVarint32(input, &tag)) return Malformed("custom field");
    if (tag == kTerminate) return unsupported;
    Slice field;
    if (!GetLengthPrefixedSlice(input, &field)) {
      return Malformed("custom field");
    }
    switch (tag) {
      case kNeedCompaction:
        if (field.size() != 1) return Malformed("mark of a new file");
        file->marked_for_compaction = field[0] == 1;
        continue;  // EncodeTo writes it from the member.
      case kMinLogNumberToKeepHack:
        if (field.size() != 8) return Malformed("minimum log number");
        *min_log_number = DecodeFixed64(field.data());
        continue;  // It is not a property of the file.
      case kOldestBlobFile: {
        uint64_t number;
        Slice rest = field;
        if (!GetVarint64(&rest, &number)) return Malformed("blob file number");
        if (number != 0) refuse("blob files");
        break;
      }
      case kOldestAncestorTime:
      case kFileCreationTime: {
        uint64_t time_s;
        Slice rest = field;
        if (!GetVarint64(&rest, &time_s)) time_s = 0;  // Unknown.
        if (tag == kOldestAncestorTime) {
          file->times.oldest_ancestor_s = time_s;
        } else {
          file->times.file_creation_s = time_s;
        }
        continue;  // EncodeTo writes them from `times`.
      }
      case kRangeDeletionSize: {
        // RocksDB writes it only if it is not 0. See TableOutput::Finish.
        uint64_t size;
        Slice rest = field;
        if (!GetVarint64(&rest, &size)) return Malformed("range deletion size");
        file->reclaimable_bytes = size;
        // relaxed: no other thread has the object yet.
        file->table.without_tombstones.store(size == 0,
                                             std::memory_order_relaxed);
        break;
      }
      case kTailSize: {
        // It is a hint for reads, so an impossible value is ignored.
        uint64_t size;
        Slice rest = field;
        if (GetVarint64(&rest, &size) && size <= file->file_size) {
          file->tail_size = size;
        }
        continue;  // EncodeTo writes it from tail_size.
      }
      case kUserTimestampsPersisted:
        if (field.size() == 1 && field[0] == 0) refuse("user timestamps");
        break;
      case kPathId:
        if (field.size() != 1 || field[0] != 0) {
          refuse("tables in several paths");
        }
        break;
      default:
        if ((tag & kMustUnderstandBit) != 0) {
          refuse("field " + std::to_string(tag) + " of a new file");
        }
    }
    PutVarint32(&file->other_fields, tag);
    PutLengthPrefixedSlice(&file->other_fields, field);
  }
}

}  // namespace

void VersionEdit::EncodeTo(std::string* out) const {
  if (!db_id_.empty()) {
    PutVarint32(out, kDbId);
    PutLengthPrefixedSlice(out, db_id_);
  }
  if (comparator_) {
    PutVarint32(out, kComparator);
    PutLengthPrefixedSlice(out, *comparator_);
  }
  if (!key_folding_.empty()) {
    PutVarint32(out, kKeyFolding);
    PutLengthPrefixedSlice(out, key_folding_);
  }
  if (logs_are_files_) {
    PutVarint32(out, kLogsAreFiles);
    PutLengthPrefixedSlice(out, Slice());
  }
  for (const auto& [tag, end] :
       {std::pair(kLogsEnd, logs_end_), std::pair(kTablesEnd, tables_end_)}) {
    if (!end) continue;
    std::string sequence;
    PutVarint64(&sequence, *end);
    PutVarint32(out, tag);
    PutLengthPrefixedSlice(out, sequence);
  }
  if (log_number_) PutTagged(out, kLogNumber, *log_number_);
  if (prev_log_number_) PutTagged(out, kPrevLogNumber, *prev_log_number_);
  if (next_file_number_) PutTagged(out, kNextFileNumber, *next_file_number_);
  if (max_column_family_) {
    PutVarint32(out, kMaxColumnFamily);
    PutVarint32(out, *max_column_family_);
  }
  if (min_log_number_to_keep_) {
    PutTagged(out, kMinLogNumberToKeep, *min_log_number_to_keep_);
  }
  if (last_sequence_) PutTagged(out, kLastSequence, *last_sequence_);
  for (const auto& [level, number] : deleted_files_) {
    PutVarint32(out, kDeletedFile);
    PutVarint32(out, static_cast<uint32_t>(level));
    PutVarint64(out, number);
  }
  for (const auto& [level, file] : new_files_) EncodeFile(out, level, file);
  if (column_family_ != 0) {
    PutVarint32(out, kColumnFamily);
    PutVarint32(out, column_family_);
  }
  if (column_family_name_) {
    PutVarint32(out, kColumnFamilyAdd);
    PutLengthPrefixedSlice(out, *column_family_name_);
  }
  if (drops_column_family_) PutVarint32(out, kColumnFamilyDrop);
  if (atomic_group_remaining_) {
    PutVarint32(out, kInAtomicGroup);
    PutVarint32(out, *atomic_group_remaining_);
  }
}

Status VersionEdit::DecodeFrom(const Slice& bytes) {
  *this = VersionEdit();
  // kFileBytes is about the size of a file's entry. Unused space is not
  // touched.
  new_files_.reserve(std::min(bytes.size() / kFileBytes, kMaxReservedFiles));
  Slice input = bytes;
  Status unsupported;
  while (!input.empty()) {
    uint32_t tag;
    if (!GetVarint32(&input, &tag)) return Malformed("tag");
    Status status = DecodeField(tag, &input);
    if (status.IsNotSupported()) {
      if (unsupported.ok()) unsupported = std::move(status);
    } else if (!status.ok()) {
      return status;
    }
  }
  return unsupported;
}

// Returns NotSupported only after it has taken the whole field off the input.
Status VersionEdit::DecodeField(uint32_t tag, Slice* input) {
  Slice bytes;
  uint64_t number = 0;
  uint32_t small = 0;
  int level = 0;
  Status status;
  const auto number_field = [&](std::optional<uint64_t>* field) {
    if (!GetVarint64(input, &number)) return Malformed("number");
    *field = number;
    return Status::OK();
  };
  switch (tag) {
    case kComparator:
      if (!GetLengthPrefixedSlice(input, &bytes)) {
        return Malformed("comparator name");
      }
      comparator_ = bytes.ToString();
      return Status::OK();
    case kLogNumber:
      return number_field(&log_number_);
    case kNextFileNumber:
      return number_field(&next_file_number_);
    case kLastSequence:
      if (!GetVarint64(input, &number) || number > kMaxSequenceNumber) {
        return Malformed("last sequence");
      }
      last_sequence_ = number;
      return Status::OK();
    case kPrevLogNumber:
      return number_field(&prev_log_number_);
    case kMinLogNumberToKeep:
      return number_field(&min_log_number_to_keep_);
    case kCompactCursor:
      if (!GetVarint32(input, &small) ||
          !GetLengthPrefixedSlice(input, &bytes)) {
        return Malformed("compact cursor");
      }
      return Status::OK();
    case kDeletedFile:
      if (!GetLevel(input, &level)) return Malformed("level");
      if (!GetVarint64(input, &number)) return Malformed("deleted file");
      status = CheckLevel(level);
      if (status.ok()) deleted_files_.emplace_back(level, number);
      return status;
    case kNewFileLevelDb:
    case kNewFile2:
    case kNewFile3:
    case kNewFile4:
      return DecodeNewFile(tag, input);
    case kColumnFamily:
      if (!GetVarint32(input, &column_family_)) {
        return Malformed("column family");
      }
      return Status::OK();
    case kColumnFamilyAdd:
      if (!GetLengthPrefixedSlice(input, &bytes)) {
        return Malformed("column family name");
      }
      column_family_name_ = bytes.ToString();
      return Status::OK();
    case kColumnFamilyDrop:
      drops_column_family_ = true;
      return Status::OK();
    case kMaxColumnFamily:
      if (!GetVarint32(input, &small)) return Malformed("column family");
      max_column_family_ = small;
      return Status::OK();
    case kInAtomicGroup:
      if (!GetVarint32(input, &small)) return Malformed("atomic group");
      atomic_group_remaining_ = small;
      return Status::OK();
    case kBlobFileAddition:
    case kBlobFileGarbage:
    case kOldBlobFileAddition:
    case kOldBlobFileGarbage:
      if (!SkipBlobFile(
              input, tag == kBlobFileAddition || tag == kOldBlobFileAddition)) {
        return Malformed("blob file");
      }
      return Status::NotSupported("blob files");
    case kDbId:
      if (!GetLengthPrefixedSlice(input, &bytes)) return Malformed("DB id");
      db_id_ = bytes.ToString();
      return Status::OK();
    case kKeyFolding:
      if (!GetLengthPrefixedSlice(input, &bytes)) {
        return Malformed("key folding");
      }
      key_folding_ = bytes.ToString();
      return Status::OK();
    case kLogsAreFiles:
      if (!GetLengthPrefixedSlice(input, &bytes)) return Malformed("logs");
      logs_are_files_ = true;
      return Status::OK();
    case kLogsEnd:
    case kTablesEnd:
      if (!GetLengthPrefixedSlice(input, &bytes) ||
          !GetVarint64(&bytes, &number)) {
        return Malformed(tag == kLogsEnd ? "end of the logs"
                                         : "end of the tables");
      }
      (tag == kLogsEnd ? logs_end_ : tables_end_) = number;
      return Status::OK();
    case kOldWalAddition:
      if (!SkipOldWalAddition(input)) return Malformed("log addition");
      return Status::OK();
    case kOldWalDeletion:
      if (!GetVarint64(input, &number)) return Malformed("log deletion");
      return Status::OK();
    case kFullHistoryTsLow:
      if (!GetLengthPrefixedSlice(input, &bytes)) return Malformed("timestamp");
      return Status::NotSupported("user timestamps");
    default:
      if ((tag & kIgnorableBit) == 0) {
        return Status::Corruption("version edit: unknown tag " +
                                  std::to_string(tag));
      }
      if (!GetLengthPrefixedSlice(input, &bytes)) {
        return Malformed("ignorable field");
      }
      if (tag == kPersistUserTimestamps && bytes.size() == 1 && bytes[0] == 0) {
        return Status::NotSupported("user timestamps");
      }
      return Status::OK();
  }
}

Status VersionEdit::DecodeNewFile(uint32_t tag, Slice* input) {
  int level;
  FileMetaData file;
  uint32_t path_id = 0;
  if (!GetLevel(input, &level)) return Malformed("level");
  if (!GetVarint64(input, &file.number) ||
      (tag == kNewFile3 && !GetVarint32(input, &path_id)) ||
      !GetVarint64(input, &file.file_size) ||
      !GetInternalKey(input, &file.smallest) ||
      !GetInternalKey(input, &file.largest)) {
    return Malformed("new file");
  }
  if (file.file_size > INT64_MAX) return Malformed("size of a new file");
  Status status = CheckLevel(level);
  if (status.ok() && path_id != 0) {
    status = Status::NotSupported("tables in several paths");
  }
  if (tag == kNewFileLevelDb) {
    file.sequences_unknown = true;
  } else if (!GetVarint64(input, &file.smallest_sequence) ||
             !GetVarint64(input, &file.largest_sequence)) {
    return Malformed("sequence numbers of a new file");
  } else if (file.smallest_sequence == kMaxSequenceNumber &&
             file.largest_sequence == 0) {
    // RocksDB writes this for a LevelDB file when it rewrites a MANIFEST.
    file.sequences_unknown = true;
  } else if (file.smallest_sequence > kMaxSequenceNumber ||
             file.largest_sequence > kMaxSequenceNumber) {
    return Malformed("sequence numbers of a new file");
  }
  if (tag == kNewFile4) {
    std::optional<uint64_t> min_log_number;
    Status custom = DecodeCustomFields(input, &file, &min_log_number);
    if (custom.IsCorruption()) return custom;
    if (status.ok()) status = std::move(custom);
    if (min_log_number &&
        min_log_number.value() > min_log_number_to_keep_.value_or(0)) {
      min_log_number_to_keep_ = min_log_number;
    }
  }
  if (status.ok()) new_files_.emplace_back(level, std::move(file));
  return status;
}

}  // namespace varve
