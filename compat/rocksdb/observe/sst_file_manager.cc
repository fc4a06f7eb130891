// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/observe/sst_file_manager.h"

#include <rocksdb/c.h>

#include <utility>

#include "compat/rocksdb/options/options.h"

extern "C" {

rocksdb_sst_file_manager_t* rocksdb_sst_file_manager_create(
    rocksdb_env_t* env) {
  std::shared_ptr<varve::Env> owner = env != nullptr ? env->rep : nullptr;
  varve::Env* const its_env =
      owner != nullptr ? owner.get() : varve::Env::Default();
  return new rocksdb_sst_file_manager_t{std::move(owner),
                                        varve::NewSstFileManager(its_env)};
}

void rocksdb_sst_file_manager_destroy(rocksdb_sst_file_manager_t* manager) {
  delete manager;
}

void rocksdb_sst_file_manager_set_max_allowed_space_usage(
    rocksdb_sst_file_manager_t* manager, uint64_t max_allowed_space) {
  if (manager == nullptr) return;
  manager->rep->SetMaxAllowedSpaceUsage(max_allowed_space);
}

void rocksdb_sst_file_manager_set_compaction_buffer_size(
    rocksdb_sst_file_manager_t* manager, uint64_t compaction_buffer_size) {
  if (manager == nullptr) return;
  manager->rep->SetCompactionBufferSize(compaction_buffer_size);
}

bool rocksdb_sst_file_manager_is_max_allowed_space_reached(
    rocksdb_sst_file_manager_t* manager) {
  return manager != nullptr && manager->rep->IsMaxAllowedSpaceReached();
}

// The name needs a line of its own.
// clang-format off
bool
rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
    rocksdb_sst_file_manager_t* manager) {
  // clang-format on
  return manager != nullptr &&
         manager->rep->IsMaxAllowedSpaceReachedIncludingCompactions();
}

uint64_t rocksdb_sst_file_manager_get_total_size(
    rocksdb_sst_file_manager_t* manager) {
  return manager != nullptr ? manager->rep->GetTotalSize() : 0;
}

int64_t rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(
    rocksdb_sst_file_manager_t* manager) {
  return manager != nullptr ? manager->rep->GetDeleteRateBytesPerSecond() : 0;
}

void rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(
    rocksdb_sst_file_manager_t* manager, int64_t delete_rate) {
  if (manager == nullptr) return;
  manager->rep->SetDeleteRateBytesPerSecond(delete_rate);
}

double rocksdb_sst_file_manager_get_max_trash_db_ratio(
    rocksdb_sst_file_manager_t* manager) {
  return manager != nullptr ? manager->rep->GetMaxTrashDBRatio() : 0;
}

void rocksdb_sst_file_manager_set_max_trash_db_ratio(
    rocksdb_sst_file_manager_t* manager, double ratio) {
  if (manager != nullptr) manager->rep->SetMaxTrashDBRatio(ratio);
}

uint64_t rocksdb_sst_file_manager_get_total_trash_size(
    rocksdb_sst_file_manager_t* manager) {
  return manager != nullptr ? manager->rep->GetTotalTrashSize() : 0;
}

}  // extern "C"
