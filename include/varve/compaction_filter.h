// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Compaction filters: compactions ask them which entries to keep, for example
// to remove what is older than a program needs. Set one in
// ColumnFamilyOptions::compaction_filter or compaction_filter_factory.

#include <cstdint>
#include <memory>
#include <string>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

// The kind of job that writes a table.
enum class TableFileCreationReason : uint8_t { kFlush, kCompaction, kRecovery };

// Decides on the entries of compactions.
//
// A filter is asked once in a job for the newest version of each key in the
// job's tables, unless a snapshot needs that version. Snapshots that are taken
// after the job began do not count. Newer versions may be in other tables.
// Values that result from merge operands in the same job are not asked for; the
// operands are.
//
// A filter in ColumnFamilyOptions::compaction_filter is for compactions. A
// factory decides whether flushes are filtered, too. Tables that are moved to
// another level without a rewrite are not filtered. DB::CompactRange moves
// none, and rewrites the last level, so that it asks for all keys of the range.
//
// A filter that throws is not asked again in the job: the rest is kept, and the
// informational log says so. While a call does not return, its job does not
// end, and neither does DB::Close or DB::CancelAllBackgroundWork(true). Reads,
// writes and other jobs go on. After a cancellation, no further call begins.
//
// Thread-safety: a filter of a factory is called by one thread. A filter in
// ColumnFamilyOptions::compaction_filter is called by many threads at once. The
// DB holds no lock during a call: it may read from the DB, and from no DB that
// waits for this one. It must not write to the DB.
class VARVE_EXPORT CompactionFilter {
 public:
  // The kind of an entry.
  enum class ValueType : uint8_t { kValue, kMergeOperand };

  // The answer for an entry.
  enum class Decision : uint8_t {
    kKeep,
    // Removes the key, as DB::Delete: older versions of it stay hidden. A merge
    // operand is removed alone.
    kRemove,
    // Sets the value, or the merge operand, to *new_value. If key and value
    // exceed 3 GiB, the entry is kept.
    kChangeValue,
    // Removes all keys from this one, inclusive, to *skip_until, exclusive,
    // without a deletion: older versions in other tables can be seen again.
    // Ends with the job, or its part, that the filter is for. Faster than
    // kRemove for many keys. Versions that snapshots need are kept, for the
    // snapshots only. If *skip_until is not after the key, the entry is kept.
    kRemoveAndSkipUntil,
  };

  // The job that a filter is for.
  struct Context {
    // All tables of the family are inputs.
    bool is_full_compaction = false;
    // DB::CompactRange started it.
    bool is_manual_compaction = false;
    uint32_t column_family_id = 0;
    std::string column_family_name;
    // The level that the new tables are for.
    int output_level = 0;
    TableFileCreationReason reason = TableFileCreationReason::kCompaction;
  };

  virtual ~CompactionFilter() = default;

  // Decides on an entry. `level` is the upper one of the job's levels, and 0 in
  // a flush. `new_value` and `skip_until` are empty before; see Decision. The
  // default calls Filter, or FilterMergeOperand.
  virtual Decision FilterV2(int level, const Slice& key, ValueType type,
                            const Slice& existing_value, std::string* new_value,
                            std::string* skip_until) const;

  // Returns true to remove the key. If it sets *value_changed, the value is
  // replaced by *new_value. The default returns false.
  virtual bool Filter(int level, const Slice& key, const Slice& existing_value,
                      std::string* new_value, bool* value_changed) const;
  // Returns true to remove the operand. The default returns false.
  virtual bool FilterMergeOperand(int level, const Slice& key,
                                  const Slice& operand) const;

  // Returns a name for messages.
  virtual const char* Name() const = 0;
};

// Creates a filter for each job, so that a filter can have state.
// Thread-safety: methods are called from many threads at once, without a lock.
class VARVE_EXPORT CompactionFilterFactory {
 public:
  virtual ~CompactionFilterFactory() = default;

  // Returns whether jobs of this kind are filtered. By default, compactions
  // are, and flushes and recoveries are not.
  virtual bool ShouldFilterTableFileCreation(
      TableFileCreationReason reason) const;

  // Returns a filter for a job, or a part of one, or null for none. It is
  // destroyed by the end of the job.
  virtual std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& context) = 0;

  // Returns a name for messages.
  virtual const char* Name() const = 0;
};

}  // namespace varve
