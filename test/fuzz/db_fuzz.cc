// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Operations on a database in memory, drawn from the input, and the same on a
// std::map. Every answer must be the map's, at snapshots too, and after the
// database was closed or lost its process. In half of the cases, every walk
// over a deletion is remembered and leads to a flush or compaction.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/fuzz/fuzz.h"
#include "varve/db.h"
#include "varve/experimental.h"
#include "varve/filter_policy.h"
#include "varve/write_batch.h"

namespace varve::fuzz {
namespace {

using Entries = std::map<std::string, std::string>;

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
      AblationOptions ablation;
      ablation.waste = WasteMode::kAlways;
      options_.experiment = NewExperiment(ablation);
    }
    Open();
  }
  ~Session() { ReleaseAll(); }

  void Run() {
    for (int i = 0; i < 300 && !choices_.empty(); ++i) Step();
    Compare(nullptr, entries_);
    for (const auto& [snapshot, then] : snapshots_) Compare(snapshot, then);
  }

 private:
  void Open() {
    const Status status = DB::Open(options_, "/db", &db_);
    Require(status.ok(), status.ToString().c_str());
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

  void AddTo(WriteBatch* batch, Entries* entries) {
    const std::string key = Key();
    switch (choices_.Below(4)) {
      case 0:
        batch->Delete(key);
        entries->erase(key);
        return;
      case 1: {
        const std::string end = Key();
        // One that ends before it begins is refused.
        const std::string& first = key < end ? key : end;
        const std::string& last = key < end ? end : key;
        batch->DeleteRange(first, last);
        entries->erase(entries->lower_bound(first), entries->lower_bound(last));
        return;
      }
      default: {
        const std::string value = Value();
        batch->Put(key, value);
        (*entries)[key] = value;
      }
    }
  }

  void Step() {
    switch (choices_.Below(13)) {
      case 0:
        Require(db_->Flush({}).ok(), "a flush");
        return;
      case 1:
        Require(db_->CompactRange({}, nullptr, nullptr).ok(), "a compaction");
        return;
      case 2:
        if (snapshots_.size() < 4) {
          snapshots_.emplace_back(db_->GetSnapshot(), entries_);
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
        Require(db_->Close().ok(), "a close");
        db_.reset();
        Open();
        return;
      case 5: {
        const std::string key = Key();
        std::string value;
        const Status status = db_->Get({}, key, &value);
        CheckGot(entries_, key, status, value);
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
        Require(db_->CompactRange(options, &begin, &limit).ok(),
                "a compaction of a range");
        return;
      }
      default: {
        WriteBatch batch;
        for (uint32_t i = 0; i <= choices_.Below(5); ++i) {
          AddTo(&batch, &entries_);
        }
        WriteOptions options;
        options.sync = choices_.Below(4) == 0;
        Require(db_->Write(options, &batch).ok(), "a write");
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

  // Returns the entries that readers see: the current ones, or at the oldest
  // snapshot.
  const Entries& ChooseMoment(ReadOptions* options) {
    if (snapshots_.empty() || choices_.Below(2) == 0) return entries_;
    options->snapshot = snapshots_.front().first;
    return snapshots_.front().second;
  }

  void GetSeveral() {
    ReadOptions options;
    const Entries& expected = ChooseMoment(&options);
    std::vector<std::string> names(1 + choices_.Below(8));
    for (std::string& name : names) name = Key();
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = db_->MultiGet(options, keys, &values);
    for (size_t i = 0; i < names.size(); ++i) {
      CheckGot(expected, names[i], statuses[i], values[i]);
    }
  }

  // An iterator between bounds, which goes to and fro.
  void Walk() {
    ReadOptions options;
    const Entries& all = ChooseMoment(&options);
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
    const auto iterator = db_->NewIterator(options);
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

  void Compare(const Snapshot* snapshot, const Entries& expected) {
    ReadOptions options;
    options.snapshot = snapshot;
    const auto iterator = db_->NewIterator(options);
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
  Entries entries_;
  std::vector<std::pair<const Snapshot*, Entries>> snapshots_;
};

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  varve::fuzz::Choices choices(varve::fuzz::Bytes(data, size));
  varve::fuzz::Session(&choices).Run();
  return 0;
}
