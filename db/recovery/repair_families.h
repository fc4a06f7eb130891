// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/recovery/repair_family.h"
#include "db/version/best_effort_manifest.h"
#include "db/wal/prepared_set.h"
#include "db/write/write_batch_internal.h"
#include "table/block/properties.h"
#include "varve/column_family.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// The options of a repair.
struct RepairOptions {
  DBOptions db;
  // Known column families, the default one among them.
  std::vector<ColumnFamilyDescriptor> families;
  // For all others. Without it they are left out.
  std::optional<ColumnFamilyOptions> unknown_families;

  // Checks the options, and raises those that are too small to be useful.
  Status Check();
  // Returns the options of the default family. REQUIRES: Check succeeded.
  Options Default() const;
};

// The column families that a repair finds. The MANIFEST tells ids, names and
// comparators. Where it does not, tables tell the id, name and comparator of
// their family, and updates in logs its id. Such a family gets a name from its
// number. Thread-safety: owned by one thread.
class RepairFamilies final : private MemTableChooser, private SectionKeeper {
 public:
  // All must outlive it.
  RepairFamilies(const RepairOptions& options, const RepairContext& context,
                 const BestEffortManifest& manifest);
  RepairFamilies(const RepairFamilies&) = delete;
  RepairFamilies& operator=(const RepairFamilies&) = delete;

  // Notes what a table says of itself.
  void NoteTable(uint64_t number, const PropertiesBlock& properties);
  // Names the families and chooses their options, after all tables were noted.
  // Returns InvalidArgument if a comparator is not the one in the options,
  // NotSupported if it shows a feature that Varve does not have.
  Status Resolve();

  RepairFamily* default_family() { return Find(0)->data.get(); }
  // Returns the family of a table: null if the family was dropped or is left
  // out, nullopt if nothing tells of the family.
  std::optional<RepairFamily*> FamilyOfTable(uint64_t number);
  // Returns whether nothing tells of any other family.
  bool IsOnlyDefault() const;
  // Adds a family for a single table. Sets *family to null if unknown families
  // are left out.
  Status AddForTable(uint64_t number, RepairFamily** family);

  // Adds the updates of a log: BeginLog, AddRecord for each record, EndLog.
  // AddRecord returns Corruption if the record is damaged. Updates before the
  // damage were added. Sets *next to the sequence number after the last one
  // that was added.
  void BeginLog(uint64_t number);
  Status AddRecord(const Slice& record, SequenceNumber* next);
  Status EndLog();
  // Returns the transactions that the logs leave prepared.
  const PreparedSet& prepared() const { return prepared_; }

  // Writes all memtables to temporary tables if they are too large in all.
  Status BoundMemTables();
  // See RepairFamily. Frees the inputs of each family.
  Status Merge(SequenceNumber* last_sequence);
  void RemoveInputs();
  void RemoveOutputs();

  // Returns the largest id that was ever given out.
  uint32_t max_id() const;
  // Calls visit(id, family) for each family that is kept, by increasing id.
  void ForEach(const std::function<void(uint32_t, RepairFamily*)>& visit);

 private:
  struct Family {
    std::string name;                    // Empty: none is known yet.
    std::string comparator;              // Its name; empty: unknown.
    std::unique_ptr<RepairFamily> data;  // Null if it is left out.
  };

  Family* Find(uint32_t id);
  // Gives a family without a name one that no other has.
  void MakeUpName(uint32_t id, const std::string& name, Family* family);
  // Chooses the options of a family with a name.
  Status ResolveOne(uint32_t id, Family* family);
  // Adds a family that only its updates or a table show.
  Status Add(uint32_t id, const std::string& name, Family** family);
  MemTable* Choose(uint32_t id) override;
  Status Prepare(const Slice& name, const Slice& records,
                 uint32_t count) override;
  WriteBatch* Commit(const Slice& name) override;
  void Rollback(const Slice& name) override { prepared_.End(name, 0); }
  Status TakeLogs();

  const RepairOptions& options_;
  const RepairContext& context_;
  const BestEffortManifest& manifest_;
  Logger* const logger_;
  std::map<uint32_t, Family> families_;  // Not those that were dropped.
  std::set<std::string> names_;
  std::map<uint64_t, uint32_t> tables_;  // Families of the tables noted.
  PreparedSet prepared_;
  std::shared_ptr<PreparedSet::Held> committed_;  // The last one.
  uint64_t log_number_ = 0;
  std::vector<RepairFamily*> in_log_;  // Those that have a log's memtable.
  size_t unchecked_bytes_ = 0;  // Of records, since the last check of memory.
  size_t unchecked_families_ = 0;  // New in in_log_ since then.
  Status choose_status_;
};

}  // namespace varve
