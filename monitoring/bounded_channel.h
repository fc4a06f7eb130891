// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bounded lock-free queue with a turn number per cell (a variant of Vyukov's),
// for many producers and one consumer. trace_collect=channel sends each span
// through it.
//
// Words and states
//   A ring of cells, each with a `turn`. 2 * lap: the cell is empty for that
//   lap of the ring. 2 * lap + 1: it is full. `tail_` counts sends that have
//   chosen their cell. `head_` counts received values. It is plain and owned by
//   the receiver.
// Transitions
//   T1 choose: the sender finds the cell of `tail_` empty for its lap (acquire)
//      and takes it by a compare-and-swap of `tail_`, relaxed.
//   T2 fill: it writes the value and stores 2 * lap + 1, release.
//   T3 receive: the receiver finds the cell full for its lap (acquire), takes
//      the value, and stores 2 * (lap + 1), release.
// Invariants
//   I1 between T1 and T2 the cell belongs to the sender, between T2 and T3 to
//      the receiver: no two threads access a value at once.
// Why each order is needed
//   T2 pairs with the acquire of T3: the value is whole. T3 pairs with the
//      acquire of T1: the value was taken out. `tail_` itself orders nothing:
//      the turn does.
// Bad interleavings prevented
//   B1 a sender is suspended between T1 and T2 while the others go round the
//      ring: its cell's turn is of the old lap, so the next sender finds it
//      full.
// Freshness and progress
//   A sender suspended between T1 and T2 hides later values from the receiver.
//   A full channel refuses at once.
// Reclamation
//   None: cells live as long as the channel.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace varve {

template <typename T, size_t kCells>
class BoundedChannel {
  static_assert((kCells & (kCells - 1)) == 0);

 public:
  BoundedChannel() = default;
  BoundedChannel(const BoundedChannel&) = delete;
  BoundedChannel& operator=(const BoundedChannel&) = delete;

  // Allocates the cells, once. REQUIRES: before the first Send; no thread
  // receives.
  void Allocate() {
    if (cells_ == nullptr) cells_ = std::make_unique<Cell[]>(kCells);
  }

  // Returns false if the channel is full. Thread-safe.
  bool Send(const T& value) {
    // relaxed, here and below: see T1.
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[tail % kCells];
      const uint64_t lap = tail / kCells;
      // acquire: pairs with the release of T3.
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn < 2 * lap) return false;
      if (turn > 2 * lap) {  // Another sender was faster.
        tail = tail_.load(std::memory_order_relaxed);  // relaxed: as above.
        continue;
      }
      // relaxed: as above.
      if (!tail_.compare_exchange_weak(tail, tail + 1,
                                       std::memory_order_relaxed)) {
        continue;
      }
      cell.value = value;
      // T2. release: pairs with the acquire in Receive.
      cell.turn.store(2 * lap + 1, std::memory_order_release);
      return true;
    }
  }

  // Returns false if the channel is empty or has no cells yet. REQUIRES: one
  // thread at a time.
  bool Receive(T* value) {
    if (cells_ == nullptr) return false;
    Cell& cell = cells_[head_ % kCells];
    const uint64_t lap = head_ / kCells;
    // acquire: pairs with the release of T2.
    if (cell.turn.load(std::memory_order_acquire) != 2 * lap + 1) return false;
    *value = cell.value;
    // T3. release: pairs with the acquire in Send.
    cell.turn.store(2 * (lap + 1), std::memory_order_release);
    ++head_;
    return true;
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn{0};
    T value;
  };

  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

}  // namespace varve
