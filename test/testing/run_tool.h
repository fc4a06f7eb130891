// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs other programs and collects what they print.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace varve::test {

struct ToolResult {
  // As a shell has it: 128 + the signal for a program that was killed, 127 if
  // it could not be started.
  int exit_code = -1;
  std::string out;
  std::string error;

  // For messages of failed tests.
  std::string Summary() const {
    return "exit code " + std::to_string(exit_code) +
           "\nstdout: " + out.substr(0, 2000) +
           "\nstderr: " + error.substr(0, 2000);
  }
};

// A program that runs. Killed by the destructor if it still does.
// Thread-safety: owned by one thread at a time.
class RunningTool {
 public:
  // The first argument is the program, looked up in PATH.
  explicit RunningTool(const std::vector<std::string>& arguments)
      : out_(memfd_create("stdout", MFD_CLOEXEC)),
        error_(memfd_create("stderr", MFD_CLOEXEC)) {
    std::vector<char*> argv;
    for (const std::string& a : arguments) {
      argv.push_back(const_cast<char*>(a.c_str()));
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_, 1);
    posix_spawn_file_actions_adddup2(&actions, error_, 2);
    const int failed =
        posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
      pid_ = -1;
      result_.exit_code = 127;
      result_.error = arguments[0] + ": " + strerror(failed);
    }
  }
  RunningTool(const RunningTool&) = delete;
  RunningTool& operator=(const RunningTool&) = delete;
  ~RunningTool() {
    Kill();
    Wait();
    close(out_);
    close(error_);
  }

  void Kill() {
    if (pid_ > 0) kill(pid_, SIGKILL);
  }

  bool HasEnded() const {
    siginfo_t info = {};
    return pid_ <= 0 || (waitid(P_PID, static_cast<id_t>(pid_), &info,
                                WEXITED | WNOHANG | WNOWAIT) == 0 &&
                         info.si_pid != 0);
  }

  // Waits for its end.
  const ToolResult& Wait() {
    if (pid_ <= 0) return result_;
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    result_.exit_code =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result_.out = ReadAll(out_);
    result_.error = ReadAll(error_);
    return result_;
  }

 private:
  static std::string ReadAll(int fd) {
    std::string data;
    char buffer[1 << 16];
    off_t offset = 0;
    ssize_t n;
    while ((n = pread(fd, buffer, sizeof(buffer), offset)) > 0) {
      data.append(buffer, static_cast<size_t>(n));
      offset += n;
    }
    return data;
  }

  int out_;
  int error_;
  pid_t pid_ = -1;
  ToolResult result_;
};

// Runs a program to its end.
inline ToolResult RunTool(const std::vector<std::string>& arguments) {
  RunningTool tool(arguments);
  return tool.Wait();
}

}  // namespace varve::test
