// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/write_batch.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "db/memtable/memtable.h"
#include "db/write/write_batch_internal.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"
#include "util/threads/memory_account.h"
#include "varve/column_family.h"

namespace varve {

namespace {

constexpr size_t kHeaderSize = BatchReader::kHeaderSize;

constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();

// The most bytes that a record of two fields needs in addition to the fields,
// without a family's id.
constexpr size_t kMaxRecordOverhead = 1 + 2 * kMaxVarint32Bytes;

// A record has the family's id before the key, unless that is 0. What appends
// it is inlined, so that an update of the default family takes no instruction
// for the id.

// Appends a record. REQUIRES: *out has enough capacity.
[[gnu::always_inline]] inline void AppendInPlace(std::string* out, BatchTag tag,
                                                 uint32_t family,
                                                 const Slice& key,
                                                 const Slice* value) {
  char start[1 + 2 * kMaxVarint32Bytes];
  start[0] = static_cast<char>(tag);
  char* end = start + 1;
  if (family != 0) end = EncodeVarint32(end, family);
  end = EncodeVarint32(end, static_cast<uint32_t>(key.size()));
  out->append(start, static_cast<size_t>(end - start));
  out->append(key.data(), key.size());
  if (value != nullptr) PutLengthPrefixedSlice(out, *value);
}

// Appends a record after growing *out. Key and value may point into *out,
// because its old memory stays until they are copied.
[[gnu::noinline]] void AppendGrowing(std::string* out, size_t capacity,
                                     BatchTag tag, uint32_t family,
                                     const Slice& key, const Slice* value) {
  std::string grown;
  grown.reserve(capacity);
  grown.append(*out);
  AppendInPlace(&grown, tag, family, key, value);
  out->swap(grown);
}

// Appends a record. Key and value may point into *out. Costs one copy of *out
// each time its capacity doubles.
[[gnu::always_inline]] inline void AppendRecord(std::string* out, BatchTag tag,
                                                uint32_t family,
                                                const Slice& key,
                                                const Slice* value) {
  const size_t size = out->size() + kMaxRecordOverhead +
                      (family != 0 ? kMaxVarint32Bytes : 0) + key.size() +
                      (value != nullptr ? value->size() : 0);
  if (size > out->capacity()) [[unlikely]] {
    AppendGrowing(out, std::max(size, 2 * out->capacity()), tag, family, key,
                  value);
  } else {
    AppendInPlace(out, tag, family, key, value);
  }
}

Status NotDefault(uint32_t family) {
  return Status::InvalidArgument(
      "the batch has an update of column family " + std::to_string(family) +
      ", and its handler knows only the default one");
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
    : representation_(std::move(representation)),
      unchecked_(true),
      has_merges_(true) {
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
  has_merges_ = other.has_merges_;
  db_number_ = other.db_number_;
  families_ = std::move(other.families_);
  save_points_ = std::move(other.save_points_);
  other.Clear();
  return *this;
}

void WriteBatch::Clear() {
  representation_.assign(kHeaderSize, '\0');
  too_long_ = false;
  unchecked_ = false;
  has_merges_ = false;
  db_number_ = 0;
  families_.clear();
  if (!save_points_.empty()) [[unlikely]]
    save_points_.clear();
}

void WriteBatch::SetSavePoint() {
  save_points_.push_back({.size = representation_.size(),
                          .count = Count(),
                          .too_long = too_long_,
                          .unchecked = unchecked_,
                          .has_merges = has_merges_,
                          .db_number = db_number_,
                          .families = families_});
}

Status WriteBatch::RollbackToSavePoint() {
  if (save_points_.empty()) return Status::NotFound();
  SavePoint& point = save_points_.back();
  representation_.resize(point.size);
  WriteBatchInternal::SetCount(this, point.count);
  too_long_ = point.too_long;
  unchecked_ = point.unchecked;
  has_merges_ = point.has_merges;
  db_number_ = point.db_number;
  families_ = std::move(point.families);
  save_points_.pop_back();
  return Status::OK();
}

Status WriteBatch::PopSavePoint() {
  if (save_points_.empty()) return Status::NotFound();
  save_points_.pop_back();
  return Status::OK();
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
  AppendRecord(&batch->representation_, tag, 0, key, value);
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

void WriteBatch::Merge(const Slice& key, const Slice& operand) {
  WriteBatchInternal::AddUpdate(this, BatchTag::kMerge, key, &operand);
  has_merges_ = true;
}

void WriteBatch::DeleteRange(const Slice& begin, const Slice& end) {
  WriteBatchInternal::AddUpdate(this, BatchTag::kRangeDelete, begin, &end);
  unchecked_ = true;
}

// ---- Updates of column families ----

// Appends a record with the family's id before the key. The slices may point
// into the batch.
void WriteBatchInternal::AddFamilyUpdate(WriteBatch* batch, BatchTag tag,
                                         uint32_t family, const Slice& key,
                                         const Slice* value) {
  const uint32_t count = batch->Count();
  if (count == kMaxCount ||
      !EntryFits(key.size(), value != nullptr ? value->size() : 0)) {
    batch->too_long_ = true;
    return;
  }
  std::string& out = batch->representation_;
  const size_t before = out.size();
  AppendRecord(&out, tag, family, key, value);
  SetCount(batch, count + 1);
  batch->charge_.Update(out);
  CountFamily(batch, family, out.size() - before);
}

void WriteBatchInternal::Add(WriteBatch* batch, uint32_t family, ValueType type,
                             const Slice& key, const Slice& value) {
  struct Tags {
    BatchTag of_default;
    BatchTag in_family;
    bool has_value;
  };
  const Tags tags =
      type == ValueType::kRangeDeletion
          ? Tags{BatchTag::kRangeDelete, BatchTag::kRangeDeleteInFamily, true}
      : type == ValueType::kValue
          ? Tags{BatchTag::kPut, BatchTag::kPutInFamily, true}
      : type == ValueType::kMerge
          ? Tags{BatchTag::kMerge, BatchTag::kMergeInFamily, true}
      : type == ValueType::kSingleDeletion
          ? Tags{BatchTag::kSingleDelete, BatchTag::kSingleDeleteInFamily,
                 false}
          : Tags{BatchTag::kDelete, BatchTag::kDeleteInFamily, false};
  batch->unchecked_ |= type == ValueType::kRangeDeletion;
  batch->has_merges_ |= type == ValueType::kMerge;
  const Slice* const its_value = tags.has_value ? &value : nullptr;
  if (family == 0) {
    AddUpdate(batch, tags.of_default, key, its_value);
  } else {
    AddFamilyUpdate(batch, tags.in_family, family, key, its_value);
  }
}

void WriteBatchInternal::CountFamily(WriteBatch* batch, uint32_t id,
                                     size_t bytes) {
  auto& families = batch->families_;
  // Usually the last one.
  for (auto family = families.rbegin(); family != families.rend(); ++family) {
    if (family->first != id) continue;
    family->second += bytes;
    return;
  }
  families.emplace_back(id, bytes);
}

inline uint32_t WriteBatchInternal::NoteHandle(
    WriteBatch* batch, const ColumnFamilyHandle* handle) {
  if (handle == nullptr) return 0;
  NoteDb(batch, handle->db_number_);
  return handle->GetID();
}

void WriteBatch::Put(ColumnFamilyHandle* family, const Slice& key,
                     const Slice& value) {
  const uint32_t id = WriteBatchInternal::NoteHandle(this, family);
  if (id == 0) return Put(key, value);
  WriteBatchInternal::AddFamilyUpdate(this, BatchTag::kPutInFamily, id, key,
                                      &value);
}

void WriteBatch::Delete(ColumnFamilyHandle* family, const Slice& key) {
  const uint32_t id = WriteBatchInternal::NoteHandle(this, family);
  if (id == 0) return Delete(key);
  WriteBatchInternal::AddFamilyUpdate(this, BatchTag::kDeleteInFamily, id, key,
                                      nullptr);
}

void WriteBatch::SingleDelete(ColumnFamilyHandle* family, const Slice& key) {
  const uint32_t id = WriteBatchInternal::NoteHandle(this, family);
  if (id == 0) return SingleDelete(key);
  WriteBatchInternal::AddFamilyUpdate(this, BatchTag::kSingleDeleteInFamily, id,
                                      key, nullptr);
}

void WriteBatch::Merge(ColumnFamilyHandle* family, const Slice& key,
                       const Slice& operand) {
  const uint32_t id = WriteBatchInternal::NoteHandle(this, family);
  if (id == 0) return Merge(key, operand);
  WriteBatchInternal::AddFamilyUpdate(this, BatchTag::kMergeInFamily, id, key,
                                      &operand);
  has_merges_ = true;
}

void WriteBatch::DeleteRange(ColumnFamilyHandle* family, const Slice& begin,
                             const Slice& end) {
  const uint32_t id = WriteBatchInternal::NoteHandle(this, family);
  if (id == 0) return DeleteRange(begin, end);
  WriteBatchInternal::AddFamilyUpdate(this, BatchTag::kRangeDeleteInFamily, id,
                                      begin, &end);
  unchecked_ = true;
}

void WriteBatch::PutLogData(const Slice& blob) {
  if (blob.size() > std::numeric_limits<uint32_t>::max()) {
    too_long_ = true;
    return;
  }
  AppendRecord(&representation_, BatchTag::kLogData, 0, blob, nullptr);
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
      status = handler->PutCF(record.family, record.key, record.value);
    } else if (record.type == ValueType::kDeletion) {
      status = handler->DeleteCF(record.family, record.key);
    } else if (record.type == ValueType::kMerge) {
      status = handler->MergeCF(record.family, record.key, record.value);
    } else if (record.type == ValueType::kRangeDeletion) {
      status = handler->DeleteRangeCF(record.family, record.key, record.value);
    } else {
      status = handler->SingleDeleteCF(record.family, record.key);
    }
  }
  return status;
}

Status WriteBatch::Handler::PutCF(uint32_t family, const Slice& key,
                                  const Slice& value) {
  if (family != 0) return NotDefault(family);
  Put(key, value);
  return Status::OK();
}

Status WriteBatch::Handler::DeleteCF(uint32_t family, const Slice& key) {
  if (family != 0) return NotDefault(family);
  Delete(key);
  return Status::OK();
}

Status WriteBatch::Handler::SingleDeleteCF(uint32_t family, const Slice& key) {
  if (family != 0) return NotDefault(family);
  SingleDelete(key);
  return Status::OK();
}

Status WriteBatch::Handler::MergeCF(uint32_t family, const Slice& key,
                                    const Slice& operand) {
  if (family != 0) return NotDefault(family);
  Merge(key, operand);
  return Status::OK();
}

Status WriteBatch::Handler::DeleteRangeCF(uint32_t family, const Slice& begin,
                                          const Slice& end) {
  if (family != 0) return NotDefault(family);
  DeleteRange(begin, end);
  return Status::OK();
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
  section_ = Slice(nullptr, 0);
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
  if (status.ok() && !*done && record->unsupported != nullptr) {
    return Status::NotSupported(record->unsupported);
  }
  return status;
}

Status BatchReader::NextInLog(LogRecord* record, bool* done) {
  for (;;) {
    *record = LogRecord();
    while (!rest_.empty() && rest_[0] == static_cast<char>(BatchTag::kNoop)) {
      rest_.remove_prefix(1);
    }
    const bool in_section = section_.data() != nullptr;
    const auto tag =
        rest_.empty() ? BatchTag::kNoop : static_cast<BatchTag>(rest_[0]);
    if (tag == BatchTag::kBeginPrepare) {
      if (in_section) {
        return Status::Corruption("prepared section inside of another one");
      }
      rest_.remove_prefix(1);
      section_ = rest_;
      seen_before_section_ = seen_;
      continue;
    }
    if (tag == BatchTag::kEndPrepare || tag == BatchTag::kCommit ||
        tag == BatchTag::kRollback) {
      *done = false;
      return DecodeMark(record);
    }
    if (rest_.empty() && in_section) {
      return Status::Corruption("prepared section without an end");
    }
    record->is_prepared = in_section;
    return Next(record, done);
  }
}

// Decodes the mark of an end: of a section, or a transaction's.
Status BatchReader::DecodeMark(LogRecord* record) {
  const char* const begin = rest_.data();
  record->mark = static_cast<BatchTag>(*begin);
  rest_.remove_prefix(1);
  if (!GetLengthPrefixedSlice(&rest_, &record->key)) {
    return Status::Corruption("write batch is cut short in a record");
  }
  const bool ends_section = record->mark == BatchTag::kEndPrepare;
  if (ends_section != (section_.data() != nullptr)) {
    return Status::Corruption(ends_section
                                  ? "end of a prepared section without a begin"
                                  : "end of a transaction in its section");
  }
  if (!ends_section) return Status::OK();
  record->section =
      Slice(section_.data(), static_cast<size_t>(begin - section_.data()));
  record->section_count = seen_ - seen_before_section_;
  section_ = Slice(nullptr, 0);
  return Status::OK();
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
      record->type = ValueType::kMerge;
      has_value = true;
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
      return Status::NotSupported("two-phase commit in a write batch");
    case BatchTag::kBeginPersistedPrepare:
      return Status::NotSupported(
          "WritePrepared transactions (two-phase commit in a write batch)");
    case BatchTag::kBeginUnprepare:
      return Status::NotSupported(
          "WriteUnprepared transactions (two-phase commit in a write batch)");
    case BatchTag::kCommitWithTimestamp:
      return Status::NotSupported(
          "commit timestamps (two-phase commit in a write batch)");
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
  record->family = family;
  record->unsupported = unknown;
  if (!EntryFits(record->key.size(), record->value.size()) &&
      !record->is_log_data) [[unlikely]] {
    constexpr const char* kTooLong = "an update of more than 3 GiB";
    if (family == 0) return Status::NotSupported(kTooLong);
    record->unsupported = kTooLong;
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

void WriteBatchInternal::Reserve(WriteBatch* batch, size_t bytes) {
  batch->representation_.reserve(bytes);
  batch->charge_.Update(batch->representation_);
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
  target->has_merges_ |= source.has_merges_;
  NoteDb(target, source.db_number_);
  // By index: CountFamily must not disturb the loop if source is target.
  const size_t count_of_families = source.families_.size();
  for (size_t i = 0; i < count_of_families; ++i) {
    const auto [id, bytes] = source.families_[i];
    CountFamily(target, id, bytes);
  }
}

namespace {

// Adds each update to the memtable that choose(family) returns. Ignores it if
// that is null. `kOtherFamilies`: choose can return a memtable for another
// family than the default one. Only their records can be unsupported here,
// because the reader returns an error for those of the default family. So a
// batch of that family alone pays no test for it.
//
// add(memtable, sequence, record) adds an update.
template <bool kOtherFamilies, typename Choose, typename Add>
[[gnu::always_inline]] inline Status InsertRecords(const Slice& representation,
                                                   Choose choose, Add add) {
  BatchReader reader;
  Status status = reader.Init(representation);
  if (!status.ok()) return status;
  SequenceNumber sequence = reader.sequence();
  BatchRecord record;
  bool done = false;
  for (;; ++sequence) {
    do {
      status = reader.Next(&record, &done);
      if (!status.ok() || done) return status;
    } while (record.is_log_data);
    MemTable* const memtable = choose(record.family);
    if (memtable == nullptr) continue;
    if (kOtherFamilies && record.unsupported != nullptr) [[unlikely]] {
      return Status::NotSupported(record.unsupported);
    }
    add(memtable, sequence, record);
  }
}

void AddRecord(MemTable* memtable, SequenceNumber sequence,
               const BatchRecord& record) {
  memtable->Add(sequence, record.type, record.key, record.value);
}

// Keeps the last choice, because updates of a family often come together.
class LastChoice {
 public:
  explicit LastChoice(MemTableChooser* chooser) : chooser_(chooser) {}
  MemTable* operator()(uint32_t family) {
    if (family != last_) {
      last_ = family;
      memtable_ = chooser_->Choose(family);
    }
    return memtable_;
  }

 private:
  MemTableChooser* const chooser_;
  uint64_t last_ = UINT64_MAX;  // No family's id.
  MemTable* memtable_ = nullptr;
};

// Adds updates some at a time, for which memtables take less time.
class Gatherer {
 public:
  void Add(MemTable* memtable, SequenceNumber sequence,
           const BatchRecord& record) {
    if (record.type == ValueType::kRangeDeletion) [[unlikely]] {
      AddRecord(memtable, sequence, record);
      return;
    }
    if (count_ == MemTable::kMaxUpdates) AddAll();
    updates_[count_++] = {memtable, sequence, record.type, record.key,
                          record.value};
  }
  void AddAll() {
    if (count_ > 0) MemTable::AddMany(updates_, count_);
    count_ = 0;
  }

 private:
  size_t count_ = 0;
  MemTable::Update updates_[MemTable::kMaxUpdates];
};

// As InsertRecords with AddRecord, for a batch that has more than one update.
template <bool kOtherFamilies, typename Choose>
[[gnu::noinline]] Status InsertManyRecords(const Slice& representation,
                                           Choose choose) {
  Gatherer gatherer;
  Status status = InsertRecords<kOtherFamilies>(
      representation, choose,
      [&](MemTable* memtable, SequenceNumber sequence,
          const BatchRecord& record) {
        gatherer.Add(memtable, sequence, record);
      });
  gatherer.AddAll();  // Also those before an error.
  return status;
}

// Returns whether updates are better added one by one: a few of them gain less
// than it costs to gather them.
bool IsShort(const Slice& representation) {
  constexpr uint32_t kFew = 2;
  return representation.size() < kHeaderSize ||
         DecodeFixed32(representation.data() + 8) <= kFew;
}

}  // namespace

Status InsertBatchInto(const Slice& representation, MemTable* memtable) {
  const auto choose = [memtable](uint32_t family) {
    return family == 0 ? memtable : nullptr;
  };
  return IsShort(representation)
             ? InsertRecords<false>(representation, choose, AddRecord)
             : InsertManyRecords<false>(representation, choose);
}

Status InsertBatch(const Slice& representation, MemTableChooser* chooser) {
  return IsShort(representation)
             ? InsertRecords<true>(representation, LastChoice(chooser),
                                   AddRecord)
             : InsertManyRecords<true>(representation, LastChoice(chooser));
}

Status InsertBatchMerging(const Slice& representation, MemTableChooser* chooser,
                          OperandMerger* merger) {
  std::string value;
  return InsertRecords<true>(
      representation, LastChoice(chooser),
      [&](MemTable* memtable, SequenceNumber sequence,
          const BatchRecord& record) {
        if (record.type == ValueType::kMerge &&
            merger->Merge(record.family, sequence, record.key, record.value,
                          &value)) {
          memtable->Add(sequence, ValueType::kValue, record.key, value);
        } else {
          AddRecord(memtable, sequence, record);
        }
      });
}

Status InsertLogRecord(const Slice& representation, MemTableChooser* chooser,
                       SectionKeeper* keeper, SequenceNumber* next) {
  BatchReader reader;
  Status status = reader.Init(representation);
  if (!status.ok()) return status;
  LastChoice choose(chooser);
  LogRecord record;
  bool done = false;
  for (*next = reader.sequence();;) {
    status = reader.NextInLog(&record, &done);
    if (!status.ok() || done) return status;
    if (record.mark == BatchTag::kEndPrepare) {
      status =
          keeper->Prepare(record.key, record.section, record.section_count);
    } else if (record.mark == BatchTag::kRollback) {
      keeper->Rollback(record.key);
    } else if (record.mark == BatchTag::kCommit) {
      WriteBatch* const section = keeper->Commit(record.key);
      if (section == nullptr) continue;
      WriteBatchInternal::SetSequence(section, *next);
      *next += section->Count();
      status = InsertBatch(section->Data(), chooser);
    } else if (!record.is_log_data && !record.is_prepared) {
      const SequenceNumber sequence = (*next)++;
      MemTable* const memtable = choose(record.family);
      if (memtable == nullptr) continue;
      if (record.unsupported != nullptr) {
        return Status::NotSupported(record.unsupported);
      }
      AddRecord(memtable, sequence, record);
    }
    if (!status.ok()) return status;
  }
}

bool WriteBatchInternal::OnlyDeletes(const WriteBatch& batch) {
  BatchReader reader;
  BatchRecord record;
  bool done = false;
  if (batch.Count() == 0 || !reader.Init(batch.Data()).ok()) return false;
  while (reader.Next(&record, &done).ok()) {
    if (done) return true;
    if (!record.is_log_data && record.type != ValueType::kRangeDeletion &&
        !IsDeletion(record.type)) {
      return false;
    }
  }
  return false;
}

}  // namespace varve
