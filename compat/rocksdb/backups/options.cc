// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/backups/options.h"

#include <algorithm>

#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {

namespace {

constexpr int kMaxThreads = 64;

}  // namespace

BackupEngineOptions ToVarve(const rocksdb_backup_engine_options_t& options) {
  BackupEngineOptions result(options.backup_dir, options.env.get());
  result.share_table_files = options.share_table_files != 0;
  result.sync = options.sync != 0;
  result.destroy_old_data = options.destroy_old_data != 0;
  result.backup_log_files = options.backup_log_files != 0;
  result.backup_rate_limit = options.backup_rate_limit;
  result.backup_rate_limiter = options.backup_rate_limiter;
  result.restore_rate_limit = options.restore_rate_limit;
  result.restore_rate_limiter = options.restore_rate_limiter;
  result.share_files_with_checksum = options.share_files_with_checksum != 0;
  // RocksDB takes any number.
  result.max_background_operations =
      std::clamp(options.max_background_operations, 1, kMaxThreads);
  result.callback_trigger_interval_size =
      options.callback_trigger_interval_size;
  result.max_valid_backups_to_open =
      std::max(options.max_valid_backups_to_open, 0);
  result.share_files_with_checksum_naming =
      static_cast<BackupEngineOptions::ShareFilesNaming>(
          options.share_files_with_checksum_naming);
  result.schema_version = options.schema_version;
  result.io_buffer_size = options.io_buffer_size;
  return result;
}

CreateBackupOptions ToVarve(const rocksdb_create_backup_options_t& options) {
  CreateBackupOptions result;
  result.flush_before_backup = options.flush_before_backup != 0;
  result.decrease_background_thread_cpu_priority =
      options.decrease_background_thread_cpu_priority != 0;
  result.background_thread_cpu_priority = static_cast<CpuPriority>(
      std::clamp(options.background_thread_cpu_priority, 0, 3));
  if (options.progress != nullptr) {
    result.progress_callback = [call = options.progress,
                                state = options.progress_state] {
      call(state);
    };
  }
  if (options.exclude != nullptr) {
    result.exclude_files_callback =
        [call = options.exclude, state = options.exclude_state](
            MaybeExcludeBackupFile* begin, MaybeExcludeBackupFile* end) {
          for (; begin != end; ++begin) {
            const std::string& path = begin->info.relative_file;
            begin->exclude_decision =
                call(state, path.data(), path.size()) != 0;
          }
        };
  }
  return result;
}

RestoreOptions ToVarve(const rocksdb_restore_options_t& options) {
  RestoreOptions result;
  result.keep_log_files = options.keep_log_files != 0;
  result.mode = static_cast<RestoreOptions::Mode>(options.mode);
  return result;
}

}  // namespace varve::rocksdb_c

extern "C" {

rocksdb_backup_engine_options_t* rocksdb_backup_engine_options_create(
    const char* backup_dir) {
  auto* const options = new rocksdb_backup_engine_options_t;
  if (backup_dir != nullptr) options->backup_dir = backup_dir;
  return options;
}

void rocksdb_backup_engine_options_set_env(
    rocksdb_backup_engine_options_t* options, rocksdb_env_t* env) {
  if (options == nullptr) return;
  options->env = env == nullptr ? nullptr : env->rep;
}

void rocksdb_backup_engine_options_set_backup_rate_limiter(
    rocksdb_backup_engine_options_t* options, rocksdb_ratelimiter_t* limiter) {
  if (options == nullptr) return;
  options->backup_rate_limiter = limiter == nullptr ? nullptr : limiter->rep;
}

void rocksdb_backup_engine_options_set_restore_rate_limiter(
    rocksdb_backup_engine_options_t* options, rocksdb_ratelimiter_t* limiter) {
  if (options == nullptr) return;
  options->restore_rate_limiter = limiter == nullptr ? nullptr : limiter->rep;
}

void rocksdb_create_backup_options_set_progress_callback(
    rocksdb_create_backup_options_t* options, void* state,
    rocksdb_create_backup_options_progress_cb callback) {
  if (options == nullptr) return;
  options->progress = callback;
  options->progress_state = state;
}

void rocksdb_create_backup_options_set_exclude_files_callback(
    rocksdb_create_backup_options_t* options, void* state,
    rocksdb_create_backup_options_exclude_files_cb callback) {
  if (options == nullptr) return;
  options->exclude = callback;
  options->exclude_state = state;
}

}  // extern "C"
