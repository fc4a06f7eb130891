// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Counts objects that many threads create and destroy, striped by thread: a
// thread usually shares its stripe, a cache line, with no other one. It is for
// an owner that ends when there are none left. The last thread does not learn
// that it is the last. It sees a flag that the owner has set.
// Thread-safety: thread-safe.
//
// Words and states
//   The stripes, whose sum is the number of objects. One may be negative. The
//   owner's flag: no object is created any more, and it waits for the rest.
// Transitions
//   T1 add, by any thread, in any stripe.
//   T2 remove: T1 with -1; load the flag. If it is set, take the owner's mutex,
//      and T3.
//   T3 wait, with the owner's mutex held: set the flag; sum the stripes. If the
//      sum is 0, end the owner, once.
// Invariants
//   I1 the owner does not end while an object exists: after the flag is set the
//      stripes only fall, so the sum is at least the number at the end of T3.
//   I2 the owner ends.
// Why each order is needed
//   I2: T2 adds and loads the flag, and T3 stores the flag and loads the
//   stripe, a store-buffering pair. All four are seq_cst, so at least one of
//   the two sees the other. In T2 the addition is a fence anyway. For the same
//   reason all that a thread did with its object happens before the end.
// Bad interleavings prevented
//   B1 T3 sums, the last T2 adds and sees no flag: seq_cst.
//   B2 the owner ends, and a thread in T2 reads the flag: the flag is not in
//      the owner's memory.
//   B3 two threads see the flag and a sum of 0: the mutex, and T3 ends once.
// Freshness and progress
//   T1 and T2 are an atomic addition. The rest is rare.
// Reclamation
//   With its owner.

#include <atomic>
#include <cstdint>

#include "util/threads/striped_refs.h"
#include "util/threads/thread_record.h"

namespace varve {

template <typename Memory, int kStripes>
class StripedCountOf {
 public:
  void Add(uint32_t stripe, int64_t count) {
    // seq_cst: see above.
    stripes_[stripe].count.fetch_add(count, std::memory_order_seq_cst);
  }
  int64_t Sum() const {
    int64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      // seq_cst: see above.
      sum += stripe.count.load(std::memory_order_seq_cst);
    }
    return sum;
  }

 private:
  struct alignas(64) Stripe {
    typename Memory::template Atomic<int64_t> count{0};
  };

  Stripe stripes_[kStripes];
};

using StripedCount = StripedCountOf<StdAtomics, ThreadRecord::kStripes>;

}  // namespace varve
