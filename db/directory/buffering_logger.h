// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdarg>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "util/base/mutex.h"
#include "varve/env.h"

namespace varve {

// Forwards lines to another logger, and buffers them until that logger is set.
// A database logs lines while it is recovered, before its LOG may be written.
// Thread-safety: thread-safe.
class BufferingLogger final : public Logger {
 public:
  // Forwards the buffered lines, and all later ones. With a null target, all
  // lines are dropped.
  void SetTarget(std::shared_ptr<Logger> target);

  void Logv(LogLevel level, const char* format, va_list arguments) override;

 private:
  Mutex mutex_;
  bool has_target_ VARVE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Logger> target_ VARVE_GUARDED_BY(mutex_);
  std::vector<std::pair<LogLevel, std::string>> kept_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace varve
