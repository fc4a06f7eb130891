// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized threads variants
//
// Goal: no signal handler of the embedding program runs on a thread of the
// library. Method: a database, and traces, that have all kinds of threads at
// work; the signal masks of all threads but the test's own.

#include <csignal>

#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/trace.h"

namespace varve::test {
namespace {

class NoSink final : public trace::Sink {
 public:
  void Add(const trace::Record* /*records*/, size_t /*count*/) override {}
  Status Flush() override { return Status::OK(); }
};

// A line of /proc/self/task/<thread>/status, of a thread that may have ended.
std::string StatusLine(const std::filesystem::path& task,
                       const std::string& name) {
  std::ifstream file(task / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) return line.substr(name.size() + 2);
  }
  return "";
}

std::set<std::string> Tasks() {
  std::set<std::string> tasks;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    tasks.insert(task.path());
  }
  return tasks;
}

constexpr uint64_t kFaultBit = uint64_t{1} << (SIGSEGV - 1);

// Returns the signals that a thread blocks, in hexadecimal, or "" if it has
// ended. The C library blocks all signals while a thread starts and ends, so a
// thread that blocks SIGSEGV is read again for ten seconds.
std::string BlockedSignals(const std::string& task) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    std::string mask = StatusLine(task, "SigBlk");
    if (mask.empty() || (std::stoull(mask, nullptr, 16) & kFaultBit) == 0 ||
        std::chrono::steady_clock::now() > end) {
      return mask;
    }
    std::this_thread::yield();
  }
}

TEST(DbThreadsTest, AllBlockTheProgramsSignals) {
  std::thread([] {}).join();
  // A sanitizer may have one, since the first thread was created.
  const std::set<std::string> others = Tasks();
  trace::TraceOptions trace_options;
  trace_options.sink = std::make_shared<NoSink>();
  ASSERT_TRUE(Ok(trace::Start(trace_options)));
  const TempDir directory;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(TinyOptions(), directory.path(), &db)));
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(Ok(db->Put({}, Key(i % 1000), std::string(100, 'v'))));
  }
  ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
  int seen = 0;
  for (const std::string& task : Tasks()) {
    const std::string name = StatusLine(task, "Name");
    // The kernel's worker of an io_uring, which has all signals blocked.
    if (name.starts_with("iou-")) continue;
    const std::string mask = BlockedSignals(task);
    const bool is_pooled = name.rfind("varve:", 0) == 0;
    if (mask.empty() || (others.count(task) != 0 && !is_pooled)) continue;
    const uint64_t blocked = std::stoull(mask, nullptr, 16);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE,
                             SIGALRM, SIGTERM, SIGCHLD, SIGPROF, SIGRTMIN}) {
      EXPECT_NE(blocked & uint64_t{1} << (signal - 1), 0u)
          << name << " signal " << signal;
    }
    EXPECT_EQ(blocked & kFaultBit, 0u) << name;
    ++seen;
  }
  // One that flushes, one that compacts, one that collects traces.
  EXPECT_GE(seen, 3);
  ASSERT_TRUE(Ok(trace::Stop()));
}

}  // namespace
}  // namespace varve::test
