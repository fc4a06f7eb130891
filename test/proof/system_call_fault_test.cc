// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: whichever system call fails, with whatever error, the process lives,
// the error names a file, and data acknowledged as synced is present when the
// database is reopened. Calls that are interrupted or transfer less than
// requested are continued. Method: this program starts itself under strace,
// which makes the n-th call of a kind fail in each thread: for every n and
// error in the long run (VARVE_SYSTEM_CALL_STRIDE=1), and for a sample in the
// short one. Short transfers come from read and write functions of its own.
// Memory that both processes share records the attempted and acknowledged
// writes.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/run_tool.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr const char* kScriptArgument = "--script";
constexpr int kKeys = 8;
constexpr uint32_t kRounds = 3;
constexpr int kNotBegun = 3;

// Short transfers: calls left until each is short; none while negative.
std::atomic<int> short_after{-1};

size_t Shorten(size_t count) {
  // relaxed: a count in a test.
  const int left = short_after.load(std::memory_order_relaxed);
  if (left < 0 || count < 2) return count;
  if (left > 0) {
    // relaxed: as above.
    short_after.fetch_sub(1, std::memory_order_relaxed);
    return count;
  }
  return 1 + count / 3;
}

}  // namespace
}  // namespace varve::test

// In place of the C library's, for the whole program.
extern "C" {
ssize_t write(int fd, const void* data, size_t count) {
  return syscall(SYS_write, fd, data, varve::test::Shorten(count));
}
ssize_t pwrite(int fd, const void* data, size_t count, off_t offset) {
  return syscall(SYS_pwrite64, fd, data, varve::test::Shorten(count), offset);
}
ssize_t pread(int fd, void* data, size_t count, off_t offset) {
  return syscall(SYS_pread64, fd, data, varve::test::Shorten(count), offset);
}
}

namespace varve::test {
namespace {

// The script's progress, in a mapped file.
struct Record {
  uint32_t begun;
  uint32_t attempted[kKeys];     // The round of the last write, from 1 on.
  uint32_t acknowledged[kKeys];  // The same, of synced ones that were OK.
  uint32_t wrong_reads;
  uint32_t errors;
  uint32_t nameless_errors;
  char error[400];  // The last, or the last that names no file.
};

Options ScriptOptions() {
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  return options;
}

class Script {
 public:
  Script(std::string path, Record* record)
      : path_(std::move(path)), record_(record) {}

  // Goes on after errors, as a careless program would.
  void Run() {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      Options options = ScriptOptions();
      options.wal_write = round == 2 ? WriteMethod::kMap : WriteMethod::kAuto;
      std::unique_ptr<DB> db;
      if (!Note(DB::Open(options, path_, &db))) continue;
      for (int i = 0; i < kKeys; ++i) Write(db.get(), i, round);
      if (round != 2) Note(db->Flush({}));
      if (round != 1) Note(db->CompactRange({}, nullptr, nullptr));
      for (int i = 0; i < kKeys; ++i) Read(db.get(), i);
      Note(db->Close());
    }
  }

 private:
  bool Note(const Status& status) {
    if (status.ok()) return true;
    ++record_->errors;
    const std::string text = status.ToString();
    // The directory that the database is made in counts as well.
    const std::string parent = std::filesystem::path(path_).parent_path();
    const bool nameless = text.find(parent) == std::string::npos;
    record_->nameless_errors += nameless;
    if (nameless || record_->nameless_errors == 0) {
      snprintf(record_->error, sizeof(record_->error), "%s", text.c_str());
    }
    return false;
  }

  void Write(DB* db, int i, uint32_t round) {
    WriteOptions options{.sync = true};
    record_->attempted[i] = round;
    if (Note(db->Put(options, Key(i), std::to_string(round)))) {
      record_->acknowledged[i] = round;
    }
  }

  void Read(DB* db, int i) {
    std::string value;
    const Status status = db->Get({}, Key(i), &value);
    if (status.IsNotFound()) {
      record_->wrong_reads += record_->acknowledged[i] != 0;
    } else if (Note(status)) {
      const auto found = static_cast<uint32_t>(std::stoul(value));
      record_->wrong_reads +=
          found < record_->acknowledged[i] || found > record_->attempted[i];
    }
  }

  const std::string path_;
  Record* const record_;
};

Record* MapRecord(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Record)) != 0) return nullptr;
  void* const mapped =
      mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<Record*>(mapped);
}

int RunScript(const std::string& path, const std::string& record_path,
              const std::string& shorten) {
  Record* const record = MapRecord(record_path);
  if (record == nullptr) return kNotBegun;
  record->begun = 1;
  short_after = std::stoi(shorten);
  Script(path, record).Run();
  return 0;
}

class SystemCallFaultTest : public ::testing::Test {
 protected:
  ToolResult Run(const std::vector<std::string>& tracer, int shorten) {
    std::filesystem::remove_all(Path());
    std::filesystem::remove(RecordPath());
    char self[PATH_MAX] = "";
    EXPECT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    std::vector<std::string> arguments = tracer;
    arguments.insert(arguments.end(), {self, kScriptArgument, Path(),
                                       RecordPath(), std::to_string(shorten)});
    return RunTool(arguments);
  }

  // Reads what the script has left. False if it did not get as far as that.
  bool Judge(const ToolResult& result, bool may_fail) {
    // The program's loader may fail too: 1 or 127.
    EXPECT_LT(result.exit_code, 128) << result.Summary();
    Record* const record = MapRecord(RecordPath());
    EXPECT_NE(record, nullptr);
    if (record == nullptr) return false;
    const bool begun = record->begun != 0;
    if (begun) {
      EXPECT_EQ(result.exit_code, 0) << result.Summary();
      EXPECT_EQ(record->wrong_reads, 0u);
      EXPECT_EQ(record->nameless_errors, 0u) << record->error;
      if (!may_fail) {
        EXPECT_EQ(record->errors, 0u) << record->error;
      }
      failed_ += record->errors > 0;
      Reopen(*record);
    }
    munmap(record, sizeof(*record));
    return begun;
  }

  void Reopen(const Record& record) {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(Ok(DB::Open(ScriptOptions(), Path(), &db)));
    for (int i = 0; i < kKeys; ++i) {
      std::string value = "0";
      const Status status = db->Get({}, Key(i), &value);
      ASSERT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
      const auto found = static_cast<uint32_t>(std::stoul(value));
      EXPECT_GE(found, record.acknowledged[i]) << Key(i) << " is lost";
      EXPECT_LE(found, record.attempted[i]) << Key(i);
    }
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db.get(), {}, &entries)));
    EXPECT_TRUE(Ok(db->VerifyChecksum()));
    EXPECT_TRUE(Ok(db->Put({}, "after", "all")));
    EXPECT_TRUE(Ok(db->Flush({})));
    EXPECT_TRUE(Ok(db->Close()));
  }

  // Returns the largest count of each call in one thread.
  std::map<std::string, int> CountCalls() {
    const std::string output = dir_.Sub("trace");
    const ToolResult result =
        Run({"strace", "-f", "-qq", "-s", "8", "-o", output}, -1);
    EXPECT_TRUE(Judge(result, false)) << result.Summary();
    std::map<std::string, std::map<std::string, int>> by_thread;
    std::istringstream lines(ReadWholeFile(output));
    for (std::string thread, call; lines >> thread >> call;) {
      std::string rest;
      std::getline(lines, rest);
      ++by_thread[call.substr(0, call.find('('))][thread];
    }
    std::map<std::string, int> most;
    for (const auto& [call, threads] : by_thread) {
      for (const auto& [thread, count] : threads) {
        most[call] = std::max(most[call], count);
      }
    }
    return most;
  }

  std::string Path() { return dir_.Sub("db"); }
  std::string RecordPath() { return dir_.Sub("record"); }

  TempDir dir_;
  uint64_t failed_ = 0;  // Runs that met an error.
};

TEST_F(SystemCallFaultTest, AnyCallMayFailOnce) {
  const auto calls = CountCalls();
  const uint64_t seed = TestSeed();
  const int stride = EnvironmentInt("VARVE_SYSTEM_CALL_STRIDE", 61);
  Rng rng(seed);
  int next = static_cast<int>(rng.Below(static_cast<uint64_t>(stride)));
  int possible = 0;
  int runs = 0;
  int kinds = 0;
  for (const char* call :
       {"openat",     "read",  "pread64",    "write",     "pwrite64",
        "fdatasync",  "fsync", "rename",     "ftruncate", "fallocate",
        "unlink",     "mkdir", "getdents64", "lseek",     "madvise",
        "newfstatat", "fcntl", "access",     "close",     "link",
        "statx"}) {
    const auto count = calls.find(call);
    if (count == calls.end()) continue;
    ++kinds;
    for (int n = 1; n <= count->second; ++n) {
      for (const char* error : {"EIO", "ENOSPC", "EDQUOT", "EINTR"}) {
        if (++possible <= next) continue;
        next += stride;
        const std::string fault = std::string(call) + ":error=" + error +
                                  ":when=" + std::to_string(n);
        SCOPED_TRACE(fault);
        runs +=
            Judge(Run({"strace", "-f", "-qq", "-o", "/dev/null", "-e",
                       "trace=" + std::string(call), "-e", "inject=" + fault},
                      -1),
                  true);
        if (HasFailure()) return;
      }
    }
  }
  printf(
      "system calls: %d kinds, %d faults possible, %d injected while the "
      "script ran, %" PRIu64 " runs met an error; stride %d, seed %" PRIu64
      "\n",
      kinds, possible, runs, failed_, stride, seed);
  EXPECT_GT(kinds, 8);
}

TEST_F(SystemCallFaultTest, InterruptedCallsAreContinued) {
  for (const char* call : {"openat", "pread64", "write", "pwrite64"}) {
    for (const int n : {1, 3}) {
      SCOPED_TRACE(call);
      const std::string fault =
          std::string(call) + ":error=EINTR:when=" + std::to_string(n) + "+4";
      Judge(Run({"strace", "-f", "-qq", "-o", "/dev/null", "-e",
                 "trace=" + std::string(call), "-e", "inject=" + fault},
                -1),
            false);
    }
  }
}

TEST_F(SystemCallFaultTest, ShortTransfersAreContinued) {
  for (const int after : {0, 1, 5, 20, 50}) {
    SCOPED_TRACE(after);
    EXPECT_TRUE(Judge(Run({"env"}, after), false));
  }
}

}  // namespace
}  // namespace varve::test

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == varve::test::kScriptArgument) {
    return varve::test::RunScript(argv[2], argv[3], argv[4]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
