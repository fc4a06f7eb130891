// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: an open that fails once for want of a descriptor makes no difference,
// whichever open it is. Method: replacements for the C library's functions fail
// the n-th call, or several calls from there on, with EMFILE or ENFILE. A
// script uses all parts of the engine, in a child process for each n. Its
// output and its calls' results must equal the ones of a run without a fault.
// Syncs do nothing, since no power is cut.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/catalog.h"
#include "varve/trace.h"

namespace varve::test {
namespace {

// Opens until the first fault, and after it; none while negative.
std::atomic<int> opens_left{-1};
std::atomic<int> faults_left{0};
std::atomic<int> fault_error{EMFILE};
std::atomic<int> opens{0};

// Whether this call is to fail.
bool Fault() {
  ++opens;
  if (opens_left < 0 || opens_left-- > 0) return false;
  opens_left = 0;
  if (faults_left <= 0 || faults_left-- <= 0) return false;
  errno = fault_error;
  return true;
}

int OpenAt(int directory, const char* path, int flags, va_list arguments) {
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0
                          ? va_arg(arguments, mode_t)
                          : mode_t{0};
  if (Fault()) return -1;
  return static_cast<int>(syscall(SYS_openat, directory, path, flags, mode));
}

template <typename Function>
Function Original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace varve::test

extern "C" {
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int result = varve::test::OpenAt(AT_FDCWD, path, flags, arguments);
  va_end(arguments);
  return result;
}
int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int result = varve::test::OpenAt(directory, path, flags, arguments);
  va_end(arguments);
  return result;
}
DIR* opendir(const char* path) {
  if (varve::test::Fault()) return nullptr;
  return varve::test::Original<DIR* (*)(const char*)>("opendir")(path);
}
FILE* fopen(const char* path, const char* mode) {
  if (varve::test::Fault()) return nullptr;
  return varve::test::Original<FILE* (*)(const char*, const char*)>("fopen")(
      path, mode);
}
int fsync(int /*fd*/) { return 0; }
int fdatasync(int /*fd*/) { return 0; }
}

namespace varve::test {
namespace {

constexpr int kKeys = 600;

Options ScriptOptions() {
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 4 << 10;
  options.compression = CompressionType::kNone;
  options.max_open_files = 16;  // So that tables are opened again.
  options.block_cache = NewBlockCache(0);
  options.max_background_jobs = 2;
  return options;
}

// The events, as text.
class Script {
 public:
  explicit Script(std::string path) : path_(std::move(path)) {}

  std::string Run() {
    UseDatabase();
    ReadOnly();
    Repair();
    UseCatalog();
    Trace();
    return outcome_;
  }

 private:
  bool Note(const std::string& what, const Status& status) {
    if (status.ok()) return true;
    outcome_ += what + ": " + status.ToString() + "\n";
    return false;
  }

  void ReadAll(const std::string& when, DB* db) {
    EntryList entries;
    Note(when + ", scan", ScanForward(db, {}, &entries));
    outcome_ += when + ": " + std::to_string(entries.size()) + " entries\n";
    std::vector<std::string> texts;
    for (int i = 0; i < kKeys; i += 7) texts.push_back(Key(i));
    const std::vector<Slice> keys(texts.begin(), texts.end());
    std::vector<std::string> values;
    const auto statuses = db->MultiGet({}, keys, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!Note(when + ", MultiGet", statuses[i])) continue;
      std::string value;
      Note(when + ", Get", db->Get({}, keys[i], &value));
      if (value != values[i]) outcome_ += "Get and MultiGet differ\n";
      outcome_ += value.substr(0, 4);
    }
    outcome_ += "\n";
  }

  void UseDatabase() {
    std::unique_ptr<DB> db;
    if (!Note("Open", DB::Open(ScriptOptions(), path_, &db))) return;
    for (int round = 0; round < 3; ++round) {
      for (int i = round; i < kKeys; i += 1 + round) {
        const std::string value = std::to_string(i + round) + ":";
        Note("Put", db->Put({}, Key(i), value + std::string(200, 'v')));
      }
      Note("Flush", db->Flush({}));
      if (round == 1) ReadAll("open", db.get());
    }
    Note("CompactRange", db->CompactRange({}, nullptr, nullptr));
    Note("WaitForCompact", db->WaitForCompact());
    ReadAll("compacted", db.get());
    Note("VerifyChecksum", db->VerifyChecksum());
    Note("CreateCheckpoint", db->CreateCheckpoint(path_ + "_copy"));
    Note("Put", db->Put({}, "last", "value"));
    Note("Close", db->Close());
    db.reset();
    // With a log to replay.
    if (!Note("Open again", DB::Open(ScriptOptions(), path_, &db))) return;
    ReadAll("open again", db.get());
    Note("Close", db->Close());
    if (access((path_ + "/LOG").c_str(), F_OK) != 0) outcome_ += "no LOG\n";
  }

  void ReadOnly() {
    std::unique_ptr<DB> db;
    if (!Note("OpenForReadOnly",
              DB::OpenForReadOnly(ScriptOptions(), path_, &db))) {
      return;
    }
    ReadAll("read-only", db.get());
  }

  void Repair() {
    Note("RepairDB", RepairDB(path_ + "_copy", ScriptOptions()));
    std::unique_ptr<DB> db;
    if (!Note("Open the copy",
              DB::Open(ScriptOptions(), path_ + "_copy", &db))) {
      return;
    }
    ReadAll("repaired", db.get());
    Note("Close", db->Close());
    db.reset();
    Note("DestroyDB", DestroyDB(path_ + "_copy", ScriptOptions()));
    if (access((path_ + "_copy/CURRENT").c_str(), F_OK) == 0) {
      outcome_ += "not destroyed\n";
    }
  }

  void UseCatalog() {
    CatalogOptions options;
    options.options = ScriptOptions();
    options.create_if_missing = true;
    for (const char* run : {"first", "second"}) {
      std::unique_ptr<Catalog> catalog;
      const std::string root = path_ + "_catalog";
      if (!Note("Catalog", Catalog::Open(options, root, &catalog))) return;
      for (const std::string name : {"one", "two", "three"}) {
        if (run == std::string("first")) {
          Note("Create", catalog->Create(name));
        }
        DatabaseRef ref;
        if (!Note("Find", catalog->Find(name, &ref))) continue;
        Note("Put", ref->Put({}, run, name));
        Note("Flush", ref->Flush({}));
        std::string value;
        Note("Get", ref->Get({}, "first", &value));
        outcome_ += value + "\n";
      }
      Note("CloseIdle", catalog->CloseIdle(0, nullptr));
      Note("Drop",
           run == std::string("first") ? catalog->Drop("two") : Status::OK());
      if (run == std::string("first")) {
        Note("Create", catalog->Create("two"));
        DatabaseRef ref;
        Note("Find", catalog->Find("two", &ref));
        if (ref) Note("Put", ref->Put({}, "first", "two"));
      }
      Note("Close", catalog->Close());
    }
  }

  void Trace() {
    std::shared_ptr<trace::Sink> sink;
    Note("trace", trace::NewChromeSink(path_ + "_trace", &sink));
  }

  const std::string path_;
  std::string outcome_;
};

class DescriptorFaultTest : public ::testing::Test {
 protected:
  // Runs the script in a child, which begins to fail at the n-th open.
  std::string Run(int n, int faults, int error, int* count = nullptr) {
    TempDir dir;
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
      fault_error = error;
      faults_left = faults;
      opens = 0;
      opens_left = n;
      std::string outcome = Script(dir.Sub("db")).Run();
      opens_left = -1;
      outcome = std::to_string(opens) + "\n" + outcome;
      const bool written =
          write(pipe_ends[1], outcome.data(), outcome.size()) ==
          static_cast<ssize_t>(outcome.size());
      _exit(written ? 0 : 1);
    }
    close(pipe_ends[1]);
    std::string outcome;
    char buffer[4096];
    for (ssize_t size; (size = read(pipe_ends[0], buffer, 4096)) > 0;) {
      outcome.append(buffer, static_cast<size_t>(size));
    }
    close(pipe_ends[0]);
    int exit = -1;
    waitpid(child, &exit, 0);
    EXPECT_TRUE(WIFEXITED(exit) && WEXITSTATUS(exit) == 0) << exit;
    const size_t line = outcome.find('\n');
    if (count != nullptr) *count = std::stoi(outcome);
    return outcome.substr(line + 1);
  }
};

TEST_F(DescriptorFaultTest, AnyOpenMayFail) {
  int count = 0;
  const std::string expected = Run(-1, 0, EMFILE, &count);
  EXPECT_EQ(expected.find("error"), std::string::npos) << expected;
  EXPECT_GT(count, 300);
  const int stride = EnvironmentInt("VARVE_DESCRIPTOR_STRIDE", 13);
  const uint64_t seed = TestSeed();
  int runs = 0;
  for (int n = static_cast<int>(seed % static_cast<uint64_t>(stride));
       n < count; n += stride) {
    SCOPED_TRACE(n);
    // How often it fails, that call and those that follow it.
    const int faults = 1 + runs % 3;
    const int error = runs % 2 == 0 ? EMFILE : ENFILE;
    EXPECT_EQ(Run(n, faults, error), expected);
    ++runs;
    if (HasFailure()) return;
  }
  printf("%d opens, %d runs with a fault; stride %d\n", count, runs, stride);
}

}  // namespace
}  // namespace varve::test
