// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Names, units and levels of all counters, and the tickers of the groups.

#include <array>

#include "monitoring/statistics.h"

namespace varve {

namespace {

// In the order of the enumeration.
constexpr std::array kTickerNames = {
    "varve.block.cache.hit",
    "varve.block.cache.miss",
    "varve.block.cache.add",
    "varve.block.cache.data.hit",
    "varve.block.cache.data.miss",
    "varve.block.cache.data.add",
    "varve.block.cache.data.bytes.insert",
    "varve.block.cache.bytes.write",
    "varve.bloom.filter.useful",
    "varve.bloom.filter.full.positive",
    "varve.bloom.filter.full.true.positive",
    "varve.memtable.hit",
    "varve.memtable.miss",
    "varve.l0.hit",
    "varve.l1.hit",
    "varve.l2andup.hit",
    "varve.number.keys.read",
    "varve.number.keys.found",
    "varve.bytes.read",
    "varve.number.multiget.get",
    "varve.number.multiget.keys.read",
    "varve.number.multiget.keys.found",
    "varve.number.multiget.bytes.read",
    "varve.number.db.seek",
    "varve.number.db.seek.found",
    "varve.number.db.next",
    "varve.number.db.next.found",
    "varve.number.db.prev",
    "varve.number.db.prev.found",
    "varve.db.iter.bytes.read",
    "varve.number.iter.skip",
    "varve.number.reseeks.iteration",
    "varve.dead.walks",
    "varve.dead.range.steps",
    "varve.dead.range.flushes",
    "varve.dead.range.compactions",
    "varve.num.iterator.created",
    "varve.num.iterator.deleted",
    "varve.number.superversion_acquires",
    "varve.number.superversion_releases",
    "varve.number.keys.written",
    "varve.bytes.written",
    "varve.write.self",
    "varve.write.other",
    "varve.write.wal",
    "varve.wal.synced",
    "varve.wal.bytes",
    "varve.stall.micros",
    "varve.pace.micros",
    "varve.l0.file.count.limit.delays",
    "varve.l0.file.count.limit.stops",
    "varve.pending.compaction.bytes.delays",
    "varve.pending.compaction.bytes.stops",
    "varve.memtable.limit.delays",
    "varve.memtable.limit.stops",
    "varve.flush.write.bytes",
    "varve.compact.read.bytes",
    "varve.compact.write.bytes",
    "varve.compaction.cancelled",
    "varve.compaction.key.drop.new",
    "varve.compaction.key.drop.obsolete",
    "varve.compaction.key.drop.range_del",
    "varve.compaction.key.drop.user",
    "varve.compaction.filter.errors",
    "varve.number.merge.failures",
    "varve.no.file.opens",
    "varve.no.file.errors",
    "varve.files.deleted.immediately",
    "varve.block.checksum.compute.count",
    "varve.number.block.compressed",
    "varve.number.block.not_compressed",
    "varve.number.block.decompressed",
    "varve.sst.read.bytes",
    "varve.error.handler.bg.error.count",
    "varve.error.handler.bg.io.error.count",
    "varve.error.handler.autoresume.count",
    "varve.error.handler.autoresume.success.count",
    "varve.wal.incomplete",
    "varve.transaction.commits",
    "varve.transaction.rollbacks",
    "varve.transaction.conflicts",
    "varve.transaction.lock.timeouts",
    "varve.transaction.deadlocks",
    "varve.bloom.filter.prefix.checked",
    "varve.bloom.filter.prefix.useful",
};
static_assert(kTickerNames.size() == kTickerCount, "a name for each ticker");

struct HistogramTraits {
  const char* name;
  double unit;
  StatsLevel level;
};
constexpr StatsLevel kTimes = StatsLevel::kExceptDetailedTimers;
constexpr StatsLevel kSizes = StatsLevel::kExceptTimers;

constexpr HistogramTraits kHistograms[] = {
    {"varve.db.get.micros", 1000, kTimes},
    {"varve.db.write.micros", 1000, kTimes},
    {"varve.db.multiget.micros", 1000, kTimes},
    {"varve.db.seek.micros", 1000, kTimes},
    {"varve.db.flush.micros", 1000, kTimes},
    {"varve.compaction.times.micros", 1000, kTimes},
    {"varve.wal.file.sync.micros", 1000, kTimes},
    {"varve.sst.read.micros", 1000, kTimes},
    {"varve.table.open.io.micros", 1000, kTimes},
    {"varve.snapshot.scan.micros", 1000, kTimes},
    {"varve.db.write.stall", 1000, kSizes},
    {"varve.bytes.per.write", 1, kSizes},
    {"varve.bytes.per.read", 1, kSizes},
    {"varve.bytes.per.multiget", 1, kSizes},
    {"varve.numfiles.in.singlecompaction", 1, kSizes},
    {"varve.db.mutex.wait.micros", 1000, StatsLevel::kAll},
};
static_assert(std::size(kHistograms) == kHistogramCount);

const HistogramTraits& TraitsOf(HistogramType histogram) {
  return kHistograms[static_cast<size_t>(histogram)];
}

constexpr Ticker kFromMemtable[] = {
    Ticker::kNumberKeysRead, Ticker::kMemtableHit, Ticker::kNumberKeysFound};
constexpr Ticker kDeleted[] = {Ticker::kNumberKeysRead, Ticker::kMemtableHit};
constexpr Ticker kNowhere[] = {Ticker::kNumberKeysRead, Ticker::kMemtableMiss};

template <Ticker kLevel>
constexpr Ticker kUsual[] = {Ticker::kNumberKeysRead,
                             Ticker::kMemtableMiss,
                             Ticker::kNumberKeysFound,
                             kLevel,
                             Ticker::kBlockCacheHit,
                             Ticker::kBloomFilterFullPositive,
                             Ticker::kBloomFilterFullTruePositive};
// All but the last three.
template <Ticker kLevel>
constexpr std::span<const Ticker> kFound =
    std::span<const Ticker>(kUsual<kLevel>).first(4);

constexpr Ticker kWriteOne[] = {Ticker::kNumberKeysWritten,
                                Ticker::kWriteDoneBySelf,
                                Ticker::kWriteWithWal};
constexpr Ticker kSeekFound[] = {Ticker::kNumberDbSeek,
                                 Ticker::kNumberDbSeekFound};

}  // namespace

const char* TickerName(Ticker ticker) {
  return kTickerNames[static_cast<size_t>(ticker)];
}

const char* HistogramName(HistogramType histogram) {
  return TraitsOf(histogram).name;
}

double HistogramUnit(HistogramType histogram) {
  return TraitsOf(histogram).unit;
}

StatsLevel HistogramLevel(HistogramType histogram) {
  return TraitsOf(histogram).level;
}

std::span<const Ticker> GroupTickers(CounterGroup group) {
  switch (group) {
    case CounterGroup::kGetFromMemtable:
      return kFromMemtable;
    case CounterGroup::kGetDeletedInMemtable:
      return kDeleted;
    case CounterGroup::kGetNowhere:
      return kNowhere;
    case CounterGroup::kGetL0:
      return kFound<Ticker::kGetHitL0>;
    case CounterGroup::kGetL1:
      return kFound<Ticker::kGetHitL1>;
    case CounterGroup::kGetL2AndUp:
      return kFound<Ticker::kGetHitL2AndUp>;
    case CounterGroup::kGetL0Usual:
      return kUsual<Ticker::kGetHitL0>;
    case CounterGroup::kGetL1Usual:
      return kUsual<Ticker::kGetHitL1>;
    case CounterGroup::kGetL2AndUpUsual:
      return kUsual<Ticker::kGetHitL2AndUp>;
    case CounterGroup::kWriteOne:
      return std::span(kWriteOne).first(2);
    case CounterGroup::kWriteOneLogged:
      return kWriteOne;
    case CounterGroup::kSeekFound:
      return kSeekFound;
    case CounterGroup::kCount:
      break;
  }
  return {};
}

}  // namespace varve
