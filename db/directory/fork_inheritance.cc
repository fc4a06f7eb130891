// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/directory/fork_inheritance.h"

#include "env/process_name.h"

namespace varve {

namespace {

// A parent that ends at once after the fork may do so a little later than the
// child's first write.
constexpr uint64_t kParentWaitUs = 500 * 1000;
constexpr uint64_t kParentPollUs = 1000;

}  // namespace

void ForkInheritance::Inherit(bool mutex_was_free, bool is_whole) {
  mutex_was_free_ = mutex_was_free_ && mutex_was_free;
  is_whole_ = is_whole && count_ < kMaxAncestors && (count_ == 0 || is_whole_);
  has_waited_ = count_ > 0 && has_waited_;
  // getppid() would be wrong, since the parent may have ended.
  if (count_ < kMaxAncestors) ancestors_[count_++] = pid_;
  pid_ = getpid();
}

bool ForkInheritance::AncestorsHaveEnded() const {
  // The nearest is the parent as long as it runs.
  if (getppid() == ancestors_[count_ - 1]) return false;
  for (int i = 0; i + 1 < count_; ++i) {
    if (!HasProcessEnded(ancestors_[i])) return false;
  }
  return true;
}

bool ForkInheritance::MayTakeOver(bool waits, Env* env) {
  const uint64_t wait_us = waits && !has_waited_ ? kParentWaitUs : 0;
  has_waited_ = has_waited_ || waits;
  if (!is_whole_) return false;
  for (uint64_t waited_us = 0; !AncestorsHaveEnded();
       waited_us += kParentPollUs) {
    if (waited_us >= wait_us) return false;
    env->SleepForMicroseconds(kParentPollUs);
  }
  return true;
}

Status ForkInheritance::Error(const std::string& path) {
  has_told_error_ = true;
  return Status::Busy(
      path, is_whole_
                ? "is held by process " + std::to_string(ancestors_[0]) +
                      ", which this one was forked from"
                : "was in use by other threads when this process was forked, "
                  "and has to be opened again");
}

}  // namespace varve
