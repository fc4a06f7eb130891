// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/fork_watch.h"

#include <pthread.h>

#include "util/base/process_wide.h"
#include "util/base/thread_annotations.h"

namespace varve {

// All watchers of the process. Its mutex is held during fork(), so that the
// list is consistent in the child.
class ForkWatchList {
 public:
  static ForkWatchList& Get() {
    static constinit ProcessWide<ForkWatchList> list;
    return list.Get();
  }

  void Add(ForkWatch* watch) {
    MutexLock lock(&mu_);
    watch->previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = watch;
    last_ = watch;
  }
  void Remove(ForkWatch* watch) {
    MutexLock lock(&mu_);
    (watch->previous_ != nullptr ? watch->previous_->next_ : first_) =
        watch->next_;
    (watch->next_ != nullptr ? watch->next_->previous_ : last_) =
        watch->previous_;
  }

 private:
  static void Before() VARVE_NO_THREAD_SAFETY_ANALYSIS { Get().mu_.Lock(); }
  static void InParent() VARVE_NO_THREAD_SAFETY_ANALYSIS { Get().mu_.Unlock(); }
  static void InChild() VARVE_NO_THREAD_SAFETY_ANALYSIS {
    for (ForkWatch* watch = Get().first_; watch != nullptr;
         watch = watch->next_) {
      watch->InForkedChild();
    }
    Get().mu_.Unlock();
  }

  // Once, when the library is loaded.
  [[gnu::constructor]] static void RegisterHandlers() {
    // Without memory for it, children are not notified.
    static_cast<void>(pthread_atfork(&Before, &InParent, &InChild));
  }

  Mutex mu_;
  ForkWatch* first_ VARVE_GUARDED_BY(mu_) = nullptr;
  ForkWatch* last_ VARVE_GUARDED_BY(mu_) = nullptr;
};

ForkWatch::ForkWatch() { ForkWatchList::Get().Add(this); }

ForkWatch::~ForkWatch() { ForkWatchList::Get().Remove(this); }

}  // namespace varve
