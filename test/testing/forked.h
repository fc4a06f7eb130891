// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Code that runs in a child process of a test.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace varve::test {

// Runs `body` in a child and returns what it returned, 0 to 255; or -1 if the
// child did not end by itself within `seconds`, or was killed by a signal.
inline int RunForked(const std::function<int()>& body, unsigned seconds = 60) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);  // Its default is to end the process.
    _exit(body());
  }
  int outcome = 0;
  if (child < 0 || waitpid(child, &outcome, 0) != child) return -1;
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
}

// A child process that runs `body`, then waits until it is killed or is asked
// to end. Thread-safety: one thread.
class ForkedHolder {
 public:
  // Returns once `body` has, and `ok` says whether it returned true.
  explicit ForkedHolder(const std::function<bool()>& body) {
    int ready[2] = {-1, -1};
    int done[2] = {-1, -1};
    if (pipe(ready) != 0 || pipe(done) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      close(done[1]);
      char byte = body() ? 'y' : 'n';
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      _exit(read(done[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ready[1]);
    close(done[0]);
    char byte = 0;
    ok_ = read(ready[0], &byte, 1) == 1 && byte == 'y';
    close(ready[0]);
    done_ = done[1];
  }
  ForkedHolder(const ForkedHolder&) = delete;
  ForkedHolder& operator=(const ForkedHolder&) = delete;
  ~ForkedHolder() { End(); }

  bool ok() const { return ok_; }
  pid_t pid() const { return child_; }

  // Lets it end, with all that it holds.
  void End() {
    if (child_ <= 0) return;
    close(done_);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
  int done_ = -1;
  bool ok_ = false;
};

}  // namespace varve::test
