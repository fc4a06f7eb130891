// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: after a power cut, transactions are whole, what was committed and
// synced is there, prepared ones are all there, and none is there twice.
// Method: a bank (test/testing/transaction/bank.h) whose tellers take steps in
// a random order on one thread, until a random operation of a file fails and
// the power is cut. VARVE_POWER_CUTS sets how often.

#include "test/testing/test_headers.h"
#include "test/testing/transaction/bank.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {
namespace {

class TransactionBankTest : public ::testing::TestWithParam<BankKind> {
 protected:
  // Works until an operation of a file fails. Returns the number of steps.
  int WorkUntilCut(BankDb* bank, BankLedger* ledger, Rng* rng) {
    std::vector<std::unique_ptr<BankTeller>> tellers;
    for (int i = 0; i < BankLedger::kTellers; ++i) {
      tellers.push_back(std::make_unique<BankTeller>(
          bank, ledger, i, rng->Next(), /*waits=*/false, /*unsynced=*/true));
    }
    int steps = 0;
    Status status;
    while (status.ok()) {
      ++steps;
      if (rng->OneIn(100)) {
        status = bank->db()->Flush({}, bank->FamilyOf(rng->Between(0, 1)));
      } else {
        status = tellers[rng->Below(tellers.size())]->Step();
      }
    }
    EXPECT_TRUE(Contains(status.message(), "/db") || status.IsIOError())
        << status.ToString();
    faulty_->SetFilesystemActive(false);
    for (const auto& teller : tellers) teller->Abandon();
    return steps;
  }

  // One bank, over some power cuts.
  void RunBank(int cuts, Rng* rng) {
    const std::unique_ptr<Env> memory = NewMemoryEnv(Env::Default());
    faulty_ = std::make_unique<FaultInjectionEnv>(memory.get());
    ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
    Options options = TinyOptions();
    options.env = faulty_.get();
    const auto ledger = std::make_unique<BankLedger>();
    BankDb bank(GetParam());
    BankAudit audit(&bank, ledger.get());
    ASSERT_TRUE(Ok(bank.TryOpen(options, "/db/it")));
    ASSERT_NO_FATAL_FAILURE(BankAudit::OpenAccounts(&bank));
    for (int cut = 0; cut < cuts; ++cut) {
      SCOPED_TRACE("cut " + std::to_string(cut));
      faulty_->FailAfter(rng->Below(rng->OneIn(2) ? 100 : 1500),
                         FaultInjectionEnv::InjectedError(), kAllOperations,
                         {.once = false, .partial_append = rng->OneIn(2)});
      ASSERT_GT(WorkUntilCut(&bank, ledger.get(), rng), 0);
      bank.Close();
      faulty_->ClearFailure();
      ASSERT_TRUE(Ok(faulty_->CrashAndReset(
          {.seed = rng->Next(), .lose_everything_unsynced = rng->OneIn(3)})));
      ASSERT_TRUE(Ok(bank.TryOpen(options, "/db/it")));
      ASSERT_NO_FATAL_FAILURE(audit.Check(rng));
      if (rng->OneIn(3)) {
        ASSERT_TRUE(Ok(bank.TryOpen(options, "/db/it")));
        ASSERT_NO_FATAL_FAILURE(audit.Check(rng));
      }
    }
    transfers_ += ledger->CountBegun();
    settled_ += audit.settled();
  }

  std::unique_ptr<FaultInjectionEnv> faulty_;
  int transfers_ = 0;
  uint64_t settled_ = 0;
};

TEST_P(TransactionBankTest, PowerCutsLeaveWholeTransactions) {
  constexpr int kCutsOfABank = 25;
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  const int cuts = EnvironmentInt("VARVE_POWER_CUTS", kCutsOfABank);
  for (int cut = 0; cut < cuts; cut += kCutsOfABank) {
    ASSERT_NO_FATAL_FAILURE(RunBank(kCutsOfABank, &rng));
  }
  printf("%d transfers, %" PRIu64 " settled after a cut\n", transfers_,
         settled_);
  if (GetParam() == BankKind::kTwoPhase) {
    EXPECT_GT(settled_, 0u);
  }
}

std::string NameOf(const ::testing::TestParamInfo<BankKind>& kind) {
  constexpr const char* kNames[] = {"Optimistic", "Locked", "TwoPhase"};
  return kNames[static_cast<size_t>(kind.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, TransactionBankTest,
                         ::testing::Values(BankKind::kOptimistic,
                                           BankKind::kLocked,
                                           BankKind::kTwoPhase),
                         NameOf);

}  // namespace
}  // namespace varve::test
