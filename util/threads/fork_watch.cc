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

  void Add(ForkWatch::Registration* added) {
    MutexLock lock(&mu_);
    added->previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = added;
    last_ = added;
  }
  void Remove(ForkWatch::Registration* removed) {
    MutexLock lock(&mu_);
    (removed->previous_ != nullptr ? removed->previous_->next_ : first_) =
        removed->next_;
    (removed->next_ != nullptr ? removed->next_->previous_ : last_) =
        removed->previous_;
  }

 private:
  static void Before() VARVE_ACQUIRE(Get().mu_) { Get().mu_.Lock(); }
  static void InParent() VARVE_RELEASE(Get().mu_) { Get().mu_.Unlock(); }
  static void InChild() VARVE_RELEASE(Get().mu_) {
    for (ForkWatch::Registration* each = Get().first_; each != nullptr;
         each = each->next_) {
      each->watch_->InForkedChild();
    }
    Get().mu_.Unlock();
  }

  // Once, when the library is loaded.
  [[gnu::constructor]] static void RegisterHandlers() {
    // Without memory for it, children are not notified.
    static_cast<void>(pthread_atfork(&Before, &InParent, &InChild));
  }

  Mutex mu_;
  ForkWatch::Registration* first_ VARVE_GUARDED_BY(mu_) = nullptr;
  ForkWatch::Registration* last_ VARVE_GUARDED_BY(mu_) = nullptr;
};

ForkWatch::Registration::Registration(ForkWatch* watch) : watch_(watch) {
  ForkWatchList::Get().Add(this);
}

ForkWatch::Registration::~Registration() { ForkWatchList::Get().Remove(this); }

}  // namespace varve
