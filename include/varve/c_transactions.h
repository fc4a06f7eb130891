/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of transactions: see varve/transaction.h,
 * varve/optimistic_transaction_db.h and varve/transaction_db.h. varve/c.h,
 * which includes this file, describes errors, memory and threads.
 *
 * A database with transactions is a varve_t. All functions of databases take
 * it.
 *
 * Transactions may be used by one thread at a time, together with their
 * iterators. varve_close rolls transactions back that are not prepared, except
 * those that have iterators. Other calls of them then fail with "Shutdown in
 * progress".
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Updates that are applied together, if no other writer has interfered. */
typedef struct varve_transaction_t varve_transaction_t;
/** Options of a database whose transactions lock keys. */
typedef struct varve_transactiondb_options_t varve_transactiondb_options_t;
/** Options of a transaction that locks keys. */
typedef struct varve_transaction_options_t varve_transaction_options_t;
/** Options of a transaction that finds conflicts when it commits. */
typedef struct varve_optimistictransaction_options_t
    varve_optimistictransaction_options_t;

/* ---- Options. Times are in milliseconds. ---- */

/** Creates options. */
VARVE_EXPORT varve_transactiondb_options_t* varve_transactiondb_options_create(
    void);
/** Destroys options. */
VARVE_EXPORT void varve_transactiondb_options_destroy(
    varve_transactiondb_options_t*);
/** Locked keys of a family at a time; no limit if not positive. Default: -1. */
VARVE_EXPORT void varve_transactiondb_options_set_max_num_locks(
    varve_transactiondb_options_t*, int64_t);
/** Parts of the lock table, in [1, 65536]. Default: 256. */
VARVE_EXPORT void varve_transactiondb_options_set_num_stripes(
    varve_transactiondb_options_t*, size_t);
/** How long a transaction waits for a lock; no limit if negative. Default:
    1000. */
VARVE_EXPORT void varve_transactiondb_options_set_transaction_lock_timeout(
    varve_transactiondb_options_t*, int64_t);
/** The same for writes outside of transactions. Default: 1000. */
VARVE_EXPORT void varve_transactiondb_options_set_default_lock_timeout(
    varve_transactiondb_options_t*, int64_t);

/** Creates options. */
VARVE_EXPORT varve_transaction_options_t* varve_transaction_options_create(
    void);
/** Destroys options. */
VARVE_EXPORT void varve_transaction_options_destroy(
    varve_transaction_options_t*);
/** Take a snapshot at the begin. Default: 0. */
VARVE_EXPORT void varve_transaction_options_set_set_snapshot(
    varve_transaction_options_t*, uint8_t);
/** Fail with "Busy" rather than wait in a deadlock. Default: 0. */
VARVE_EXPORT void varve_transaction_options_set_deadlock_detect(
    varve_transaction_options_t*, uint8_t);
/** The most transactions of a cycle that is searched for. Default: 50. */
VARVE_EXPORT void varve_transaction_options_set_deadlock_detect_depth(
    varve_transaction_options_t*, int64_t);
/** How long to wait for a lock; as the database if negative. Default: -1. */
VARVE_EXPORT void varve_transaction_options_set_lock_timeout(
    varve_transaction_options_t*, int64_t);
/** When others may take the locks; never if negative. Default: -1. */
VARVE_EXPORT void varve_transaction_options_set_expiration(
    varve_transaction_options_t*, int64_t);
/** The most bytes of updates; no limit if 0. Default: 0. */
VARVE_EXPORT void varve_transaction_options_set_max_write_batch_size(
    varve_transaction_options_t*, size_t);
/** Commit without a prepare even with a name. Default: 1. */
VARVE_EXPORT void varve_transaction_options_set_skip_prepare(
    varve_transaction_options_t*, uint8_t);

/** Creates options. */
VARVE_EXPORT varve_optimistictransaction_options_t*
varve_optimistictransaction_options_create(void);
/** Destroys options. */
VARVE_EXPORT void varve_optimistictransaction_options_destroy(
    varve_optimistictransaction_options_t*);
/** Take a snapshot at the begin. Default: 0. */
VARVE_EXPORT void varve_optimistictransaction_options_set_set_snapshot(
    varve_optimistictransaction_options_t*, uint8_t);
/** Check all that was read, too: TransactionIsolation::kSerializable. Default:
    0. */
VARVE_EXPORT void varve_optimistictransaction_options_set_serializable(
    varve_optimistictransaction_options_t*, uint8_t);

/* ---- Databases ---- */

/** See varve_open. Transactions lock keys. */
VARVE_EXPORT varve_t* varve_transactiondb_open(
    const varve_options_t* options,
    const varve_transactiondb_options_t* txn_db_options, const char* name,
    char** errptr);
/** See varve_open_column_families. */
VARVE_EXPORT varve_t* varve_transactiondb_open_column_families(
    const varve_options_t* options,
    const varve_transactiondb_options_t* txn_db_options, const char* name,
    int num_column_families, const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr);
/** See varve_open. Transactions find conflicts when they commit. */
VARVE_EXPORT varve_t* varve_optimistictransactiondb_open(
    const varve_options_t* options, const char* name, char** errptr);
/** See varve_open_column_families. */
VARVE_EXPORT varve_t* varve_optimistictransactiondb_open_column_families(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, char** errptr);

/* ---- The begin and the end of transactions ---- */

/**
 * Begins a transaction of a database of the same kind. If `old_txn` is not
 * NULL, it is a transaction of the same database that is not prepared; it is
 * rolled back, used again, and returned. Returns NULL on failure.
 */
VARVE_EXPORT varve_transaction_t* varve_transaction_begin(
    varve_t* db, const varve_writeoptions_t* write_options,
    const varve_transaction_options_t* txn_options,
    varve_transaction_t* old_txn, char** errptr);
/** See varve_transaction_begin. */
VARVE_EXPORT varve_transaction_t* varve_optimistictransaction_begin(
    varve_t* db, const varve_writeoptions_t* write_options,
    const varve_optimistictransaction_options_t* txn_options,
    varve_transaction_t* old_txn, char** errptr);
/**
 * Destroys a transaction. Rolls it back, unless it is prepared or has ended,
 * when its last iterator is destroyed.
 */
VARVE_EXPORT void varve_transaction_destroy(varve_transaction_t*);
/** Fails with "Busy" if a transaction that locks no keys has a conflict. */
VARVE_EXPORT void varve_transaction_commit(varve_transaction_t*, char** errptr);
/** Discards the updates. */
VARVE_EXPORT void varve_transaction_rollback(varve_transaction_t*,
                                             char** errptr);

/** Names the transaction, for varve_transaction_prepare. */
VARVE_EXPORT void varve_transaction_set_name(varve_transaction_t*,
                                             const char* name, size_t name_len,
                                             char** errptr);
/** Returns the name, which the caller frees. name_len may be NULL. */
VARVE_EXPORT char* varve_transaction_get_name(varve_transaction_t*,
                                              size_t* name_len);
/** The first phase of a two-phase commit. */
VARVE_EXPORT void varve_transaction_prepare(varve_transaction_t*,
                                            char** errptr);
/**
 * Returns a handle of each prepared transaction, those that the open call has
 * found among them, and sets *count to their number. The caller destroys the
 * handles, and frees the array with varve_free. Returns NULL if there are none.
 */
VARVE_EXPORT varve_transaction_t**
varve_transactiondb_get_prepared_transactions(varve_t* db, size_t* count);

/** Sets a save point. */
VARVE_EXPORT void varve_transaction_set_savepoint(varve_transaction_t*);
/** Undoes updates and locks since the last save point. */
VARVE_EXPORT void varve_transaction_rollback_to_savepoint(varve_transaction_t*,
                                                          char** errptr);
/** Takes a snapshot: see Transaction::SetSnapshot. */
VARVE_EXPORT void varve_transaction_set_snapshot(varve_transaction_t*);
/**
 * Reads of `options` are to be of the transaction's snapshot, until that is
 * replaced or the transaction is destroyed or used again. Without a snapshot,
 * they are of the present state.
 */
VARVE_EXPORT void varve_readoptions_set_transaction_snapshot(
    varve_readoptions_t* options, varve_transaction_t*);

/* ---- Updates. Fail as the locks say: see Transaction::Put. ---- */

/** See varve_put. */
VARVE_EXPORT void varve_transaction_put(varve_transaction_t*, const char* key,
                                        size_t klen, const char* val,
                                        size_t vlen, char** errptr);
/** See varve_transaction_put. */
VARVE_EXPORT void varve_transaction_put_cf(
    varve_transaction_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen, char** errptr);
/** See varve_merge. */
VARVE_EXPORT void varve_transaction_merge(varve_transaction_t*, const char* key,
                                          size_t klen, const char* val,
                                          size_t vlen, char** errptr);
/** See varve_transaction_merge. */
VARVE_EXPORT void varve_transaction_merge_cf(
    varve_transaction_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen, char** errptr);
/** See varve_delete. */
VARVE_EXPORT void varve_transaction_delete(varve_transaction_t*,
                                           const char* key, size_t klen,
                                           char** errptr);
/** See varve_transaction_delete. */
VARVE_EXPORT void varve_transaction_delete_cf(
    varve_transaction_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, char** errptr);
/** See varve_singledelete. */
VARVE_EXPORT void varve_transaction_singledelete(varve_transaction_t*,
                                                 const char* key, size_t klen,
                                                 char** errptr);
/** See varve_transaction_singledelete. */
VARVE_EXPORT void varve_transaction_singledelete_cf(
    varve_transaction_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, char** errptr);
/** "Not supported" for transactions that lock keys. */
VARVE_EXPORT void varve_transaction_delete_range(
    varve_transaction_t*, const char* start_key, size_t start_key_len,
    const char* end_key, size_t end_key_len, char** errptr);
/** See varve_transaction_delete_range. */
VARVE_EXPORT void varve_transaction_delete_range_cf(
    varve_transaction_t*, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len, char** errptr);
/** See varve_writebatch_put_log_data. */
VARVE_EXPORT void varve_transaction_put_log_data(varve_transaction_t*,
                                                 const char* blob, size_t len);
/** Adds the updates of a batch, as the functions above. */
VARVE_EXPORT void varve_transaction_rebuild_from_writebatch(
    varve_transaction_t*, varve_writebatch_t* writebatch, char** errptr);

/* ---- Reads ---- */

/** See varve_get. Sees the transaction's updates. */
VARVE_EXPORT char* varve_transaction_get(varve_transaction_t*,
                                         const varve_readoptions_t* options,
                                         const char* key, size_t klen,
                                         size_t* vlen, char** errptr);
/** See varve_transaction_get. */
VARVE_EXPORT char* varve_transaction_get_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    size_t* vlen, char** errptr);
/** See varve_get_pinned. */
VARVE_EXPORT varve_pinnableslice_t* varve_transaction_get_pinned(
    varve_transaction_t*, const varve_readoptions_t* options, const char* key,
    size_t klen, char** errptr);
/** See varve_transaction_get_pinned. */
VARVE_EXPORT varve_pinnableslice_t* varve_transaction_get_pinned_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    char** errptr);
/**
 * Read a key that nobody else may change until the commit: see
 * Transaction::GetForUpdate.
 */
VARVE_EXPORT char* varve_transaction_get_for_update(
    varve_transaction_t*, const varve_readoptions_t* options, const char* key,
    size_t klen, size_t* vlen, uint8_t exclusive, char** errptr);
/** See varve_transaction_get_for_update. */
VARVE_EXPORT char* varve_transaction_get_for_update_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    size_t* vlen, uint8_t exclusive, char** errptr);
/** See varve_transaction_get_for_update. */
VARVE_EXPORT varve_pinnableslice_t* varve_transaction_get_pinned_for_update(
    varve_transaction_t*, const varve_readoptions_t* options, const char* key,
    size_t klen, uint8_t exclusive, char** errptr);
/** See varve_transaction_get_pinned_for_update. */
VARVE_EXPORT varve_pinnableslice_t* varve_transaction_get_pinned_for_update_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t klen,
    uint8_t exclusive, char** errptr);
/** See varve_multi_get. */
VARVE_EXPORT void varve_transaction_multi_get(
    varve_transaction_t*, const varve_readoptions_t* options, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs);
/** Looks up keys_list[i] in column_families[i]. */
VARVE_EXPORT void varve_transaction_multi_get_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    const varve_column_family_handle_t* const* column_families, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs);
/** All keys are locked before the first is read. */
VARVE_EXPORT void varve_transaction_multi_get_for_update(
    varve_transaction_t*, const varve_readoptions_t* options, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs);
/** See varve_transaction_multi_get_for_update. */
VARVE_EXPORT void varve_transaction_multi_get_for_update_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    const varve_column_family_handle_t* const* column_families, size_t num_keys,
    const char* const* keys_list, const size_t* keys_list_sizes,
    char** values_list, size_t* values_list_sizes, char** errs);
/** See varve_create_iterator. Sees the transaction's updates. */
VARVE_EXPORT varve_iterator_t* varve_transaction_create_iterator(
    varve_transaction_t*, const varve_readoptions_t* options);
/** See varve_transaction_create_iterator. */
VARVE_EXPORT varve_iterator_t* varve_transaction_create_iterator_cf(
    varve_transaction_t*, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_backups.h"
#include "varve/c_live_files.h"
