// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/db_properties.h"

#include <algorithm>
#include <cinttypes>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/compaction/table_output.h"
#include "db/dead_entries/dead_ranges_text.h"
#include "monitoring/memory_accounting.h"
#include "monitoring/statistics.h"
#include "monitoring/trace_collector.h"
#include "table/cache/block_cache.h"
#include "util/base/append_format.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

constexpr double kMiB = 1 << 20;

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

double Ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

// Seconds since the epoch, `age_us` before `now_us`. 0 where a wall clock that
// was not set yet would make it earlier.
uint64_t DateBefore(uint64_t now_us, uint64_t age_us) {
  return now_us > age_us ? (now_us - age_us) / 1000000 : 0;
}

// Removes "varve." or the prefix of an engine whose names we share.
bool StripPrefix(Slice* name) {
  for (const char* prefix : {"varve.", "rocksdb.", "leveldb."}) {
    if (name->starts_with(prefix)) {
      name->remove_prefix(Slice(prefix).size());
      return true;
    }
  }
  return false;
}

// Returns the time of the oldest data in tables, in seconds since 1970; 0 if
// there is none.
uint64_t OldestTableTime(const Version& version) {
  uint64_t oldest = 0;
  for (const auto& files : version.levels()) {
    for (const FileMetaData* file : files) {
      const uint64_t time_s = file->FindTimes().oldest_ancestor_s;
      if (time_s != 0 && (oldest == 0 || time_s < oldest)) oldest = time_s;
    }
  }
  return oldest;
}

// Among overlapping tables only the deepest counts: tables above it mostly have
// newer values of its keys.
uint64_t EstimateLiveBytes(const Version& version) {
  const InternalKeyComparator& comparator = version.comparator();
  const auto less = [&comparator](const Slice& a, const Slice& b) {
    return comparator.CompareUser(a, b) < 0;
  };
  uint64_t bytes = 0;
  // The tables that count, none of which overlap: largest key to smallest key.
  std::map<Slice, Slice, decltype(less)> ranges(less);
  for (int level = version.DeepestLevel(); level >= 0; --level) {
    for (const FileMetaData* file : version.files(level)) {
      const auto next = ranges.lower_bound(file->smallest_user_key());
      if (next != ranges.end() &&
          !less(file->largest_user_key(), next->second)) {
        continue;
      }
      ranges.emplace(file->largest_user_key(), file->smallest_user_key());
      bytes += file->file_size;
    }
  }
  return bytes;
}

constexpr int kAllLevels = -1;

// Sums over tables.
struct TableTotals {
  uint64_t tables = 0;
  uint64_t file_bytes = 0;
  PropertiesBlock properties;

  void Add(const FileMetaData& file, const PropertiesBlock& other) {
    ++tables;
    file_bytes += file.file_size;
    for (uint64_t PropertiesBlock::*const field : kFields) {
      properties.*field += other.*field;
    }
  }
  static constexpr uint64_t PropertiesBlock::*kFields[] = {
      &PropertiesBlock::num_data_blocks,
      &PropertiesBlock::num_entries,
      &PropertiesBlock::num_deletions,
      &PropertiesBlock::num_merge_operands,
      &PropertiesBlock::num_range_deletions,
      &PropertiesBlock::raw_key_size,
      &PropertiesBlock::raw_value_size,
      &PropertiesBlock::data_size,
      &PropertiesBlock::index_size,
      &PropertiesBlock::filter_size,
      &PropertiesBlock::num_filter_entries,
      &PropertiesBlock::index_partitions,
  };
};

std::string Describe(const TableTotals& totals) {
  const PropertiesBlock& p = totals.properties;
  const auto average = [&p](uint64_t bytes) {
    return p.num_entries == 0 ? 0.0
                              : static_cast<double>(bytes) /
                                    static_cast<double>(p.num_entries);
  };
  std::string out;
  AppendFormat(&out,
               "tables=%" PRIu64 "; file bytes=%" PRIu64
               "; data blocks=%" PRIu64 "; entries=%" PRIu64
               "; deletions=%" PRIu64 "; range deletions=%" PRIu64,
               totals.tables, totals.file_bytes, p.num_data_blocks,
               p.num_entries, p.num_deletions, p.num_range_deletions);
  AppendFormat(&out,
               "; raw key bytes=%" PRIu64
               "; raw key bytes on average=%.1f"
               "; raw value bytes=%" PRIu64 "; raw value bytes on average=%.1f",
               p.raw_key_size, average(p.raw_key_size), p.raw_value_size,
               average(p.raw_value_size));
  AppendFormat(&out,
               "; data bytes=%" PRIu64 "; index bytes=%" PRIu64
               "; filter bytes=%" PRIu64 "; filter entries=%" PRIu64,
               p.data_size, p.index_size, p.filter_size, p.num_filter_entries);
  if (p.num_merge_operands != 0) {
    AppendFormat(&out, "; merge operands=%" PRIu64, p.num_merge_operands);
  }
  // Tables that Varve wrote have none.
  if (p.index_partitions != 0) {
    AppendFormat(&out, "; index partitions=%" PRIu64, p.index_partitions);
  }
  return out;
}

}  // namespace

bool DbProperties::ParseLevelProperty(const Slice& name, const char* prefix,
                                      int* level) const {
  Slice digits = name;
  if (!digits.starts_with(prefix)) return false;
  digits.remove_prefix(Slice(prefix).size());
  if (digits.size() != 1 || digits[0] < '0' ||
      digits[0] >= '0' + family_.options().num_levels) {
    return false;
  }
  *level = digits[0] - '0';
  return true;
}

bool DbProperties::Get(const Slice& property, std::string* value) {
  value->clear();
  Slice name = property;
  if (!StripPrefix(&name)) return false;
  uint64_t number;
  if (GetInt(property, &number)) {
    *value = std::to_string(number);
    return true;
  }
  if (GetTableProperty(name, value)) return true;
  std::vector<DeadRange> dead_ranges;
  // Before the mutex is taken, because it is a read-side critical section.
  if (name == Slice("dead-ranges"))
    dead_ranges = family_.dead_walks()->ranges().Known();
  MutexLock lock(core_.mutex());
  if (name == Slice("levelstats")) {
    *value = LevelStatsLocked();
  } else if (name == Slice("stats")) {
    *value = StatsLocked();
  } else if (name == Slice("cfstats")) {
    AppendCompactionTableLocked(value);
  } else if (name == Slice("dbstats")) {
    AppendDbStatsLocked(value);
  } else if (name == Slice("sstables")) {
    *value = TablesLocked();
  } else if (name == Slice("ablation-path-counts") &&
             family_.options().experiment != nullptr) {
    *value = family_.options().experiment->PathCountsText(
        {family_.super_versions(), *family_.snapshots(),
         static_cast<const BlockCache&>(*family_.options().block_cache),
         core_.stats});
  } else if (name == Slice("oldest-snapshot")) {
    *value = OldestSnapshotLocked();
  } else if (name == Slice("oldest-log")) {
    *value = core_.log_bound.DescribeOldestLocked();
  } else if (name == Slice("column-families")) {
    *value = core_.families.DescribeLocked();
  } else if (name == Slice("dead-ranges")) {
    *value =
        DeadRangesTextLocked(*family_.cleaner(), dead_ranges,
                             family_.snapshots()->FindOldestLocked().sequence);
  } else if (name == Slice("statistics") ||
             name == Slice("options-statistics")) {
    if (core_.stats != nullptr) *value = core_.stats->ToString();
  } else if (name == Slice("memory")) {
    *value = DescribeMemory();
  } else if (name == Slice("memory-by-thread")) {
    *value = DescribeMemoryByThread();
  } else if (name == Slice("prometheus")) {
    if (core_.stats != nullptr) *value = core_.stats->ToPrometheus();
  } else if (name == Slice("statistics-path")) {
    *value = core_.stats != nullptr ? core_.stats->Path() : "none";
  } else if (name == Slice("trace-clock")) {
    *value = trace::ClockName();
  } else if (name == Slice("io-path")) {
    *value = core_.env->IoPath() +
             (family_.options().use_direct_reads ? ", direct" : "") +
             (family_.options().allow_mmap_reads ? ", mmap" : "");
  } else if (name == Slice("wal-path")) {
    *value = core_.wals.WritePathLocked();
  } else {
    return false;
  }
  return true;
}

bool DbProperties::GetInt(const Slice& property, uint64_t* value) {
  Slice name = property;
  if (!StripPrefix(&name)) return false;
  if (name == Slice("estimate-num-keys")) {
    *value = EstimateKeys();
    return true;
  }
  MutexLock lock(core_.mutex());
  return GetIntLocked(name, value);
}

bool DbProperties::GetIntLocked(const Slice& name, uint64_t* value) {
  const Version& version = *family_.version();
  const auto is = [&name](const char* other) { return name == Slice(other); };
  int level;
  if (ParseLevelProperty(name, "num-files-at-level", &level)) {
    *value = static_cast<uint64_t>(version.NumFiles(level));
    return true;
  }
  uint64_t table_bytes = 0;
  for (int i = 0; i <= version.DeepestLevel(); ++i) {
    table_bytes += version.NumBytes(i);
  }
  uint64_t memtable_bytes = family_.memtable()->ApproximateMemoryUsage();
  uint64_t immutable_entries = 0;
  uint64_t immutable_deletions = 0;
  for (const MemTable* memtable : family_.memtables().immutable()) {
    memtable_bytes += memtable->ApproximateMemoryUsage();
    immutable_entries += memtable->EntryCount();
    immutable_deletions += memtable->DeletionCount();
  }
  uint64_t held_bytes = 0;
  for (const MemTable* memtable : family_.memtables().flushed()) {
    held_bytes += memtable->ApproximateMemoryUsage();
  }
  if (is("num-immutable-mem-table")) {
    *value = family_.memtables().immutable().size();
  } else if (is("num-entries-active-mem-table")) {
    *value = family_.memtable()->EntryCount();
  } else if (is("num-entries-imm-mem-tables")) {
    *value = immutable_entries;
  } else if (is("num-deletes-active-mem-table")) {
    *value = family_.memtable()->DeletionCount();
  } else if (is("num-deletes-imm-mem-tables")) {
    *value = immutable_deletions;
  } else if (is("mem-table-flush-pending")) {
    *value = family_.memtables().immutable().empty() ? 0 : 1;
  } else if (is("compaction-pending")) {
    *value = core_.picker.CompactionDueLocked(family_) ? 1 : 0;
  } else if (is("num-running-flushes")) {
    *value = family_.memtables().flush_runs() ? 1 : 0;
  } else if (is("num-running-compactions")) {
    *value = family_.compactions().running.size();
  } else if (is("background-errors")) {
    *value = core_.control.error_count();
  } else if (is("is-read-only")) {
    *value = core_.is_read_only || !core_.control.error().ok() ? 1 : 0;
  } else if (is("cur-size-active-mem-table")) {
    *value = family_.memtable()->ApproximateMemoryUsage();
  } else if (is("cur-size-all-mem-tables")) {
    *value = memtable_bytes;
  } else if (is("size-all-mem-tables")) {
    *value = memtable_bytes + held_bytes;
  } else if (is("num-immutable-mem-table-flushed")) {
    *value = family_.memtables().flushed().size();
  } else if (is("estimate-table-readers-mem")) {
    *value = family_.table_cache()->ApproximateMemoryUsage();
  } else if (is("approximate-memory-usage")) {
    *value = memtable_bytes + family_.table_cache()->ApproximateMemoryUsage() +
             family_.options().block_cache->GetUsage();
  } else if (is("base-level")) {
    *value = static_cast<uint64_t>(
        family_.compactions().policy->NextLevel(version, 0));
  } else if (is("estimate-pending-compaction-bytes")) {
    *value = family_.compactions().Debt(version).pending_bytes;
  } else if (is("num-snapshots")) {
    *value = family_.snapshots()->CountLocked();
  } else if (is("oldest-snapshot-sequence")) {
    const SequenceNumber oldest =
        family_.snapshots()->FindOldestLocked().sequence;
    *value = oldest == kNoSnapshot ? 0 : oldest;
  } else if (is("oldest-snapshot-time")) {
    const SnapshotRegistry::Oldest oldest =
        family_.snapshots()->FindOldestLocked();
    // A date.
    *value = oldest.sequence == kNoSnapshot
                 ? 0
                 : DateBefore(core_.env->NowMicros(), oldest.age_ns / 1000);
  } else if (is("min-log-number-to-keep")) {
    *value = core_.wals.EmptyLocked() ? core_.versions->FirstLogNumberLocked()
                                      : core_.wals.OldestLocked();
  } else if (is("num-live-versions")) {
    *value = static_cast<uint64_t>(
        core_.versions->CountVersionsLocked(*family_.versions()));
  } else if (is("current-super-version-number")) {
    *value = family_.super_versions().current()->number;
  } else if (is("estimate-oldest-key-time")) {
    *value = OldestTableTime(version);
  } else if (is("is-file-deletions-enabled")) {
    *value = core_.obsolete.is_held() ? 0 : 1;
  } else if (is("estimate-live-data-size")) {
    *value = EstimateLiveBytes(version);
  } else if (is("live-sst-files-size")) {
    *value = table_bytes;
  } else if (is("total-sst-files-size")) {
    *value = core_.versions->TotalTableBytesLocked(*family_.versions());
  } else if (is("block-cache-capacity")) {
    *value = family_.options().block_cache->GetCapacity();
  } else if (is("block-cache-usage")) {
    *value = family_.options().block_cache->GetUsage();
  } else if (is("block-cache-pinned-usage")) {
    *value = family_.options().block_cache->GetPinnedUsage();
  } else if (is("statistics-memory")) {
    *value = core_.stats != nullptr ? core_.stats->MemoryUsage() : 0;
  } else if (is("statistics-memory-reserved")) {
    *value = core_.stats != nullptr ? core_.stats->ReservedMemory() : 0;
  } else if (is("is-write-stopped")) {
    *value = family_.pace().stall().pressure == WritePressure::kStop ? 1 : 0;
  } else if (is("is-write-stalled")) {
    *value = family_.pace().stall().pressure != WritePressure::kNone ? 1 : 0;
  } else if (is("actual-delayed-write-rate")) {
    *value = family_.pace().stall().rate;
  } else {
    return false;
  }
  return true;
}

std::string DbProperties::LevelStatsLocked() const {
  std::string out = "Level Files Size(MB)\n--------------------\n";
  for (int level = 0; level < family_.options().num_levels; ++level) {
    AppendFormat(&out, "%3d %8d %8.0f\n", level,
                 family_.version()->NumFiles(level),
                 MiB(family_.version()->NumBytes(level)));
  }
  return out;
}

struct DbProperties::LevelRow {
  std::string name;  // "L0", "Sum"
  int files = 0;
  uint64_t bytes = 0;
  double score = 0;
  CompactionStats stats;
  double write_amplification = 0;
  double space_amplification = 0;

  double seconds() const { return static_cast<double>(stats.micros) / 1e6; }
  double ReadRate() const { return Rate(stats.BytesRead()); }
  double WriteRate() const { return Rate(stats.bytes_written); }

 private:
  // MiB per second.
  double Rate(uint64_t moved) const {
    return stats.micros == 0 ? 0.0 : MiB(moved) / seconds();
  }
};

std::vector<DbProperties::LevelRow> DbProperties::LevelRowsLocked() const {
  const Version& version = *family_.version();
  const FamilyCompactions& compactions = family_.compactions();
  const int last_level = family_.options().num_levels - 1;
  const uint64_t last_bytes = version.NumBytes(version.DeepestLevel());
  std::vector<LevelRow> rows;
  LevelRow sum;
  for (int level = 0; level <= last_level; ++level) {
    LevelRow row;
    row.name = "L" + std::to_string(level);
    row.files = version.NumFiles(level);
    row.bytes = version.NumBytes(level);
    row.stats = compactions.stats[level];
    if (level < last_level) {
      row.score =
          compactions.policy->Score(version, compactions.running, level);
    }
    row.write_amplification =
        Ratio(row.stats.bytes_written, level == 0 ? row.stats.bytes_written
                                                  : row.stats.upper_bytes_read);
    row.space_amplification = Ratio(row.bytes, last_bytes);
    sum.files += row.files;
    sum.bytes += row.bytes;
    sum.stats.Add(row.stats);
    rows.push_back(std::move(row));
  }
  sum.name = "Sum";
  sum.write_amplification =
      Ratio(sum.stats.bytes_written, compactions.stats[0].bytes_written);
  sum.space_amplification = Ratio(sum.bytes, last_bytes);
  rows.push_back(std::move(sum));
  return rows;
}

void DbProperties::AppendCompactionTableLocked(std::string* out) const {
  *out +=
      "Level  Files  Size(MB)  Score  Read(MB)  Rn(MB) Rnp1(MB) Write(MB) "
      "Moved(MB) W-Amp S-Amp Rd(MB/s) Wr(MB/s)  Sec(s) Count   KeyIn KeyDrop\n";
  const std::vector<LevelRow> rows = LevelRowsLocked();
  for (const LevelRow& row : rows) {
    const CompactionStats& stats = row.stats;
    AppendFormat(out, "%5s %6d %9.1f %6.1f %9.1f %7.1f %8.1f %9.1f %9.1f",
                 row.name.c_str(), row.files, MiB(row.bytes), row.score,
                 MiB(stats.BytesRead()), MiB(stats.upper_bytes_read),
                 MiB(stats.level_bytes_read), MiB(stats.bytes_written),
                 MiB(stats.moved_bytes));
    AppendFormat(out,
                 " %5.1f %5.2f %8.1f %8.1f %7.1f %5" PRIu64 " %7" PRIu64
                 " %7" PRIu64 "\n",
                 row.write_amplification, row.space_amplification,
                 row.ReadRate(), row.WriteRate(), row.seconds(), stats.count,
                 stats.entries_read, stats.entries_dropped);
  }
  const Version& version = *family_.version();
  const FamilyCompactions& compactions = family_.compactions();
  const LevelRow& sum = rows.back();
  AppendFormat(out,
               "Tables: %.1f MB, %.1f MB of them in the last level; space "
               "amplification %.2f; base level %d\n",
               MiB(sum.bytes), MiB(version.NumBytes(version.DeepestLevel())),
               sum.space_amplification,
               compactions.policy->NextLevel(version, 0));
  AppendFormat(out, "Pending compaction: %.1f MB\n",
               MiB(compactions.Debt(version).pending_bytes));
}

bool DbProperties::GetMap(const Slice& property,
                          std::map<std::string, std::string>* value) {
  Slice name = property;
  if (!StripPrefix(&name) || name != Slice("cfstats")) return false;
  MutexLock lock(core_.mutex());
  for (const LevelRow& row : LevelRowsLocked()) {
    const CompactionStats& stats = row.stats;
    const auto set = [&](const char* field, double number) {
      (*value)["compaction." + row.name + "." + field] = std::to_string(number);
    };
    const auto gib = [](uint64_t bytes) { return MiB(bytes) / 1024; };
    set("NumFiles", row.files);
    set("SizeBytes", static_cast<double>(row.bytes));
    set("Score", row.score);
    set("ReadGB", gib(stats.BytesRead()));
    set("RnGB", gib(stats.upper_bytes_read));
    set("Rnp1GB", gib(stats.level_bytes_read));
    set("WriteGB", gib(stats.bytes_written));
    set("MovedGB", gib(stats.moved_bytes));
    set("WriteAmp", row.write_amplification);
    set("ReadMBps", row.ReadRate());
    set("WriteMBps", row.WriteRate());
    set("CompSec", row.seconds());
    set("CompCount", static_cast<double>(stats.count));
    set("AvgSec", stats.count == 0
                      ? 0.0
                      : row.seconds() / static_cast<double>(stats.count));
    set("KeyIn", static_cast<double>(stats.entries_read));
    set("KeyDrop", static_cast<double>(stats.entries_dropped));
  }
  const FamilyPace& pace = family_.pace();
  uint64_t slow = 0;
  uint64_t stop = 0;
  const auto set = [&](const char* slowed, const char* stopped,
                       std::initializer_list<StallCause> causes) {
    uint64_t slow_here = 0;
    uint64_t stop_here = 0;
    for (const StallCause cause : causes) {
      slow_here += pace.StallCount(cause, WritePressure::kSlow);
      stop_here += pace.StallCount(cause, WritePressure::kStop);
    }
    (*value)[std::string("io_stalls.") + slowed] = std::to_string(slow_here);
    (*value)[std::string("io_stalls.") + stopped] = std::to_string(stop_here);
    slow += slow_here;
    stop += stop_here;
  };
  set("level0_slowdown", "level0_numfiles", {StallCause::kLevel0});
  set("slowdown_for_pending_compaction_bytes",
      "stop_for_pending_compaction_bytes", {StallCause::kPendingBytes});
  set("memtable_slowdown", "memtable_compaction",
      {StallCause::kMemTables, StallCause::kLogs});
  (*value)["io_stalls.total_slowdown"] = std::to_string(slow);
  (*value)["io_stalls.total_stop"] = std::to_string(stop);
  return true;
}

void DbProperties::AppendDbStatsLocked(std::string* out) const {
  uint64_t table_bytes = 0;
  for (const CompactionStats& stats : family_.compactions().stats) {
    table_bytes += stats.bytes_written;
  }
  const uint64_t user_bytes = family_.pace().user_bytes();
  const uint64_t logged_bytes = family_.pace().logged_bytes();
  AppendFormat(
      out,
      "Written by users: %.1f MB, to the log: %.1f MB, to tables: %.1f MB; "
      "write amplification %.2f\n",
      MiB(user_bytes), MiB(logged_bytes), MiB(table_bytes),
      Ratio(logged_bytes + table_bytes, user_bytes));
  uint64_t stalls = 0;
  for (const StallCause cause : {StallCause::kLevel0, StallCause::kPendingBytes,
                                 StallCause::kMemTables, StallCause::kLogs}) {
    stalls += family_.pace().StallCount(cause, WritePressure::kSlow) +
              family_.pace().StallCount(cause, WritePressure::kStop);
  }
  AppendFormat(out, "Stalls: %" PRIu64 " times, %.3f seconds; now: %s\n",
               stalls, static_cast<double>(family_.pace().stall_micros()) / 1e6,
               StallCauseName(family_.pace().stall().cause));
  const FileWaits& waits = core_.wals.waits();
  AppendFormat(out,
               "Waits of the log for the device or file system: %" PRIu64
               " times, %.3f seconds, longest %.3f\n",
               waits.count(), static_cast<double>(waits.total_us()) / 1e6,
               static_cast<double>(waits.longest_us()) / 1e6);
  AppendFormat(out, "Pauses for compactions: %" PRIu64 " times, %.3f seconds\n",
               family_.pace().pace_count(),
               static_cast<double>(family_.pace().pace_micros()) / 1e6);
  AppendFormat(out,
               "Background errors: %" PRIu64
               "; reads that took the mutex for what they read: %" PRIu64 "\n",
               core_.control.error_count(),
               family_.super_versions().LockedAcquires());
  if (family_.options().experiment != nullptr) {
    *out += "Experiment: " + family_.options().experiment->text + "\n";
  }
}

std::string DbProperties::StatsLocked() {
  std::string out;
  AppendCompactionTableLocked(&out);
  AppendDbStatsLocked(&out);
  if (core_.stats != nullptr) out += core_.stats->ToString();
  return out;
}

std::string DbProperties::OldestSnapshotLocked() {
  const SnapshotRegistry::Oldest oldest =
      family_.snapshots()->FindOldestLocked();
  if (oldest.sequence == kNoSnapshot) return "none";
  uint64_t entry_bytes = 0;
  std::set<uint64_t> live;
  for (const auto& files : family_.version()->levels()) {
    for (const FileMetaData* file : files) {
      live.insert(file->number);
      const auto kept = file->kept_bytes.find(oldest.sequence);
      if (kept != file->kept_bytes.end()) entry_bytes += kept->second;
    }
  }
  uint64_t file_bytes = 0;
  uint64_t memtable_bytes = 0;
  if (oldest.pin != nullptr) {
    for (const auto& files : oldest.pin->version->levels()) {
      for (const FileMetaData* file : files) {
        if (live.count(file->number) == 0) file_bytes += file->file_size;
      }
    }
    const auto add = [&](const MemTable* memtable) {
      if (memtable != family_.memtable() &&
          std::find(family_.memtables().immutable().begin(),
                    family_.memtables().immutable().end(),
                    memtable) == family_.memtables().immutable().end()) {
        memtable_bytes += memtable->ApproximateMemoryUsage();
      }
    };
    add(oldest.pin->memtable);
    for (const MemTable* memtable : oldest.pin->immutable) add(memtable);
  }
  std::string out;
  AppendFormat(
      &out, "sequence %" PRIu64 ", age %.3f s, thread %" PRIu32 " (%s), ",
      oldest.sequence, static_cast<double>(oldest.age_ns) / 1e9,
      oldest.thread_id,
      oldest.thread_name.empty() ? "ended" : oldest.thread_name.c_str());
  AppendFormat(&out,
               "keeps %" PRIu64 " bytes: files %" PRIu64 ", memtables %" PRIu64
               ", entries %" PRIu64,
               file_bytes + memtable_bytes + entry_bytes, file_bytes,
               memtable_bytes, entry_bytes);
  return out;
}

std::string DbProperties::TablesLocked() const {
  std::string out;
  for (int level = 0; level < family_.options().num_levels; ++level) {
    AppendFormat(&out, "--- level %d ---\n", level);
    for (const FileMetaData* file : family_.version()->files(level)) {
      AppendFormat(&out, "%" PRIu64 ": %" PRIu64 " bytes, ", file->number,
                   file->file_size);
      out += DescribeInternalKey(file->smallest) + " to " +
             DescribeInternalKey(file->largest) + "\n";
    }
  }
  return out;
}

// ---- Properties of tables ---------------------------------------------------

// Tables may have to be opened, so the mutex is not held.

template <typename Visit>
void DbProperties::VisitTables(int only_level, Visit visit) {
  SuperVersion* const super_version = family_.super_versions().Reference();
  const Version& version = *super_version->version;
  for (int level = 0; level <= version.DeepestLevel(); ++level) {
    if (only_level != kAllLevels && level != only_level) continue;
    for (const FileMetaData* file : version.files(level)) {
      std::shared_ptr<Table> table;
      if (!family_.table_cache()
               ->FindDescription(file->table_file(), &table)
               .ok()) {
        continue;
      }
      visit(*file, table->properties());
    }
  }
  family_.super_versions().Release(super_version);
}

bool DbProperties::GetTableProperty(const Slice& name, std::string* value) {
  constexpr const char* kRatio = "compression-ratio-at-level";
  constexpr const char* kOfLevel = "aggregated-table-properties-at-level";
  int level = kAllLevels;
  TableTotals totals;
  const auto add_all = [&] {
    VisitTables(level, [&totals](const FileMetaData& file,
                                 const PropertiesBlock& properties) {
      totals.Add(file, properties);
    });
  };
  if (ParseLevelProperty(name, kRatio, &level)) {
    add_all();
    const PropertiesBlock& p = totals.properties;
    *value = std::to_string(
        totals.file_bytes == 0
            ? -1.0
            : static_cast<double>(p.raw_key_size + p.raw_value_size) /
                  static_cast<double>(totals.file_bytes));
    return true;
  }
  if (name != Slice("aggregated-table-properties") &&
      !ParseLevelProperty(name, kOfLevel, &level)) {
    return false;
  }
  add_all();
  *value = Describe(totals);
  return true;
}

uint64_t DbProperties::EstimateKeys() {
  SuperVersion* const super_version = family_.super_versions().Reference();
  uint64_t entries = super_version->memtable->EntryCount();
  uint64_t deletions = super_version->memtable->DeletionCount();
  for (const MemTable* memtable : super_version->immutable) {
    entries += memtable->EntryCount();
    deletions += memtable->DeletionCount();
  }
  family_.super_versions().Release(super_version);
  VisitTables(kAllLevels, [&](const FileMetaData& /*file*/,
                              const PropertiesBlock& properties) {
    entries += properties.num_entries;
    deletions += properties.num_deletions;
  });
  // A deletion hides one entry, and is itself none.
  return entries - std::min(entries, 2 * deletions);
}

}  // namespace varve
