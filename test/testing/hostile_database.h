// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A small database in which a test replaces a file, and a child process with
// little memory and time that calls every operation on it.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/sanitizers.h"
#include "test/testing/test_headers.h"

namespace varve::test {

namespace fs = std::filesystem;

#if defined(VARVE_TEST_SANITIZED)
constexpr bool kBoundMemory = false;
#else
constexpr bool kBoundMemory = true;
#endif
constexpr rlim_t kMemoryBytes = rlim_t{2} << 30;
constexpr rlim_t kProcessorSeconds = 60;
constexpr unsigned kSeconds = 250;  // More: the machine may be busy.

constexpr const char* kPathVariable = "VARVE_HOSTILE_PATH";

inline Options HostileOptions() {
  Options options = TinyOptions();
  options.disable_auto_compactions = true;
  return options;
}

// Everything that may be done with the directory. The texts of the errors.
inline std::string UseDatabase(const std::string& path) {
  std::string told;
  const auto note = [&](const char* what, const Status& status) {
    if (!status.ok()) told += what + (": " + status.ToString()) + "\n";
  };
  Options options = HostileOptions();
  for (const bool read_only : {true, false}) {
    for (const bool paranoid : {true, false}) {
      options.paranoid_checks = paranoid;
      std::unique_ptr<DB> db;
      const Status opened = read_only ? DB::OpenForReadOnly(options, path, &db)
                                      : DB::Open(options, path, &db);
      note("open", opened);
      if (!opened.ok()) continue;
      EntryList entries;
      note("scan", ScanForward(db.get(), {}, &entries));
      for (int i = 0; i < 120; i += 7) {
        std::string value;
        const Status status = db->Get({}, Key(i), &value);
        if (!status.IsNotFound()) note("get", status);
      }
      note("verify", db->VerifyChecksum());
    }
  }
  note("repair", RepairDB(path, options));
  note("destroy", DestroyDB(path, options));
  return told;
}

// Makes this program use a database in place of running tests: a child of a
// program with threads is whole only if it begins anew.
class UserEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const path = getenv(kPathVariable);
    if (path == nullptr) return;
    const rlimit bound = {kProcessorSeconds, kProcessorSeconds};
    setrlimit(RLIMIT_CPU, &bound);
    alarm(kSeconds);
    printf("%s", UseDatabase(path).c_str());
    fflush(stdout);
    _exit(0);
  }
};

inline const auto* const kUserEnvironment =
    ::testing::AddGlobalTestEnvironment(new UserEnvironment);

class DbHostileTest : public DbTestBase {
 protected:
  void SetUp() override {
    options_ = HostileOptions();
    outside_ = dir_.Sub("outside");
    fs::create_directory(outside_);
    Open();
    for (int i = 0; i < 100; i++) Put(Key(i), "value");
    Flush();
    for (int i = 100; i < 120; i++) Put(Key(i), "logged");
    Close();
    table_ = FilesEndingIn(path_, ".sst").at(0);
    log_ = FilesEndingIn(path_, ".log").at(0);
    manifest_ = FilesStartingWith(path_, "MANIFEST-").at(0);
  }

  // UseDatabase by a process that cannot take much, and must end in order.
  std::string Use() {
    const std::string program = fs::read_symlink("/proc/self/exe");
    setenv(kPathVariable, path_.c_str(), 1);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const rlimit bound = {kMemoryBytes, kMemoryBytes};
      if (kBoundMemory) setrlimit(RLIMIT_AS, &bound);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      execl(program.c_str(), program.c_str(),
            "--gtest_filter=DbHostileTest.DirectoryMayBeALink",
            static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    unsetenv(kPathVariable);
    std::string told;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
      told.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
    int state = 0;
    EXPECT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0)
        << "state " << state << " (14, 9: out of time); " << told;
    return told;
  }

  // Replaces a file by a link to a copy outside.
  void MoveOut(const std::string& path) {
    const std::string target = outside_ + "/target";
    fs::rename(path, target);
    fs::create_symlink(target, path);
  }

  std::map<std::string, std::string> Outside() {
    return ReadDirectory(outside_);
  }

  std::string outside_;
  std::string table_;
  std::string log_;
  std::string manifest_;
};

}  // namespace varve::test
