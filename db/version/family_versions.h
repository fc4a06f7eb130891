// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "db/version/version.h"
#include "table/block/internal_key.h"
#include "table/reader/table_cache.h"

namespace varve {

// A column family as the VersionSet knows it: its identity, its current
// version, and which logs it needs. Thread-safety: guarded by the DB mutex, but
// for the immutable part.
class FamilyVersions {
 public:
  // The pointers must outlive this. For `prefixes`, see Version.
  FamilyVersions(std::string name, const InternalKeyComparator* comparator,
                 TableCache* table_cache, bool prefixes)
      : name_(std::move(name)),
        comparator_(comparator),
        table_cache_(table_cache),
        prefixes_(prefixes) {}
  FamilyVersions(const FamilyVersions&) = delete;
  FamilyVersions& operator=(const FamilyVersions&) = delete;

  const std::string& name() const { return name_; }
  const InternalKeyComparator* comparator() const { return comparator_; }
  TableCache* table_cache() const { return table_cache_; }
  // Immutable once the family is in a VersionSet.
  uint32_t id() const { return id_; }

  Version* current() const { return current_; }
  // The updates in logs before this one are in tables.
  uint64_t log_number() const { return log_number_; }
  // Records that the family needs no log before `number`, without an edit: all
  // of its memtables are empty. The next edit of any family makes it durable.
  void SkipLogsLocked(uint64_t number) {
    if (number > log_number_) log_number_ = number;
  }
  // The last of its updates in tables has this sequence number.
  SequenceNumber tables_end() const { return tables_end_; }
  bool is_dropped() const { return is_dropped_; }

 private:
  friend class VersionSet;

  const std::string name_;
  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  const bool prefixes_;
  uint32_t id_ = 0;
  Version* current_ = nullptr;
  uint64_t log_number_ = 0;
  SequenceNumber tables_end_ = 0;
  bool is_dropped_ = false;
};

}  // namespace varve
