// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads of all kinds that judge what they see by themselves, from any number
// of threads, and what must be true when nobody reads any more.

#include "test/testing/db/stress_threads.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {

// Waits up to a second, the time that a database may take to let go of what
// nobody reads any more.
inline bool SoonTrue(const std::function<bool()>& condition) {
  const auto timeout =
      std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > timeout) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline uint64_t NumberOf(DB* db, const std::string& property) {
  uint64_t number = 0;
  EXPECT_TRUE(db->GetIntProperty(property, &number)) << property;
  return number;
}

// Tables in the directory, and those that the DB reads.
inline size_t TableFiles(const std::string& path) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".sst") count++;
  }
  return count;
}
inline size_t LiveTables(DB* db) {
  size_t count = 0;
  for (int level = 0; level < 7; level++) {
    count += NumberOf(db, "varve.num-files-at-level" + std::to_string(level));
  }
  return count;
}

// Whether nothing but the newest state of the database is held by anybody.
inline ::testing::AssertionResult NothingIsPinned(DB* db,
                                                  const std::string& path) {
  const auto live_versions = [&] {
    return NumberOf(db, "varve.num-live-versions");
  };
  const auto pinned_bytes = [&] {
    return NumberOf(db, "varve.block-cache-pinned-usage");
  };
  if (SoonTrue([&] {
        return live_versions() == 1 && TableFiles(path) == LiveTables(db) &&
               pinned_bytes() == 0;
      })) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << live_versions() << " live versions, " << TableFiles(path)
         << " table files where " << LiveTables(db) << " are live, "
         << pinned_bytes() << " bytes pinned in the cache";
}

// Nothing of what was written before stays in memtables or old tables.
inline void Settle(DB* db) {
  ASSERT_TRUE(Ok(db->Put({}, "settle", "")));
  ASSERT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(
      db->CompactRange({.rewrite_bottommost_level = true}, nullptr, nullptr)));
  ASSERT_TRUE(Ok(db->WaitForCompact()));
}

// Fill's keys are Key(0) up to Key(kKeys - 1).
inline constexpr int kKeys = 400;

inline ReadOptions RandomReadOptions(Rng* rng) {
  ReadOptions options;
  options.fill_cache = !rng->OneIn(4);
  options.verify_checksums = rng->OneIn(2);
  return options;
}

// ---- Reads ------------------------------------------------------------------

// All of these expect every key to be there, with a value of its own.
inline void ReadOne(DB* db, Rng* rng) {
  const std::string key = Key(rng->Between(0, kKeys - 1));
  std::string text;
  EXPECT_TRUE(Ok(db->Get(RandomReadOptions(rng), key, &text)));
  EXPECT_GE(CountIn(key, text), 0) << text;
  EXPECT_TRUE(
      IsNotFound(db->Get(RandomReadOptions(rng), key + "absent", &text)));
}
// The value must stay as it is while others evict and compact.
inline void ReadPinned(DB* db, Rng* rng) {
  const std::string key = Key(rng->Between(0, kKeys - 1));
  PinnableSlice value;
  EXPECT_TRUE(Ok(db->Get(RandomReadOptions(rng), key, &value)));
  const int count = CountIn(key, value);
  EXPECT_GE(count, 0) << value.ToString();
  for (int i = 0; i < 5; i++) ReadOne(db, rng);
  EXPECT_EQ(CountIn(key, value), count) << value.ToString();
}
inline void ReadMany(DB* db, Rng* rng) {
  const size_t count = rng->Below(70);
  std::vector<std::string> names;
  for (size_t i = 0; i < count; i++) {
    names.push_back(Key(rng->Between(0, kKeys - 1)));
    if (rng->OneIn(4)) names.back() += "absent";
  }
  const std::vector<Slice> keys(names.begin(), names.end());
  std::vector<PinnableSlice> values(count);
  std::vector<Status> statuses(count);
  db->MultiGet(RandomReadOptions(rng), count, keys.data(), values.data(),
               statuses.data());
  for (size_t i = 0; i < count; i++) {
    if (names[i].back() == 't') {
      EXPECT_TRUE(statuses[i].IsNotFound()) << statuses[i].ToString();
    } else {
      EXPECT_TRUE(Ok(statuses[i])) << names[i];
      EXPECT_GE(CountIn(names[i], values[i]), 0) << values[i].ToString();
    }
  }
}
inline void Walk(DB* db, Rng* rng) {
  const auto it = db->NewIterator(RandomReadOptions(rng));
  const int first = rng->Between(0, kKeys - 1);
  const bool forward = rng->OneIn(2);
  it->Seek(Key(first));
  for (int i = 0; i < 30; i++) {
    const int number = forward ? first + i : first - i;
    if (number < 0 || number >= kKeys) break;
    EXPECT_TRUE(it->Valid()) << it->status().ToString();
    if (!it->Valid()) return;
    EXPECT_EQ(it->key().ToString(), Key(number));
    EXPECT_GE(CountIn(Key(number), it->value()), 0) << it->value().ToString();
    if (i % 10 == 5) ReadOne(db, rng);
    forward ? it->Next() : it->Prev();
  }
  EXPECT_TRUE(Ok(it->status()));
}
inline void ReadAtSnapshot(DB* db, Rng* rng) {
  ReadOptions options = RandomReadOptions(rng);
  options.snapshot = db->GetSnapshot();
  std::string first, again;
  const std::string key = Key(rng->Between(0, kKeys - 1));
  EXPECT_TRUE(Ok(db->Get(options, key, &first)));
  for (int i = 0; i < 5; i++) {
    ReadOne(db, rng);
    EXPECT_TRUE(Ok(db->Get(options, key, &again)));
    EXPECT_EQ(again, first);
  }
  db->ReleaseSnapshot(options.snapshot);
}
inline void ReadSomehow(DB* db, Rng* rng) {
  switch (rng->Below(6)) {
    case 0:
      return ReadPinned(db, rng);
    case 1:
      return ReadMany(db, rng);
    case 2:
      return Walk(db, rng);
    case 3:
      return ReadAtSnapshot(db, rng);
    default:
      for (int i = 0; i < 20; i++) ReadOne(db, rng);
  }
}
inline void Fill(DB* db) {
  for (int i = 0; i < kKeys; i++) {
    EXPECT_TRUE(Ok(db->Put({}, Key(i), Value(Key(i), i))));
  }
}

// A fixture whose block cache and open files are far too few.
class ReadStressTestBase : public StressTestBase {
 protected:
  void SetUp() override {
    StressTestBase::SetUp();
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.block_cache = NewBlockCache(64 << 10);
    options_.max_open_files = 16;
  }

  std::unique_ptr<DB> OpenAnother(const std::string& name) {
    std::unique_ptr<DB> db;
    EXPECT_TRUE(Ok(DB::Open(options_, dir_.Sub(name), &db)));
    return db;
  }
};

}  // namespace varve::test
