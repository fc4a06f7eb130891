// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database whose entries expire. Each value ends in the time of its write, as
// RocksDB's DBWithTTL stores it, and both open each other's. docs/ttl.md

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/stackable_db.h"

namespace varve {

// Compactions remove entries that are older than the time to live of their
// family, so an entry can be read for longer than that. Reads return values
// without the time. A TTL that is 0 or less keeps entries for ever.
// All calls that write must go through this class. Operators and filters of the
// options see values without the time.
//
// Thread-safety and lifetime: as DB's.
class VARVE_EXPORT DBWithTTL : public StackableDB {
 public:
  using StackableDB::StackableDB;

  // Opens the database. `ttl` is in seconds. Errors: as DB::Open.
  static Status Open(const Options& options, const std::string& path,
                     std::unique_ptr<DBWithTTL>* db, int32_t ttl = 0,
                     bool read_only = false);
  // ttls[i] is for families[i].
  static Status Open(const DBOptions& options, const std::string& path,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<DBWithTTL>* db,
                     const std::vector<int32_t>& ttls, bool read_only = false);

  // Creates a family with its own TTL. CreateColumnFamily gives 0.
  virtual Status CreateColumnFamilyWithTtl(const ColumnFamilyOptions& options,
                                           const std::string& name,
                                           ColumnFamilyHandle** handle,
                                           int32_t ttl) = 0;
  // Change the TTL, in seconds, for compactions that begin later.
  virtual void SetTtl(int32_t ttl) = 0;
  virtual void SetTtl(ColumnFamilyHandle* family, int32_t ttl) = 0;
  // Stores the family's TTL in *ttl.
  virtual Status GetTtl(ColumnFamilyHandle* family, int32_t* ttl) = 0;
};

}  // namespace varve
