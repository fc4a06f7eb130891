// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checkpoints: cheap copies of an open database. Tables are immutable, so the
// copy contains hard links to them.

#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/export.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: thread-safe.
class VARVE_EXPORT Checkpoint {
 public:
  // Stores a Checkpoint for `db`, which must outlive it. Returns
  // InvalidArgument if `db` is null.
  static Status Create(DB* db, std::unique_ptr<Checkpoint>* checkpoint);

  virtual ~Checkpoint() = default;

  // Creates a copy of the database in `directory`. The copy contains all writes
  // that returned before the call. It contains all writes during the call up to
  // some point. Reads, writes and compactions continue. When this returns OK,
  // the copy is durable. It does not depend on the original.
  //
  // Where the file system cannot create hard links, tables are copied. The copy
  // is built in `directory`.tmp, by one call per DB at a time. An incomplete
  // copy there, left by an interrupted call, is removed first. If another file
  // or directory has this name, `directory`.tmp2 or a later name is used.
  // Writers wait for a flush if updates were written with disable_wal.
  //
  // Errors:
  // - InvalidArgument: `directory` exists.
  // - NotSupported: the DB was opened for reading only.
  // - IOError and others: the copy is removed. It is left complete if it could
  //   neither be made durable nor be removed.
  virtual Status CreateCheckpoint(const std::string& directory) = 0;

  // Flushes the family, and links its tables into the new `directory`, for
  // DB::CreateColumnFamilyWithImport of any database. Stores what that needs in
  // *metadata, which the caller owns. Errors: as CreateCheckpoint.
  virtual Status ExportColumnFamily(ColumnFamilyHandle* family,
                                    const std::string& directory,
                                    ExportImportFilesMetaData** metadata) = 0;
};

}  // namespace varve
