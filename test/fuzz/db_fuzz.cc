// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Operations on a database in memory with 1 to 8 column families, drawn from
// the input, and the same on a std::map for each. Every answer must be the
// map's, at snapshots too, and after the database was closed or lost its
// process. In half of the cases, every walk over a deletion is remembered and
// leads to a flush or compaction.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experimental/ablation.h"
#include "test/fuzz/fuzz.h"
#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/write_batch.h"

namespace varve::fuzz {
namespace {

using Entries = std::map<std::string, std::string>;
// By the ids of families.
using State = std::map<uint32_t, Entries>;

class Session {
 public:
  explicit Session(Choices* choices)
      : choices_(*choices), env_(NewMemoryEnv(Env::Default())) {
    Require(env_->CreateDirIfMissing("/db").ok(), "a directory");
    options_.env = env_.get();
    options_.create_if_missing = true;
    options_.write_buffer_size = 64 << 10;
    options_.target_file_size_base = 64 << 10;
    options_.block_size = 256 << choices_.Below(5);
    options_.block_restart_interval = 1 + static_cast<int>(choices_.Below(20));
    options_.max_open_files = choices_.Below(2) == 0 ? -1 : 16;
    if (choices_.Below(2) == 0) {
      options_.filter_policy = NewBloomFilterPolicy(10);
    }
    if (choices_.Below(2) == 0) {
      AblationOptions ablation{.waste = WasteMode::kAlways};
      options_.experiment = NewExperiment(ablation);
    }
    options_.atomic_flush = choices_.Below(4) == 0;
    options_.merge_operator = NewStringAppendOperator();
    options_.max_successive_merges = choices_.Below(4);
    Open();
    for (uint32_t i = choices_.Below(kMostFamilies); i > 0; --i) Create();
  }
  ~Session() {
    ReleaseAll();
    ReleaseHandles();
  }

  void Run() {
    for (int i = 0; i < 300 && !choices_.empty(); ++i) Step();
    Compare(nullptr, state_);
    for (const auto& [snapshot, then] : snapshots_) Compare(snapshot, then);
  }

 private:
  static constexpr uint32_t kMostFamilies = 8;

  void Open() {
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names_) {
      families.emplace_back(name, options_);
    }
    const Status status = DB::Open(options_, "/db", families, &handles_, &db_);
    Require(status.ok(), status.ToString().c_str());
  }
  void ReleaseHandles() {
    for (const ColumnFamilyHandle* handle : handles_) delete handle;
    handles_.clear();
  }

  ColumnFamilyHandle* Family() {
    return handles_[choices_.Below(static_cast<uint32_t>(handles_.size()))];
  }
  void Create() {
    if (handles_.size() >= kMostFamilies) return;
    std::string name = "family0";
    while (std::find(names_.begin(), names_.end(), name) != names_.end()) {
      ++name.back();
    }
    ColumnFamilyHandle* handle = nullptr;
    Require(db_->CreateColumnFamily(options_, name, &handle).ok(),
            "a creation");
    Require(handle->GetID() > last_id_, "an id is not used again");
    last_id_ = handle->GetID();
    names_.push_back(name);
    handles_.push_back(handle);
  }
  void Drop() {
    if (handles_.size() == 1) return;
    const size_t place =
        1 + choices_.Below(static_cast<uint32_t>(handles_.size() - 1));
    ColumnFamilyHandle* const handle = handles_[place];
    Require(db_->DropColumnFamily(handle).ok(), "a drop");
    Require(!db_->Put({}, handle, "key", "value").ok(), "it was dropped");
    state_.erase(handle->GetID());
    delete handle;
    handles_.erase(handles_.begin() + static_cast<long>(place));
    names_.erase(names_.begin() + static_cast<long>(place));
  }
  void ReleaseAll() {
    for (const auto& [snapshot, then] : snapshots_) {
      db_->ReleaseSnapshot(snapshot);
    }
    snapshots_.clear();
  }

  std::string Key() {
    std::string key(1 + choices_.Below(3), 'k');
    for (char& c : key) c = static_cast<char>('a' + choices_.Below(6));
    return key;
  }
  std::string Value() {
    const uint32_t size = choices_.Below(8) == 0 ? 3000 : choices_.Below(40);
    return std::string(size, static_cast<char>('A' + choices_.Below(26)));
  }

  void AddTo(WriteBatch* batch, State* state) {
    ColumnFamilyHandle* const family = Family();
    Entries* const entries = &(*state)[family->GetID()];
    const std::string key = Key();
    switch (choices_.Below(5)) {
      case 0:
        batch->Delete(family, key);
        entries->erase(key);
        return;
      case 1: {
        const std::string end = Key();
        // One that ends before it begins is refused.
        const std::string& first = key < end ? key : end;
        const std::string& last = key < end ? end : key;
        batch->DeleteRange(family, first, last);
        entries->erase(entries->lower_bound(first), entries->lower_bound(last));
        return;
      }
      case 2: {
        const std::string operand = Value();
        batch->Merge(family, key, operand);
        const auto [entry, is_new] = entries->try_emplace(key, operand);
        if (!is_new) entry->second += "," + operand;
        return;
      }
      default: {
        const std::string value = Value();
        batch->Put(family, key, value);
        (*entries)[key] = value;
      }
    }
  }

  void Step() {
    switch (choices_.Below(16)) {
      case 0:
        Require(choices_.Below(2) == 0 ? db_->Flush({}, Family()).ok()
                                       : db_->Flush({}, handles_).ok(),
                "a flush");
        return;
      case 1:
        Require(db_->CompactRange({}, Family(), nullptr, nullptr).ok(),
                "a compaction");
        return;
      case 2:
        if (snapshots_.size() < 4) {
          snapshots_.emplace_back(db_->GetSnapshot(), state_);
        }
        return;
      case 3:
        if (!snapshots_.empty()) {
          Compare(snapshots_.front().first, snapshots_.front().second);
          db_->ReleaseSnapshot(snapshots_.front().first);
          snapshots_.erase(snapshots_.begin());
        }
        return;
      case 4:
        ReleaseAll();
        ReleaseHandles();
        Require(db_->Close().ok(), "a close");
        db_.reset();
        Open();
        return;
      case 5: {
        const std::string key = Key();
        std::string value;
        ColumnFamilyHandle* const family = Family();
        const Status status = db_->Get({}, family, key, &value);
        CheckGot(EntriesOf(state_, family), key, status, value);
        return;
      }
      case 6:
        GetSeveral();
        return;
      case 7:
        Walk();
        return;
      case 8: {
        const std::string key = Key();
        const std::string end = Key();
        const Slice begin(key);
        const Slice limit(end);
        CompactRangeOptions options;
        options.rewrite_bottommost_level = choices_.Below(2) == 0;
        Require(db_->CompactRange(options, Family(), &begin, &limit).ok(),
                "a compaction of a range");
        return;
      }
      case 9:
        Create();
        return;
      case 10:
        Drop();
        return;
      default: {
        WriteBatch batch;
        for (uint32_t i = 0; i <= choices_.Below(5); ++i) {
          AddTo(&batch, &state_);
        }
        Require(db_->Write({.sync = choices_.Below(4) == 0}, &batch).ok(),
                "a write");
      }
    }
  }

  static void CheckGot(const Entries& expected, const std::string& key,
                       const Status& status, const std::string& value) {
    const auto found = expected.find(key);
    Require(found == expected.end() ? status.IsNotFound() : status.ok(),
            "found or not");
    if (status.ok()) Require(value == found->second, "the value");
  }

  static const Entries& EntriesOf(const State& state,
                                  const ColumnFamilyHandle* family) {
    static const Entries kNone;
    const auto found = state.find(family->GetID());
    return found == state.end() ? kNone : found->second;
  }

  // Returns the state that readers see: the current one, or at the oldest
  // snapshot.
  const State& ChooseMoment(ReadOptions* options) {
    if (snapshots_.empty() || choices_.Below(2) == 0) return state_;
    options->snapshot = snapshots_.front().first;
    return snapshots_.front().second;
  }

  void GetSeveral() {
    ReadOptions options;
    const State& expected = ChooseMoment(&options);
    std::vector<std::string> names(1 + choices_.Below(8));
    std::vector<ColumnFamilyHandle*> families;
    for (std::string& name : names) {
      name = Key();
      families.push_back(Family());
    }
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses =
        db_->MultiGet(options, families, keys, &values);
    for (size_t i = 0; i < names.size(); ++i) {
      CheckGot(EntriesOf(expected, families[i]), names[i], statuses[i],
               values[i]);
    }
  }

  // An iterator between bounds, which goes to and fro.
  void Walk() {
    ReadOptions options;
    ColumnFamilyHandle* const family = Family();
    const Entries& all = EntriesOf(ChooseMoment(&options), family);
    std::string lower = Key();
    std::string upper = Key();
    if (upper < lower) std::swap(lower, upper);
    const Slice lower_bound(lower);
    const Slice upper_bound(upper);
    const bool has_lower = choices_.Below(2) == 0;
    const bool has_upper = choices_.Below(2) == 0;
    if (has_lower) options.iterate_lower_bound = &lower_bound;
    if (has_upper) options.iterate_upper_bound = &upper_bound;
    const Entries expected(has_lower ? all.lower_bound(lower) : all.begin(),
                           has_upper ? all.lower_bound(upper) : all.end());
    const auto iterator = db_->NewIterator(options, family);
    auto place = expected.end();  // Where it should stand; end: nowhere.
    for (uint32_t steps = choices_.Below(20); steps > 0; --steps) {
      switch (choices_.Below(6)) {
        case 0:
          iterator->SeekToFirst();
          place = expected.begin();
          break;
        case 1:
          iterator->SeekToLast();
          place = expected.empty() ? expected.end() : --expected.end();
          break;
        case 2: {
          const std::string key = Key();
          iterator->Seek(key);
          place = expected.lower_bound(key);
          break;
        }
        case 3: {
          const std::string key = Key();
          iterator->SeekForPrev(key);
          place = expected.upper_bound(key);
          place = place == expected.begin() ? expected.end() : --place;
          break;
        }
        case 4:
          if (place == expected.end()) continue;
          iterator->Next();
          ++place;
          break;
        default:
          if (place == expected.end()) continue;
          iterator->Prev();
          place = place == expected.begin() ? expected.end() : --place;
      }
      Require(iterator->status().ok(), "a walk");
      Require(iterator->Valid() == (place != expected.end()), "where it ends");
      if (place == expected.end()) continue;
      Require(iterator->key() == place->first, "the key of a walk");
      Require(iterator->value() == place->second, "the value of a walk");
    }
  }

  void Compare(const Snapshot* snapshot, const State& expected) {
    ReadOptions options{.snapshot = snapshot};
    std::vector<std::unique_ptr<Iterator>> iterators;
    Require(db_->NewIterators(options, handles_, &iterators).ok(),
            "iterators of all families");
    for (size_t i = 0; i < handles_.size(); ++i) {
      CompareOne(iterators[i].get(), EntriesOf(expected, handles_[i]));
    }
  }

  static void CompareOne(Iterator* iterator, const Entries& expected) {
    iterator->SeekToFirst();
    for (const auto& [key, value] : expected) {
      Require(iterator->Valid(), "an entry is missing");
      Require(iterator->key() == key, "the key");
      Require(iterator->value() == value, "the value");
      iterator->Next();
    }
    Require(!iterator->Valid() && iterator->status().ok(), "and no more");
    iterator->SeekToLast();
    for (auto it = expected.rbegin(); it != expected.rend(); ++it) {
      Require(iterator->Valid() && iterator->key() == it->first, "backwards");
      iterator->Prev();
    }
    Require(!iterator->Valid(), "and no more");
  }

  Choices& choices_;
  const std::unique_ptr<Env> env_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<std::string> names_ = {kDefaultColumnFamilyName};
  std::vector<ColumnFamilyHandle*> handles_;  // Parallel to names_.
  uint32_t last_id_ = 0;
  State state_;
  std::vector<std::pair<const Snapshot*, State>> snapshots_;
};

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  varve::fuzz::Choices choices(varve::fuzz::Bytes(data, size));
  varve::fuzz::Session(&choices).Run();
  return 0;
}
