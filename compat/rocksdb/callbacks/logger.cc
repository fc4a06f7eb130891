// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/callbacks/logger.h"

#include <pthread.h>
#include <rocksdb/c.h>

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

namespace {

using varve::LogLevel;

using LogFunction = void (*)(void*, unsigned level, char* message,
                             size_t length);

// Returns the text of printf's arguments, or "" if they are wrong.
std::string Print(const char* format, va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  const int size = vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  if (size <= 0) return {};
  std::string text(static_cast<size_t>(size), '\0');
  vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

// A logger for lines of a level and above. The first numbers of RocksDB's
// levels are Varve's.
class LeveledLogger : public varve::Logger {
 public:
  explicit LeveledLogger(int level) : level_(level) {}

  void Logv(LogLevel level, const char* format, va_list arguments) final {
    if (static_cast<int>(level) < level_) return;
    Write(level, Print(format, arguments));
  }

 private:
  virtual void Write(LogLevel level, std::string line) = 0;

  const int level_;
};

class StderrLogger final : public LeveledLogger {
 public:
  StderrLogger(int level, std::string prefix)
      : LeveledLogger(level), prefix_(std::move(prefix)) {}

 private:
  // Begins a line with time, thread and prefix, as RocksDB does, so that
  // programs which read it can go on.
  void Write(LogLevel level, std::string line) override {
    static constexpr const char* kMarks[] = {"[DEBUG] ", "", "[WARN] ",
                                             "[ERROR] "};
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    tm local = {};
    localtime_r(&now.tv_sec, &local);
    char time[32];
    strftime(time, sizeof(time), "%Y/%m/%d-%H:%M:%S", &local);
    fprintf(stderr, "%s.%06ld %lx %s%s%s\n", time, now.tv_nsec / 1000,
            static_cast<unsigned long>(pthread_self()),  // NOLINT
            prefix_.c_str(), kMarks[static_cast<int>(level)], line.c_str());
  }

  const std::string prefix_;
};

class CallbackLogger final : public LeveledLogger {
 public:
  CallbackLogger(int level, LogFunction function, void* state)
      : LeveledLogger(level), function_(function), state_(state) {}

 private:
  void Write(LogLevel level, std::string line) override {
    if (function_ == nullptr || line.empty()) return;
    function_(state_, static_cast<unsigned>(level), line.data(), line.size());
  }

  const LogFunction function_;
  void* const state_;
};

}  // namespace

extern "C" {

rocksdb_logger_t* rocksdb_logger_create_stderr_logger(int log_level,
                                                      const char* prefix) {
  return new rocksdb_logger_t{std::make_shared<StderrLogger>(
      log_level, prefix == nullptr ? "" : prefix)};
}

rocksdb_logger_t* rocksdb_logger_create_callback_logger(
    int log_level, void (*callback)(void*, unsigned, char*, size_t),
    void* priv) {
  return new rocksdb_logger_t{
      std::make_shared<CallbackLogger>(log_level, callback, priv)};
}

void rocksdb_logger_destroy(rocksdb_logger_t* logger) { delete logger; }

}  // extern "C"
