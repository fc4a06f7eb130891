/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of live files, and of single tables:
 * docs/live_files.md. varve/c.h, which includes this file, describes errors,
 * memory and threads.
 *
 * A family's handle can be NULL here, which is the default family.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/c_families.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The tables of a database at one moment. Any number of threads may read it.
 */
typedef struct varve_livefiles_t varve_livefiles_t;
/** The files of a database at one moment, for a copy. Likewise. */
typedef struct varve_livefiles_storage_info_t varve_livefiles_storage_info_t;

/**
 * Keep obsolete tables and logs until as many calls enable their removal.
 */
VARVE_EXPORT void varve_disable_file_deletions(varve_t* db, char** errptr);
VARVE_EXPORT void varve_enable_file_deletions(varve_t* db, char** errptr);

/** Returns the tables of all families. Returns NULL only without a db. */
VARVE_EXPORT varve_livefiles_t* varve_livefiles(varve_t* db);
VARVE_EXPORT void varve_livefiles_destroy(varve_livefiles_t* files);
/** Returns the number of tables. */
VARVE_EXPORT int varve_livefiles_count(const varve_livefiles_t* files);
/**
 * Return facts of a table: its family's name, "/" and the file's name, its
 * level, its size in bytes, its first and last key, and its entries and
 * deletions. Texts are NULL and numbers 0 if there is no such table. Texts are
 * valid until the list is destroyed.
 */
VARVE_EXPORT const char* varve_livefiles_column_family_name(
    const varve_livefiles_t* files, int index);
VARVE_EXPORT const char* varve_livefiles_name(const varve_livefiles_t* files,
                                              int index);
VARVE_EXPORT int varve_livefiles_level(const varve_livefiles_t* files,
                                       int index);
VARVE_EXPORT size_t varve_livefiles_size(const varve_livefiles_t* files,
                                         int index);
VARVE_EXPORT const char* varve_livefiles_smallestkey(
    const varve_livefiles_t* files, int index, size_t* size);
VARVE_EXPORT const char* varve_livefiles_largestkey(
    const varve_livefiles_t* files, int index, size_t* size);
VARVE_EXPORT uint64_t varve_livefiles_entries(const varve_livefiles_t* files,
                                              int index);
VARVE_EXPORT uint64_t varve_livefiles_deletions(const varve_livefiles_t* files,
                                                int index);

/**
 * Returns all files of one state of the database. Memtables are flushed first
 * if the logs have at least `wal_size_for_flush` bytes: 0 flushes always,
 * UINT64_MAX never. Disable file deletions until the files are copied. Returns
 * NULL on failure.
 */
VARVE_EXPORT varve_livefiles_storage_info_t* varve_get_livefiles_storage_info(
    varve_t* db, uint64_t wal_size_for_flush, char** errptr);
VARVE_EXPORT void varve_livefiles_storage_info_destroy(
    varve_livefiles_storage_info_t* info);
/** Returns the number of files. */
VARVE_EXPORT size_t
varve_livefiles_storage_info_count(const varve_livefiles_storage_info_t* info);
/** Returns the file's name in the database's directory, or NULL. */
VARVE_EXPORT const char* varve_livefiles_storage_info_relative_filename(
    const varve_livefiles_storage_info_t* info, size_t index);
/** Returns the number of bytes to copy; the file may be longer. */
VARVE_EXPORT uint64_t varve_livefiles_storage_info_size(
    const varve_livefiles_storage_info_t* info, size_t index);
/** Returns the contents that the copy gets, or NULL to copy the file's own. */
VARVE_EXPORT const char* varve_livefiles_storage_info_replacement_contents(
    const varve_livefiles_storage_info_t* info, size_t index, size_t* size);

/**
 * Removes the tables below level 0 whose keys are all in [start_key,
 * limit_key], without a compaction. Read docs/live_files.md before you use it.
 * A NULL key is the first or the last one.
 */
VARVE_EXPORT void varve_delete_file_in_range_cf(
    varve_t* db, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* limit_key,
    size_t limit_key_len, char** errptr);
/** Marks the tables of [start_key, limit_key] for compaction, and returns. */
VARVE_EXPORT void varve_suggest_compact_range_cf(
    varve_t* db, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* limit_key,
    size_t limit_key_len, char** errptr);

/**
 * Adds a collector that marks new tables for compaction if a window of
 * successive entries has so many deletions, or if the part of deletions is at
 * least deletion_ratio, which (0, 1] turns on.
 */
VARVE_EXPORT void varve_options_add_compact_on_deletion_collector_factory(
    varve_options_t* options, size_t sliding_window_size,
    size_t deletion_trigger, double deletion_ratio);

#ifdef __cplusplus
}
#endif
