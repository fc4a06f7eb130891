// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/write_batch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "db/memtable/memtable.h"
#include "db/write/write_batch_internal.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"
#include "util/threads/memory_account.h"

namespace varve {

namespace {

constexpr size_t kHeaderSize = BatchReader::kHeaderSize;

constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();

// The most bytes that a record of two fields needs in addition to the fields.
constexpr size_t kMaxRecordOverhead = 1 + 2 * kMaxVarint32Bytes;

// Appends a record. REQUIRES: *out has enough capacity.
void AppendInPlace(std::string* out, BatchTag tag, const Slice& key,
                   const Slice* value) {
  char start[1 + kMaxVarint32Bytes];
  start[0] = static_cast<char>(tag);
  const char* const end =
      EncodeVarint32(start + 1, static_cast<uint32_t>(key.size()));
  out->append(start, static_cast<size_t>(end - start));
  out->append(key.data(), key.size());
  if (value != nullptr) PutLengthPrefixedSlice(out, *value);
}

// Appends a record after growing *out. Key and value may point into *out,
// because its old memory stays until they are copied.
[[gnu::noinline]] void AppendGrowing(std::string* out, size_t capacity,
                                     BatchTag tag, const Slice& key,
                                     const Slice* value) {
  std::string grown;
  grown.reserve(capacity);
  grown.append(*out);
  AppendInPlace(&grown, tag, key, value);
  out->swap(grown);
}

// Appends a record. Key and value may point into *out. Costs one copy of *out
// each time its capacity doubles.
inline void AppendRecord(std::string* out, BatchTag tag, const Slice& key,
                         const Slice* value) {
  const size_t size = out->size() + kMaxRecordOverhead + key.size() +
                      (value != nullptr ? value->size() : 0);
  if (size > out->capacity()) [[unlikely]] {
    AppendGrowing(out, std::max(size, 2 * out->capacity()), tag, key, value);
  } else {
    AppendInPlace(out, tag, key, value);
  }
}

}  // namespace

void WriteBatch::Charge::Set(size_t bytes) {
  if (account_ != nullptr) {
    NoteFreed(static_cast<MemoryAccount*>(account_), MemoryKind::kWriteBatch,
              bytes_);
  }
  bytes_ = bytes;
  account_ =
      bytes == 0 ? nullptr : NoteAllocated(MemoryKind::kWriteBatch, bytes);
}

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::WriteBatch(std::string representation)
    : representation_(std::move(representation)), unchecked_(true) {
  charge_.Update(representation_);
}

WriteBatch::WriteBatch(WriteBatch&& other) noexcept : WriteBatch() {
  *this = std::move(other);
}

WriteBatch& WriteBatch::operator=(WriteBatch&& other) noexcept {
  if (this == &other) return *this;
  representation_ = std::move(other.representation_);
  charge_ = std::move(other.charge_);
  too_long_ = other.too_long_;
  unchecked_ = other.unchecked_;
  other.Clear();
  return *this;
}

void WriteBatch::Clear() {
  representation_.assign(kHeaderSize, '\0');
  too_long_ = false;
  unchecked_ = false;
}

uint32_t WriteBatch::Count() const {
  if (representation_.size() < kHeaderSize) return 0;
  return DecodeFixed32(representation_.data() + 8);
}

inline void WriteBatchInternal::AddUpdate(WriteBatch* batch, BatchTag tag,
                                          const Slice& key,
                                          const Slice* value) {
  const uint32_t count = batch->Count();
  if (count == kMaxCount ||
      !EntryFits(key.size(), value != nullptr ? value->size() : 0)) {
    batch->too_long_ = true;
    return;
  }
  AppendRecord(&batch->representation_, tag, key, value);
  // After the copy, because the key may be a slice of the header.
  SetCount(batch, count + 1);
  batch->charge_.Update(batch->representation_);
}

void WriteBatch::Put(const Slice& key, const Slice& value) {
  WriteBatchInternal::AddUpdate(this, BatchTag::kPut, key, &value);
}

void WriteBatch::Delete(const Slice& key) {
  WriteBatchInternal::AddUpdate(this, BatchTag::kDelete, key, nullptr);
}

void WriteBatch::SingleDelete(const Slice& key) {
  WriteBatchInternal::AddUpdate(this, BatchTag::kSingleDelete, key, nullptr);
}

void WriteBatch::DeleteRange(const Slice& begin, const Slice& end) {
  WriteBatchInternal::AddUpdate(this, BatchTag::kRangeDelete, begin, &end);
  unchecked_ = true;
}

void WriteBatch::PutLogData(const Slice& blob) {
  if (blob.size() > std::numeric_limits<uint32_t>::max()) {
    too_long_ = true;
    return;
  }
  AppendRecord(&representation_, BatchTag::kLogData, blob, nullptr);
  charge_.Update(representation_);
}

void WriteBatch::Append(const WriteBatch& other) {
  WriteBatchInternal::Append(this, other);
}

Status WriteBatch::Iterate(Handler* handler) const {
  BatchReader reader;
  Status status = reader.Init(representation_);
  BatchRecord record;
  bool done = false;
  while (status.ok() && handler->Continue()) {
    status = reader.NextOfOurs(&record, &done);
    if (!status.ok() || done) break;
    if (record.is_log_data) {
      handler->LogData(record.key);
    } else if (record.type == ValueType::kValue) {
      handler->Put(record.key, record.value);
    } else if (record.type == ValueType::kDeletion) {
      handler->Delete(record.key);
    } else if (record.type == ValueType::kRangeDeletion) {
      handler->DeleteRange(record.key, record.value);
    } else {
      handler->SingleDelete(record.key);
    }
  }
  return status;
}

Status BatchReader::Init(const Slice& representation) {
  if (representation.size() < kHeaderSize) {
    return Status::Corruption("write batch is shorter than its header");
  }
  sequence_ = DecodeFixed64(representation.data());
  count_ = DecodeFixed32(representation.data() + 8);
  rest_ = representation;
  rest_.remove_prefix(kHeaderSize);
  seen_ = 0;
  if (sequence_ > kMaxSequenceNumber ||
      count_ > kMaxSequenceNumber - sequence_) {
    return Status::Corruption("write batch has an impossible sequence number");
  }
  return Status::OK();
}

Status BatchReader::Next(BatchRecord* record, bool* done) {
  *done = false;
  for (;;) {
    if (rest_.empty()) {
      *done = true;
      if (seen_ != count_) {
        return Status::Corruption("write batch says " + std::to_string(count_) +
                                  " updates, holds " + std::to_string(seen_));
      }
      return Status::OK();
    }
    const auto tag = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    if (tag == static_cast<uint8_t>(BatchTag::kNoop)) continue;
    *record = BatchRecord();
    Status status = DecodeFields(tag, record);
    if (status.ok() && !record->is_log_data && ++seen_ > count_) {
      return Status::Corruption("write batch holds more updates than it says");
    }
    return status;
  }
}

Status BatchReader::NextOfOurs(BatchRecord* record, bool* done) {
  Status status = Next(record, done);
  if (status.ok() && !*done && record->other_family) {
    return Status::NotSupported("column families in a write batch");
  }
  return status;
}

Status BatchReader::DecodeFields(uint8_t tag, BatchRecord* record) {
  bool has_value = false;
  bool has_family = false;
  const char* unknown = nullptr;  // A feature that Varve does not have.
  switch (static_cast<BatchTag>(tag)) {
    case BatchTag::kDeleteInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kDelete:
      record->type = ValueType::kDeletion;
      break;
    case BatchTag::kPutInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kPut:
      record->type = ValueType::kValue;
      has_value = true;
      break;
    case BatchTag::kSingleDeleteInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kSingleDelete:
      record->type = ValueType::kSingleDeletion;
      break;
    case BatchTag::kRangeDeleteInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kRangeDelete:
      record->type = ValueType::kRangeDeletion;
      has_value = true;
      break;
    case BatchTag::kLogData:
      record->is_log_data = true;
      break;
    case BatchTag::kMergeInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kMerge:
      unknown = "merge operands in a write batch";
      break;
    case BatchTag::kBlobIndexInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kBlobIndex:
      unknown = "blob files (blob index in a write batch)";
      break;
    case BatchTag::kBeginPrepare:
    case BatchTag::kEndPrepare:
    case BatchTag::kCommit:
    case BatchTag::kRollback:
    case BatchTag::kBeginPersistedPrepare:
    case BatchTag::kBeginUnprepare:
    case BatchTag::kCommitWithTimestamp:
      return Status::NotSupported("two-phase commit in a write batch");
    case BatchTag::kWideColumnInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kWideColumn:
      unknown = "wide columns in a write batch";
      break;
    case BatchTag::kPreferredTimeInFamily:
      has_family = true;
      [[fallthrough]];
    case BatchTag::kPreferredTime:
      unknown = "preferred write times in a write batch";
      break;
    case BatchTag::kNoop:
    default:
      return Status::Corruption("write batch has the unknown tag " +
                                std::to_string(tag));
  }
  const auto cut_short = [] {
    return Status::Corruption("write batch is cut short in a record");
  };
  uint32_t family = 0;
  if (has_family && !GetVarint32(&rest_, &family)) return cut_short();
  if (unknown != nullptr) [[unlikely]] {
    if (family == 0) return Status::NotSupported(unknown);
    has_value = true;  // All of these records have one. It is skipped.
  }
  if (!GetLengthPrefixedSlice(&rest_, &record->key) ||
      (has_value && !GetLengthPrefixedSlice(&rest_, &record->value))) {
    return cut_short();
  }
  record->other_family = family != 0;
  if (!EntryFits(record->key.size(), record->value.size()) &&
      !record->is_log_data && !record->other_family) [[unlikely]] {
    return Status::NotSupported("an update of more than 3 GiB");
  }
  return Status::OK();
}

void WriteBatchInternal::SetSequence(WriteBatch* batch,
                                     SequenceNumber sequence) {
  EncodeFixed64(batch->representation_.data(), sequence);
}

SequenceNumber WriteBatchInternal::Sequence(const WriteBatch& batch) {
  return DecodeFixed64(batch.representation_.data());
}

void WriteBatchInternal::EncodeHeader(SequenceNumber sequence, uint32_t count,
                                      char* header) {
  EncodeFixed64(header, sequence);
  EncodeFixed32(header + 8, count);
}

void WriteBatchInternal::SetCount(WriteBatch* batch, uint32_t count) {
  if (batch->representation_.size() < kHeaderSize) return;
  EncodeFixed32(batch->representation_.data() + 8, count);
}

void WriteBatchInternal::PrefetchFirst(const WriteBatch& batch,
                                       const MemTable& memtable) {
  Slice rest = batch.Data();
  if (rest.size() <= kHeaderSize) return;
  // If the record does not begin with its key, this prefetches for other bytes,
  // which is harmless.
  rest.remove_prefix(kHeaderSize + 1);
  Slice key;
  if (GetLengthPrefixedSlice(&rest, &key)) {
    memtable.Prefetch(PreviewXxh3(key));
  }
}

void WriteBatchInternal::Append(WriteBatch* target, const WriteBatch& source) {
  if (source.representation_.size() < kHeaderSize) {
    // The source is damaged. An unknown tag makes the result damaged, too.
    target->representation_.push_back(static_cast<char>(0xFF));
    target->unchecked_ = true;
    return;
  }
  if (source.Count() > kMaxCount - target->Count()) {
    target->too_long_ = true;
    return;
  }
  // Before the append, because `target` and `source` may be the same batch.
  const uint32_t count = target->Count() + source.Count();
  target->representation_.append(source.representation_, kHeaderSize,
                                 std::string::npos);
  SetCount(target, count);
  target->charge_.Update(target->representation_);
  target->too_long_ |= source.too_long_;
  target->unchecked_ |= source.unchecked_;
}

Status InsertBatchInto(const Slice& representation, MemTable* memtable) {
  BatchReader reader;
  Status status = reader.Init(representation);
  if (!status.ok()) return status;
  SequenceNumber sequence = reader.sequence();
  BatchRecord record;
  bool done = false;
  for (;;) {
    status = reader.Next(&record, &done);
    if (!status.ok() || done) return status;
    if (record.is_log_data) continue;
    if (!record.other_family) {
      memtable->Add(sequence, record.type, record.key, record.value);
    }
    ++sequence;
  }
}

bool WriteBatchInternal::OnlyDeletes(const WriteBatch& batch) {
  BatchReader reader;
  BatchRecord record;
  bool done = false;
  if (batch.Count() == 0 || !reader.Init(batch.Data()).ok()) return false;
  while (reader.Next(&record, &done).ok()) {
    if (done) return true;
    if (!record.is_log_data && record.type == ValueType::kValue) return false;
  }
  return false;
}

}  // namespace varve
