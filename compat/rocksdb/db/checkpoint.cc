// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Checkpoints.

#include <memory>
#include <string>

#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

Status CreateCheckpoint(const rocksdb_checkpoint_t& checkpoint,
                        const std::string& directory) {
  const std::shared_ptr<DB> db = checkpoint.db.lock();
  if (db == nullptr) return Status::InvalidArgument("db was closed");
  Status status = db->CreateCheckpoint(directory);
  if (status.IsInvalidArgument() &&
      status.message().ToStringView().ends_with("exists already")) {
    status = Status::InvalidArgument("Directory exists");
  }
  return status;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_checkpoint_t* rocksdb_checkpoint_object_create(rocksdb_t* db,
                                                       char** errptr) {
  if (!Usable(errptr, Open{db})) return nullptr;
  return new rocksdb_checkpoint_t{db->owned};
}

// The engine flushes for each checkpoint, whatever the size of the log.
void rocksdb_checkpoint_create(rocksdb_checkpoint_t* checkpoint,
                               const char* checkpoint_dir,
                               uint64_t /*log_size_for_flush*/, char** errptr) {
  if (!Usable(errptr, Given{checkpoint, "checkpoint"},
              Given{checkpoint_dir, "checkpoint_dir"})) {
    return;
  }
  Failed(errptr,
         varve::rocksdb_c::CreateCheckpoint(*checkpoint, checkpoint_dir));
}

void rocksdb_checkpoint_object_destroy(rocksdb_checkpoint_t* checkpoint) {
  delete checkpoint;
}

}  // extern "C"
