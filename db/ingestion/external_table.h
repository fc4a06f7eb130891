// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Tables from outside of a database, which are examined before they are taken
// in.

#include <cstdint>
#include <string>

#include "db/version/version_edit.h"
#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

struct ExternalTable {
  std::string path;
  // Its number is the one of its name in the database, or 0. The sequence
  // numbers are the ones in the file.
  FileMetaData file;
};

// The facts known about a table before it is read.
struct ExternalTableFacts {
  const InternalKeyComparator* comparator = nullptr;
  Logger* info_log = nullptr;  // May be null.
  bool verify_checksums = false;
  // Of an imported table: the one that the other database's MANIFEST has. 0 for
  // a table of SstFileWriter.
  SequenceNumber largest_sequence = 0;
};

// Opens the table `found->path`, and sets the rest of *found except the number.
// Reads properties, index, range deletions, and the first and last block; with
// `verify_checksums`, all of it. Returns InvalidArgument if the table has no
// entry, and the errors of Table::Open. Sets *properties too.
Status ExamineTable(Env* env, const ExternalTableFacts& facts,
                    ExternalTable* found, PropertiesBlock* properties);

// Returns InvalidArgument unless the table is one that SstFileWriter wrote for
// any family or the one with this id, and that no database has given a sequence
// number.
Status CheckWrittenOutside(const ExternalTable& table,
                           const PropertiesBlock& properties,
                           uint32_t family_id);

}  // namespace varve
