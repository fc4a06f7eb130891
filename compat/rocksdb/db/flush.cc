// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Flushes of memtables and of the log.

#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"

using varve::rocksdb_c::ArrayOf;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Ready;
using varve::rocksdb_c::ReadyFamily;
using varve::rocksdb_c::Usable;

extern "C" {

void rocksdb_flush(rocksdb_t* db, const rocksdb_flushoptions_t* options,
                   char** errptr) {
  if (!Ready(errptr, db, options)) return;
  Failed(errptr, db->db->Flush(options->rep));
}

void rocksdb_flush_cf(rocksdb_t* db, const rocksdb_flushoptions_t* options,
                      rocksdb_column_family_handle_t* column_family,
                      char** errptr) {
  if (!ReadyFamily(errptr, db, options, column_family)) return;
  Failed(errptr, db->db->Flush(options->rep, column_family->rep.get()));
}

void rocksdb_flush_cfs(rocksdb_t* db, const rocksdb_flushoptions_t* options,
                       rocksdb_column_family_handle_t** column_family,
                       int num_column_families, char** errptr) {
  if (!Ready(errptr, db, options,
             ArrayOf<rocksdb_column_family_handle_t*>{
                 column_family, num_column_families, "column_family"})) {
    return;
  }
  std::vector<varve::ColumnFamilyHandle*> families;
  for (int i = 0; i < num_column_families; ++i) {
    if (!Usable(errptr, FamilyOf{column_family[i], db})) return;
    families.push_back(column_family[i]->rep.get());
  }
  Failed(errptr, db->db->Flush(options->rep, families));
}

void rocksdb_flush_wal(rocksdb_t* db, unsigned char sync, char** errptr) {
  if (!Usable(errptr, Open{db})) return;
  Failed(errptr, db->db->FlushWAL(sync != 0));
}

void rocksdb_flush_wal_with_options(rocksdb_t* db,
                                    const rocksdb_flushwaloptions_t* options,
                                    char** errptr) {
  if (!Usable(errptr, Open{db}, Given{options, "options"})) return;
  Failed(errptr, db->db->FlushWAL(options->sync != 0));
}

}  // extern "C"
