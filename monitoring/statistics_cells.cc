// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/statistics_cells.h"

#include <algorithm>

namespace varve {

namespace {

using Cell = StatisticsCells::Cell;

uint64_t Load(const Cell& cell) {
  // relaxed: a count orders nothing.
  return cell.load(std::memory_order_relaxed);
}

// For cells to which no other thread writes.
void Store(Cell* cell, uint64_t value) {
  // relaxed: as above.
  cell->store(value, std::memory_order_relaxed);
}

}  // namespace

void FoldStatisticsSet(const Cell* from, Cell* to) {
  using C = StatisticsCells;
  const auto add = [&](size_t i) {
    Store(&to[i], Load(to[i]) + Load(from[i]));
  };
  for (size_t i = 0; i < C::SumOf(0); ++i) add(i);
  for (size_t h = 0; h < kHistogramCount; ++h) {
    add(C::SumOf(h));
    const uint64_t max = Load(from[C::BoundsOf(h)]);
    const uint64_t min = ~Load(from[C::BoundsOf(h) + 1]);
    if (max < min) continue;  // Nothing was recorded; nor are pages touched.
    for (size_t i = C::BoundsOf(h); i < C::BoundsOf(h) + 2; ++i) {
      Store(&to[i], std::max(Load(to[i]), Load(from[i])));
    }
    const size_t last = Histogram::BucketOf(max);
    for (size_t b = Histogram::BucketOf(min); b <= last; ++b) {
      add(C::BucketOf(h, b));
    }
  }
}

}  // namespace varve
