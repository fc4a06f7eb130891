// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: when the device or the file system under a database fails while it is
// written to, writes return errors, reads go on, and the process gets no
// signal, however the log is written. Method: ext4 on a loop device whose own
// file system is shut down; the writers run in a child.

#include <sys/wait.h>

#include "test/testing/db_helpers.h"
#include "test/testing/env/failing_file_system.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

class DbFailingDeviceTest
    : public ::testing::TestWithParam<std::tuple<WriteMethod, bool>> {
 protected:
  // Runs in a child. Returns 0 if all was as it must be.
  static int WriteUntilItFails(FailingFileSystem* system, WriteMethod method,
                               bool device, int after_ms) {
    Options options = TinyOptions();
    options.wal_write = method;
    options.write_buffer_size = 1 << 20;
    std::unique_ptr<DB> db;
    if (!DB::Open(options, system->path() + "/db", &db).ok()) return 2;
    std::atomic<bool> failed = false;
    std::atomic<int> errors = 0;
    std::vector<std::thread> writers;
    for (int t = 0; t < 2; ++t) {
      writers.emplace_back([&, t] {
        for (int i = 0; i < 1000000; ++i) {
          const Status status =
              db->Put({.sync = failed && i % 16 == 0},
                      std::to_string(t) + Key(i % 1000), std::string(100, 'v'));
          if (status.ok()) continue;
          if (status.IsIOError()) ++errors;
          return;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    failed = device ? system->FailDevice() : system->ShutDown();
    for (std::thread& writer : writers) writer.join();
    std::string value;
    const Status read = db->Get({}, "0" + Key(0), &value);
    // The tables, if any, are on the device.
    const bool reads = read.ok() || read.IsNotFound() || read.IsIOError();
    db->Close().IgnoreError();
    return failed && reads && errors == 2 ? 0 : 3;
  }
};

TEST_P(DbFailingDeviceTest, WritesReturnErrorsAndNoSignalComes) {
  const auto [method, device] = GetParam();
  for (const int after_ms : {2, 30, 120}) {
    SCOPED_TRACE(after_ms);
    TempDir place;
    FailingFileSystem system(place.path(), 48);
    if (!system.is_mounted()) GTEST_SKIP() << kMayNotUseDevices;
    const pid_t child = fork();
    if (child == 0) {
      _exit(WriteUntilItFails(&system, method, device, after_ms));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_FALSE(WIFSIGNALED(status)) << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DbFailingDeviceTest,
    ::testing::Combine(::testing::ValuesIn(kWriteMethods), ::testing::Bool()),
    [](const auto& test) {
      return WriteMethodName(std::get<0>(test.param)) +
             std::string(std::get<1>(test.param) ? "Device" : "FileSystem");
    });

}  // namespace
}  // namespace varve::test
