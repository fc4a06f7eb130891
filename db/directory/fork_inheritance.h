// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Records which ancestor processes own an open database that this process
// inherited by fork(). See db_fork.cc. Thread-safety: guarded by the DB mutex;
// Inherit is called in a child, by its only thread.

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class ForkInheritance {
 public:
  // Returns false if this process opened the database or took it over.
  bool is_inherited() const { return count_ > 0; }

  // Records that this process is a child of the owner. `mutex_was_free`: no
  // thread of the owner was changing what the DB mutex guards. `is_whole`: none
  // was working in the database at all. Allocates no memory.
  void Inherit(bool mutex_was_free, bool is_whole);
  // Returns false if what the DB mutex guards may be half changed.
  bool mutex_was_free() const { return mutex_was_free_; }
  // Returns true if all previous owners have ended and the database is whole.
  // `waits`: the first call waits a short time for them to end.
  bool MayTakeOver(bool waits, Env* env);
  // Makes this process the owner. Returns true if Error was called.
  bool TakeOver() {
    count_ = 0;
    return std::exchange(has_told_error_, false);
  }
  // Returns the error of writes.
  Status Error(const std::string& path);
  // Leaves the database to its owner for good.
  void Abandon() { is_abandoned_ = true; }
  bool is_abandoned() const { return is_abandoned_; }

 private:
  static constexpr int kMaxAncestors = 8;

  bool AncestorsHaveEnded() const;

  int count_ = 0;
  pid_t ancestors_[kMaxAncestors] = {};  // The one that opened it first.
  pid_t pid_ = getpid();
  bool mutex_was_free_ = true;
  bool is_whole_ = false;
  bool has_waited_ = false;  // For the ancestors to end.
  bool has_told_error_ = false;
  bool is_abandoned_ = false;
};

}  // namespace varve
