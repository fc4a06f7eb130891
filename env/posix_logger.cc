// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <unistd.h>

#include <cerrno>

#include "env/log_line.h"
#include "env/posix_file.h"

namespace varve {

namespace {

// Has no lock and no buffer. The file is opened with O_APPEND, so each write()
// appends its line as a whole, and the last lines before a crash are readable.
class PosixLogger final : public Logger {
 public:
  explicit PosixLogger(int descriptor) : descriptor_(descriptor) {}
  ~PosixLogger() override { close(descriptor_); }
  PosixLogger(const PosixLogger&) = delete;
  PosixLogger& operator=(const PosixLogger&) = delete;

  void Logv(LogLevel level, const char* format, va_list arguments) override {
    // With the date.
    const std::string line =
        FormatLogLine(level, Env::Default()->NowMicros(), format, arguments);
    ssize_t n;
    do {
      n = write(descriptor_, line.data(), line.size());
    } while (n < 0 && errno == EINTR);
    // A line is lost if the disk is full: logging must not fail its caller.
  }

 private:
  const int descriptor_;
};

}  // namespace

std::shared_ptr<Logger> NewPosixLogger(int descriptor) {
  return std::make_shared<PosixLogger>(descriptor);
}

}  // namespace varve
