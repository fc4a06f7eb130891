// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: unsanitized
//
// Goal: a container that refuses system calls which the engine can do without
// costs speed, and no function. Method: a filter of system calls in a child
// process, and a life of a database in it.

#include <sys/syscall.h>

#include "test/testing/db_helpers.h"
#include "test/testing/env/refuse_system_calls.h"
#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "varve/checkpoint.h"

namespace varve::test {
namespace {

// Not among these: membarrier, which the process may have used by now. The test
// program `without` refuses it from the beginning.
const std::vector<long>& OptionalCalls() {
  static const std::vector<long> calls = {
#ifdef SYS_link
      SYS_link,
#endif
      SYS_linkat,
      SYS_fallocate,
      SYS_sync_file_range,
      SYS_fadvise64,
      SYS_madvise,
      SYS_statx,
      SYS_statfs,
      SYS_fstatfs,
      SYS_readahead,
      SYS_eventfd2,
      SYS_io_uring_setup,
      SYS_io_uring_enter,
      SYS_io_uring_register,
      SYS_sched_getaffinity,
      SYS_sched_setaffinity,
      SYS_getpriority,
      SYS_setpriority,
      SYS_getcpu,
      SYS_kill,
  };
  return calls;
}

class DbSandboxTest : public DbTestBase {
 protected:
  void Live() {
    Open();
    const std::string value(1000, 'v');
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(Ok(db_->Put({.sync = i % 10 == 0}, Key(i), value)));
    }
    CompactAll();
    Put("logged", "1");
    std::unique_ptr<Checkpoint> checkpoint;
    ASSERT_TRUE(Ok(Checkpoint::Create(db_.get(), &checkpoint)));
    ASSERT_TRUE(Ok(checkpoint->CreateCheckpoint(dir_.Sub("copy"))));
    for (const auto& entry :
         std::filesystem::directory_iterator(dir_.Sub("copy"))) {
      EXPECT_EQ(std::filesystem::hard_link_count(entry), 1u);
    }
    EntryList expected;
    ASSERT_TRUE(Ok(ScanForward(db_.get(), {}, &expected)));
    EXPECT_EQ(expected.size(), 301u);
    Reopen();
    EXPECT_TRUE(HasEntries(db_.get(), expected));
    Close();
    std::unique_ptr<DB> copy;
    ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("copy"), &copy)));
    EXPECT_TRUE(HasEntries(copy.get(), expected));
    ASSERT_TRUE(Ok(copy->Close()));
    ASSERT_TRUE(Ok(RepairDB(path_, options_)));
    Open();
    EXPECT_TRUE(HasEntries(db_.get(), expected));
    Close();
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
  }
};

TEST_F(DbSandboxTest, AllWorksWithoutOptionalSystemCalls) {
  for (const int error : {EPERM, ENOSYS, EACCES, EOPNOTSUPP}) {
    for (const bool direct : {false, true}) {
      options_.use_direct_reads = direct;
      std::filesystem::remove_all(path_);
      std::filesystem::remove_all(dir_.Sub("copy"));
      EXPECT_EQ(RunForked([this, error] {
                  if (!RefuseSystemCalls(OptionalCalls(), error)) return 2;
                  Live();
                  return HasFailure() ? 1 : 0;
                }),
                0)
          << error << " " << direct;
    }
  }
}

}  // namespace
}  // namespace varve::test
