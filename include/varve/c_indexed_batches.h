/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of batches that can be read before they are written:
 * see varve/write_batch_with_index.h. varve/c.h, which includes this file,
 * describes errors, memory and threads.
 *
 * An update with a wrong argument, or for which the batch has no room, is left
 * out, and varve_write_writebatch_wi then refuses the batch.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A batch with an index of its updates. */
typedef struct varve_writebatch_wi_t varve_writebatch_wi_t;

/* ---- Batches ---- */

/**
 * Creates a batch. Updates without a column family are ordered by `comparator`,
 * or by bytes if that is NULL; it must outlive the batch. max_bytes: see
 * WriteBatchWithIndex; 0 is no limit. With `overwrite_key`, an iterator over
 * the batch shows the newest update of a key only.
 */
VARVE_EXPORT varve_writebatch_wi_t* varve_writebatch_wi_create(
    const varve_comparator_t* comparator, size_t reserved_bytes,
    uint8_t overwrite_key, size_t max_bytes);
/** Destroys a batch. Iterators over it may outlive it. */
VARVE_EXPORT void varve_writebatch_wi_destroy(varve_writebatch_wi_t*);
/** Removes the updates and save points. */
VARVE_EXPORT void varve_writebatch_wi_clear(varve_writebatch_wi_t*);
/** Returns the number of updates. */
VARVE_EXPORT int varve_writebatch_wi_count(varve_writebatch_wi_t*);
/**
 * Returns the bytes, as varve_writebatch_data does for a batch with the same
 * updates. Valid until the batch changes.
 */
VARVE_EXPORT const char* varve_writebatch_wi_data(varve_writebatch_wi_t*,
                                                  size_t* size);
/** See varve_writebatch_set_save_point. */
VARVE_EXPORT void varve_writebatch_wi_set_save_point(varve_writebatch_wi_t*);
/** See varve_writebatch_rollback_to_save_point. */
VARVE_EXPORT void varve_writebatch_wi_rollback_to_save_point(
    varve_writebatch_wi_t*, char** errptr);
/** See varve_write. */
VARVE_EXPORT void varve_write_writebatch_wi(varve_t* db,
                                            const varve_writeoptions_t* options,
                                            varve_writebatch_wi_t* wbwi,
                                            char** errptr);

/* ---- Updates. See the functions of varve_writebatch_t. ---- */

/** See varve_writebatch_put. */
VARVE_EXPORT void varve_writebatch_wi_put(varve_writebatch_wi_t*,
                                          const char* key, size_t klen,
                                          const char* val, size_t vlen);
/** See varve_writebatch_put_cf. */
VARVE_EXPORT void varve_writebatch_wi_put_cf(
    varve_writebatch_wi_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen);
/** See varve_writebatch_merge. */
VARVE_EXPORT void varve_writebatch_wi_merge(varve_writebatch_wi_t*,
                                            const char* key, size_t klen,
                                            const char* val, size_t vlen);
/** See varve_writebatch_merge_cf. */
VARVE_EXPORT void varve_writebatch_wi_merge_cf(
    varve_writebatch_wi_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen);
/** See varve_writebatch_delete. */
VARVE_EXPORT void varve_writebatch_wi_delete(varve_writebatch_wi_t*,
                                             const char* key, size_t klen);
/** See varve_writebatch_delete_cf. */
VARVE_EXPORT void varve_writebatch_wi_delete_cf(
    varve_writebatch_wi_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen);
/** See varve_writebatch_singledelete. */
VARVE_EXPORT void varve_writebatch_wi_singledelete(varve_writebatch_wi_t*,
                                                   const char* key,
                                                   size_t klen);
/** See varve_writebatch_singledelete_cf. */
VARVE_EXPORT void varve_writebatch_wi_singledelete_cf(
    varve_writebatch_wi_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen);
/** See varve_writebatch_delete_range. */
VARVE_EXPORT void varve_writebatch_wi_delete_range(varve_writebatch_wi_t*,
                                                   const char* start_key,
                                                   size_t start_key_len,
                                                   const char* end_key,
                                                   size_t end_key_len);
/** See varve_writebatch_delete_range_cf. */
VARVE_EXPORT void varve_writebatch_wi_delete_range_cf(
    varve_writebatch_wi_t*, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len);
/** See varve_writebatch_put_log_data. */
VARVE_EXPORT void varve_writebatch_wi_put_log_data(varve_writebatch_wi_t*,
                                                   const char* blob,
                                                   size_t len);

/* ---- Reads ---- */

/**
 * Returns the value of a key in the batch, as varve_get does. Fails with
 * "Result incomplete" for merge operands that apply to a database's value.
 */
VARVE_EXPORT char* varve_writebatch_wi_get_from_batch(varve_writebatch_wi_t*,
                                                      const char* key,
                                                      size_t keylen,
                                                      size_t* vallen,
                                                      char** errptr);
/** See varve_writebatch_wi_get_from_batch. */
VARVE_EXPORT char* varve_writebatch_wi_get_from_batch_cf(
    varve_writebatch_wi_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t keylen, size_t* vallen, char** errptr);
/**
 * Return the value that the key would have if the batch had been written. See
 * varve_get and varve_get_pinned.
 */
VARVE_EXPORT char* varve_writebatch_wi_get_from_batch_and_db(
    varve_writebatch_wi_t*, varve_t* db, const varve_readoptions_t* options,
    const char* key, size_t keylen, size_t* vallen, char** errptr);
/** See varve_writebatch_wi_get_from_batch_and_db. */
VARVE_EXPORT char* varve_writebatch_wi_get_from_batch_and_db_cf(
    varve_writebatch_wi_t*, varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    size_t* vallen, char** errptr);
/** See varve_writebatch_wi_get_from_batch_and_db. */
VARVE_EXPORT varve_pinnableslice_t*
varve_writebatch_wi_get_pinned_from_batch_and_db(
    varve_writebatch_wi_t*, varve_t* db, const varve_readoptions_t* options,
    const char* key, size_t keylen, char** errptr);
/** See varve_writebatch_wi_get_pinned_from_batch_and_db. */
VARVE_EXPORT varve_pinnableslice_t*
varve_writebatch_wi_get_pinned_from_batch_and_db_cf(
    varve_writebatch_wi_t*, varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char** errptr);
/**
 * Return an iterator over the database and the batch. The bounds of `options`
 * hold for both. The batch can be changed: see NewIteratorWithBase. Never NULL:
 * see varve_create_iterator.
 */
VARVE_EXPORT varve_iterator_t* varve_writebatch_wi_create_iterator(
    varve_writebatch_wi_t*, varve_t* db, const varve_readoptions_t* options);
/** See varve_writebatch_wi_create_iterator. */
VARVE_EXPORT varve_iterator_t* varve_writebatch_wi_create_iterator_cf(
    varve_writebatch_wi_t*, varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_transactions.h"
