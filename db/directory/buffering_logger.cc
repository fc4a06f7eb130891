// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/directory/buffering_logger.h"

#include <cstdio>

namespace varve {

void BufferingLogger::SetTarget(std::shared_ptr<Logger> target) {
  MutexLock lock(&mutex_);
  has_target_ = true;
  target_ = std::move(target);
  for (const auto& [level, line] : kept_) {
    Log(level, target_.get(), "%s", line.c_str());
  }
  kept_.clear();
}

void BufferingLogger::Logv(LogLevel level, const char* format,
                           va_list arguments) {
  std::shared_ptr<Logger> target;
  {
    MutexLock lock(&mutex_);
    if (!has_target_) {
      char line[512];
      vsnprintf(line, sizeof(line), format, arguments);
      kept_.emplace_back(level, line);
      return;
    }
    target = target_;
  }
  if (target != nullptr) target->Logv(level, format, arguments);
}

}  // namespace varve
