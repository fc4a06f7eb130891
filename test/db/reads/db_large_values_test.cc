// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized

// Goal: large values are read as they were written, through log, memtable,
// tables and recovery, and reads and writes of them touch little fresh memory
// once some were done. Method: values around the bounds of the paths; the
// kernel's count of this thread's page faults.

#include <sys/resource.h>

#include "test/testing/db_helpers.h"
#include "test/testing/sanitizers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

size_t PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<size_t>(usage.ru_minflt);
}

class DbLargeValuesTest : public DbTestBase {};

TEST_F(DbLargeValuesTest, ValuesOfAllSizesAreFound) {
  Rng rng(TestSeed());
  Entries entries;
  int number = 0;
  for (const bool manual : {false, true}) {
    options_.manual_wal_flush = manual;
    Open();
    for (const size_t bound : {size_t{16} << 10, size_t{32} << 10,
                               size_t{64} << 10, size_t{1} << 20}) {
      for (int i = 0; i < 6; ++i) {
        const std::string key = Key(number++);
        entries[key] = rng.Bytes(bound - 40 + rng.Below(80));
        Put(key, entries[key]);
        entries[key + "s"] = rng.Bytes(rng.Below(300));
        Put(key + "s", entries[key + "s"]);
      }
    }
    EXPECT_TRUE(HasEntries(db_.get(), ToList(entries)));
    Reopen();
    EXPECT_TRUE(HasEntries(db_.get(), ToList(entries)));
    CompactAll();
    EXPECT_TRUE(HasEntries(db_.get(), ToList(entries)));
  }
}

TEST_F(DbLargeValuesTest, ColdReadsTouchLittleFreshMemory) {
#ifdef VARVE_TEST_SANITIZED
  GTEST_SKIP() << "no memory is kept";
#endif
  constexpr int kValues = 20;
  constexpr size_t kPages = 1000000 / 4096;
  options_.write_buffer_size = 64 << 20;
  options_.compression = CompressionType::kNone;
  for (const size_t cache : {size_t{0}, size_t{3} << 20}) {
    SCOPED_TRACE(cache);
    options_.block_cache = NewTestCache(cache);
    OpenAnew();
    Rng rng(TestSeed());
    for (int i = 0; i < kValues; ++i) Put(Key(i), rng.Bytes(1000000));
    Flush();
    std::string value;
    size_t faults = 0;
    for (int round = 0; round < 3; ++round) {
      const size_t before = PageFaults();
      for (int i = 0; i < kValues; ++i) {
        ASSERT_TRUE(Ok(db_->Get({}, Key(i), &value)));
      }
      faults = PageFaults() - before;
    }
    EXPECT_LT(faults, kValues * kPages / 10);
  }
}

}  // namespace
}  // namespace varve::test
