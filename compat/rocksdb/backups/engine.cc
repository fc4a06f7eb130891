// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of backups.

#include <rocksdb/c.h>

#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/backups/options.h"
#include "compat/rocksdb/base.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"
#include "varve/backup_engine.h"

struct rocksdb_backup_engine_t {
  // The engine uses both.
  std::shared_ptr<varve::Env> db_env;
  std::shared_ptr<varve::Env> backup_env;
  std::unique_ptr<varve::BackupEngine> rep;
};

struct rocksdb_backup_engine_info_t {
  std::vector<varve::BackupInfo> infos;
};

using varve::BackupEngine;
using varve::BackupInfo;
using varve::CreateBackupOptions;
using varve::Status;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::ToVarve;
using varve::rocksdb_c::Usable;

namespace {

rocksdb_backup_engine_t* OpenEngine(
    const rocksdb_backup_engine_options_t& options,
    const std::shared_ptr<varve::Env>& env, char** errptr) {
  auto engine = std::make_unique<rocksdb_backup_engine_t>();
  engine->db_env = env;
  engine->backup_env = options.env;
  return Failed(errptr,
                BackupEngine::Open(ToVarve(options), env.get(), &engine->rep))
             ? nullptr
             : engine.release();
}

void Create(rocksdb_backup_engine_t* engine, rocksdb_t* db,
            const CreateBackupOptions& options, const std::string& metadata,
            uint32_t* backup_id, char** errptr) {
  uint32_t id = 0;
  if (Failed(errptr, engine->rep->CreateNewBackupWithMetadata(options, db->db,
                                                              metadata, &id))) {
    return;
  }
  if (backup_id != nullptr) *backup_id = id;
}

// Returns null if there is none of that index.
const BackupInfo* At(const rocksdb_backup_engine_info_t* info, int index) {
  return info != nullptr && index >= 0 &&
                 static_cast<size_t>(index) < info->infos.size()
             ? &info->infos[static_cast<size_t>(index)]
             : nullptr;
}

}  // namespace

extern "C" {

rocksdb_backup_engine_t* rocksdb_backup_engine_open(
    const rocksdb_options_t* options, const char* path, char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{path, "path"})) {
    return nullptr;
  }
  rocksdb_backup_engine_options_t engine_options;
  engine_options.backup_dir = path;
  return OpenEngine(engine_options, options->env, errptr);
}

rocksdb_backup_engine_t* rocksdb_backup_engine_open_opts(
    const rocksdb_backup_engine_options_t* options, rocksdb_env_t* env,
    char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{env, "env"})) {
    return nullptr;
  }
  return OpenEngine(*options, env->rep, errptr);
}

void rocksdb_backup_engine_create_new_backup(rocksdb_backup_engine_t* be,
                                             rocksdb_t* db, char** errptr) {
  rocksdb_backup_engine_create_new_backup_flush(be, db, 0, errptr);
}

void rocksdb_backup_engine_create_new_backup_flush(
    rocksdb_backup_engine_t* be, rocksdb_t* db,
    unsigned char flush_before_backup, char** errptr) {
  if (!Usable(errptr, Given{be, "be"}, Open{db})) return;
  CreateBackupOptions options;
  options.flush_before_backup = flush_before_backup != 0;
  Create(be, db, options, "", nullptr, errptr);
}

void rocksdb_backup_engine_create_new_backup_with_options(
    rocksdb_backup_engine_t* be, rocksdb_t* db,
    const rocksdb_create_backup_options_t* options, uint32_t* backup_id,
    char** errptr) {
  rocksdb_backup_engine_create_new_backup_with_metadata(
      be, db, options, nullptr, 0, backup_id, errptr);
}

void rocksdb_backup_engine_create_new_backup_with_metadata(
    rocksdb_backup_engine_t* be, rocksdb_t* db,
    const rocksdb_create_backup_options_t* options, const char* app_metadata,
    size_t app_metadata_len, uint32_t* backup_id, char** errptr) {
  const Bytes metadata{app_metadata, app_metadata_len, "app_metadata"};
  if (!Usable(errptr, Given{be, "be"}, Open{db}, Given{options, "options"},
              metadata)) {
    return;
  }
  Create(be, db, ToVarve(*options), metadata.slice().ToString(), backup_id,
         errptr);
}

void rocksdb_backup_engine_purge_old_backups(rocksdb_backup_engine_t* be,
                                             uint32_t num_backups_to_keep,
                                             char** errptr) {
  if (!Usable(errptr, Given{be, "be"})) return;
  Failed(errptr, be->rep->PurgeOldBackups(num_backups_to_keep));
}

// As RocksDB's, it reads no contents.
void rocksdb_backup_engine_verify_backup(rocksdb_backup_engine_t* be,
                                         uint32_t backup_id, char** errptr) {
  if (!Usable(errptr, Given{be, "be"})) return;
  Failed(errptr, be->rep->VerifyBackup(backup_id));
}

void rocksdb_backup_engine_restore_db_from_latest_backup(
    rocksdb_backup_engine_t* be, const char* db_dir, const char* wal_dir,
    const rocksdb_restore_options_t* restore_options, char** errptr) {
  if (!Usable(errptr, Given{be, "be"}, Given{db_dir, "db_dir"},
              Given{wal_dir, "wal_dir"},
              Given{restore_options, "restore_options"})) {
    return;
  }
  Failed(errptr, be->rep->RestoreDBFromLatestBackup(ToVarve(*restore_options),
                                                    db_dir, wal_dir));
}

void rocksdb_backup_engine_restore_db_from_backup(
    rocksdb_backup_engine_t* be, const char* db_dir, const char* wal_dir,
    const rocksdb_restore_options_t* restore_options, const uint32_t backup_id,
    char** errptr) {
  if (!Usable(errptr, Given{be, "be"}, Given{db_dir, "db_dir"},
              Given{wal_dir, "wal_dir"},
              Given{restore_options, "restore_options"})) {
    return;
  }
  Failed(errptr, be->rep->RestoreDBFromBackup(ToVarve(*restore_options),
                                              backup_id, db_dir, wal_dir));
}

const rocksdb_backup_engine_info_t* rocksdb_backup_engine_get_backup_info(
    rocksdb_backup_engine_t* be) {
  if (be == nullptr) return nullptr;
  auto* const info = new rocksdb_backup_engine_info_t;
  be->rep->GetBackupInfo(&info->infos);
  return info;
}

int rocksdb_backup_engine_info_count(const rocksdb_backup_engine_info_t* info) {
  return info == nullptr ? 0 : static_cast<int>(info->infos.size());
}

int64_t rocksdb_backup_engine_info_timestamp(
    const rocksdb_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->timestamp;
}

uint32_t rocksdb_backup_engine_info_backup_id(
    const rocksdb_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->backup_id;
}

uint64_t rocksdb_backup_engine_info_size(
    const rocksdb_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->size;
}

uint32_t rocksdb_backup_engine_info_number_files(
    const rocksdb_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->number_files;
}

const char* rocksdb_backup_engine_info_app_metadata(
    const rocksdb_backup_engine_info_t* info, int index, size_t* len) {
  const BackupInfo* const backup = At(info, index);
  if (len != nullptr)
    *len = backup == nullptr ? 0 : backup->app_metadata.size();
  return backup == nullptr ? nullptr : backup->app_metadata.c_str();
}

void rocksdb_backup_engine_info_destroy(
    const rocksdb_backup_engine_info_t* info) {
  delete info;
}

void rocksdb_backup_engine_stop_backup(rocksdb_backup_engine_t* be) {
  if (be != nullptr) be->rep->StopBackup();
}

void rocksdb_backup_engine_close(rocksdb_backup_engine_t* be) { delete be; }

}  // extern "C"
