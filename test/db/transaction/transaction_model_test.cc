// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: each call of a transaction returns what its definition says. Method:
// random calls of several transactions and plain writes, beside a model that
// keeps all versions of all keys, and a set of locks.
// VARVE_MODEL_RUNS sets the number of runs.

#include "test/testing/test_headers.h"
#include "test/testing/transaction/transaction_calls.h"

namespace varve::test {
namespace {

class TransactionModelTest : public ::testing::TestWithParam<bool> {};

TEST_P(TransactionModelTest, CallsReturnWhatTheModelReturns) {
  constexpr int kCalls = 1500;
  const uint64_t seed = TestSeed();
  const int runs = EnvironmentInt("VARVE_MODEL_RUNS", 20);
  for (int run = 0; run < runs && !HasFailure(); ++run) {
    const uint64_t run_seed = seed + static_cast<uint64_t>(run);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(run_seed));
    Rng rng(run_seed);
    const std::unique_ptr<Env> memory = NewMemoryEnv(Env::Default());
    Options options = TinyOptions();
    options.env = memory.get();
    ASSERT_TRUE(Ok(memory->CreateDirIfMissing("/db")));
    VarveTransactions varve(GetParam(), "/db/it", options);
    if (HasFailure()) return;
    CompareTransactions(&varve, GetParam(), true, kCalls, &rng);
  }
  printf("%d calls\n", runs * kCalls);
}

std::string NameOf(const ::testing::TestParamInfo<bool>& optimistic) {
  return optimistic.param ? "Optimistic" : "Locking";
}

INSTANTIATE_TEST_SUITE_P(Kinds, TransactionModelTest, ::testing::Bool(),
                         NameOf);

}  // namespace
}  // namespace varve::test
