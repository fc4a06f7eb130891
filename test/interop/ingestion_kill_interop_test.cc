// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB can ingest tables into one directory in turn, and are
// killed while they do it; each finds all of every ingestion or nothing, and
// all of those that had returned. Method: a child ingests numbered tables,
// which either engine has written, and is killed after a random number of them.
// The other engine opens what is left, checks it, and is the next child.
// VARVE_SESSIONS sets the number of sessions.

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>

#include "test/interop/engines.h"

namespace varve::test {
namespace {

constexpr int kKeysOfATable = 10;

struct Progress {
  std::atomic<int> attempted;  // The number of the last ingestion begun.
  std::atomic<int> done;       // Of the last one that has returned.
};

class IngestionKillInteropTest : public ::testing::Test {
 protected:
  IngestionKillInteropTest()
      : random_(TestSeed()),
        path_(dir_.Sub("db")),
        progress_(static_cast<Progress*>(
            mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~IngestionKillInteropTest() override { munmap(progress_, sizeof(Progress)); }

  // Table n has keys of its own, and one that all tables have.
  static std::vector<Update> UpdatesOf(int n) {
    std::vector<Update> updates;
    const std::string number = std::to_string(n);
    for (int i = 0; i < kKeysOfATable; ++i) {
      updates.push_back({.key = Key(n * kKeysOfATable + i), .value = number});
    }
    updates.push_back({.key = "shared", .value = number});
    return updates;
  }

  // For the child: ingests tables until it is killed.
  void Work(bool is_varve, int next, uint64_t seed) {
    Rng random(seed);
    EnginePair engines(&random);
    Engine* const engine =
        is_varve ? static_cast<Engine*>(&engines.varve) : &engines.rocksdb;
    engine->Open(path_, Setting(), {kDefaultColumnFamilyName});
    for (int n = next; !HasFailure(); ++n) {
      const std::string file = dir_.Sub("table");
      std::filesystem::remove(file);
      Engine* const writer = random.OneIn(2)
                                 ? static_cast<Engine*>(&engines.varve)
                                 : &engines.rocksdb;
      writer->WriteTable(kDefaultColumnFamilyName, file, UpdatesOf(n));
      // So that a flush is needed in some.
      engine->Write({{.key = random.OneIn(2) ? "shared" : "apart",
                      .value = "of a write"}},
                    false);
      progress_->attempted = n;
      engine->Ingest(kDefaultColumnFamilyName, {file}, random.OneIn(2));
      progress_->done = n;
    }
    _exit(1);
  }

  // Starts a child, kills it, and returns whether it had worked until then.
  bool RunAndKill(bool is_varve, int next) {
    const uint64_t seed = random_.Next();
    const int wanted = next + random_.Between(0, 12);
    uint64_t yields = random_.Below(random_.OneIn(2) ? 300 : 5000);
    const pid_t child = fork();
    if (child == 0) Work(is_varve, next, seed);
    siginfo_t ended;
    ended.si_pid = 0;
    while (progress_->attempted < wanted && ended.si_pid == 0) {
      sched_yield();
      waitid(P_PID, static_cast<id_t>(child), &ended,
             WEXITED | WNOHANG | WNOWAIT);
    }
    // The child goes on, so that it dies anywhere in the ingestion.
    for (; yields > 0; --yields) sched_yield();
    kill(child, SIGKILL);
    int outcome = 0;
    waitpid(child, &outcome, 0);
    return WIFSIGNALED(outcome) && WTERMSIG(outcome) == SIGKILL;
  }

  // For a child: exits with 0 if the database has what it must have.
  void Check(bool is_varve) {
    Rng random(1);
    EnginePair engines(&random);
    Engine* const engine =
        is_varve ? static_cast<Engine*>(&engines.varve) : &engines.rocksdb;
    engine->Open(path_, Setting(), {kDefaultColumnFamilyName});
    std::map<int, int> keys;  // By table.
    for (const auto& [key, value] :
         engine->Scan(kDefaultColumnFamilyName, nullptr)) {
      if (key.starts_with("key")) ++keys[std::stoi(value)];
    }
    for (int n = 0; n <= progress_->done; ++n) {
      EXPECT_EQ(keys[n], kKeysOfATable) << n;
    }
    const int last = progress_->attempted;
    EXPECT_TRUE(keys[last] == 0 || keys[last] == kKeysOfATable) << last;
    EXPECT_EQ(keys.upper_bound(last), keys.end());
    const std::string shared =
        engine->Get(kDefaultColumnFamilyName, "shared", nullptr);
    EXPECT_TRUE(shared == "of a write" || shared == std::to_string(last) ||
                (last > 0 && shared == std::to_string(last - 1)))
        << shared << ", last " << last;
    engine->Close();
    _exit(HasFailure() ? 1 : 0);
  }
  bool Passes(bool is_varve) {
    const pid_t child = fork();
    if (child == 0) Check(is_varve);
    int outcome = 0;
    waitpid(child, &outcome, 0);
    return WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0;
  }

  TempDir dir_;
  Rng random_;
  const std::string path_;
  Progress* const progress_;
};

TEST_F(IngestionKillInteropTest, AllOrNothingOfEach) {
  const int sessions = EnvironmentInt("VARVE_SESSIONS", 12);
  progress_->attempted = -1;
  progress_->done = -1;
  for (int i = 0; i < sessions; ++i) {
    SCOPED_TRACE("session " + std::to_string(i));
    const bool is_varve = random_.OneIn(2);
    // The one that was being done may be there or not, and is done again.
    ASSERT_TRUE(RunAndKill(is_varve, progress_->done + 1));
    ASSERT_TRUE(Passes(!is_varve))
        << (is_varve ? "Varve" : "RocksDB") << " was killed";
  }
  printf("%d sessions, %d ingestions\n", sessions, progress_->done + 1);
}

}  // namespace
}  // namespace varve::test
