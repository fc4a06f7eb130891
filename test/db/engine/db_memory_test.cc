// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the memory of a database is accounted for by kind and by thread, and
// comes back when it is closed. Method: sums before and after, of a database
// whose memtables are filled by one thread and freed by another, and whose
// blocks are read by threads that have ended.

#include <pthread.h>

#include "experimental/ablation_experiment.h"
#include "monitoring/memory_accounting.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

class DbMemoryTest : public DbTestBase {
 protected:
  static uint64_t Live(MemoryKind kind) {
    MemoryCounts kinds[kMemoryKinds];
    MemoryByKind(kinds);
    return kinds[static_cast<int>(kind)].live();
  }
  std::string Property(const std::string& name) {
    std::string text;
    EXPECT_TRUE(db_->GetProperty(name, &text)) << name;
    return text;
  }
};

TEST_F(DbMemoryTest, EachKindIsCountedAndComesBack) {
  options_.block_cache = NewTestCache(8 << 20);
  TEST_DrainRetired();
  const uint64_t memtables = Live(MemoryKind::kMemTable);
  const uint64_t blocks = Live(MemoryKind::kBlock);
  const uint64_t indexes = Live(MemoryKind::kIndexAndFilter);
  const uint64_t batches = Live(MemoryKind::kWriteBatch);
  Open();
  for (int i = 0; i < 100; i++) Put(Key(i), std::string(1000, 'v'));
  EXPECT_GT(Live(MemoryKind::kMemTable), memtables + (64 << 10));
  {
    WriteBatch batch;
    batch.Put(Key(1), std::string(10000, 'b'));
    EXPECT_GE(Live(MemoryKind::kWriteBatch), batches + 10000);
    WriteBatch copy = batch;
    copy.Put(Key(2), "c");
    EXPECT_GE(Live(MemoryKind::kWriteBatch), batches + 20000);
    WriteBatch moved = std::move(copy);
    moved.Delete(Key(3));
    batch = moved;
    ASSERT_TRUE(Ok(db_->Write({}, &moved)));
  }
  Flush();
  CompactAll();
  for (int i = 0; i < 100; i++) Get(Key(i));
  EXPECT_GT(Live(MemoryKind::kIndexAndFilter), indexes);
  EXPECT_GT(Live(MemoryKind::kBlock), blocks + 50000);
  const std::string text = Property("varve.memory");
  EXPECT_TRUE(Contains(text, "index and filter")) << text;
  Close();
  options_.block_cache.reset();
  TEST_DrainRetired();
  EXPECT_EQ(Live(MemoryKind::kMemTable), memtables);
  EXPECT_EQ(Live(MemoryKind::kBlock), blocks);
  EXPECT_EQ(Live(MemoryKind::kIndexAndFilter), indexes);
}

TEST_F(DbMemoryTest, AThreadThatHasEndedKeepsItsBalance) {
  const bool atomic = !IsProduction(TEST_ChoicesOf(options_).memory_accounting);
  // Atomic accounts of an earlier test would stay.
  SetMemoryAccountingAtomic(atomic);
  options_.block_cache = NewTestCache(8 << 20);
  Open();
  for (int i = 0; i < 300; i++) Put(Key(i), std::string(1000, 'v'));
  Flush();
  std::thread([this] {
    pthread_setname_np(pthread_self(), "reader-of-all");
    for (int i = 0; i < 300; i++) Get(Key(i));
  }).join();
  const auto live = []() -> uint64_t {
    for (const ThreadMemory& thread : MemoryByThread()) {
      if (thread.name == "reader-of-all") {
        return thread.ended
                   ? thread.kinds[static_cast<int>(MemoryKind::kBlock)].live()
                   : 0;
      }
    }
    return 0;
  };
  // Threads have no accounts of their own if there is one for all.
  if (atomic) {
    EXPECT_EQ(live(), 0u);
  } else {
    EXPECT_GT(live(), 250000u);
    EXPECT_TRUE(Contains(Property("varve.memory-by-thread"), "reader-of-all"));
  }
  // This thread frees them.
  Close();
  options_.block_cache.reset();
  TEST_DrainRetired();
  EXPECT_EQ(live(), 0u);
}

}  // namespace
}  // namespace varve::test
