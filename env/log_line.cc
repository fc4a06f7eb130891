// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/log_line.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace varve {

namespace {

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kError:
      return "ERROR";
  }
  return "?";
}

}  // namespace

std::string FormatLogLine(LogLevel level, uint64_t time_us, const char* format,
                          va_list arguments) {
  constexpr uint64_t kMicrosPerSecond = 1000000;
  const auto seconds = static_cast<time_t>(time_us / kMicrosPerSecond);
  struct tm date = {};
  localtime_r(&seconds, &date);
  char head[128];
  const int head_size = snprintf(
      head, sizeof(head), "%04d/%02d/%02d-%02d:%02d:%02d.%06u %d [%s] ",
      date.tm_year + 1900, date.tm_mon + 1, date.tm_mday, date.tm_hour,
      date.tm_min, date.tm_sec,
      static_cast<unsigned>(time_us % kMicrosPerSecond),
      static_cast<int>(gettid()), LevelName(level));
  std::string line(head, head_size > 0 ? static_cast<size_t>(head_size) : 0);

  va_list again;
  va_copy(again, arguments);
  const int size = vsnprintf(nullptr, 0, format, arguments);
  if (size > 0) {
    const size_t start = line.size();
    // One byte more for the terminator, which the newline then replaces.
    line.resize(start + static_cast<size_t>(size) + 1);
    vsnprintf(line.data() + start, static_cast<size_t>(size) + 1, format,
              again);
    line.pop_back();
  }
  va_end(again);
  while (line.ends_with('\n')) line.pop_back();
  line.push_back('\n');
  return line;
}

}  // namespace varve
