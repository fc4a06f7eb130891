// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: after kill -9 at any moment, transactions are whole, all that committed
// are there, and so are all that were prepared, none of them twice. Method:
// this program starts itself as a worker, whose threads are the tellers of a
// bank (test/testing/transaction/bank.h). It is killed at random moments, and
// the bank is opened again and checked. VARVE_KILLS sets how often.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/testing/machine/shared_memory.h"
#include "test/testing/run_tool.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "test/testing/transaction/bank.h"

namespace varve::test {
namespace {

struct Mode {
  const char* name;  // The directory has it too, so that the worker knows it.
  BankKind kind;
  WriteMethod method;
};
constexpr Mode kModes[] = {
    {"Optimistic", BankKind::kOptimistic, WriteMethod::kCall},
    {"Locked", BankKind::kLocked, WriteMethod::kCall},
    {"TwoPhase", BankKind::kTwoPhase, WriteMethod::kCall},
    {"TwoPhaseMapped", BankKind::kTwoPhase, WriteMethod::kMap}};

Options OptionsFor(const Mode& mode) {
  Options options = TinyOptions();
  options.wal_write = mode.method;
  return options;
}

// The worker: moves money until it is killed.
int Work(const std::string& place, const Mode& mode) {
  auto* const ledger = MapShared<BankLedger>(place + "/ledger");
  BankDb bank(mode.kind);
  const Status opened = bank.TryOpen(OptionsFor(mode), place + "/db");
  if (!opened.ok()) {
    fprintf(stderr, "%s\n", opened.ToString().c_str());
    return 1;
  }
  RunThreads(BankLedger::kTellers, [&](int i) {
    BankTeller teller(&bank, ledger, i, static_cast<uint64_t>(getpid() + i),
                      /*waits=*/true, /*unsynced=*/false);
    while (!teller.is_full()) {
      const Status status = teller.Step();
      if (!status.ok()) {
        fprintf(stderr, "%s\n", status.ToString().c_str());
        _exit(1);
      }
    }
    for (;;) pause();
  });
  return 1;
}

constexpr const char* kWorkerVariable = "VARVE_TRANSACTION_KILL_TEST_WORKER";

class TransactionKillTest : public ::testing::TestWithParam<Mode> {};

// Run by the tests below in a process of its own; by itself it does nothing.
TEST(TransactionKillWorkerTest, Work) {
  const char* work = getenv(kWorkerVariable);
  if (work == nullptr) return;
  const std::string place = work;
  for (const Mode& mode : kModes) {
    if (place.ends_with(std::string("/") + mode.name)) {
      _exit(Work(place, mode));
    }
  }
  _exit(2);
}

// One bank, over some kills.
void RunBank(const std::string& place, const Mode& mode, int kills, Rng* rng) {
  auto* const ledger = MapShared<BankLedger>(place + "/ledger");
  BankDb bank(mode.kind);
  BankAudit audit(&bank, ledger);
  ASSERT_TRUE(Ok(bank.TryOpen(OptionsFor(mode), place + "/db")));
  ASSERT_NO_FATAL_FAILURE(BankAudit::OpenAccounts(&bank));
  bank.Close();
  for (int kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE("kill " + std::to_string(kill));
    const int before = ledger->CountBegun();
    setenv(kWorkerVariable, place.c_str(), 1);
    RunningTool worker(
        {"/proc/self/exe", "--gtest_filter=TransactionKillWorkerTest.Work"});
    unsetenv(kWorkerVariable);
    // The kill comes after some transfers, or while it opens.
    const int least = rng->OneIn(4) ? before : before + rng->Between(1, 300);
    const auto timeout =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (ledger->CountBegun() < least &&
           std::chrono::steady_clock::now() < timeout) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    worker.Kill();
    const ToolResult& result = worker.Wait();
    ASSERT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
    ASSERT_TRUE(Ok(bank.TryOpen(OptionsFor(mode), place + "/db")));
    ASSERT_NO_FATAL_FAILURE(audit.Check(rng));
    bank.Close();
  }
  printf("%d transfers, %" PRIu64 " settled after a kill\n",
         ledger->CountBegun(), audit.settled());
  munmap(ledger, sizeof(BankLedger));
}

TEST_P(TransactionKillTest, LeavesWholeTransactions) {
  constexpr int kKillsOfABank = 10;
  const Mode& mode = GetParam();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  const int kills = EnvironmentInt("VARVE_KILLS", kKillsOfABank);
  for (int kill = 0; kill < kills; kill += kKillsOfABank) {
    TempDir dir;
    const std::string place = dir.Sub(mode.name);
    ASSERT_EQ(mkdir(place.c_str(), 0755), 0);
    ASSERT_NO_FATAL_FAILURE(RunBank(place, mode, kKillsOfABank, &rng));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TransactionKillTest,
                         ::testing::ValuesIn(kModes),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace varve::test
