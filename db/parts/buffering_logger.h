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

// Passes lines on to another logger, once there is one; until then it keeps
// them. A database has something to say while it is read, before it is known
// that its LOG may be touched.
// Thread-safety: thread-safe.
class BufferingLogger final : public Logger {
 public:
  // Passes on what was kept, and from now on everything. Null drops all.
  // To be called once.
  void SetTarget(std::shared_ptr<Logger> target);

  void Logv(LogLevel level, const char* format, va_list arguments) override;

 private:
  Mutex mutex_;
  bool has_target_ VARVE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Logger> target_ VARVE_GUARDED_BY(mutex_);
  std::vector<std::pair<LogLevel, std::string>> kept_ VARVE_GUARDED_BY(mutex_);
};

}  // namespace varve
