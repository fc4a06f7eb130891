/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of backups: docs/backups.md. varve/c.h, which
 * includes this file, describes errors, memory and threads. Names and
 * parameters are RocksDB's.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/c_extensions.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A directory of backups. Any number of threads may use it. */
typedef struct varve_backup_engine_t varve_backup_engine_t;
/** The backups at one moment. Any number of threads may read it. */
typedef struct varve_backup_engine_info_t varve_backup_engine_info_t;
/** Where backups are, and how they are written. */
typedef struct varve_backup_engine_options_t varve_backup_engine_options_t;
/** How a database is restored. */
typedef struct varve_restore_options_t varve_restore_options_t;

/** Creates options of backups in a directory. Returns NULL only without it. */
VARVE_EXPORT varve_backup_engine_options_t* varve_backup_engine_options_create(
    const char* backup_dir);
VARVE_EXPORT void varve_backup_engine_options_destroy(
    varve_backup_engine_options_t*);
/**
 * Set options: BackupEngineOptions of varve/backup_engine.h. The environment of
 * the backups must live as long as the engine.
 */
VARVE_EXPORT void varve_backup_engine_options_set_env(
    varve_backup_engine_options_t*, varve_env_t* env);
VARVE_EXPORT void varve_backup_engine_options_set_share_table_files(
    varve_backup_engine_options_t*, unsigned char);
VARVE_EXPORT void varve_backup_engine_options_set_sync(
    varve_backup_engine_options_t*, unsigned char);
VARVE_EXPORT void varve_backup_engine_options_set_destroy_old_data(
    varve_backup_engine_options_t*, unsigned char);
VARVE_EXPORT void varve_backup_engine_options_set_backup_log_files(
    varve_backup_engine_options_t*, unsigned char);
VARVE_EXPORT void varve_backup_engine_options_set_backup_rate_limit(
    varve_backup_engine_options_t*, uint64_t bytes_per_second);
VARVE_EXPORT void varve_backup_engine_options_set_restore_rate_limit(
    varve_backup_engine_options_t*, uint64_t bytes_per_second);
VARVE_EXPORT void varve_backup_engine_options_set_max_background_operations(
    varve_backup_engine_options_t*, int);
VARVE_EXPORT void
varve_backup_engine_options_set_callback_trigger_interval_size(
    varve_backup_engine_options_t*, uint64_t bytes);
VARVE_EXPORT void varve_backup_engine_options_set_schema_version(
    varve_backup_engine_options_t*, int);

/**
 * Opens a directory of backups, which is created if it is missing. Databases
 * are restored into `env`, which must live as long as the engine; NULL means
 * the default one. Returns NULL on failure.
 */
VARVE_EXPORT varve_backup_engine_t* varve_backup_engine_open_opts(
    const varve_backup_engine_options_t* options, varve_env_t* env,
    char** errptr);
VARVE_EXPORT void varve_backup_engine_close(varve_backup_engine_t*);

/**
 * Creates a backup. With `flush_before_backup`, memtables are flushed first.
 * `progress` is called after each callback_trigger_interval_size bytes, and may
 * be NULL. The number of the backup is stored in *backup_id, which may be NULL.
 */
VARVE_EXPORT void varve_backup_engine_create_new_backup(
    varve_backup_engine_t*, varve_t* db, unsigned char flush_before_backup,
    const char* app_metadata, size_t app_metadata_size,
    void (*progress)(void* state), void* state, uint32_t* backup_id,
    char** errptr);
/** Ends a running call, and all later ones, with an error. */
VARVE_EXPORT void varve_backup_engine_stop_backup(varve_backup_engine_t*);
/** Deletes the oldest backups but `num_backups_to_keep`. */
VARVE_EXPORT void varve_backup_engine_purge_old_backups(
    varve_backup_engine_t*, uint32_t num_backups_to_keep, char** errptr);
/** Deletes a backup. */
VARVE_EXPORT void varve_backup_engine_delete_backup(varve_backup_engine_t*,
                                                    uint32_t backup_id,
                                                    char** errptr);
/** Removes what interrupted calls have left. */
VARVE_EXPORT void varve_backup_engine_garbage_collect(varve_backup_engine_t*,
                                                      char** errptr);
/** Checks the files' sizes, and their contents if `with_checksum`. */
VARVE_EXPORT void varve_backup_engine_verify_backup(varve_backup_engine_t*,
                                                    uint32_t backup_id,
                                                    unsigned char with_checksum,
                                                    char** errptr);

/** Creates options with the default values. */
VARVE_EXPORT varve_restore_options_t* varve_restore_options_create(void);
VARVE_EXPORT void varve_restore_options_destroy(varve_restore_options_t*);
/** Set options: RestoreOptions of varve/backup_engine.h. */
VARVE_EXPORT void varve_restore_options_set_keep_log_files(
    varve_restore_options_t*, int);
VARVE_EXPORT void varve_restore_options_set_mode(varve_restore_options_t*, int);
/**
 * Restores a backup, which replaces a database in `db_dir`. The logs go to
 * `wal_dir`, which is `db_dir` for Varve.
 */
VARVE_EXPORT void varve_backup_engine_restore_db_from_backup(
    varve_backup_engine_t*, const char* db_dir, const char* wal_dir,
    const varve_restore_options_t* restore_options, uint32_t backup_id,
    char** errptr);
/**
 * The same with the newest backup that is not damaged. Its number is stored in
 * *backup_id, which may be NULL.
 */
VARVE_EXPORT void varve_backup_engine_restore_db_from_latest_backup(
    varve_backup_engine_t*, const char* db_dir, const char* wal_dir,
    const varve_restore_options_t* restore_options, uint32_t* backup_id,
    char** errptr);

/** Returns the backups that are not damaged. Returns NULL only without one. */
VARVE_EXPORT varve_backup_engine_info_t* varve_backup_engine_get_backup_info(
    varve_backup_engine_t*);
VARVE_EXPORT void varve_backup_engine_info_destroy(varve_backup_engine_info_t*);
/** Returns the number of backups. */
VARVE_EXPORT int varve_backup_engine_info_count(
    const varve_backup_engine_info_t*);
/**
 * Return facts of a backup: its number, the seconds since 1970 at its creation,
 * the bytes and the number of its files, and the program's metadata. They are 0
 * or NULL if there is no such backup.
 */
VARVE_EXPORT uint32_t varve_backup_engine_info_backup_id(
    const varve_backup_engine_info_t*, int index);
VARVE_EXPORT int64_t varve_backup_engine_info_timestamp(
    const varve_backup_engine_info_t*, int index);
VARVE_EXPORT uint64_t
varve_backup_engine_info_size(const varve_backup_engine_info_t*, int index);
VARVE_EXPORT uint32_t varve_backup_engine_info_number_files(
    const varve_backup_engine_info_t*, int index);
VARVE_EXPORT const char* varve_backup_engine_info_app_metadata(
    const varve_backup_engine_info_t*, int index, size_t* size);

#ifdef __cplusplus
} /* extern "C" */
#endif
