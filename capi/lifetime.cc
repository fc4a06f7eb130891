// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "capi/lifetime.h"

#include <array>
#include <cstdint>

#include "util/base/mutex.h"
#include "util/base/process_wide.h"

namespace varve::capi {

namespace {

// Closed handles are kept in rings. A handle's address selects the ring, so
// threads that close handles seldom share one. The handles take 32 KiB
// together.
constexpr size_t kRings = 32;
constexpr size_t kHandlesOfRing = 8;

struct alignas(64) Ring {
  Mutex mutex;
  std::array<std::unique_ptr<varve_t>, kHandlesOfRing> closed
      VARVE_GUARDED_BY(mutex);
  size_t next VARVE_GUARDED_BY(mutex) = 0;
};

Ring& RingOf(const varve_t* handle) {
  // Never destroyed: programs may close databases when they end.
  static constinit ProcessWide<std::array<Ring, kRings>> rings;
  const size_t number = reinterpret_cast<uintptr_t>(handle) / alignof(varve_t);
  return rings.Get()[number * 0x9E3779B97F4A7C15 >> 48 & (kRings - 1)];
}

// Held while a list of dependents is changed.
Mutex& DependentsMutex() {
  static constinit ProcessWide<Mutex> mutex;
  return mutex.Get();
}

// Detaches the handle, and the objects created from it later, from its
// database.
void CutOff(varve_t* handle) {
  for (Dependent* dependent : handle->dependents) {
    dependent->CutOff();
    dependent->db = ClosedDb();
    dependent->handle = nullptr;
  }
  handle->dependents.clear();
  handle->db = ClosedDb();
}

}  // namespace

void LetGoWhileClosing(varve_t* owner, void (*go)(void*), void* object) {
  {
    MutexLock lock(&owner->mutex);
    go(object);
    if (owner->owned->Close().IsBusy()) return;
  }
  // That was the last object, so no other thread can get here.
  RetireHandle(owner);
}

void CloseHandle(varve_t* handle) {
  if (handle->db == ClosedDb()) return;
  for (Dependent* dependent : handle->dependents) dependent->BeforeClose();
  if (handle->owned == nullptr || !handle->owned->Close().IsBusy()) {
    RetireHandle(handle);
    return;
  }
  // The program may end, or destroy its comparator, before it destroys the
  // objects. So all data is written now, and no background job remains. There
  // is no way to return an error.
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
  handle->reference.Reset();
  Ring& ring = RingOf(handle);
  std::unique_ptr<varve_t> oldest(handle);
  MutexLock lock(&ring.mutex);
  ring.closed[ring.next].swap(oldest);
  ring.next = (ring.next + 1) % kHandlesOfRing;
}

void AddDependent(Dependent* dependent) {
  MutexLock lock(&DependentsMutex());
  auto& all = dependent->handle->dependents;
  dependent->place = all.size();
  all.push_back(dependent);
}

void RemoveDependent(Dependent* dependent) {
  MutexLock lock(&DependentsMutex());
  if (dependent->handle == nullptr) return;
  auto& all = dependent->handle->dependents;
  all.back()->place = dependent->place;
  all[dependent->place] = all.back();
  all.pop_back();
}

}  // namespace varve::capi
