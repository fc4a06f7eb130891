/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of live files, of single tables, and of exported
 * families: docs/live_files.md, docs/ingestion.md. varve/c.h, which includes
 * this file, describes errors, memory and threads.
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
 * Return facts of a table: its family's name, "/" and the file's name, the
 * file's directory, its level, its size in bytes, its first and last key, the
 * least and the largest sequence number, and its entries and deletions. Texts
 * are NULL and numbers 0 if there is no such table. Texts are valid until the
 * list is destroyed.
 */
VARVE_EXPORT const char* varve_livefiles_column_family_name(
    const varve_livefiles_t* files, int index);
VARVE_EXPORT const char* varve_livefiles_name(const varve_livefiles_t* files,
                                              int index);
VARVE_EXPORT const char* varve_livefiles_directory(
    const varve_livefiles_t* files, int index);
VARVE_EXPORT int varve_livefiles_level(const varve_livefiles_t* files,
                                       int index);
VARVE_EXPORT size_t varve_livefiles_size(const varve_livefiles_t* files,
                                         int index);
VARVE_EXPORT const char* varve_livefiles_smallestkey(
    const varve_livefiles_t* files, int index, size_t* size);
VARVE_EXPORT const char* varve_livefiles_largestkey(
    const varve_livefiles_t* files, int index, size_t* size);
VARVE_EXPORT uint64_t
varve_livefiles_smallest_seqno(const varve_livefiles_t* files, int index);
VARVE_EXPORT uint64_t
varve_livefiles_largest_seqno(const varve_livefiles_t* files, int index);
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

/** The tables of an exported family, and the name of their comparator. One
    thread at a time may change it. */
typedef struct varve_export_import_files_metadata_t
    varve_export_import_files_metadata_t;
/** A table of such metadata. Likewise. */
typedef struct varve_livefile_t varve_livefile_t;

/** Flushes the family, and links its tables into the new directory
    `export_dir`. Returns NULL on failure. */
VARVE_EXPORT varve_export_import_files_metadata_t*
varve_checkpoint_export_column_family(
    varve_checkpoint_t* checkpoint, varve_column_family_handle_t* column_family,
    const char* export_dir, char** errptr);
/** Creates a family of the tables of the metadata, which are copied, or moved
    if `move_files` is not 0. Returns NULL on failure; nothing is created then.
 */
VARVE_EXPORT varve_column_family_handle_t*
varve_create_column_family_with_import(
    varve_t* db, const varve_options_t* column_family_options,
    const char* column_family_name, unsigned char move_files,
    const varve_export_import_files_metadata_t* metadata, char** errptr);

/** Returns metadata without tables. */
VARVE_EXPORT varve_export_import_files_metadata_t*
varve_export_import_files_metadata_create(void);
VARVE_EXPORT void varve_export_import_files_metadata_destroy(
    varve_export_import_files_metadata_t* metadata);
/** Returns a copy for varve_free, or NULL without metadata. */
VARVE_EXPORT char* varve_export_import_files_metadata_get_db_comparator_name(
    const varve_export_import_files_metadata_t* metadata);
VARVE_EXPORT void varve_export_import_files_metadata_set_db_comparator_name(
    varve_export_import_files_metadata_t* metadata, const char* name);
/** Returns a copy, or NULL without metadata. */
VARVE_EXPORT varve_livefiles_t* varve_export_import_files_metadata_get_files(
    const varve_export_import_files_metadata_t* metadata);
/** Replaces the tables by a copy of the list. */
VARVE_EXPORT void varve_export_import_files_metadata_set_files(
    varve_export_import_files_metadata_t* metadata,
    const varve_livefiles_t* files);

/** Returns an empty list. */
VARVE_EXPORT varve_livefiles_t* varve_livefiles_create(void);
/** Appends a copy of the table. */
VARVE_EXPORT void varve_livefiles_add(varve_livefiles_t* files,
                                      const varve_livefile_t* file);

/** Returns a table without a name. */
VARVE_EXPORT varve_livefile_t* varve_livefile_create(void);
VARVE_EXPORT void varve_livefile_destroy(varve_livefile_t* file);
/** Set facts of a table. An import needs the directory, the name, the level and
    the sequence numbers; it checks a size and keys that are set. Without a
    file, or with NULL, nothing is set. */
VARVE_EXPORT void varve_livefile_set_column_family_name(
    varve_livefile_t* file, const char* column_family_name);
VARVE_EXPORT void varve_livefile_set_level(varve_livefile_t* file, int level);
VARVE_EXPORT void varve_livefile_set_name(varve_livefile_t* file,
                                          const char* name);
VARVE_EXPORT void varve_livefile_set_directory(varve_livefile_t* file,
                                               const char* directory);
VARVE_EXPORT void varve_livefile_set_size(varve_livefile_t* file, size_t size);
VARVE_EXPORT void varve_livefile_set_smallest_key(varve_livefile_t* file,
                                                  const char* smallest_key,
                                                  size_t smallest_key_len);
VARVE_EXPORT void varve_livefile_set_largest_key(varve_livefile_t* file,
                                                 const char* largest_key,
                                                 size_t largest_key_len);
VARVE_EXPORT void varve_livefile_set_smallest_seqno(varve_livefile_t* file,
                                                    uint64_t smallest_seqno);
VARVE_EXPORT void varve_livefile_set_largest_seqno(varve_livefile_t* file,
                                                   uint64_t largest_seqno);
VARVE_EXPORT void varve_livefile_set_num_entries(varve_livefile_t* file,
                                                 uint64_t num_entries);
VARVE_EXPORT void varve_livefile_set_num_deletions(varve_livefile_t* file,
                                                   uint64_t num_deletions);

#ifdef __cplusplus
}
#endif

#include "varve/c_streams.h"
