/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of column families: see varve/column_family.h.
 * varve/c.h, which includes this file, describes errors, memory and threads.
 *
 * A function ..._cf does what the function without _cf does, for the family of
 * a handle. Functions without a handle are of the default family.
 *
 * Handles: many threads may use one. Destroy each exactly once, before or after
 * its database is closed, but not during another call that uses it. After the
 * varve_t that it was got from is closed, a handle can only be asked for its id
 * and name. In other calls, a handle that is NULL, of another database, or of a
 * closed one is "Invalid argument".
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A column family of an open database. */
typedef struct varve_column_family_handle_t varve_column_family_handle_t;

/* ---- Families and handles ---- */

/**
 * Opens a database with these families, which must be all that it has, and
 * stores their handles in column_family_handles[i]. Families have the options
 * of column_family_options[i], the database those of `options`. Returns NULL on
 * failure, and all handles are then NULL.
 */
VARVE_EXPORT varve_t* varve_open_column_families(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr);
/**
 * Opens a database as varve_open_for_read_only does. Only the default family
 * must be among the given ones.
 */
VARVE_EXPORT varve_t* varve_open_for_read_only_column_families(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr);
/**
 * Opens a follower as varve_open_as_secondary does. Only the default family
 * must be among the given ones; varve_promote needs all.
 */
VARVE_EXPORT varve_t* varve_open_as_secondary_column_families(
    const varve_options_t* options, const char* name,
    const char* secondary_path, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr);
/**
 * Returns the names of the families of a database, which can be open, and sets
 * *lencf to their number. Returns NULL on failure.
 */
VARVE_EXPORT char** varve_list_column_families(const varve_options_t* options,
                                               const char* name, size_t* lencf,
                                               char** errptr);
/** Destroys such a list with its names. */
VARVE_EXPORT void varve_list_column_families_destroy(char** list, size_t len);

/** Creates a family. Returns NULL on failure, for example if it exists. */
VARVE_EXPORT varve_column_family_handle_t* varve_create_column_family(
    varve_t* db, const varve_options_t* column_family_options,
    const char* column_family_name, char** errptr);
/**
 * Creates families one after the other, until one cannot be created. Returns
 * the handles of those that were created, and sets *lencfs to their number,
 * also if an error is reported. The caller destroys the handles and the array.
 * Returns NULL if an argument is NULL or memory is exhausted.
 */
VARVE_EXPORT varve_column_family_handle_t** varve_create_column_families(
    varve_t* db, const varve_options_t* column_family_options,
    int num_column_families, const char* const* column_family_names,
    size_t* lencfs, char** errptr);
/** Destroys such an array, but not the handles in it. */
VARVE_EXPORT void varve_create_column_families_destroy(
    varve_column_family_handle_t** list);

/**
 * Removes a family with its keys. It can be read until its handles are
 * destroyed. Writing to it is an error.
 */
VARVE_EXPORT void varve_drop_column_family(varve_t* db,
                                           varve_column_family_handle_t* handle,
                                           char** errptr);

/**
 * Returns a new handle of the default family, or NULL if the database was
 * closed.
 */
VARVE_EXPORT varve_column_family_handle_t*
varve_get_default_column_family_handle(varve_t* db);
/** Destroys a handle, not the family. */
VARVE_EXPORT void varve_column_family_handle_destroy(
    varve_column_family_handle_t*);
/** Returns the number of the family in the database's files; default: 0. */
VARVE_EXPORT uint32_t
varve_column_family_handle_get_id(varve_column_family_handle_t* handle);
/** Returns the name, which the caller frees. name_len may be NULL. */
VARVE_EXPORT char* varve_column_family_handle_get_name(
    varve_column_family_handle_t* handle, size_t* name_len);

/** Creates the families that an open call names and the database lacks. */
VARVE_EXPORT void varve_options_set_create_missing_column_families(
    varve_options_t*, uint8_t);
/**
 * Bytes of all logs; near this bound, the family that needs the oldest log is
 * flushed. 0, the default, derives it from the write buffers: see
 * DBOptions::max_total_wal_size.
 */
VARVE_EXPORT void varve_options_set_max_total_wal_size(varve_options_t*,
                                                       uint64_t);
/** Flushes all families together, if not 0. Default: 0. */
VARVE_EXPORT void varve_options_set_atomic_flush(varve_options_t*, uint8_t);

/* ---- Writes ---- */

/** See varve_put. */
VARVE_EXPORT void varve_put_cf(varve_t* db, const varve_writeoptions_t* options,
                               varve_column_family_handle_t* column_family,
                               const char* key, size_t keylen, const char* val,
                               size_t vallen, char** errptr);
/** See varve_delete. */
VARVE_EXPORT void varve_delete_cf(varve_t* db,
                                  const varve_writeoptions_t* options,
                                  varve_column_family_handle_t* column_family,
                                  const char* key, size_t keylen,
                                  char** errptr);
/** See varve_singledelete. */
VARVE_EXPORT void varve_singledelete_cf(
    varve_t* db, const varve_writeoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char** errptr);
/** See varve_delete_range. */
VARVE_EXPORT void varve_delete_range_cf(
    varve_t* db, const varve_writeoptions_t* options,
    varve_column_family_handle_t* column_family, const char* start_key,
    size_t start_key_len, const char* end_key, size_t end_key_len,
    char** errptr);

/* ---- Batches. A batch keeps the number of the family: write it to the
   database of the handle. A handle that is NULL, of another database or of a
   closed one makes varve_write refuse the batch. ---- */

/** See varve_writebatch_put. */
VARVE_EXPORT void varve_writebatch_put_cf(
    varve_writebatch_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen);
/** See varve_writebatch_delete. */
VARVE_EXPORT void varve_writebatch_delete_cf(
    varve_writebatch_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen);
/** See varve_writebatch_singledelete. */
VARVE_EXPORT void varve_writebatch_singledelete_cf(
    varve_writebatch_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen);
/** See varve_writebatch_delete_range. */
VARVE_EXPORT void varve_writebatch_delete_range_cf(
    varve_writebatch_t*, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len);
/**
 * Calls put_cf(state, ...), deleted_cf(state, ...) and merge_cf(state, ...) for
 * the updates of all families, in order, with the family's number. A single
 * delete counts as a delete. Range deletions are skipped.
 */
VARVE_EXPORT void varve_writebatch_iterate_cf(
    varve_writebatch_t*, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*merge_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                     const char* v, size_t vlen));
/** See varve_writebatch_iterate_all. */
VARVE_EXPORT void varve_writebatch_iterate_all_cf(
    const varve_writebatch_t*, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*single_deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*range_deleted_cf)(void*, uint32_t cfid, const char* begin,
                             size_t begin_len, const char* end, size_t end_len),
    void (*log_data)(void*, const char* blob, size_t len), char** errptr);

/* ---- Reads. A snapshot, and so a read transaction's, is of all families.
   ---- */

/** See varve_get. */
VARVE_EXPORT char* varve_get_cf(varve_t* db, const varve_readoptions_t* options,
                                varve_column_family_handle_t* column_family,
                                const char* key, size_t keylen, size_t* vallen,
                                char** errptr);
/** See varve_get_pinned. */
VARVE_EXPORT varve_pinnableslice_t* varve_get_pinned_cf(
    varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char** errptr);
/** See varve_get_into_buffer. */
VARVE_EXPORT uint8_t varve_get_into_buffer_cf(
    varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char* buffer, size_t buffer_size, size_t* vallen, uint8_t* found,
    char** errptr);
/** See varve_multi_get. Looks up keys_list[i] in column_families[i]. */
VARVE_EXPORT void varve_multi_get_cf(
    varve_t* db, const varve_readoptions_t* options,
    const varve_column_family_handle_t* const* column_families, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs);
/** See varve_create_iterator. */
VARVE_EXPORT varve_iterator_t* varve_create_iterator_cf(
    varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family);
/**
 * Stores an iterator over column_families[i] in iterators[i]. All see the same
 * moment. On failure, all are NULL.
 */
VARVE_EXPORT void varve_create_iterators(
    varve_t* db, varve_readoptions_t* options,
    varve_column_family_handle_t** column_families,
    varve_iterator_t** iterators, size_t size, char** errptr);

/* ---- Properties, flushes and compactions ---- */

/** See varve_property_value. */
VARVE_EXPORT char* varve_property_value_cf(
    varve_t* db, varve_column_family_handle_t* column_family,
    const char* propname);
/** See varve_property_int. */
VARVE_EXPORT int varve_property_int_cf(
    varve_t* db, varve_column_family_handle_t* column_family,
    const char* propname, uint64_t* out_val);
/** See varve_approximate_sizes. Reports errors; all sizes are then 0. */
VARVE_EXPORT void varve_approximate_sizes_cf(
    varve_t* db, varve_column_family_handle_t* column_family, int num_ranges,
    const char* const* range_start_key, const size_t* range_start_key_len,
    const char* const* range_limit_key, const size_t* range_limit_key_len,
    uint64_t* sizes, char** errptr);
/** See varve_compact_range. */
VARVE_EXPORT void varve_compact_range_cf(
    varve_t* db, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* limit_key,
    size_t limit_key_len);
/** See varve_compact_range_opt. */
VARVE_EXPORT void varve_compact_range_cf_opt(
    varve_t* db, varve_column_family_handle_t* column_family,
    const varve_compactoptions_t* options, const char* start_key,
    size_t start_key_len, const char* limit_key, size_t limit_key_len,
    char** errptr);
/** See varve_flush. */
VARVE_EXPORT void varve_flush_cf(varve_t* db,
                                 const varve_flushoptions_t* options,
                                 varve_column_family_handle_t* column_family,
                                 char** errptr);
/** Flushes several families, as of one moment of the log. */
VARVE_EXPORT void varve_flush_cfs(varve_t* db,
                                  const varve_flushoptions_t* options,
                                  varve_column_family_handle_t** column_family,
                                  int num_column_families, char** errptr);
/** See varve_set_options. */
VARVE_EXPORT void varve_set_options_cf(varve_t* db,
                                       varve_column_family_handle_t* handle,
                                       int count, const char* const keys[],
                                       const char* const values[],
                                       char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_merge.h"
#include "varve/c_reads.h"
