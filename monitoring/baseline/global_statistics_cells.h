// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Thread-safety: thread-safe, except for construction and destruction.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "monitoring/statistics_cells.h"

namespace varve {

// statistics=global: one set of atomic cells for all threads.
class GlobalStatisticsCells final : public StatisticsCellSets {
 public:
  void Add(size_t cell, uint64_t count) override {
    // relaxed: a count orders nothing.
    cells_[cell].fetch_add(count, std::memory_order_relaxed);
  }
  void Record(size_t bounds, size_t cell, uint64_t value) override;
  void ForEachSet(
      const std::function<void(const Cell*)>& function) const override {
    function(cells_.data());
  }
  const char* Path() const override { return "atomic (global)"; }
  uint64_t used_bytes() const override { return sizeof(*this); }
  uint64_t reserved_bytes() const override { return sizeof(*this); }

 private:
  std::array<Cell, StatisticsCells::kCount> cells_ = {};
};

}  // namespace varve
