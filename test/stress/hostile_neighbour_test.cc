// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whatever other processes do with a database's directory while it is
// written to, none of them gets to write there, and all readers are right.
// Method: while threads write, a thread of the same process copies the
// directory, and other processes open it for writing, take the record lock that
// RocksDB takes, open it for reading and compare all entries, and run `varve
// check`, all in a loop. VARVE_STRESS_SECONDS sets the length. The results are
// printed.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"

namespace varve::test {
namespace {

namespace fs = std::filesystem;

constexpr int kWriters = 2;
constexpr int kSlots = 20000;

struct Counts {
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> failed{0};  // Attempts that need not succeed.
  std::atomic<uint64_t> wrong{0};
};

// In memory that all processes share.
struct Shared {
  std::atomic<bool> go{false};
  std::atomic<bool> stop{false};
  // The number of each writer's last completed Put.
  std::atomic<int> last[kWriters] = {-1, -1};
  Counts opens, record_locks, read_only_opens, copies, checks;
};

class HostileNeighbourTest : public DbTestBase {
 protected:
  HostileNeighbourTest() {
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared;
  }
  ~HostileNeighbourTest() override { munmap(shared_, sizeof(Shared)); }

  // A process that does it again and again, from Go to Stop.
  void Neighbour(const std::function<void()>& act) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children_.push_back(child);
      return;
    }
    while (!shared_->go) usleep(1000);
    while (!shared_->stop) act();
    _exit(0);
  }
  void Stop() {
    shared_->stop = true;
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }

  void OpenForWriting() {
    std::unique_ptr<DB> db;
    Status status = DB::Open(options_, path_, &db);
    ++shared_->opens.done;
    if (status.IsBusy()) return;
    ++shared_->opens.wrong;
    if (status.ok()) fprintf(stderr, "a second writer\n");
    fprintf(stderr, "opening for writing: %s\n", status.ToString().c_str());
  }

  void TakeRecordLock() {
    const std::string lock = path_ + "/LOCK";
    const int descriptor = open(lock.c_str(), O_RDWR | O_CLOEXEC);
    struct flock request = {};
    request.l_type = F_WRLCK;
    request.l_whence = SEEK_SET;
    ++shared_->record_locks.done;
    if (descriptor >= 0 && fcntl(descriptor, F_SETLK, &request) == 0) {
      ++shared_->record_locks.wrong;
      fprintf(stderr, "the record lock was to be had\n");
    }
    close(descriptor);
    usleep(200);
  }

  void OpenForReading() {
    std::unique_ptr<DB> db;
    Options options = options_;
    options.create_if_missing = false;
    int least[kWriters];
    for (int i = 0; i < kWriters; ++i) least[i] = shared_->last[i];
    Status status = DB::OpenForReadOnly(options, path_, &db);
    ++shared_->read_only_opens.done;
    EntryList entries;
    if (status.ok()) status = ScanForward(db.get(), {}, &entries);
    if (!status.ok()) {
      ++shared_->read_only_opens.failed;
      fprintf(stderr, "opening for reading: %s\n", status.ToString().c_str());
      return;
    }
    for (int i = 0; i < kWriters; ++i) {
      if (IsOneMoment(entries, i, least[i])) continue;
      ++shared_->read_only_opens.wrong;
      fprintf(stderr, "wrong entries of writer %d\n", i);
    }
  }

  // Returns whether a writer's entries are of one moment, at number `least` or
  // later.
  static bool IsOneMoment(const EntryList& entries, int writer, int least) {
    const std::string prefix = std::to_string(writer) + "/";
    int newest = -1;
    int oldest = INT_MAX;
    int count = 0;
    for (const auto& [key, value] : entries) {
      if (!key.starts_with(prefix)) continue;
      const int number = atoi(value.c_str());
      if (key != prefix + Key(number % kSlots)) return false;
      newest = std::max(newest, number);
      oldest = std::min(oldest, number);
      ++count;
    }
    return newest >= least && count == std::min(newest + 1, kSlots) &&
           (count == 0 || newest - oldest + 1 == count);
  }

  void Copy() {
    const std::string copy = dir_.Sub("copy");
    std::error_code error;
    // Files may vanish during the copy.
    fs::copy(path_, copy, fs::copy_options::recursive, error);
    if (error) ++shared_->copies.failed;
    fs::copy_file(path_ + "/LOCK", copy + "/LOCK",
                  fs::copy_options::overwrite_existing, error);
    EXPECT_FALSE(error) << error.message();
    ++shared_->copies.done;
    fs::remove_all(copy, error);
  }

  void Check() {
    const ToolResult result =
        RunTool({VARVE_TOOL_PATH, "check", "--db=" + path_});
    ++shared_->checks.done;
    if (result.exit_code == 0) return;
    ++shared_->checks.failed;
    fprintf(stderr, "check: %s\n", result.Summary().c_str());
  }

  // Writes numbers, each thread its own, until Stop.
  void Write(int thread) {
    WriteOptions options;
    for (int i = 0; !shared_->stop; ++i) {
      options.sync = i % 512 == 0;
      const std::string key = std::to_string(thread) + "/" + Key(i % kSlots);
      const Status status = db_->Put(options, key, std::to_string(i));
      if (!status.ok()) {
        ADD_FAILURE() << status.ToString();
        return;
      }
      shared_->last[thread] = i;
    }
  }

  Shared* shared_ = nullptr;
  std::vector<pid_t> children_;
};

TEST_F(HostileNeighbourTest, OnlyTheHolderCanWrite) {
  const std::chrono::seconds length(EnvironmentInt("VARVE_STRESS_SECONDS", 2));
  // The children have no thread of this process to miss.
  Neighbour([this] { OpenForWriting(); });
  Neighbour([this] { TakeRecordLock(); });
  Neighbour([this] { OpenForReading(); });
  if (HasFatalFailure()) return;
  Open();
  if (HasFatalFailure()) return Stop();
  shared_->go = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([this, i] { Write(i); });
  }
  threads.emplace_back([this] {
    while (!shared_->stop) Copy();
  });
  threads.emplace_back([this] {
    while (!shared_->stop) Check();
  });
  std::this_thread::sleep_for(length);
  Stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(shared_->opens.done, 0u);
  EXPECT_GT(shared_->record_locks.done, 0u);
  EXPECT_GT(shared_->copies.done, 0u);
  EXPECT_EQ(shared_->opens.wrong, 0u);
  EXPECT_EQ(shared_->record_locks.wrong, 0u);
  EXPECT_GT(shared_->read_only_opens.done, 0u);
  EXPECT_EQ(shared_->read_only_opens.failed, 0u);
  EXPECT_EQ(shared_->read_only_opens.wrong, 0u);
  EXPECT_GT(shared_->checks.done, 0u);
  EXPECT_EQ(shared_->checks.failed, 0u);
  Reopen();
  uint64_t lost = 0;
  for (int thread = 0; thread < kWriters; ++thread) {
    const int last = shared_->last[thread];
    for (int i = std::max(0, last - kSlots + 1); i <= last; ++i) {
      const std::string key = std::to_string(thread) + "/" + Key(i % kSlots);
      lost += Get(key) == std::to_string(i) ? 0 : 1;
    }
  }
  EXPECT_EQ(lost, 0u);
  EXPECT_TRUE(Ok(db_->VerifyChecksum()));
  const auto print = [](const char* what, const Counts& counts) {
    printf("%s: %lu, %lu failed, %lu wrong\n", what,
           static_cast<unsigned long>(counts.done),
           static_cast<unsigned long>(counts.failed),
           static_cast<unsigned long>(counts.wrong));
  };
  printf("writes: %d, %lu lost\n", shared_->last[0] + shared_->last[1] + 2,
         static_cast<unsigned long>(lost));
  print("opens for writing", shared_->opens);
  print("record locks", shared_->record_locks);
  print("opens for reading", shared_->read_only_opens);
  print("copies by the writer's process", shared_->copies);
  print("checks", shared_->checks);
}

}  // namespace
}  // namespace varve::test
