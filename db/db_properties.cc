// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "db/compaction_picker.h"
#include "db/db_impl.h"
#include "monitoring/statistics.h"
#include "table/block_cache.h"
#include "util/read_section.h"
#include "util/witness.h"

namespace varve {

namespace {

constexpr double kMiB = 1 << 20;

void AppendF(std::string* out, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
void AppendF(std::string* out, const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  out->append(line);
}

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

// Takes off "varve." or the prefix of an engine whose names we share.
bool StripPrefix(Slice* name) {
  for (const char* prefix : {"varve.", "rocksdb.", "leveldb."}) {
    if (name->starts_with(prefix)) {
      name->remove_prefix(Slice(prefix).size());
      return true;
    }
  }
  return false;
}

bool ParseLevel(Slice digits, int* level) {
  if (digits.size() != 1 || digits[0] < '0' || digits[0] >= '0' + kNumLevels) {
    return false;
  }
  *level = digits[0] - '0';
  return true;
}

}  // namespace

bool DBImpl::GetProperty(const Slice& property, std::string* value) {
  value->clear();
  Slice name = property;
  if (!StripPrefix(&name)) return false;
  MutexLock lock(&mutex_);
  uint64_t number;
  if (GetIntPropertyLocked(name, &number)) {
    *value = std::to_string(number);
  } else if (name == Slice("levelstats")) {
    *value = LevelStatsLocked();
  } else if (name == Slice("stats")) {
    *value = StatsLocked();
  } else if (name == Slice("sstables")) {
    *value = TablesLocked();
  } else if (name == Slice("ablation-witness")) {
    *value = AblationWitnesses();
  } else if (name == Slice("io-path")) {
    *value = options_.use_direct_reads ? "pread (direct)" : "pread";
  } else {
    return false;
  }
  return true;
}

bool DBImpl::GetIntProperty(const Slice& property, uint64_t* value) {
  Slice name = property;
  if (!StripPrefix(&name)) return false;
  MutexLock lock(&mutex_);
  return GetIntPropertyLocked(name, value);
}

bool DBImpl::GetIntPropertyLocked(const Slice& name, uint64_t* value) {
  const Version& version = *versions_->current();
  const auto is = [&name](const char* other) { return name == Slice(other); };
  Slice level_name = name;
  int level;
  if (name.starts_with("num-files-at-level")) {
    level_name.remove_prefix(Slice("num-files-at-level").size());
    if (!ParseLevel(level_name, &level)) return false;
    *value = static_cast<uint64_t>(version.NumFiles(level));
    return true;
  }
  uint64_t table_bytes = 0;
  for (int i = 0; i < kNumLevels; ++i) table_bytes += version.NumBytes(i);
  uint64_t memtable_bytes = memtable_->ApproximateMemoryUsage();
  uint64_t memtable_entries = memtable_->EntryCount();
  for (const MemTable* memtable : immutable_) {
    memtable_bytes += memtable->ApproximateMemoryUsage();
    memtable_entries += memtable->EntryCount();
  }
  if (is("num-immutable-mem-table")) {
    *value = immutable_.size();
  } else if (is("mem-table-flush-pending")) {
    *value = immutable_.empty() ? 0 : 1;
  } else if (is("compaction-pending")) {
    *value = CompactionDueLocked() ? 1 : 0;
  } else if (is("num-running-flushes")) {
    *value = flush_scheduled_ ? 1 : 0;
  } else if (is("num-running-compactions")) {
    *value = running_compactions_.size();
  } else if (is("background-errors")) {
    *value = background_error_count_;
  } else if (is("cur-size-active-mem-table")) {
    *value = memtable_->ApproximateMemoryUsage();
  } else if (is("cur-size-all-mem-tables")) {
    *value = memtable_bytes;
  } else if (is("approximate-memory-usage")) {
    *value = memtable_bytes + table_cache_->ApproximateMemoryUsage() +
             block_cache_->GetUsage();
  } else if (is("estimate-num-keys")) {
    uint64_t entries = memtable_entries;
    for (int i = 0; i < kNumLevels; ++i) {
      for (const FileMetaData* file : version.files(i)) {
        std::shared_ptr<Table> table;
        if (!table_cache_->Find(file->table_file(), &table).ok()) continue;
        const TableProperties& properties = table->properties();
        entries += properties.num_entries;
        // A deletion hides one entry, and is itself none.
        entries -= std::min(entries, 2 * properties.num_deletions);
      }
    }
    *value = entries;
  } else if (is("estimate-pending-compaction-bytes")) {
    *value = EstimatePendingCompactionBytes(options_, version);
  } else if (is("num-snapshots")) {
    *value = snapshots_.size();
  } else if (is("oldest-snapshot-sequence")) {
    *value = snapshots_.empty() ? 0 : snapshots_.Oldest();
  } else if (is("num-live-versions")) {
    *value = static_cast<uint64_t>(versions_->live_version_count());
  } else if (is("live-sst-files-size")) {
    *value = table_bytes;
  } else if (is("total-sst-files-size")) {
    *value = table_bytes;
    for (const FileMetaData* file : *versions_->obsolete_files()) {
      *value += file->file_size;
    }
  } else if (is("block-cache-capacity")) {
    *value = block_cache_->GetCapacity();
  } else if (is("block-cache-usage")) {
    *value = block_cache_->GetUsage();
  } else if (is("block-cache-pinned-usage")) {
    *value = block_cache_->GetPinnedUsage();
  } else if (is("is-write-stopped")) {
    *value = stall_.pressure == WritePressure::kStop ? 1 : 0;
  } else if (is("actual-delayed-write-rate")) {
    *value = stall_.pressure == WritePressure::kSlow ? kDelayedWriteRate : 0;
  } else {
    return false;
  }
  return true;
}

std::string DBImpl::LevelStatsLocked() const {
  std::string out = "Level Files Size(MB)\n--------------------\n";
  for (int level = 0; level < kNumLevels; ++level) {
    AppendF(&out, "%5d %5d %8.0f\n", level,
            versions_->current()->NumFiles(level),
            MiB(versions_->current()->NumBytes(level)));
  }
  return out;
}

std::string DBImpl::StatsLocked() {
  std::string out =
      "Level  Files    Size(MB)  Score  Read(MB)  Write(MB)  Moved(MB)  "
      "Jobs  Time(s)\n";
  for (int level = 0; level < kNumLevels; ++level) {
    const CompactionStats& stats = compaction_stats_[level];
    const Version& version = *versions_->current();
    AppendF(
        &out, "%5d %6d %11.1f %6.1f %9.1f %10.1f %10.1f %5" PRIu64 " %8.1f\n",
        level, version.NumFiles(level), MiB(version.NumBytes(level)),
        level < kNumLevels - 1 ? CompactionScore(options_, version, level)
                               : 0.0,
        MiB(stats.bytes_read), MiB(stats.bytes_written), MiB(stats.moved_bytes),
        stats.count, static_cast<double>(stats.micros) / 1e6);
  }
  AppendF(&out, "Stalls: %" PRIu64 " times, %.3f seconds; now: %s\n",
          stall_count_, static_cast<double>(stall_micros_) / 1e6,
          stall_.pressure == WritePressure::kNone ? "none" : stall_.reason);
  AppendF(&out, "Pending compaction: %.1f MB; background errors: %" PRIu64 "\n",
          MiB(EstimatePendingCompactionBytes(options_, *versions_->current())),
          background_error_count_);
  const std::string ablation = options_.ablation.ToString();
  AppendF(&out,
          "Reads that took the mutex for what they read: %" PRIu64
          "; ablation: %s\n",
          super_versions_.LockedAcquires(),
          ablation.empty() ? "none" : ablation.c_str());
  if (options_.statistics != nullptr) out += options_.statistics->ToString();
  return out;
}

std::string DBImpl::AblationWitnesses() const {
  const AblationOptions& ablation = options_.ablation;
  std::string out;
  const auto add = [&](const char* field, uint64_t count) {
    AppendF(&out, "%s=%s %" PRIu64 "\n", field, ablation.ValueName(field),
            count);
  };
  add("superversion", super_versions_.WitnessCount());
  add("block_index",
      WitnessCount(ablation.block_index == BlockIndexMode::kPrefixes
                       ? Witness::kPrefixIndex
                       : Witness::kBinarySearch));
  add("block_cache",
      static_cast<const BlockCache&>(*block_cache_).WitnessCount());
  add("read_section", ablation.read_section == ReadSectionMode::kAsymmetric
                          ? HeavyBarrierCount()
                          : WitnessCount(Witness::kFence));
  return out;
}

std::string DBImpl::TablesLocked() const {
  std::string out;
  for (int level = 0; level < kNumLevels; ++level) {
    AppendF(&out, "--- level %d ---\n", level);
    for (const FileMetaData* file : versions_->current()->files(level)) {
      AppendF(&out, "%" PRIu64 ": %" PRIu64 " bytes, ", file->number,
              file->file_size);
      out += DescribeInternalKey(file->smallest) + " to " +
             DescribeInternalKey(file->largest) + "\n";
    }
  }
  return out;
}

}  // namespace varve
