// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Copies of an open database that cost little: the tables, which never change,
// become hard links.

#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/export.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: thread-safe.
class VARVE_EXPORT Checkpoint {
 public:
  // `db` must outlive it. InvalidArgument if it is null.
  static Status Create(DB* db, std::unique_ptr<Checkpoint>* checkpoint);

  virtual ~Checkpoint() = default;

  // Makes a database in `directory` that holds what was written before the
  // call, and of what is written meanwhile all up to some write. Reads, writes
  // and compactions go on. It is safe on the device when this returns OK, and
  // does not depend on the first one: each may be changed or removed.
  //
  // Tables are copied where the file system cannot link them. It is built
  // under the name `directory`.tmp; one at a time of each DB. What a call that
  // was cut off has left there, a part of a database without CURRENT, is
  // removed first; anything else of that name is left alone, and
  // `directory`.tmp2 or a further one is taken. Where updates were written with
  // disable_wal, writers wait for a flush.
  //
  // InvalidArgument: `directory` exists. IOError and others: nothing is left
  // in its place; or all of it, if it could neither be made safe nor be put
  // away. NotSupported: the DB was opened for reading only.
  virtual Status CreateCheckpoint(const std::string& directory) = 0;
};

}  // namespace varve
