// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The collectors of one new table (varve/table_properties.h). They are code of
// the program: an error or an exception ends a collector, and not the table.
// Thread-safety: owned by one thread at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/block/properties.h"
#include "table/block/table_options.h"
#include "varve/slice.h"
#include "varve/table_properties.h"

namespace varve {

class PropertyCollectors {
 public:
  // Returns null if the options have no factories.
  static std::unique_ptr<PropertyCollectors> Create(
      const TableBuilderOptions& options);
  ~PropertyCollectors();
  PropertyCollectors(const PropertyCollectors&) = delete;
  PropertyCollectors& operator=(const PropertyCollectors&) = delete;

  // Passes an entry on. `file_size` is the size of what was written so far.
  void Add(const Slice& internal_key, const Slice& value, uint64_t file_size);
  // Passes on the end of a data block, with its size before compression.
  void EndBlock(uint64_t bytes);
  // Adds the collectors' properties and the factories' names to the table's
  // properties. Names that the table uses itself are left out. Call it once.
  void Finish(PropertiesBlock* properties);

  // ---- After Finish ----

  // Returns whether one of them wants the table compacted.
  bool NeedCompact() const { return need_compact_; }
  const UserCollectedProperties& readable() const { return readable_; }

 private:
  struct Collector {
    std::unique_ptr<TablePropertiesCollector> rep;
    std::string name;  // The factory's.
  };

  explicit PropertyCollectors(Logger* info_log) : info_log_(info_log) {}
  // Calls `call` with each collector, and ends those for which it returns an
  // error or throws.
  template <typename Call>
  void ForEach(Call call);
  void End(Collector* collector, const std::string& error);

  Logger* const info_log_;  // May be null.
  std::vector<Collector> collectors_;
  std::string names_;  // As in the property.
  bool need_compact_ = false;
  UserCollectedProperties readable_;
};

}  // namespace varve
