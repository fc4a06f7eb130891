// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/witness.h"

namespace varve {

namespace {

// Counted by threads without a record.
constinit std::atomic<uint64_t> orphans[kWitnesses] = {};

}  // namespace

void CountWitness(Witness witness, uint64_t times) {
  ThreadRecord* const record = current_thread_record;
  if (record != nullptr) {
    CountWitness(record, witness, times);
    return;
  }
  // relaxed: a count.
  orphans[static_cast<int>(witness)].fetch_add(times,
                                               std::memory_order_relaxed);
}

uint64_t WitnessCount(Witness witness) {
  const int i = static_cast<int>(witness);
  // relaxed, here and below: counts.
  uint64_t sum = orphans[i].load(std::memory_order_relaxed);
  ForEachThreadRecord([i, &sum](const ThreadRecord* record) {
    sum += record->witnesses[i].load(std::memory_order_relaxed);
  });
  return sum;
}

}  // namespace varve
