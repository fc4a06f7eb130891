// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// For tests in which many calls of the operating system fail one after the
// other: an Env in memory, plans of failures, and power cuts.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/status.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {

// A base for one run of random steps.
class ManyFaultsSession {
 public:
  ManyFaultsSession(const ManyFaultsSession&) = delete;
  ManyFaultsSession& operator=(const ManyFaultsSession&) = delete;

 protected:
  static constexpr OperationMask kChangingOperations =
      kCreateOperation | kWriteOperation | kSyncOperation | kCloseOperation |
      kRenameOperation | kSyncDirectoryOperation;

  explicit ManyFaultsSession(uint64_t seed)
      : rng_(seed),
        memory_(NewMemoryEnv(Env::Default())),
        faulty_(memory_.get()) {}
  ~ManyFaultsSession() = default;

  // Until one fails.
  template <typename Step>
  void RunSteps(int steps, Step step) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) step();
  }

  struct Choice {
    unsigned weight;
    std::function<void()> run;
  };
  // Runs one of these, by the weights.
  void DoOneOf(const std::vector<Choice>& choices) {
    unsigned sum = 0;
    for (const Choice& choice : choices) sum += choice.weight;
    uint64_t at = rng_.Below(sum);
    for (const Choice& choice : choices) {
      if (at < choice.weight) return choice.run();
      at -= choice.weight;
    }
  }

  struct Plan {
    std::string path;           // Part of the names of the files that fail.
    uint64_t within_calls = 1;  // One among this many fails first.
    OperationMask operations = kAllOperations;
    uint64_t lasting_one_in = 4;  // So seldom all after it fail as well.
    Status status = FaultInjectionEnv::InjectedError();
  };
  void PlanFailure(const Plan& plan) {
    faulty_.SetPathFilter(plan.path);
    FailureOptions how;
    how.once = !rng_.OneIn(plan.lasting_one_in);
    how.partial_append = rng_.OneIn(2);
    faulty_.FailAfter(rng_.Below(plan.within_calls), plan.status,
                      plan.operations, how);
  }

  // Failures that were planned may meet the call; then once more without.
  template <typename Call>
  Status TryTwice(Call call) {
    const Status status = call();
    if (status.ok()) return status;
    faulty_.ClearFailure();
    return call();
  }
  // All of the database's entries, read so.
  EntryList Read(DB* db) {
    EntryList entries;
    EXPECT_TRUE(Ok(TryTwice([&] { return ScanForward(db, {}, &entries); })));
    return entries;
  }

  // The power goes, then close() lets go of all that is open.
  template <typename Close>
  void CutPower(Close close) {
    faulty_.SetFilesystemActive(false);
    close();
    CrashOptions crash;
    crash.seed = rng_.Next();
    crash.lose_everything_unsynced = rng_.OneIn(3);
    ASSERT_TRUE(Ok(faulty_.CrashAndReset(crash)));
    faulty_.SetPathFilter("");
  }

  Rng rng_;
  const std::unique_ptr<Env> memory_;
  FaultInjectionEnv faulty_;
};

}  // namespace varve::test
