// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// DBWithTTL: adds a time to what is written, and removes it from what is read.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/reads/forwarding_iterator.h"
#include "db/ttl/ttl_options.h"
#include "db/ttl/ttl_value.h"
#include "db/write/scratch_batch.h"
#include "db/write/write_batch_internal.h"
#include "table/reader/read_target.h"
#include "util/base/mutex.h"
#include "util/threads/thread_scratch.h"
#include "varve/db_ttl.h"

namespace varve {

namespace {

struct TimedBatchTag;
struct TimedValueTag;

// Adds the updates of `batch` to *timed, with the time in the values and merge
// operands.
Status AddTimes(const WriteBatch& batch, uint32_t now_s, WriteBatch* timed) {
  BatchReader reader;
  Status status = reader.Init(batch.Data());
  BatchRecord record;
  bool done = false;
  std::string value;
  WriteBatchInternal::NoteDb(timed, WriteBatchInternal::DbNumber(batch));
  while (status.ok()) {
    status = reader.NextOfOurs(&record, &done);
    if (!status.ok() || done) break;
    if (record.is_log_data) {
      timed->PutLogData(record.key);
      continue;
    }
    Slice written = record.value;
    if (record.type == ValueType::kValue || record.type == ValueType::kMerge) {
      value.assign(record.value.data(), record.value.size());
      AppendTtlTime(now_s, &value);
      written = value;
    }
    WriteBatchInternal::Add(timed, record.family, record.type, record.key,
                            written);
  }
  return status.Annotate("batch");
}

// The value that a call of Put or Merge writes, in memory that the thread
// keeps.
class TimedValue {
 public:
  TimedValue(const Slice& value, Env* env) {
    bytes_->assign(value.data(), value.size());
    AppendTtlTime(TtlTimeNow(env), &*bytes_);
  }
  TimedValue(const TimedValue&) = delete;
  TimedValue& operator=(const TimedValue&) = delete;
  ~TimedValue() {
    if (bytes_->capacity() > kMaxKeptBytes) *bytes_ = std::string();
  }
  Slice slice() const { return *bytes_; }

 private:
  static constexpr size_t kMaxKeptBytes = 64 << 10;

  const ThreadScratch<std::string, TimedValueTag> bytes_;
};

// Removes the time from a value that was read; see RemoveTtlTime.
Status RemoveTime(const Slice& key, PinnableSlice* value) {
  Slice stripped = *value;
  Status status = RemoveTtlTime(key, &stripped);
  if (status.ok()) {
    static_cast<Slice&>(*value) = stripped;
  } else {
    value->Reset();
  }
  return status;
}
Status RemoveTime(const Slice& key, std::string* value) {
  Slice stripped = *value;
  Status status = RemoveTtlTime(key, &stripped);
  value->resize(status.ok() ? stripped.size() : 0);
  return status;
}
template <typename Value>
Status Remove(Status status, const Slice& key, Value* value) {
  return status.ok() ? RemoveTime(key, value) : std::move(status);
}

class TtlIterator final : public ForwardingIterator {
 public:
  using ForwardingIterator::ForwardingIterator;

  Status status() const override {
    return damage_.ok() ? base_->status() : damage_;
  }

 private:
  void Arrive() override {
    ForwardingIterator::Arrive();
    damage_ = valid_ ? RemoveTtlTime(key_, &value_) : Status::OK();
    if (!damage_.ok()) valid_ = false;
  }

  Status damage_;  // The current value's.
};

class TtlDb final : public DBWithTTL {
 public:
  // ttls[id] is for the family of that id.
  using Ttls = std::map<uint32_t, std::shared_ptr<FamilyTtl>>;

  TtlDb(std::shared_ptr<DB> db, Env* env, Ttls ttls)
      : DBWithTTL(std::move(db)),
        db_(GetBaseDB()),
        env_(env),
        ttls_(std::move(ttls)) {}

  // ---- Writes ----
  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override {
    const TimedValue timed(value, env_);
    return db_->Put(options, key, timed.slice());
  }
  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) override {
    const TimedValue timed(value, env_);
    return db_->Put(options, family, key, timed.slice());
  }
  Status Merge(const WriteOptions& options, const Slice& key,
               const Slice& operand) override {
    const TimedValue timed(operand, env_);
    return db_->Merge(options, key, timed.slice());
  }
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
               const Slice& key, const Slice& operand) override {
    const TimedValue timed(operand, env_);
    return db_->Merge(options, family, key, timed.slice());
  }
  Status Write(const WriteOptions& options, WriteBatch* batch) override {
    // The DB below refuses it.
    if (batch == nullptr || WriteBatchInternal::TooLong(*batch)) {
      return db_->Write(options, batch);
    }
    ScratchBatch<TimedBatchTag> timed(batch->ApproximateSize() +
                                      batch->Count() * kTtlTimeBytes);
    Status status = AddTimes(*batch, TtlTimeNow(env_), timed.get());
    return status.ok() ? db_->Write(options, timed.get()) : status;
  }

  // ---- Reads ----
  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override {
    return Remove(db_->Get(options, key, value), key, value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override {
    return Remove(db_->Get(options, key, value), key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override {
    return Remove(db_->Get(options, family, key, value), key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override {
    return Remove(db_->Get(options, family, key, value), key, value);
  }
  using DB::MultiGet;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    db_->MultiGet(options, count, keys, values, statuses);
    RemoveAll(count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) override {
    db_->MultiGet(options, count, keys, values, statuses);
    RemoveAll(count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override {
    db_->MultiGet(options, family, count, keys, values, statuses);
    RemoveAll(count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, std::string* values,
                Status* statuses) override {
    db_->MultiGet(options, family, count, keys, values, statuses);
    RemoveAll(count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    db_->MultiGet(options, count, families, keys, values, statuses);
    RemoveAll(count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                std::string* values, Status* statuses) override {
    db_->MultiGet(options, count, families, keys, values, statuses);
    RemoveAll(count, keys, values, statuses);
  }
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* family,
                   const Slice& key, std::string* value,
                   bool* value_found) override {
    std::string local;
    bool found = false;
    if (value == nullptr) value = &local;
    const bool may = db_->KeyMayExist(options, family, key, value, &found);
    found = found && RemoveTime(key, value).ok();
    if (value_found != nullptr) *value_found = found;
    return may;
  }
  Status GetMergeOperands(const ReadOptions& options,
                          ColumnFamilyHandle* family, const Slice& key,
                          PinnableSlice* operands,
                          GetMergeOperandsOptions* limits,
                          int* count) override {
    Status status =
        db_->GetMergeOperands(options, family, key, operands, limits, count);
    for (int i = 0; status.ok() && i < *count; ++i) {
      status = RemoveTime(key, &operands[i]);
    }
    return status;
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    return std::make_unique<TtlIterator>(db_->NewIterator(options));
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override {
    return std::make_unique<TtlIterator>(db_->NewIterator(options, family));
  }
  Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) override {
    Status status = db_->NewIterators(options, families, iterators);
    for (auto& iterator : *iterators) {
      iterator = std::make_unique<TtlIterator>(std::move(iterator));
    }
    return status;
  }

  // ---- Column families ----
  Status CreateColumnFamilyWithTtl(const ColumnFamilyOptions& options,
                                   const std::string& name,
                                   ColumnFamilyHandle** handle,
                                   int32_t ttl) override {
    const auto shared = std::make_shared<FamilyTtl>(ttl);
    Status status =
        db_->CreateColumnFamily(Timed(options, shared), name, handle);
    if (status.ok()) Keep(*handle, shared);
    return status;
  }
  Status CreateColumnFamily(const ColumnFamilyOptions& options,
                            const std::string& name,
                            ColumnFamilyHandle** handle) override {
    return CreateColumnFamilyWithTtl(options, name, handle, 0);
  }
  using DB::CreateColumnFamilies;
  Status CreateColumnFamilies(
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles) override {
    const size_t before = handles->size();
    std::vector<ColumnFamilyDescriptor> timed = families;
    std::vector<std::shared_ptr<FamilyTtl>> ttls;
    for (ColumnFamilyDescriptor& family : timed) {
      ttls.push_back(std::make_shared<FamilyTtl>(0));
      AddTtl(ttls.back(), env_, &family.options);
    }
    Status status = db_->CreateColumnFamilies(timed, handles);
    for (size_t i = before; i < handles->size(); ++i) {
      Keep((*handles)[i], ttls[i - before]);
    }
    return status;
  }
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& family_options,
                                      const std::string& name,
                                      const ImportColumnFamilyOptions& options,
                                      const ExportImportFilesMetaData& metadata,
                                      ColumnFamilyHandle** handle) override {
    const auto shared = std::make_shared<FamilyTtl>(0);
    Status status = db_->CreateColumnFamilyWithImport(
        Timed(family_options, shared), name, options, metadata, handle);
    if (status.ok()) Keep(*handle, shared);
    return status;
  }
  void SetTtl(int32_t ttl) override { SetTtl(nullptr, ttl); }
  void SetTtl(ColumnFamilyHandle* family, int32_t ttl) override {
    const std::shared_ptr<FamilyTtl> shared = Find(family);
    // relaxed: see FamilyTtl.
    if (shared != nullptr) shared->store(ttl, std::memory_order_relaxed);
  }
  Status GetTtl(ColumnFamilyHandle* family, int32_t* ttl) override {
    const std::shared_ptr<FamilyTtl> shared = Find(family);
    *ttl = 0;
    if (shared == nullptr) {
      return Status::NotFound("the DB has no such column family");
    }
    // relaxed: see FamilyTtl.
    *ttl = shared->load(std::memory_order_relaxed);
    return Status::OK();
  }

 private:
  template <typename Value>
  static void RemoveAll(size_t count, const Slice* keys, Value* values,
                        Status* statuses) {
    for (size_t i = 0; i < count; ++i) {
      if (statuses[i].ok()) statuses[i] = RemoveTime(keys[i], &values[i]);
    }
  }
  ColumnFamilyOptions Timed(const ColumnFamilyOptions& options,
                            const std::shared_ptr<const FamilyTtl>& ttl) const {
    ColumnFamilyOptions timed = options;
    AddTtl(ttl, env_, &timed);
    return timed;
  }
  void Keep(const ColumnFamilyHandle* family,
            const std::shared_ptr<FamilyTtl>& ttl) VARVE_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    ttls_[family->GetID()] = ttl;
  }
  std::shared_ptr<FamilyTtl> Find(const ColumnFamilyHandle* family)
      VARVE_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = ttls_.find(family == nullptr ? 0 : family->GetID());
    return found == ttls_.end() ? nullptr : found->second;
  }

  DB* const db_;  // GetBaseDB()
  Env* const env_;
  Mutex mutex_;
  Ttls ttls_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace

Status DBWithTTL::Open(const Options& options, const std::string& path,
                       std::unique_ptr<DBWithTTL>* db, int32_t ttl,
                       bool read_only) {
  std::vector<ColumnFamilyHandle*> handles;
  Status status = Open(options, path, {{kDefaultColumnFamilyName, options}},
                       &handles, db, {ttl}, read_only);
  for (ColumnFamilyHandle* const handle : handles) delete handle;
  return status;
}

Status DBWithTTL::Open(const DBOptions& options, const std::string& path,
                       const std::vector<ColumnFamilyDescriptor>& families,
                       std::vector<ColumnFamilyHandle*>* handles,
                       std::unique_ptr<DBWithTTL>* db,
                       const std::vector<int32_t>& ttls, bool read_only) {
  db->reset();
  handles->clear();
  if (ttls.size() != families.size()) {
    return Status::InvalidArgument("each column family needs a time to live");
  }
  std::vector<ColumnFamilyDescriptor> timed = families;
  std::vector<std::shared_ptr<FamilyTtl>> shared;
  for (size_t i = 0; i < timed.size(); ++i) {
    shared.push_back(std::make_shared<FamilyTtl>(ttls[i]));
    AddTtl(shared.back(), options.env, &timed[i].options);
  }
  std::unique_ptr<DB> opened;
  Status status =
      read_only ? DB::OpenForReadOnly(options, path, timed, handles, &opened)
                : DB::Open(options, path, timed, handles, &opened);
  if (!status.ok()) return status;
  TtlDb::Ttls by_id;
  for (size_t i = 0; i < timed.size(); ++i) {
    by_id[(*handles)[i]->GetID()] = shared[i];
  }
  *db =
      std::make_unique<TtlDb>(std::move(opened), options.env, std::move(by_id));
  return status;
}

}  // namespace varve
