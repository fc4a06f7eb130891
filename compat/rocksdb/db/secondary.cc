// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/secondary.h"

#include <mutex>
#include <string>
#include <utility>

#include "compat/rocksdb/db/forwarding_iterator.h"
#include "varve/iterator.h"
#include "varve/pinnable_slice.h"
#include "varve/stackable_db.h"

namespace varve::rocksdb_c {
namespace {

// The primary as it was when its files were opened.
struct State {
  ~State() {
    for (ColumnFamilyHandle* family : families) delete family;
  }

  std::shared_ptr<DB> db;
  std::vector<ColumnFamilyHandle*> families;
};
using StatePtr = std::shared_ptr<const State>;

// Shared by iterators and snapshots with the secondary that they belong to.
using Token = std::shared_ptr<const char>;

class Family final : public ColumnFamilyHandle {
 public:
  Family(size_t its_index, StatePtr first)
      : index(its_index), first_(std::move(first)) {}

  const std::string& GetName() const override { return rep()->GetName(); }
  uint32_t GetID() const override { return rep()->GetID(); }
  const Comparator* GetComparator() const override {
    return rep()->GetComparator();
  }
  Status GetDescriptor(ColumnFamilyDescriptor* descriptor) override {
    return rep()->GetDescriptor(descriptor);
  }

  const size_t index;

 private:
  ColumnFamilyHandle* rep() const { return first_->families[index]; }

  const StatePtr first_;
};

struct StateSnapshot final : Snapshot {
  uint64_t GetSequenceNumber() const override {
    return rep->GetSequenceNumber();
  }

  StatePtr state;
  const Snapshot* rep = nullptr;
  Token token;
};

// Keeps the state that it iterates over.
class StateIterator final : public ForwardingIterator {
 public:
  StateIterator(StatePtr state, Token token, std::unique_ptr<Iterator> base)
      : ForwardingIterator(std::move(base)),
        state_(std::move(state)),
        token_(std::move(token)) {}
  ~StateIterator() override { base_ = nullptr; }  // Before the state.

 private:
  const StatePtr state_;
  const Token token_;
};

// A value must not refer to a state, which can end before it.
void Unpin(PinnableSlice* value) {
  if (value->IsPinned()) value->PinSelf(*value);
}

}  // namespace

class SecondaryDb final : public StackableDB {
 public:
  SecondaryDb(OpenReadOnly open, StatePtr first)
      : StackableDB(first->db),
        open_(std::move(open)),
        state_(std::move(first)) {}

  Status CatchUp() {
    StatePtr opened;
    Status status = OpenState(open_, &opened);
    if (!status.ok()) return status;
    const std::scoped_lock lock(mutex_);
    state_.swap(opened);
    return status;
  }

  static Status OpenState(const OpenReadOnly& open, StatePtr* state) {
    auto opened = std::make_shared<State>();
    std::unique_ptr<DB> db;
    Status status = open(&opened->families, &db);
    opened->db = std::move(db);
    if (status.ok()) *state = std::move(opened);
    return status;
  }

  Status Close() override {
    if (token_.use_count() > 1) {
      return Status::Busy("iterators or snapshots are still out");
    }
    const StatePtr state = Newest();
    return state->db->Close();
  }

  Status Get(const ReadOptions& options, const Slice& key,
             PinnableSlice* value) override {
    return Get(options, nullptr, key, value);
  }
  Status Get(const ReadOptions& options, const Slice& key,
             std::string* value) override {
    return Get(options, nullptr, key, value);
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, PinnableSlice* value) override {
    const Read read(this, options);
    Status status =
        read.state->db->Get(read.options, read.Of(family), key, value);
    Unpin(value);
    return status;
  }
  Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
             const Slice& key, std::string* value) override {
    const Read read(this, options);
    return read.state->db->Get(read.options, read.Of(family), key, value);
  }
  using StackableDB::MultiGet;
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    MultiGet(options, nullptr, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                size_t count, const Slice* keys, PinnableSlice* values,
                Status* statuses) override {
    const Read read(this, options);
    read.state->db->MultiGet(read.options, read.Of(family), count, keys, values,
                             statuses);
    for (size_t i = 0; i < count; ++i) Unpin(&values[i]);
  }
  void MultiGet(const ReadOptions& options, size_t count,
                ColumnFamilyHandle* const* families, const Slice* keys,
                PinnableSlice* values, Status* statuses) override {
    const Read read(this, options);
    const auto own = read.Of(families, count);
    read.state->db->MultiGet(read.options, count, own.data(), keys, values,
                             statuses);
    for (size_t i = 0; i < count; ++i) Unpin(&values[i]);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    return NewIterator(options, nullptr);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                        ColumnFamilyHandle* family) override {
    if (options.tailing) {  // As by RocksDB.
      return NewErrorIterator(Status::NotSupported(
          "tailing iterator not supported in secondary mode"));
    }
    const Read read(this, options);
    return std::make_unique<StateIterator>(
        read.state, token_,
        read.state->db->NewIterator(read.options, read.Of(family)));
  }
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* family,
                   const Slice& key, std::string* value,
                   bool* value_found) override {
    const Read read(this, options);
    return read.state->db->KeyMayExist(read.options, read.Of(family), key,
                                       value, value_found);
  }
  Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) override {
    const Read read(this, options);
    Status status = read.state->db->NewIterators(
        read.options, read.Of(families.data(), families.size()), iterators);
    for (auto& iterator : *iterators) {
      iterator = std::make_unique<StateIterator>(read.state, token_,
                                                 std::move(iterator));
    }
    return status;
  }
  const Snapshot* GetSnapshot() override {
    auto* const snapshot = new StateSnapshot;
    snapshot->state = Newest();
    snapshot->rep = snapshot->state->db->GetSnapshot();
    snapshot->token = token_;
    return snapshot;
  }
  void ReleaseSnapshot(const Snapshot* snapshot) override {
    const auto* const own = static_cast<const StateSnapshot*>(snapshot);
    own->state->db->ReleaseSnapshot(own->rep);
    delete own;
  }
  bool GetProperty(const Slice& property, std::string* value) override {
    return GetProperty(nullptr, property, value);
  }
  bool GetProperty(ColumnFamilyHandle* family, const Slice& property,
                   std::string* value) override {
    const Read read(this, ReadOptions());
    return read.state->db->GetProperty(read.Of(family), property, value);
  }
  bool GetIntProperty(const Slice& property, uint64_t* value) override {
    return GetIntProperty(nullptr, property, value);
  }
  bool GetIntProperty(ColumnFamilyHandle* family, const Slice& property,
                      uint64_t* value) override {
    const Read read(this, ReadOptions());
    return read.state->db->GetIntProperty(read.Of(family), property, value);
  }
  Status GetApproximateSizes(const Range* ranges, size_t count,
                             uint64_t* sizes) override {
    return GetApproximateSizes(nullptr, ranges, count, sizes);
  }
  Status GetApproximateSizes(ColumnFamilyHandle* family, const Range* ranges,
                             size_t count, uint64_t* sizes) override {
    const Read read(this, ReadOptions());
    return read.state->db->GetApproximateSizes(read.Of(family), ranges, count,
                                               sizes);
  }
  void GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata) override {
    Newest()->db->GetLiveFilesMetaData(metadata);
  }
  void GetColumnFamilyMetaData(ColumnFamilyHandle* family,
                               ColumnFamilyMetaData* metadata) override {
    const Read read(this, ReadOptions());
    read.state->db->GetColumnFamilyMetaData(read.Of(family), metadata);
  }
  Status GetPropertiesOfAllTables(ColumnFamilyHandle* family,
                                  TablePropertiesCollection* result) override {
    const Read read(this, ReadOptions());
    return read.state->db->GetPropertiesOfAllTables(read.Of(family), result);
  }
  Status GetPropertiesOfTablesInRange(
      ColumnFamilyHandle* family, const Range* ranges, size_t count,
      TablePropertiesCollection* result) override {
    const Read read(this, ReadOptions());
    return read.state->db->GetPropertiesOfTablesInRange(read.Of(family), ranges,
                                                        count, result);
  }
  Status VerifyChecksum() override { return Newest()->db->VerifyChecksum(); }
  uint64_t GetLatestSequenceNumber() const override {
    return Newest()->db->GetLatestSequenceNumber();
  }

 private:
  // The state for a read: a snapshot's or the newest.
  struct Read {
    Read(const SecondaryDb* secondary, const ReadOptions& program)
        : options(program) {
      if (options.snapshot == nullptr) {
        state = secondary->Newest();
        return;
      }
      const auto* const own =
          static_cast<const StateSnapshot*>(options.snapshot);
      state = own->state;
      options.snapshot = own->rep;
    }
    ColumnFamilyHandle* Of(ColumnFamilyHandle* family) const {
      if (family == nullptr) return nullptr;
      return state->families[static_cast<Family*>(family)->index];
    }
    std::vector<ColumnFamilyHandle*> Of(ColumnFamilyHandle* const* families,
                                        size_t count) const {
      std::vector<ColumnFamilyHandle*> own;
      for (size_t i = 0; i < count; ++i) own.push_back(Of(families[i]));
      return own;
    }

    ReadOptions options;
    StatePtr state;
  };

  StatePtr Newest() const {
    const std::scoped_lock lock(mutex_);
    return state_;
  }

  const OpenReadOnly open_;
  const Token token_ = std::make_shared<const char>('\0');
  mutable std::mutex mutex_;
  StatePtr state_;  // Guarded by mutex_.
};

Status OpenSecondary(OpenReadOnly open,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<DB>* db, SecondaryDb** secondary) {
  StatePtr first;
  Status status = SecondaryDb::OpenState(open, &first);
  if (!status.ok()) return status;
  handles->clear();
  for (size_t i = 0; i < first->families.size(); ++i) {
    handles->push_back(new Family(i, first));
  }
  auto opened = std::make_unique<SecondaryDb>(std::move(open), first);
  *secondary = opened.get();
  *db = std::move(opened);
  return status;
}

Status CatchUp(SecondaryDb* secondary) { return secondary->CatchUp(); }

}  // namespace varve::rocksdb_c
