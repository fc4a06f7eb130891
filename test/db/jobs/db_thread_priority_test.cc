// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: threads of the library have the scheduling of the thread that opened
// the database, whichever thread causes their creation, and only the pool of
// low priority is nicer. No privilege is needed for that. Method: a child
// process without the right to lower nice values, in which threads with other
// values and jobs of each pool schedule jobs of each pool. Each job reports
// what its thread has.

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/forked.h"
#include "test/testing/test_headers.h"
#include "util/base/mutex.h"

namespace varve::test {
namespace {

constexpr int kLowerBy = 10;  // The pool of low priority.

// The scheduling that a new thread inherits.
struct Scheduling {
  bool operator==(const Scheduling&) const = default;

  int nice = 0;
  int io_priority = 0;
  int policy = 0;
  int timer_slack = 0;
  int processors = 0;
};

Scheduling OwnScheduling() {
  constexpr int kThisProcess = 1;  // IOPRIO_WHO_PROCESS, which means a thread.
  Scheduling own;
  own.nice = getpriority(PRIO_PROCESS, 0);
  own.io_priority = static_cast<int>(syscall(SYS_ioprio_get, kThisProcess, 0));
  own.policy = sched_getscheduler(0);
  own.timer_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    own.processors = CPU_COUNT(&set);
  }
  return own;
}

// Gives the calling thread all that is worse.
void BecomeUnimportant() {
  constexpr int kIdleClass = 3 << 13;  // IOPRIO_CLASS_IDLE
  EXPECT_EQ(setpriority(PRIO_PROCESS, 0, 17), 0);
  EXPECT_EQ(syscall(SYS_ioprio_set, 1, 0, kIdleClass), 0);
  const sched_param parameters = {};
  EXPECT_EQ(sched_setscheduler(0, SCHED_BATCH, &parameters), 0);
  EXPECT_EQ(prctl(PR_SET_TIMERSLACK, 5000000, 0, 0, 0), 0);
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_COUNT(&set) > 1) CPU_CLR(i, &set);
  }
  EXPECT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

void RunOnAnUnimportantThread(const std::function<void()>& run) {
  std::thread([&run] {
    BecomeUnimportant();
    run();
  }).join();
}

// A job's thread, by the nice value of the opener.
void ExpectScheduling(Env::Priority priority, const Scheduling& opener) {
  Scheduling own = OwnScheduling();
  if (priority == Env::Priority::kLow) {
    EXPECT_EQ(own.nice, std::min(opener.nice + kLowerBy, 19));
    // The default I/O priority follows the nice value.
    own.nice = opener.nice;
    own.io_priority = opener.io_priority;
  }
  EXPECT_EQ(own.nice, opener.nice);
  EXPECT_EQ(own.io_priority, opener.io_priority);
  EXPECT_EQ(own.policy, opener.policy);
  EXPECT_EQ(own.timer_slack, opener.timer_slack);
  EXPECT_EQ(own.processors, opener.processors);
}

constexpr Env::Priority kPools[] = {Env::Priority::kLow, Env::Priority::kMedium,
                                    Env::Priority::kHigh};

// Schedules a job of each pool that schedules one of each pool, and so on down
// to `depth`. `done` counts the jobs.
void ScheduleChains(int depth, const Scheduling& opener,
                    std::atomic<int>* done) {
  for (const Env::Priority priority : kPools) {
    EXPECT_TRUE(Ok(Env::Default()->Schedule(
        [=, &opener] {
          ExpectScheduling(priority, opener);
          if (depth > 1) ScheduleChains(depth - 1, opener, done);
          ++*done;
          done->notify_all();
        },
        priority)));
  }
}

void RunChains(const Scheduling& opener) {
  std::atomic<int> done{0};
  ScheduleChains(3, opener, &done);
  for (int now = done; now != 3 + 9 + 27; now = done) done.wait(now);
}

// Checks the nice values of the library's threads by their names. Returns the
// number of these threads.
int ExpectNiceOfThreads(int opener_nice) {
  int count = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (!name.starts_with("varve:")) continue;
    const int thread = std::stoi(task.path().filename());
    const int expected =
        opener_nice + (name.starts_with("varve:low") ? kLowerBy : 0);
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(thread)),
              std::min(expected, 19))
        << name;
    ++count;
  }
  return count;
}

class DbThreadPriorityTest : public DbTestBase {
 protected:
  // Runs `body` in a child that cannot lower nice values.
  static void RunWithoutPrivilege(const std::function<void()>& body) {
    EXPECT_EQ(RunForked([&body] {
                // CAP_SYS_NICE is 23. Root may not have it either.
                prctl(PR_CAPBSET_DROP, 23, 0, 0, 0);
                const rlimit none = {0, 0};
                if (setrlimit(RLIMIT_NICE, &none) != 0) return 2;
                if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
                  return 3;
                }
                body();
                return HasFailure() ? 1 : 0;
              }),
              0);
  }

  void SetUp() override {
    std::filesystem::permissions(dir_.path(), std::filesystem::perms::all);
  }

  // Uses the database from a thread that is less important.
  void Use() {
    RunOnAnUnimportantThread([this] {
      for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 500; ++i) Put(Key(i), std::string(500, 'v'));
        Flush();
      }
      CompactAll();
    });
  }
};

TEST_F(DbThreadPriorityTest, IsTheOpenersWhoeverSchedules) {
  RunWithoutPrivilege([this] {
    // Unlike what a thread has by default.
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 3), 0);
    ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 70000, 0, 0, 0), 0);
    const Scheduling opener = OwnScheduling();
    Open();
    Use();
    RunOnAnUnimportantThread([&opener] { RunChains(opener); });
    RunChains(opener);
    EXPECT_GE(ExpectNiceOfThreads(opener.nice), 4);
    Close();
  });
}

// Notes the priorities of compactions. Its clock is ahead by a chosen time.
class NotingEnv final : public EnvWrapper {
 public:
  NotingEnv() : EnvWrapper(Env::Default()) {}
  Status Schedule(std::function<void()> work, Priority priority) override {
    if (priority != Priority::kHigh) {
      MutexLock lock(&mutex_);
      compactions_.push_back(priority);
    }
    return EnvWrapper::Schedule(std::move(work), priority);
  }
  uint64_t NowNanos() override {
    return EnvWrapper::NowNanos() + ahead_us_ * 1000;
  }
  void Pass(uint64_t duration_us) { ahead_us_ += duration_us; }
  std::vector<Priority> TakeCompactions() {
    MutexLock lock(&mutex_);
    return std::exchange(compactions_, {});
  }

 private:
  std::atomic<uint64_t> ahead_us_{0};
  Mutex mutex_;
  std::vector<Priority> compactions_ VARVE_GUARDED_BY(mutex_);
};

TEST_F(DbThreadPriorityTest, OfCompactionsFollowsTheWriters) {
  NotingEnv env;
  options_.env = &env;
  options_.write_buffer_size = 1 << 20;
  options_.level0_file_num_compaction_trigger = 2;
  for (const bool is_quiet : {false, true}) {
    SCOPED_TRACE(is_quiet);
    options_.disable_auto_compactions = true;
    OpenAnew();
    for (int files = 0; files < 2; ++files) {
      for (int i = 0; i < 800; ++i) Put(Key(i), std::string(1000, 'v'));
      Flush();
    }
    if (is_quiet) env.Pass(600 * uint64_t{1000000});
    EXPECT_TRUE(env.TakeCompactions().empty());
    ASSERT_TRUE(Ok(db_->SetOptions({{"disable_auto_compactions", "false"}})));
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    const auto compactions = env.TakeCompactions();
    ASSERT_FALSE(compactions.empty());
    EXPECT_EQ(compactions.front(),
              is_quiet ? Env::Priority::kLow : Env::Priority::kMedium);
    Close();
  }
}

TEST_F(DbThreadPriorityTest, IsThatOfTheMostImportantOpener) {
  RunWithoutPrivilege([this] {
    const Scheduling own = OwnScheduling();
    RunOnAnUnimportantThread([this, nice = own.nice] {
      Open();
      Use();
      EXPECT_GE(ExpectNiceOfThreads(nice + 17), 3);
      RunChains(OwnScheduling());
    });
    std::unique_ptr<DB> second;
    ASSERT_TRUE(Ok(DB::Open(options_, dir_.Sub("second"), &second)));
    RunChains(own);
    // An opener of less importance changes nothing.
    RunOnAnUnimportantThread([this, &own] {
      Reopen();
      RunChains(own);
    });
    Use();
    RunChains(own);
    Close();
  });
}

}  // namespace
}  // namespace varve::test
