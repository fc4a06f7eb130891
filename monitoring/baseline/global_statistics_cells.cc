// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/baseline/global_statistics_cells.h"

namespace varve {

void GlobalStatisticsCells::Record(size_t bounds, size_t cell, uint64_t value) {
  const uint64_t values[2] = {value, ~value};
  for (size_t i = 0; i < 2; ++i) {
    Cell& bound = cells_[bounds + i];
    // relaxed: a count orders nothing.
    uint64_t seen = bound.load(std::memory_order_relaxed);
    // relaxed, both: see util/threads/per_cpu.h.
    while (seen < values[i] &&
           !bound.compare_exchange_weak(seen, values[i],
                                        std::memory_order_relaxed)) {
    }
  }
  // relaxed: a count orders nothing.
  cells_[cell].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace varve
