// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Properties of the DB that are computed from the properties of its tables.
// Tables may have to be opened, so the mutex is not held.

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <memory>
#include <string>

#include "db/engine/db_properties.h"
#include "util/base/append_format.h"

namespace varve {

namespace {

constexpr int kAllLevels = -1;

// Sums over tables.
struct TableTotals {
  uint64_t tables = 0;
  uint64_t file_bytes = 0;
  TableProperties properties;

  void Add(const FileMetaData& file, const TableProperties& other) {
    ++tables;
    file_bytes += file.file_size;
    for (uint64_t TableProperties::*const field : kFields) {
      properties.*field += other.*field;
    }
  }
  static constexpr uint64_t TableProperties::*kFields[] = {
      &TableProperties::num_data_blocks,
      &TableProperties::num_entries,
      &TableProperties::num_deletions,
      &TableProperties::num_merge_operands,
      &TableProperties::num_range_deletions,
      &TableProperties::raw_key_size,
      &TableProperties::raw_value_size,
      &TableProperties::data_size,
      &TableProperties::index_size,
      &TableProperties::filter_size,
      &TableProperties::num_filter_entries,
      &TableProperties::index_partitions,
  };
};

std::string Describe(const TableTotals& totals) {
  const TableProperties& p = totals.properties;
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

template <typename Visit>
void DbProperties::VisitTables(int only_level, Visit visit) {
  SuperVersion* const super_version = family_.super_versions().Reference();
  for (int level = 0; level < kNumLevels; ++level) {
    if (only_level != kAllLevels && level != only_level) continue;
    for (const FileMetaData* file : super_version->version->files(level)) {
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
                                 const TableProperties& properties) {
      totals.Add(file, properties);
    });
  };
  if (ParseLevelProperty(name, kRatio, &level)) {
    add_all();
    const TableProperties& p = totals.properties;
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
                              const TableProperties& properties) {
    entries += properties.num_entries;
    deletions += properties.num_deletions;
  });
  // A deletion hides one entry, and is itself none.
  return entries - std::min(entries, 2 * deletions);
}

}  // namespace varve
