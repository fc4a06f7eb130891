// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Checkpoints.

#include <string>
#include <vector>

#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/lifetime.h"

namespace varve::rocksdb_c {
namespace {

// Returns the bytes of the logs in the directory; 0 if it cannot be read.
uint64_t LogBytes(Env* env, const std::string& path) {
  std::vector<std::string> names;
  env->GetChildren(path, &names).IgnoreError();
  uint64_t total = 0;
  for (const std::string& name : names) {
    uint64_t bytes = 0;
    if (name.ends_with(".log") &&
        env->GetFileSize(path + "/" + name, &bytes).ok()) {
      total += bytes;
    }
  }
  return total;
}

// Flushes all families first if the logs have at least `log_size_for_flush`
// bytes. Otherwise the checkpoint has a copy of the logs.
Status CreateCheckpoint(const rocksdb_checkpoint_t& checkpoint,
                        const std::string& directory,
                        uint64_t log_size_for_flush) {
  rocksdb_t* const db = checkpoint.db;
  if (!IsOpen(db) || db->owned != checkpoint.owned.lock()) {
    return Status::InvalidArgument("db was closed");
  }
  Status status;
  if (!db->is_read_only && LogBytes(db->env, db->path) >= log_size_for_flush) {
    status = FlushAll(FlushOptions(), db);
  }
  if (status.ok()) status = db->db->CreateCheckpoint(directory);
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
  return new rocksdb_checkpoint_t{db, db->owned};
}

void rocksdb_checkpoint_create(rocksdb_checkpoint_t* checkpoint,
                               const char* checkpoint_dir,
                               uint64_t log_size_for_flush, char** errptr) {
  if (!Usable(errptr, Given{checkpoint, "checkpoint"},
              Given{checkpoint_dir, "checkpoint_dir"})) {
    return;
  }
  Failed(errptr, varve::rocksdb_c::CreateCheckpoint(*checkpoint, checkpoint_dir,
                                                    log_size_for_flush));
}

void rocksdb_checkpoint_object_destroy(rocksdb_checkpoint_t* checkpoint) {
  delete checkpoint;
}

}  // extern "C"
