// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: a repair takes bounded memory, however much it has to save, and is
// right about which of several entries counts. Method: damaged tables and logs
// that hold many times the bound, overlapping or side by side; the memory
// accounts at each file that is begun; errors and leftovers.

#include "monitoring/memory_accounting.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/env/hook_env.h"
#include "test/testing/test_headers.h"
#include "util/threads/epoch.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;

// Memtables, and what tables know of themselves.
uint64_t LiveBytes() {
  MemoryCounts kinds[kMemoryKinds];
  MemoryByKind(kinds);
  return kinds[static_cast<int>(MemoryKind::kMemTable)].live() +
         kinds[static_cast<int>(MemoryKind::kIndexAndFilter)].live();
}

bool IsTemporary(const std::string& path) { return path.ends_with(".dbtmp"); }

class RepairMemoryTest : public DbTestBase {
 protected:
  RepairMemoryTest() {
    options_.env = &env_;
    options_.compression = CompressionType::kNone;
    options_.disable_auto_compactions = true;
    options_.write_buffer_size = 512 << 20;
    options_.avoid_flush_during_shutdown = true;
    options_.level0_slowdown_writes_trigger = 1000000;
    options_.level0_stop_writes_trigger = 1000000;
    options_.filter_policy = NewBloomFilterPolicy(10);
  }

  static std::string Value(int table, int i) {
    std::string value(1000, 'v');
    const std::string head =
        std::to_string(table) + " wrote " + std::to_string(i);
    std::copy(head.begin(), head.end(), value.begin());
    return value;
  }

  // Tables of that many entries with the same keys, or with keys side by side,
  // each with one damaged byte.
  void MakeTables(int tables, int entries, bool overlap) {
    Open();
    for (int t = 0; t < tables; ++t) {
      for (int i = 0; i < entries; ++i) {
        const int key = overlap ? i : t * entries + i;
        Put(Key(key), Value(t, key));
      }
      Flush();
    }
    Close();
    Damage();
  }
  void Damage() {
    for (const std::string& table : FilesEndingIn(path_, ".sst")) {
      FlipByte(table, 100);  // In the first block.
    }
  }

  // Repairs, and returns the highest memory.
  uint64_t Repair() {
    TEST_DrainRetired();
    const uint64_t before = LiveBytes();
    uint64_t peak = 0;
    env_.hook = [&](const std::string& path) {
      if (IsTemporary(path)) ++temporary_;
      peak = std::max(peak, LiveBytes() - std::min(LiveBytes(), before));
      return Status::OK();
    };
    EXPECT_TRUE(Ok(RepairDB(path_, options_)));
    env_.hook = nullptr;
    EXPECT_TRUE(FilesEndingIn(path_, ".dbtmp").empty());
    return peak;
  }

  HookEnv env_{kCreateOperation};
  int temporary_ = 0;
};

TEST_F(RepairMemoryTest, DamagedTablesThatOverlap) {
  constexpr int kTables = 220;
  constexpr int kEntries = 170;
  MakeTables(kTables, kEntries, true);  // 37 MB.
  EXPECT_LT(Repair(), uint64_t{28} << 20);
  EXPECT_GT(temporary_, kTables / 2);
  Open();
  // The first block has a few keys.
  for (int i = 8; i < kEntries; ++i) {
    ASSERT_EQ(Get(Key(i)), Value(kTables - 1, i)) << i;
  }
}

TEST_F(RepairMemoryTest, DamagedTablesSideBySide) {
  constexpr int kTables = 60;
  constexpr int kEntries = 600;
  MakeTables(kTables, kEntries, false);  // 36 MB.
  EXPECT_LT(Repair(), uint64_t{28} << 20);
  // None is written twice. CURRENT has a temporary name, too.
  EXPECT_LE(temporary_, kTables + 1);
  Open();
  for (int i = 0; i < kTables * kEntries; ++i) {
    if (i % kEntries < 8) continue;
    ASSERT_EQ(Get(Key(i)), Value(i / kEntries, i)) << i;
  }
}

TEST_F(RepairMemoryTest, ALongLog) {
  constexpr int kEntries = 40000;
  Open();
  for (int i = 0; i < kEntries; ++i) Put(Key(i), Value(0, i));  // 40 MB.
  ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(100), Key(200))));
  ASSERT_TRUE(Ok(db_->SingleDelete({}, Key(300))));
  Put(Key(150), "again");
  Close();
  EXPECT_LT(Repair(), uint64_t{28} << 20);
  EXPECT_GT(temporary_, 0);
  Open();
  for (int i = 0; i < kEntries; ++i) {
    std::string expected = Value(0, i);
    if ((i >= 100 && i < 200) || i == 300) expected = "NotFound";
    if (i == 150) expected = "again";
    ASSERT_EQ(Get(Key(i)), expected) << i;
  }
}

TEST_F(RepairMemoryTest, ManyWholeTablesThatOverlap) {
  constexpr int kTables = 220;
  constexpr int kEntries = 60;
  Open();
  for (int t = 0; t < kTables; ++t) {
    for (int i = 0; i < kEntries; ++i) Put(Key(i), Value(t, i));
    if (t == kTables / 2) {
      ASSERT_TRUE(Ok(db_->DeleteRange({}, Key(0), Key(kEntries))));
    }
    if (t > kTables / 2) Delete(Key(t % kEntries));
    Flush();
  }
  EntryList expected;
  ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &expected)));
  Close();
  ASSERT_TRUE(fs::remove(path_ + "/CURRENT"));
  EXPECT_LT(Repair(), uint64_t{28} << 20);
  EXPECT_GT(temporary_, 0);
  Open();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
}

TEST_F(RepairMemoryTest, ErrorsAtAnyTableLoseNothing) {
  constexpr int kTables = 40;
  constexpr int kEntries = 700;
  MakeTables(kTables, kEntries, true);  // 28 MB.
  int refused = 1;
  for (;; refused *= 3) {
    SCOPED_TRACE(refused);
    int calls = 0;
    env_.hook = [&](const std::string& path) {
      return ++calls == refused ? Status::IOError(path, "refused")
                                : Status::OK();
    };
    const Status status = RepairDB(path_, options_);
    env_.hook = nullptr;
    EXPECT_TRUE(FilesEndingIn(path_, ".dbtmp").empty());
    if (status.ok()) break;
    EXPECT_TRUE(IsIOError(status));
  }
  EXPECT_GT(refused, 9);
  Open();
  for (int i = 8; i < kEntries; ++i) {
    ASSERT_EQ(Get(Key(i)), Value(kTables - 1, i)) << i;
  }
}

TEST_F(RepairMemoryTest, LeftoversOfARepairThatWasKilledGoFirst) {
  MakeTables(3, 300, true);
  WriteWholeFile(path_ + "/000777.dbtmp", std::string("\0half a table", 13));
  WriteWholeFile(path_ + "/7.dbtmp", "a name that is not the engine's");
  env_.hook = [&](const std::string&) {
    EXPECT_FALSE(fs::exists(path_ + "/000777.dbtmp"));
    return Status::OK();
  };
  ASSERT_TRUE(Ok(RepairDB(path_, options_)));
  env_.hook = nullptr;
  EXPECT_TRUE(fs::exists(path_ + "/7.dbtmp"));
}

}  // namespace
}  // namespace varve::test
