// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A reference count in two levels, striped by thread. A thread usually shares
// its stripe, a cache line, with no other one. The base counts owners. A stripe
// that counts anything holds one reference of the base. So only the first and
// the last reference of a stripe change the base, and a thread that keeps one
// reference takes and releases further ones in its own cache line.
// Thread-safety: thread-safe.
//
// `Memory` provides the atomics. A test uses it to run this code through every
// order of all steps (test/util/threads/striped_refs_orders_test.cc).
//
// Words and states
//   `base_` is at least 1 while the object is alive. Each stripe is 0 or more.
// Transitions
//   T1 Ref(stripe): stripe + 1; if it was 0, then base + 1. The caller holds
//      another reference until the call returns, or a mutex that keeps one.
//   T2 Unref(stripe): stripe - 1; if it was 1, then base - 1; if that was 1,
//      the caller disposes of the object.
//   T3 Ref and Unref of the base.
// Invariants
//   I1 base = its owners + the stripes that went up from 0 - those that came
//      down to 0, less the changes under way.
//   I2 The object is alive while any reference exists.
// Why each order is needed
//   I2: the first reference of a stripe is in the base before its own T1
//   returns. Until then the other reference that its caller holds keeps the
//   object alive. That one was complete before this T1 began, so there is a
//   first one that is in the base. Others that find the stripe at 1 or more
//   meanwhile cannot bring it to 0, because the first one is released only
//   after its T1.
//   T2 is acq_rel, and all changes are read-modify-writes, so T2 of the last
//   reference of a stripe happens after the T1 of the first one, and the base
//   never counts down before it was counted up. For the same reason all uses of
//   the object happen before its disposal. T1 is relaxed: it gives access to
//   nothing that its caller could not use before.
// Bad interleavings prevented
//   B1 a thread raises a stripe from 0 and sleeps; another takes and releases
//      in that stripe: it goes from 1 to 2 and back, and the base is unchanged.
//   B2 a thread brings a stripe to 0 and sleeps; another raises it again: the
//      base counts one too many until the first one wakes, which is safe.
//   B3 a thread raises a stripe from 0 and sleeps, and the last other reference
//      is released: prevented by the reference that the caller of T1 holds.
// Freshness and progress
//   Each call is one or two atomic additions. No thread waits.
// Reclamation
//   By the caller of the last Unref.

#include <atomic>
#include <cstdint>

#include "util/base/check.h"
#include "util/threads/thread_record.h"

namespace varve {

// The memory for production.
struct StdAtomics {
  template <typename T>
  using Atomic = std::atomic<T>;
};

template <typename Memory, int kStripes>
class StripedRefsOf {
 public:
  // T3. The first reference is of the base.
  void Ref() {
    // relaxed: the caller holds a reference, or a mutex that keeps one.
    base_.fetch_add(1, std::memory_order_relaxed);
  }
  // Returns true if it released the last reference.
  [[nodiscard]] bool Unref() {
    // acq_rel pairs with itself: see above.
    return base_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // T1. `stripe`: of the calling thread's record.
  void Ref(uint32_t stripe) {
    const int before =
        // relaxed: see above.
        stripes_[stripe].count.fetch_add(1, std::memory_order_relaxed);
    VARVE_DCHECK(before >= 0);
    if (before == 0) Ref();
  }
  // T2. `stripe`: the one that was given to Ref, by any thread.
  [[nodiscard]] bool Unref(uint32_t stripe) {
    const int before =
        // acq_rel pairs with itself: see above.
        stripes_[stripe].count.fetch_sub(1, std::memory_order_acq_rel);
    VARVE_DCHECK(before > 0);
    return before == 1 && Unref();
  }

 private:
  using Count = typename Memory::template Atomic<int>;
  struct alignas(64) Stripe {
    Count count{0};
  };

  Stripe stripes_[kStripes];
  alignas(64) Count base_{1};
};

using StripedRefs = StripedRefsOf<StdAtomics, ThreadRecord::kStripes>;

}  // namespace varve
