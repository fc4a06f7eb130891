// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A column family with a compaction filter that depends on the time, for tests
// with a model of what was written.

#include "test/testing/db/families_fixture.h"
#include "test/testing/env/date_env.h"
#include "test/testing/expiring_parts.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve::test {

// Errors fail the test.
// Thread-safety: owned by one thread, except the filter.
class FilteredFamily {
 public:
  static constexpr char kName[] = "filtered";

  // The arguments must outlive this. The model has what was written, less what
  // the filter was seen to remove.
  FilteredFamily(Rng* rng, const std::atomic<uint64_t>* now_s,
                 ModelFamilies* model)
      : rng_(*rng), now_s_(*now_s), model_(*model), filter_(now_s) {}
  FilteredFamily(const FilteredFamily&) = delete;
  FilteredFamily& operator=(const FilteredFamily&) = delete;
  ~FilteredFamily() { Release(); }

  bool exists() const { return id_ != 0; }
  uint32_t id() const { return id_; }
  ColumnFamilyHandle* handle() const { return handle_; }
  // How often a value was seen to be filtered.
  uint64_t seen() const { return seen_; }

  // Takes the handle over.
  void SetHandle(ColumnFamilyHandle* handle) {
    Release();
    handle_ = handle;
    id_ = handle->GetID();
  }
  void Release() {
    delete handle_;
    handle_ = nullptr;
  }

  // Returns the options with the filter, by itself or by a factory, and ages.
  ColumnFamilyOptions AddFilter(ColumnFamilyOptions options) {
    if (rng_.OneIn(2)) {
      options.compaction_filter = &filter_;
    } else {
      options.compaction_filter_factory =
          std::make_shared<ExpiryFilterFactory>(&now_s_);
    }
    options.ttl = rng_.Pick<uint64_t>({0, 0, 200});
    options.periodic_compaction_seconds = rng_.Pick<uint64_t>({0, 0, 100});
    return options;
  }

  void AddUpdate(WriteBatch* batch, int key_count,
                 uint64_t range_deletion_percent, uint64_t merge_percent) {
    const int number = rng_.Between(0, key_count - 1);
    const std::string key = Key(number);
    if (range_deletion_percent > rng_.Below(200)) {
      batch->DeleteRange(handle_, key, Key(number + rng_.Between(0, 9)));
    } else if (rng_.OneIn(5)) {
      batch->Delete(handle_, key);
    } else if (merge_percent > rng_.Below(100)) {
      batch->Merge(handle_, key, RandomPart());
    } else {
      batch->Put(handle_, key, RandomPart());
    }
  }

  // Does something to the family, or reads it.
  void Step(DB* db, int key_count, bool has_snapshots) {
    switch (rng_.Below(12)) {
      case 0:
        CompactAll(db, has_snapshots);
        return;
      case 1:
        ASSERT_TRUE(Ok(db->Flush({}, handle_)));
        return;
      case 2:
        Scan(db);
        return;
      default:
        Get(db, Key(rng_.Between(0, key_count - 1)));
    }
  }

  void Get(DB* db, const std::string& key) {
    std::string value;
    const Status s = db->Get({}, handle_, key, &value);
    ASSERT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    Expect(key, s.ok() ? value : "");
  }

  void Scan(DB* db) {
    const auto it = db->NewIterator({}, handle_);
    Entries found;
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      found[it->key().ToString()] = it->value().ToString();
    }
    ASSERT_TRUE(Ok(it->status()));
    EntryList backward;
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      backward.emplace_back(it->key().ToString(), it->value().ToString());
    }
    ASSERT_TRUE(Ok(it->status()));
    std::reverse(backward.begin(), backward.end());
    ASSERT_TRUE(SameEntries(ToList(found), backward)) << "scanning backward";
    const Entries written = model_.At(id_);
    for (const auto& [key, value] : found) Expect(key, value);
    for (const auto& [key, value] : written) {
      if (found.count(key) == 0) Expect(key, "");
    }
  }

  // Rewrites all tables. The filter then sees at least the values that have no
  // operands, unless a snapshot needs them.
  void CompactAll(DB* db, bool has_snapshots) {
    ASSERT_TRUE(Ok(db->CompactRange({.rewrite_bottommost_level = true}, handle_,
                                    nullptr, nullptr)));
    Scan(db);
    if (has_snapshots) return;
    for (const auto& [key, value] : model_.At(id_)) {
      if (value.find(',') != std::string::npos) continue;
      ASSERT_EQ(value, FilteredValue(value, now_s_.load())) << key;
    }
  }

  // Returns whether a reader may find these entries if the others were written.
  ::testing::AssertionResult MayBeAllFiltered(const Entries& written,
                                              const EntryList& found) const {
    const uint64_t now_s = now_s_.load();
    Entries left = written;
    for (const auto& [key, value] : found) {
      const auto entry = left.find(key);
      if (entry == left.end() || !MayBeFiltered(entry->second, value, now_s)) {
        return ::testing::AssertionFailure() << key << " is " << value;
      }
      left.erase(entry);
    }
    for (const auto& [key, value] : left) {
      if (!MayBeFiltered(value, "", now_s)) {
        return ::testing::AssertionFailure() << key << " is missing: " << value;
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  // Returns a value or operand that may expire soon.
  std::string RandomPart() {
    const PartKind kind =
        rng_.Pick({PartKind::kKept, PartKind::kRemoved, PartKind::kChanged});
    const uint64_t lives_s = rng_.Below(rng_.OneIn(2) ? 5 : 500);
    return MakePart(kind, now_s_.load() + lives_s, ++last_part_,
                    rng_.Below(60));
  }

  // Expects a result that the filter may leave. From then on, the model has
  // that: what the filter removed does not come back.
  void Expect(const std::string& key, const std::string& found) {
    Entries* const written = model_.MutableAt(id_);
    const auto entry = written->find(key);
    const std::string all = entry == written->end() ? "" : entry->second;
    if (all == found) return;
    ASSERT_TRUE(MayBeFiltered(all, found, now_s_.load()))
        << key << " is " << found << ", written were " << all;
    ++seen_;
    if (found.empty()) {
      written->erase(key);
    } else {
      (*written)[key] = found;
    }
  }

  Rng& rng_;
  const std::atomic<uint64_t>& now_s_;
  ModelFamilies& model_;
  const ExpiryFilter filter_;
  ColumnFamilyHandle* handle_ = nullptr;
  uint32_t id_ = 0;
  uint64_t last_part_ = 0;
  uint64_t seen_ = 0;
};

}  // namespace varve::test
