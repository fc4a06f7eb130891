// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/statistics.h"

#include <array>
#include <atomic>
#include <string>

namespace varve {

namespace {

// In the order of the enumeration.
constexpr std::array kTickerNames = {
    "varve.block.cache.hit",
    "varve.block.cache.miss",
    "varve.block.cache.add",
    "varve.bloom.filter.useful",
    "varve.memtable.hit",
    "varve.memtable.miss",
    "varve.number.keys.written",
    "varve.number.keys.read",
    "varve.number.keys.found",
    "varve.bytes.written",
    "varve.bytes.read",
    "varve.number.db.seek",
    "varve.number.db.next",
    "varve.number.db.prev",
    "varve.wal.synced",
    "varve.wal.bytes",
    "varve.write.self",
    "varve.write.other",
    "varve.stall.micros",
    "varve.l0.file.count.limit.delays",
    "varve.l0.file.count.limit.stops",
    "varve.pending.compaction.bytes.delays",
    "varve.pending.compaction.bytes.stops",
    "varve.memtable.limit.delays",
    "varve.memtable.limit.stops",
    "varve.flush.write.bytes",
    "varve.compact.read.bytes",
    "varve.compact.write.bytes",
    "varve.no.file.opens",
    "varve.no.file.errors",
};
static_assert(kTickerNames.size() == kTickerCount, "a name for each ticker");

// One atomic number a ticker.
class AtomicStatistics final : public Statistics {
 public:
  void recordTick(Ticker ticker, uint64_t count) override {
    // relaxed: a count orders nothing.
    counts_[Index(ticker)].fetch_add(count, std::memory_order_relaxed);
  }

  uint64_t getTickerCount(Ticker ticker) const override {
    // relaxed: as in recordTick.
    return counts_[Index(ticker)].load(std::memory_order_relaxed);
  }

  void Reset() override {
    for (std::atomic<uint64_t>& count : counts_) {
      // relaxed: as in recordTick.
      count.store(0, std::memory_order_relaxed);
    }
  }

  std::string ToString() const override {
    std::string text;
    for (uint32_t i = 0; i < kTickerCount; ++i) {
      const Ticker ticker = static_cast<Ticker>(i);
      text.append(TickerName(ticker));
      text.append(" COUNT : ");
      text.append(std::to_string(getTickerCount(ticker)));
      text.push_back('\n');
    }
    return text;
  }

 private:
  static size_t Index(Ticker ticker) { return static_cast<size_t>(ticker); }

  std::array<std::atomic<uint64_t>, kTickerCount> counts_ = {};
};

}  // namespace

const char* TickerName(Ticker ticker) {
  return kTickerNames[static_cast<size_t>(ticker)];
}

std::shared_ptr<Statistics> CreateDBStatistics() {
  return std::make_shared<AtomicStatistics>();
}

}  // namespace varve
