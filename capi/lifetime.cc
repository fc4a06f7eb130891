// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "capi/lifetime.h"

#include <algorithm>
#include <deque>

#include "util/mutex.h"

namespace varve::capi {

namespace {

// Of 32 KiB together.
constexpr size_t kClosedHandlesToKeep = 256;

// Never destroyed: programs may close databases when they end.
struct Lifetimes {
  Mutex mutex;
  std::deque<std::unique_ptr<varve_t>> closed VARVE_GUARDED_BY(mutex);

  static Lifetimes& Get() {
    static auto* const lifetimes = new Lifetimes;
    return *lifetimes;
  }
};

// The handle, and what is made from it from now on, is of no database.
void CutOff(varve_t* handle) {
  for (varve_checkpoint_t* checkpoint : handle->checkpoints) {
    checkpoint->db = ClosedDb();
    checkpoint->handle = nullptr;
  }
  handle->checkpoints.clear();
  handle->db = ClosedDb();
}

}  // namespace

void LetGoWhileClosing(varve_t* owner, void (*go)(void*), void* object) {
  {
    MutexLock lock(&owner->mutex);
    go(object);
    if (owner->owned->Close().IsBusy()) return;
  }
  // That was the last one: no other thread can get here.
  RetireHandle(owner);
}

void CloseHandle(varve_t* handle) {
  if (handle->db == ClosedDb()) return;
  if (handle->owned == nullptr) {
    CutOff(handle);
    delete handle;
    return;
  }
  if (!handle->owned->Close().IsBusy()) {
    RetireHandle(handle);
    return;
  }
  // The program may end, or destroy its comparator, before the objects: all is
  // written now, and no job stays. There is no way to tell of an error.
  handle->owned->Flush(FlushOptions()).IgnoreError();
  handle->owned->FlushWAL(true).IgnoreError();
  handle->owned->CancelAllBackgroundWork(true);
  CutOff(handle);
  // relaxed: see lifetime.h.
  handle->closing.store(true, std::memory_order_relaxed);
}

void RetireHandle(varve_t* handle) {
  CutOff(handle);
  handle->owned.reset();
  Lifetimes& lifetimes = Lifetimes::Get();
  std::unique_ptr<varve_t> oldest;
  MutexLock lock(&lifetimes.mutex);
  lifetimes.closed.emplace_back(handle);
  if (lifetimes.closed.size() <= kClosedHandlesToKeep) return;
  oldest = std::move(lifetimes.closed.front());
  lifetimes.closed.pop_front();
}

void AddCheckpoint(varve_checkpoint_t* checkpoint) {
  MutexLock lock(&Lifetimes::Get().mutex);
  checkpoint->handle->checkpoints.push_back(checkpoint);
}

void RemoveCheckpoint(varve_checkpoint_t* checkpoint) {
  MutexLock lock(&Lifetimes::Get().mutex);
  if (checkpoint->handle == nullptr) return;
  auto& all = checkpoint->handle->checkpoints;
  all.erase(std::find(all.begin(), all.end(), checkpoint));
}

}  // namespace varve::capi
