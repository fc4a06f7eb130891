// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads variants
//
// Goal: nothing that is added is lost or added twice, on each path, however
// threads are moved between processors and interrupted; memory is used where
// something was added; and the path is the one that the machine offers.
// Method: exact sums after many threads have ticked, under migration and under
// a storm of signals; and this program once more where the C library was told
// not to register its threads.
#include "util/threads/per_cpu.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "test/testing/machine/migration.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr size_t kCells = 2000;  // Four pages a set.
using Cells = PerCpuCells<kCells>;

// All that work here.
std::vector<PerCpuPath> Paths() {
  std::vector<PerCpuPath> paths;
  for (int i = static_cast<int>(BestPerCpuPath());
       i <= static_cast<int>(PerCpuPath::kAtomic); i++) {
    paths.push_back(static_cast<PerCpuPath>(i));
  }
  return paths;
}

TEST(PerCpuTest, AddsToTheCellThatIsNamed) {
  for (const PerCpuPath path : Paths()) {
    SCOPED_TRACE(PerCpuPathName(path));
    Cells cells(path);
    EXPECT_EQ(cells.path(), path);
    for (size_t i = 0; i < kCells; i++) EXPECT_EQ(cells.Sum(i), 0u);
    for (size_t i = 0; i < kCells; i++) cells.Add(i, i);
    for (size_t i = 0; i < kCells; i++) cells.Add(i, uint64_t{1} << 40);
    for (size_t i = 0; i < kCells; i++) {
      EXPECT_EQ(cells.Sum(i), (uint64_t{1} << 40) + i);
    }
    cells.Add(3, ~uint64_t{0});
    EXPECT_EQ(cells.Sum(3), (uint64_t{1} << 40) + 2) << "modulo 2^64";
  }
}

TEST(PerCpuTest, RecordsBoundsAndCount) {
  for (const PerCpuPath path : Paths()) {
    SCOPED_TRACE(PerCpuPathName(path));
    Cells cells(path);
    const uint64_t values[] = {500, 7, 7, ~uint64_t{0} - 1, 0, 90};
    for (const uint64_t value : values) cells.Record(10, 900, value);
    EXPECT_EQ(cells.Sum(900), std::size(values));
    uint64_t largest = 0;
    uint64_t complement = 0;
    for (size_t i = 0; i < cells.set_count(); i++) {
      largest = std::max(largest, cells.set(i)[10].load());
      complement = std::max(complement, cells.set(i)[11].load());
    }
    EXPECT_EQ(largest, ~uint64_t{0} - 1);
    EXPECT_EQ(~complement, 0u);
    EXPECT_EQ(cells.Sum(9), 0u);
    EXPECT_EQ(cells.Sum(12), 0u);
  }
}

TEST(PerCpuTest, LosesNothingUnderMigration) {
  constexpr int kThreads = 64;
  constexpr uint64_t kAdds = 1000000;
  const uint64_t seed = test::TestSeed();
  for (const PerCpuPath path : Paths()) {
    SCOPED_TRACE(PerCpuPathName(path));
    Cells cells(path);
    constexpr int kRounds = 100;
    const uint64_t moves =
        test::RunMigrating(kThreads, kRounds, seed, [&](int i, int) {
          const size_t own = 100 + static_cast<size_t>(i);
          for (uint64_t n = 0; n < kAdds / kRounds; n++) {
            cells.Add(1, 1);
            if (n % 16 == 0) cells.Record(2, own, n);
          }
        });
    printf("%s: %llu moves, %llu to the overflow\n", PerCpuPathName(path),
           static_cast<unsigned long long>(moves),
           static_cast<unsigned long long>(cells.TEST_overflow_count()));
    EXPECT_EQ(cells.Sum(1), kThreads * kAdds);
    for (size_t i = 0; i < kThreads; i++) {
      EXPECT_EQ(cells.Sum(100 + i), kAdds / 16);
    }
  }
}

// ---- Interruptions ----------------------------------------------------------

TEST(PerCpuTest, LosesNothingInAStormOfSignals) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  for (const PerCpuPath path : Paths()) {
    SCOPED_TRACE(PerCpuPathName(path));
    Cells cells(path);
    constexpr uint64_t kAdds = 3000000;
    std::atomic<bool> done = false;
    std::thread worker([&] {
      for (uint64_t n = 0; n < kAdds; n++) cells.Add(1, 2);
      for (uint64_t n = 0; n < kAdds; n++) cells.Record(2, 4, n);
      done = true;
      while (done) std::this_thread::yield();
    });
    uint64_t signals = 0;
    while (!done) {
      pthread_kill(worker.native_handle(), SIGUSR1);
      signals++;
    }
    done = false;
    worker.join();
    printf("%s: %llu signals\n", PerCpuPathName(path),
           static_cast<unsigned long long>(signals));
    EXPECT_EQ(cells.Sum(1), 2 * kAdds);
    EXPECT_EQ(cells.Sum(4), kAdds);
  }
  sigaction(SIGUSR1, &before, nullptr);
}

// ---- Memory -----------------------------------------------------------------

TEST(PerCpuTest, UsesMemoryWhereSomethingWasAdded) {
  for (const PerCpuPath path : Paths()) {
    SCOPED_TRACE(PerCpuPathName(path));
    Cells cells(path);
    EXPECT_EQ(cells.reserved_bytes(), cells.set_count() * 4 * 4096);
    EXPECT_EQ(cells.used_bytes(), 0u);
    cells.Add(1, 1);
    EXPECT_EQ(cells.used_bytes(), 4096u);
    cells.Add(kCells - 1, 1);
    // From another set, if the thread was moved in between.
    EXPECT_EQ(cells.used_bytes(), 2 * 4096u);
  }
}

TEST(PerCpuTest, HasASetForEachCpu) {
  for (const int cpu : test::AllowedCpus()) {
    EXPECT_LT(static_cast<size_t>(cpu), PossibleCpus());
  }
  EXPECT_EQ(Cells().set_count(), PossibleCpus() + 1);
}

// ---- Which path -------------------------------------------------------------

constexpr const char* kExpectAtomic = "VARVE_TEST_EXPECT_ATOMIC_PATH";

TEST(PerCpuTest, TakesThePathThatThereIs) {
  const PerCpuPath path = BestPerCpuPath();
  printf("path: %s\n", PerCpuPathName(path));
  if (getenv(kExpectAtomic) != nullptr) {
    EXPECT_EQ(path, PerCpuPath::kAtomic);
  }
  EXPECT_EQ(Cells().path(), path);
}

TEST(PerCpuTest, ListsItsSequences) {
  for (const RseqSequence& sequence : TEST_RseqSequences()) {
    EXPECT_EQ(sequence.version, 0u);
    EXPECT_EQ(sequence.flags, 0u);
    EXPECT_GT(sequence.length, 0u);
    EXPECT_LT(sequence.length, 100u);
    // The kernel requires it before an abort handler.
    uint32_t signature;
    memcpy(&signature,
           reinterpret_cast<const char*>(sequence.abort_handler) - 4, 4);
    EXPECT_EQ(signature, 0x53053053u);
  }
  EXPECT_EQ(TEST_RseqSequences().empty(), VARVE_HAVE_RSEQ == 0);
}

TEST(PerCpuRegistrationTest, WorksWhereTheCLibraryDoesNotRegister) {
  fflush(stdout);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
    setenv(kExpectAtomic, "1", 1);
    execl("/proc/self/exe", "util_test", "--gtest_brief=1",
          "--gtest_filter=PerCpuTest.*", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace varve
