// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: `varve top` shows what another process does with a database, exactly,
// and that process executes nothing for it. Method: watch a child that writes,
// one that waits, and one that is stopped.

#include <signal.h>
#include <sys/wait.h>

#include "monitoring/memory_accounting.h"
#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "tools/varve/top/foreign_statistics.h"

namespace varve {
namespace {

using testing::HasSubstr;

constexpr int kKeys = 1000;

class VarveTopTest : public test::VarveCommandTest {
 protected:
  // Runs in the child. Its database is never closed.
  bool OpenAndWrite(int databases = 1) {
    for (int i = 0; i < databases; ++i) {
      const std::string path = i == 0 ? Db() : Db() + std::to_string(i);
      Options options;
      options.create_if_missing = true;
      auto* const db = new std::unique_ptr<DB>;
      if (!DB::Open(options, path, db).ok()) return false;
      for (int key = 0; key < kKeys; ++key) {
        if (!(*db)->Put(WriteOptions(), std::to_string(key), "v").ok()) {
          return false;
        }
      }
      if (!(*db)->Flush(FlushOptions()).ok()) return false;
      std::string value;
      if (!(*db)->Get(ReadOptions(), "1", &value).ok()) return false;
      db_ = db->get();
    }
    return true;
  }
  static std::string ProcFile(pid_t pid, const std::string& name) {
    return test::ReadWholeFile("/proc/" + std::to_string(pid) + "/" + name);
  }

  DB* db_ = nullptr;
};

TEST_F(VarveTopTest, ReadsExactCounts) {
  test::ForkedHolder child([&] { return OpenAndWrite(3); });
  ASSERT_TRUE(child.ok());
  ForeignStatistics statistics(static_cast<uint64_t>(child.pid()));
  const Status status = statistics.Read();
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto total = statistics.Total();
  EXPECT_EQ(total->getTickerCount(Ticker::kNumberKeysWritten), 3u * kKeys);
  EXPECT_EQ(total->getTickerCount(Ticker::kNumberKeysRead), 3u);
  EXPECT_EQ(total->histogramData(HistogramType::kFlushTime).count, 3u);
  EXPECT_GT(total->histogramData(HistogramType::kFlushTime).percentile99, 0);
  EXPECT_GE(statistics.count(), 3u);
  ASSERT_TRUE(statistics.Read().ok());
  const auto none = statistics.SinceLast();
  EXPECT_EQ(none->getTickerCount(Ticker::kNumberKeysWritten), 0u);
  EXPECT_EQ(none->histogramData(HistogramType::kFlushTime).count, 0u);
}

TEST_F(VarveTopTest, SeesWhatHappensMeanwhile) {
  test::ForkedHolder child([&] {
    if (!OpenAndWrite()) return false;
    std::thread([db = db_] {
      while (db->Put(WriteOptions(), "k", "v").ok()) {
      }
    }).detach();
    return true;
  });
  ASSERT_TRUE(child.ok());
  ForeignStatistics statistics(static_cast<uint64_t>(child.pid()));
  uint64_t written = 0;
  while (written < 100000) {
    ASSERT_TRUE(statistics.Read().ok());
    const auto since = statistics.SinceLast();
    written += since->getTickerCount(Ticker::kNumberKeysWritten);
    const auto time = since->histogramData(HistogramType::kDbWrite);
    EXPECT_EQ(time.count > 0, time.percentile99 > 0);
  }
}

// Of this process, which does nothing else meanwhile.
TEST_F(VarveTopTest, ReadsTheMemoryOfAllThreads) {
  ASSERT_TRUE(OpenAndWrite(2));
  for (int i = 0; i < 3; ++i) {
    // The memory of a thread that has ended is still there.
    std::thread([db = db_, i] {
      const std::string value(100000, 'v');
      for (int key = 0; key < 10; ++key) {
        EXPECT_TRUE(
            db->Put(WriteOptions(), std::to_string(i * 10 + key), value).ok());
      }
    }).join();
  }
  ForeignStatistics statistics(static_cast<uint64_t>(getpid()));
  ASSERT_TRUE(statistics.Read().ok());
  MemoryCounts kinds[kMemoryKinds];
  MemoryByKind(kinds);
  for (int i = 0; i < kMemoryKinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    EXPECT_EQ(statistics.memory_bytes(kind), kinds[i].live())
        << MemoryKindName(kind);
  }
  EXPECT_GE(statistics.memory_bytes(MemoryKind::kMemTable), 3000000u);
  EXPECT_GT(statistics.memory_bytes(MemoryKind::kBlock), 0u);
}

// What is stopped executes nothing.
TEST_F(VarveTopTest, ReadsAProcessThatIsStopped) {
  test::ForkedHolder child([&] { return OpenAndWrite(); });
  ASSERT_TRUE(child.ok());
  ASSERT_EQ(kill(child.pid(), SIGSTOP), 0);
  int state = 0;
  ASSERT_EQ(waitpid(child.pid(), &state, WUNTRACED), child.pid());
  ASSERT_TRUE(WIFSTOPPED(state));
  const std::string before = ProcFile(child.pid(), "stat");
  const std::string calls = ProcFile(child.pid(), "io");
  const test::CommandOutcome text = RunHere({"top", "--once"});
  EXPECT_TRUE(test::Ended(text, kExitOk,
                          {"process ", "\nMiB memtable ", "wal_sync",
                           "cache_hits", "\n    0       1 "}))
      << text.out;
  const test::CommandOutcome json = RunHere({"top", "--once", "--json"});
  EXPECT_THAT(json.out,
              HasSubstr("{\"pid\":" + std::to_string(child.pid()) + ","));
  EXPECT_THAT(json.out, HasSubstr("\"background_errors\":0,\"memtable_"));
  EXPECT_THAT(json.out, HasSubstr(",\"get\":0,"));
  EXPECT_THAT(json.out, HasSubstr("\"index_and_filter_memory_bytes\":"));
  EXPECT_THAT(json.out, HasSubstr("\"levels\":[{\"tables\":1,\"bytes\":"));
  // Times of the processor, faults, and calls.
  EXPECT_EQ(ProcFile(child.pid(), "stat"), before);
  EXPECT_EQ(ProcFile(child.pid(), "io"), calls);
  kill(child.pid(), SIGCONT);
}

TEST_F(VarveTopTest, SaysWhyThereIsNothingToSee) {
  EXPECT_TRUE(test::Ended(RunHere({"top", "--once"}), kExitFailure, {},
                          {"no database in"}));
  Put("0x61", "0x62");
  EXPECT_TRUE(test::Ended(RunHere({"top", "--once"}), kExitFailure, {},
                          {"is open in no process"}));
  EXPECT_EQ(RunHere({"top", "--once", "--interval=0"}).exit_code, kExitUsage);
  ForeignStatistics none(1u << 30);
  EXPECT_TRUE(none.Read().IsNotFound());
}

TEST_F(VarveTopTest, EndsWithTheProcess) {
  std::optional<test::ForkedHolder> child([&] { return OpenAndWrite(); });
  ASSERT_TRUE(child->ok());
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  std::thread watcher([&] {
    FILE* const out = fdopen(ends[1], "w");
    EXPECT_EQ(RunVarve({"top", "--db=" + Db()}, out, stderr), kExitOk);
    fclose(out);
  });
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);  // The first view is there.
  child.reset();
  while (read(ends[0], &byte, 1) == 1) {
  }
  watcher.join();
  close(ends[0]);
}

}  // namespace
}  // namespace varve
