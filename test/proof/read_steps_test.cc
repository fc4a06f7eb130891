// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a read finds what was there at one moment of it, and no freed memory,
// wherever another thread changes the database during it. Method: the reader is
// stopped before its instructions in turn, a few of which are left out.

#include <malloc.h>

#include "test/testing/machine/step_hook.h"
#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"
#include "varve/cache.h"

namespace varve::test {
namespace {

class ReadStepsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(env_->CreateDirIfMissing("/db").ok());
    options_.env = env_.get();
    options_.create_if_missing = true;
    // Only the tests change the database's tables.
    options_.disable_auto_compactions = true;
    options_.block_cache = NewBlockCache(8 << 20);
    ASSERT_TRUE(DB::Open(options_, "/db/it", &db_).ok());
  }
  void TearDown() override { db_.reset(); }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(db_->Put({}, key, value).ok());
  }

  const std::unique_ptr<Env> env_ = NewMemoryEnv(Env::Default());
  Options options_;
  std::unique_ptr<DB> db_;
};

std::string ByGet(DB* db) {
  std::string value;
  const Status status = db->Get({}, "k", &value);
  return status.ok() ? value : status.ToString();
}
std::string ByMultiGet(DB* db) {
  const Slice key("k");
  std::string value;
  Status status;
  db->MultiGet({}, 1, &key, &value, &status);
  return status.ok() ? value : status.ToString();
}
std::string ByIterator(DB* db) {
  const auto it = db->NewIterator({});
  it->SeekToFirst();
  return it->Valid() ? it->value().ToString() : it->status().ToString();
}

// The flush drops the old value, which a number from before the write needs.
TEST_F(ReadStepsTest, FindsTheOldValueOrTheNew) {
  constexpr size_t kStride = 5;
  const struct {
    const char* name;
    std::string (*read)(DB*);
  } readers[] = {
      {"Get", &ByGet}, {"MultiGet", &ByMultiGet}, {"NewIterator", &ByIterator}};
  for (const auto& reader : readers) {
    size_t step = 0;
    std::string old_value, new_value, found;
    StepHook hook([&] {
      EXPECT_TRUE(db_->Put({}, "k", new_value).ok());
      EXPECT_TRUE(db_->Flush({}).ok());
    });
    for (bool reached = true; reached; step += kStride) {
      old_value = "old" + std::to_string(step);
      new_value = "new" + std::to_string(step);
      Put("k", old_value);
      reader.read(db_.get());  // The next one finds all in its caches.
      reached = hook.Run(step, [&] { found = reader.read(db_.get()); });
      ASSERT_TRUE(db_->CompactRange({}, nullptr, nullptr).ok());
      ASSERT_TRUE(found == old_value || found == new_value)
          << reader.name << " finds " << found
          << " with a write before instruction " << step;
    }
    printf("%s: %zu instructions\n", reader.name, step);
    EXPECT_GT(step, 100u);
  }
}

TEST_F(ReadStepsTest, AnEvictedBlockIsReadToItsEnd) {
  constexpr size_t kStride = 3;
  constexpr int kKeys = 100;
  const auto key_of = [](int i) { return std::to_string(1000 + i); };
  const auto value_of = [](int i) {
    return std::string(1000, static_cast<char>('!' + i));
  };
  for (int i = 0; i < kKeys; ++i) {
    Put(key_of(i), value_of(i));
  }
  ASSERT_TRUE(db_->Flush({}).ok());
  mallopt(M_PERTURB, 0x5a);  // Freed memory is overwritten.
  StepHook hook([&] {
    options_.block_cache->EraseUnreferenced();
    FreeRetired();
  });
  const auto it = db_->NewIterator({});
  size_t step = 0;
  for (bool reached = true; reached; step += kStride) {
    it->Seek(key_of(10));  // It is in the cache from now on.
    it->Seek(key_of(90));
    reached = hook.Run(step, [&] { it->Seek(key_of(10)); });
    ASSERT_TRUE(it->Valid()) << it->status().ToString();
    ASSERT_EQ(it->key(), Slice(key_of(10)));
    ASSERT_EQ(it->value(), Slice(value_of(10)))
        << "with the eviction before instruction " << step;
  }
  mallopt(M_PERTURB, 0);
  printf("%zu instructions\n", step);
  EXPECT_GT(step, 100u);
}

}  // namespace
}  // namespace varve::test
