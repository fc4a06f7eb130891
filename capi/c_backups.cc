// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of backups.

#include "varve/c_backups.h"

#include <memory>
#include <string>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "varve/backup_engine.h"

struct varve_backup_engine_t {
  std::unique_ptr<varve::BackupEngine> rep;
};

struct varve_backup_engine_info_t {
  std::vector<varve::BackupInfo> infos;
};

struct varve_backup_engine_options_t {
  varve::BackupEngineOptions rep;
};

struct varve_restore_options_t {
  varve::RestoreOptions rep;
};

using varve::BackupEngine;
using varve::BackupEngineOptions;
using varve::BackupInfo;
using varve::CreateBackupOptions;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace {

template <typename Value, typename Given>
void Set(varve_backup_engine_options_t* options,
         Value BackupEngineOptions::*field, Given value) {
  if (options != nullptr) options->rep.*field = static_cast<Value>(value);
}

void SetFlag(varve_backup_engine_options_t* options,
             bool BackupEngineOptions::*field, unsigned char value) {
  if (options != nullptr) options->rep.*field = value != 0;
}

// Returns null if there is none of that index.
const BackupInfo* At(const varve_backup_engine_info_t* info, int index) {
  return info != nullptr && index >= 0 &&
                 static_cast<size_t>(index) < info->infos.size()
             ? &info->infos[static_cast<size_t>(index)]
             : nullptr;
}

}  // namespace

extern "C" {

varve_backup_engine_options_t* varve_backup_engine_options_create(
    const char* backup_dir) {
  if (backup_dir == nullptr) return nullptr;
  return new varve_backup_engine_options_t{BackupEngineOptions(backup_dir)};
}

void varve_backup_engine_options_destroy(
    varve_backup_engine_options_t* options) {
  delete options;
}

void varve_backup_engine_options_set_env(varve_backup_engine_options_t* options,
                                         varve_env_t* env) {
  if (options == nullptr) return;
  options->rep.backup_env = env == nullptr ? nullptr : env->rep;
}

void varve_backup_engine_options_set_share_table_files(
    varve_backup_engine_options_t* options, unsigned char value) {
  SetFlag(options, &BackupEngineOptions::share_table_files, value);
}

void varve_backup_engine_options_set_sync(
    varve_backup_engine_options_t* options, unsigned char value) {
  SetFlag(options, &BackupEngineOptions::sync, value);
}

void varve_backup_engine_options_set_destroy_old_data(
    varve_backup_engine_options_t* options, unsigned char value) {
  SetFlag(options, &BackupEngineOptions::destroy_old_data, value);
}

void varve_backup_engine_options_set_backup_log_files(
    varve_backup_engine_options_t* options, unsigned char value) {
  SetFlag(options, &BackupEngineOptions::backup_log_files, value);
}

void varve_backup_engine_options_set_backup_rate_limit(
    varve_backup_engine_options_t* options, uint64_t bytes_per_second) {
  Set(options, &BackupEngineOptions::backup_rate_limit, bytes_per_second);
}

void varve_backup_engine_options_set_restore_rate_limit(
    varve_backup_engine_options_t* options, uint64_t bytes_per_second) {
  Set(options, &BackupEngineOptions::restore_rate_limit, bytes_per_second);
}

void varve_backup_engine_options_set_max_background_operations(
    varve_backup_engine_options_t* options, int value) {
  Set(options, &BackupEngineOptions::max_background_operations, value);
}

void varve_backup_engine_options_set_callback_trigger_interval_size(
    varve_backup_engine_options_t* options, uint64_t bytes) {
  Set(options, &BackupEngineOptions::callback_trigger_interval_size, bytes);
}

void varve_backup_engine_options_set_schema_version(
    varve_backup_engine_options_t* options, int value) {
  Set(options, &BackupEngineOptions::schema_version, value);
}

varve_backup_engine_t* varve_backup_engine_open_opts(
    const varve_backup_engine_options_t* options, varve_env_t* env,
    char** errptr) {
  if (!Usable(errptr, Given{options, "options"})) return nullptr;
  auto engine = std::make_unique<varve_backup_engine_t>();
  return SaveError(errptr,
                   BackupEngine::Open(options->rep,
                                      env == nullptr ? nullptr : env->rep,
                                      &engine->rep))
             ? nullptr
             : engine.release();
}

void varve_backup_engine_close(varve_backup_engine_t* engine) { delete engine; }

void varve_backup_engine_create_new_backup(
    varve_backup_engine_t* engine, varve_t* db,
    unsigned char flush_before_backup, const char* app_metadata,
    size_t app_metadata_size, void (*progress)(void* state), void* state,
    uint32_t* backup_id, char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"}, Given{db, "db"},
              Bytes{app_metadata, app_metadata_size, "app_metadata"})) {
    return;
  }
  CreateBackupOptions options;
  options.flush_before_backup = flush_before_backup != 0;
  if (progress != nullptr) {
    options.progress_callback = [progress, state] { progress(state); };
  }
  SaveError(errptr, engine->rep->CreateNewBackupWithMetadata(
                        options, db->db,
                        ToSlice(app_metadata, app_metadata_size).ToString(),
                        backup_id));
}

void varve_backup_engine_stop_backup(varve_backup_engine_t* engine) {
  if (engine != nullptr) engine->rep->StopBackup();
}

void varve_backup_engine_purge_old_backups(varve_backup_engine_t* engine,
                                           uint32_t num_backups_to_keep,
                                           char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"})) return;
  SaveError(errptr, engine->rep->PurgeOldBackups(num_backups_to_keep));
}

void varve_backup_engine_delete_backup(varve_backup_engine_t* engine,
                                       uint32_t backup_id, char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"})) return;
  SaveError(errptr, engine->rep->DeleteBackup(backup_id));
}

void varve_backup_engine_garbage_collect(varve_backup_engine_t* engine,
                                         char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"})) return;
  SaveError(errptr, engine->rep->GarbageCollect());
}

void varve_backup_engine_verify_backup(varve_backup_engine_t* engine,
                                       uint32_t backup_id,
                                       unsigned char with_checksum,
                                       char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"})) return;
  SaveError(errptr, engine->rep->VerifyBackup(backup_id, with_checksum != 0));
}

varve_restore_options_t* varve_restore_options_create(void) {
  return new varve_restore_options_t;
}

void varve_restore_options_destroy(varve_restore_options_t* options) {
  delete options;
}

void varve_restore_options_set_keep_log_files(varve_restore_options_t* options,
                                              int value) {
  if (options != nullptr) options->rep.keep_log_files = value != 0;
}

void varve_restore_options_set_mode(varve_restore_options_t* options,
                                    int value) {
  if (options == nullptr) return;
  options->rep.mode = static_cast<varve::RestoreOptions::Mode>(value);
}

void varve_backup_engine_restore_db_from_backup(
    varve_backup_engine_t* engine, const char* db_dir, const char* wal_dir,
    const varve_restore_options_t* restore_options, uint32_t backup_id,
    char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"}, Given{db_dir, "db_dir"},
              Given{wal_dir, "wal_dir"},
              Given{restore_options, "restore_options"})) {
    return;
  }
  SaveError(errptr, engine->rep->RestoreDBFromBackup(
                        restore_options->rep, backup_id, db_dir, wal_dir));
}

void varve_backup_engine_restore_db_from_latest_backup(
    varve_backup_engine_t* engine, const char* db_dir, const char* wal_dir,
    const varve_restore_options_t* restore_options, uint32_t* backup_id,
    char** errptr) {
  if (!Usable(errptr, Given{engine, "engine"}, Given{db_dir, "db_dir"},
              Given{wal_dir, "wal_dir"},
              Given{restore_options, "restore_options"})) {
    return;
  }
  SaveError(errptr, engine->rep->RestoreDBFromLatestBackup(
                        restore_options->rep, db_dir, wal_dir, backup_id));
}

varve_backup_engine_info_t* varve_backup_engine_get_backup_info(
    varve_backup_engine_t* engine) {
  if (engine == nullptr) return nullptr;
  auto* const info = new varve_backup_engine_info_t;
  engine->rep->GetBackupInfo(&info->infos);
  return info;
}

void varve_backup_engine_info_destroy(varve_backup_engine_info_t* info) {
  delete info;
}

int varve_backup_engine_info_count(const varve_backup_engine_info_t* info) {
  return info == nullptr ? 0 : static_cast<int>(info->infos.size());
}

uint32_t varve_backup_engine_info_backup_id(
    const varve_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->backup_id;
}

int64_t varve_backup_engine_info_timestamp(
    const varve_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->timestamp;
}

uint64_t varve_backup_engine_info_size(const varve_backup_engine_info_t* info,
                                       int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->size;
}

uint32_t varve_backup_engine_info_number_files(
    const varve_backup_engine_info_t* info, int index) {
  const BackupInfo* const backup = At(info, index);
  return backup == nullptr ? 0 : backup->number_files;
}

const char* varve_backup_engine_info_app_metadata(
    const varve_backup_engine_info_t* info, int index, size_t* size) {
  const BackupInfo* const backup = At(info, index);
  if (size != nullptr) {
    *size = backup == nullptr ? 0 : backup->app_metadata.size();
  }
  return backup == nullptr ? nullptr : backup->app_metadata.c_str();
}

}  // extern "C"
