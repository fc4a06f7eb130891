// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Which processes have a better claim to an open database than this one, which
// came from them by fork(). See db_fork.cc.
// Thread-safety: guarded by the DB mutex; Inherit is called in a child, by its
// only thread.

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class ForkInheritance {
 public:
  // False: this process has opened the database, or taken it over.
  bool is_inherited() const { return count_ > 0; }

  // This process is a child of the one that had it. `is_whole`: no thread of
  // that was at work in it. Allocates no memory.
  void Inherit(bool is_whole);
  // Whether all that had it have ended, and it is whole. `waits`: for a little
  // while, the first time.
  bool MayTakeOver(bool waits, Env* env);
  // It is this process's own from now on. Whether Error was asked for.
  bool TakeOver() {
    count_ = 0;
    return std::exchange(has_told_error_, false);
  }
  // Why it is not to be written to.
  Status Error(const std::string& path);
  // It stays another process's.
  void Abandon() { is_abandoned_ = true; }
  bool is_abandoned() const { return is_abandoned_; }

 private:
  static constexpr int kMaxAncestors = 8;

  bool AncestorsHaveEnded() const;

  int count_ = 0;
  pid_t ancestors_[kMaxAncestors] = {};  // The one that opened it first.
  pid_t pid_ = getpid();
  bool is_whole_ = false;
  bool has_waited_ = false;  // For the ancestors to end.
  bool has_told_error_ = false;
  bool is_abandoned_ = false;
};

}  // namespace varve
