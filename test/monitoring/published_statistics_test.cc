// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the list of a process's statistics has each object as long as it is
// there, and the kernel names its page. Method: create and destroy them, in
// several threads, and more than the list has space for.

#include "monitoring/published_statistics.h"

#include "monitoring/published_memory.h"
#include "monitoring/statistics.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

// The page of this process, by its name.
const PublishedStatistics* FindPage() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(kPublishedName) != line.npos) {
      return reinterpret_cast<const PublishedStatistics*>(
          std::stoull(line, nullptr, 16));
    }
  }
  return nullptr;
}

size_t Used(const PublishedStatistics& page) {
  size_t count = 0;
  for (const auto& entry : page.entries) count += entry.address.load() != 0;
  return count;
}

TEST(PublishedStatisticsTest, ListsWhatIsThere) {
  auto first = CreateDBStatistics();
  const PublishedStatistics* const page = FindPage();
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->magic, PublishedStatistics::kMagic);
  EXPECT_EQ(page->layout, PublishedLayout());
  const size_t used = Used(*page);
  ASSERT_GE(used, 1u);
  first->recordTick(Ticker::kNumberKeysRead, 7);
  uint64_t sum = 0;
  for (const auto& entry : page->entries) {
    const uint64_t address = entry.address.load();
    if (address == 0) continue;
    EXPECT_EQ(entry.set_bytes, PerCpuStatisticsCells::kSetBytes);
    for (uint64_t i = 0; i < entry.set_count; ++i) {
      sum += reinterpret_cast<const uint64_t*>(
          address +
          i * entry.set_bytes)[StatisticsCells::Of(Ticker::kNumberKeysRead)];
    }
  }
  EXPECT_EQ(sum, 7u);
  first.reset();
  EXPECT_EQ(Used(*page), used - 1);
}

TEST(PublishedStatisticsTest, ListsTheAccountsOfMemory) {
  const auto statistics = CreateDBStatistics();
  const PublishedStatistics* const page = FindPage();
  ASSERT_NE(page, nullptr);
  const auto live = [page](std::set<const MemoryAccount*>* seen) {
    const auto* const memory =
        &reinterpret_cast<const PublishedPage*>(page)->memory;
    EXPECT_EQ(memory->shared_account,
              reinterpret_cast<uintptr_t>(&shared_memory_account));
    uint64_t sum = 0;
    const auto& first =
        *reinterpret_cast<const std::atomic<const ListedMemoryAccount*>*>(
            memory->first_account);
    for (const auto* listed = first.load(); listed != nullptr;
         listed = listed->next) {
      EXPECT_TRUE(seen->insert(&listed->account).second);
      sum += ReadMemoryAccount(listed->account, MemoryKind::kWriteBatch).live();
    }
    return sum;
  };
  std::set<const MemoryAccount*> seen_before;
  const uint64_t before = live(&seen_before);
  // Of this thread: the accounts of others that end are for the next tests.
  MemoryAccount* const account = NoteAllocated(MemoryKind::kWriteBatch, 100);
  std::set<const MemoryAccount*> seen;
  EXPECT_EQ(live(&seen), before + 100);
  EXPECT_TRUE(seen.contains(account));
  NoteFreed(account, MemoryKind::kWriteBatch, 100);
}

TEST(PublishedStatisticsTest, LeavesOutWhatHasNoSpace) {
  std::vector<std::shared_ptr<Statistics>> all;
  for (size_t i = 0; i < PublishedStatistics::kEntries + 10; ++i) {
    all.push_back(CreateDBStatistics());
    all.back()->recordTick(Ticker::kNumberKeysRead, 1);
    EXPECT_EQ(all.back()->getTickerCount(Ticker::kNumberKeysRead), 1u);
  }
  const PublishedStatistics* const page = FindPage();
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(Used(*page), PublishedStatistics::kEntries);
  all.clear();
  EXPECT_EQ(Used(*page), 0u);
}

TEST(PublishedStatisticsTest, ThreadsMayCreateThem) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) CreateDBStatistics();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const PublishedStatistics* const page = FindPage();
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(Used(*page), 0u);
}

}  // namespace
}  // namespace varve
