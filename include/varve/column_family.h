// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Column families: several ordered maps in one database. They share the log, so
// a batch can update several of them atomically, and the snapshots, so reads of
// several families can see one moment. Each has its own memtables, tables,
// comparator and options. They are RocksDB's, on disk and by name.
//
// Every database has the family "default", which calls without a handle use.

#include <cstdint>
#include <string>
#include <utility>

#include "varve/comparator.h"
#include "varve/export.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// The name of the family that every database has.
inline constexpr char kDefaultColumnFamilyName[] = "default";

// Names a family, and says with which options to open or create it.
struct ColumnFamilyDescriptor {
  ColumnFamilyDescriptor() = default;
  ColumnFamilyDescriptor(std::string its_name,
                         const ColumnFamilyOptions& its_options)
      : name(std::move(its_name)), options(its_options) {}

  // The family's name.
  std::string name = kDefaultColumnFamilyName;
  // Its options.
  ColumnFamilyOptions options;
};

// A column family of an open DB. Created by DB::Open, DB::OpenForReadOnly and
// DB::CreateColumnFamily, and released by DB::DestroyColumnFamilyHandle or by
// `delete`. In all calls that take a handle, null means the default family.
//
// A handle keeps its family: after DB::DropColumnFamily the family can be read
// through it, and its files are removed with the last handle and iterator.
//
// Thread-safety: any number of threads can use a handle. Its release must not
// overlap a call that uses it.
// Lifetime: release handles before DB::Close, or at least before the DB is
// destroyed. A handle that is left is dead then: it may only be released.
// Calls that get a dead handle, or a handle of another DB, change nothing and
// return InvalidArgument, or false.
class VARVE_EXPORT ColumnFamilyHandle {
 public:
  ColumnFamilyHandle(const ColumnFamilyHandle&) = delete;
  ColumnFamilyHandle& operator=(const ColumnFamilyHandle&) = delete;
  virtual ~ColumnFamilyHandle() = default;

  // Returns the family's name.
  virtual const std::string& GetName() const = 0;
  // Returns the family's number in the database's files. The default family's
  // is 0. A number is never used again for another family.
  virtual uint32_t GetID() const = 0;
  // Returns the comparator that orders the family's keys.
  virtual const Comparator* GetComparator() const = 0;
  // Stores the family's name and its present options in *descriptor.
  virtual Status GetDescriptor(ColumnFamilyDescriptor* descriptor) = 0;

 protected:
  ColumnFamilyHandle() = default;

 private:
  friend class FamilyHandle;
  friend class WriteBatchInternal;

  // The number of the open DB in this process. 0 for a handle that no DB of
  // this library has created.
  uint64_t db_number_ = 0;
};

}  // namespace varve
