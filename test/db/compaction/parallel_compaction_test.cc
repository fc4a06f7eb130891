// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the parts of a compaction, for which its thread waits, do not run at
// low priority. Method: an Env that notes where they go. How parts are run is
// tested in db_background_test.cc.

#include "db/compaction/parallel_compaction.h"

#include "test/testing/test_headers.h"
#include "varve/env.h"

namespace varve {
namespace {

TEST(ParallelCompactionTest, PartsDoNotRunAtLowPriority) {
  class PriorityEnv final : public EnvWrapper {
   public:
    PriorityEnv() : EnvWrapper(Env::Default()) {}
    Status Schedule(std::function<void()> work, Priority priority) override {
      priorities.push_back(priority);
      return EnvWrapper::Schedule(std::move(work), priority);
    }
    std::vector<Priority> priorities;
  } env;
  RunParts(&env, 3, [](size_t) {});
  EXPECT_EQ(env.priorities,
            std::vector<Env::Priority>(2, Env::Priority::kMedium));
}

}  // namespace
}  // namespace varve
