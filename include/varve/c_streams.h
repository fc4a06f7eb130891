/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of streams of updates: docs/streams.md. varve/c.h,
 * which includes this file, describes errors, memory and threads.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A stream of the updates of a database. One thread at a time may use it. */
typedef struct varve_wal_iterator_t varve_wal_iterator_t;

/** What a stream lacks: see TransactionLogGap in varve/transaction_log.h. */
enum {
  varve_wal_gap_none = 0,
  varve_wal_gap_ingested = 1,
  varve_wal_gap_removed = 2,
  varve_wal_gap_unlogged = 3,
  varve_wal_gap_gone = 4,
  varve_wal_gap_damaged = 5
};

/**
 * Returns a stream of the batches of the logs, from the one that contains the
 * sequence number, or the first one after it. Returns NULL on failure:
 * "NotFound" if the update is in no log any more. The stream keeps the database
 * open after varve_close, until it is destroyed.
 */
VARVE_EXPORT varve_wal_iterator_t* varve_get_updates_since(varve_t* db,
                                                           uint64_t sequence,
                                                           char** errptr);
VARVE_EXPORT void varve_wal_iter_destroy(varve_wal_iterator_t* iterator);
/** Returns 1 if there is a batch. */
VARVE_EXPORT uint8_t varve_wal_iter_valid(const varve_wal_iterator_t* iterator);
/** Moves to the next batch. At the end, and after a gap, goes on if it can. */
VARVE_EXPORT void varve_wal_iter_next(varve_wal_iterator_t* iterator);
/** Sets an error if there is no batch for another reason than the end. */
VARVE_EXPORT void varve_wal_iter_status(const varve_wal_iterator_t* iterator,
                                        char** errptr);
/**
 * Returns a copy of the batch, which is to be destroyed, and stores its
 * sequence number. Returns an empty batch, and 0, if there is none.
 */
VARVE_EXPORT varve_writebatch_t* varve_wal_iter_get_batch(
    const varve_wal_iterator_t* iterator, uint64_t* sequence);
/**
 * At the end, waits for the next write and moves to it. Returns
 * varve_wal_iter_valid, and 0 after `timeout_us` microseconds (UINT64_MAX: no
 * limit).
 */
VARVE_EXPORT uint8_t varve_wal_iter_wait(varve_wal_iterator_t* iterator,
                                         uint64_t timeout_us);
/**
 * Returns the kind of the gap at which the stream is, and stores the first and
 * the last missing number, or 0.
 */
VARVE_EXPORT int varve_wal_iter_gap(const varve_wal_iterator_t* iterator,
                                    uint64_t* first, uint64_t* last);
/** Returns the number of files that the gap names. */
VARVE_EXPORT size_t
varve_wal_iter_gap_files(const varve_wal_iterator_t* iterator);
/**
 * Returns the name of such a file in the database's directory, with a slash in
 * front, or NULL. It is valid until the stream moves. Stores the id of its
 * column family, unless `column_family_id` is NULL.
 */
VARVE_EXPORT const char* varve_wal_iter_gap_file(
    const varve_wal_iterator_t* iterator, size_t index,
    uint32_t* column_family_id);

/** Set Options::WAL_ttl_seconds and WAL_size_limit_MB. */
VARVE_EXPORT void varve_options_set_wal_ttl_seconds(varve_options_t* options,
                                                    uint64_t seconds);
VARVE_EXPORT void varve_options_set_wal_size_limit_mb(varve_options_t* options,
                                                      uint64_t mebibytes);

#ifdef __cplusplus
} /* extern "C" */
#endif
