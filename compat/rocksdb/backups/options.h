// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The options of backups in RocksDB's C interface.

#include <fields.h>
#include <rocksdb/c.h>

#include <memory>
#include <string>

#include "varve/backup_engine.h"
#include "varve/env.h"
#include "varve/rate_limiter.h"

struct rocksdb_backup_engine_options_t
    : varve::rocksdb_c::BackupEngineOptionsFields {
  std::shared_ptr<varve::Env> env;  // Null: the engine's.
  std::shared_ptr<varve::RateLimiter> backup_rate_limiter;
  std::shared_ptr<varve::RateLimiter> restore_rate_limiter;
};

struct rocksdb_create_backup_options_t
    : varve::rocksdb_c::CreateBackupOptionsFields {
  rocksdb_create_backup_options_progress_cb progress = nullptr;
  void* progress_state = nullptr;
  rocksdb_create_backup_options_exclude_files_cb exclude = nullptr;
  void* exclude_state = nullptr;
};

struct rocksdb_restore_options_t : varve::rocksdb_c::RestoreOptionsFields {};

namespace varve::rocksdb_c {

// Return the engine's options.
BackupEngineOptions ToVarve(const rocksdb_backup_engine_options_t& options);
CreateBackupOptions ToVarve(const rocksdb_create_backup_options_t& options);
RestoreOptions ToVarve(const rocksdb_restore_options_t& options);

}  // namespace varve::rocksdb_c
