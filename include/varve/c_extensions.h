/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C beyond LevelDB's interface. varve/c.h, which includes
 * this file, describes errors, memory and threads.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Many databases in one directory. */
typedef struct varve_catalog_t varve_catalog_t;
/** Makes copies of an open database. */
typedef struct varve_checkpoint_t varve_checkpoint_t;
/** Options of a compaction. */
typedef struct varve_compactoptions_t varve_compactoptions_t;
/** Options of a flush. */
typedef struct varve_flushoptions_t varve_flushoptions_t;
/** A pinned value. */
typedef struct varve_pinnableslice_t varve_pinnableslice_t;
/** Limits the writes of background work. */
typedef struct varve_ratelimiter_t varve_ratelimiter_t;
/** A snapshot that keeps its sources referenced. */
typedef struct varve_readtransaction_t varve_readtransaction_t;
/** Counters and histograms. */
typedef struct varve_statistics_t varve_statistics_t;
/** A traced request. */
typedef struct varve_trace_t varve_trace_t;
/** Options of a trace. */
typedef struct varve_traceoptions_t varve_traceoptions_t;
/** A step of a traced request. */
typedef struct varve_tracespan_t varve_tracespan_t;
/** Bounds the memory of write buffers of several databases. */
typedef struct varve_write_buffer_manager_t varve_write_buffer_manager_t;

/**
 * Returns the version of Varve that the program runs with, such as "1.2.3". Do
 * not free it. The macros of varve/version.h are from the headers that the
 * program was compiled with.
 */
VARVE_EXPORT const char* varve_version(void);

/* ---- Databases ---- */

/**
 * Opens without changing a file or taking the lock; writes are errors. Shows
 * one moment of the database, also while another process writes to it.
 */
VARVE_EXPORT varve_t* varve_open_for_read_only(const varve_options_t* options,
                                               const char* name, char** errptr);

/**
 * Opens as a follower of the process that writes the database, as
 * DB::OpenAsSecondary does. The info log goes to LOG in secondary_path.
 */
VARVE_EXPORT varve_t* varve_open_as_secondary(const varve_options_t* options,
                                              const char* name,
                                              const char* secondary_path,
                                              char** errptr);

/**
 * Shows at least all updates that the primary had answered before the call, and
 * one moment. An error leaves the moment as it was.
 */
VARVE_EXPORT void varve_try_catch_up_with_primary(varve_t* db, char** errptr);

/**
 * Takes the primary's place after its process has ended: the database is open
 * for writing then. An error, such as Busy while the primary lives, leaves it a
 * follower.
 */
VARVE_EXPORT void varve_promote(varve_t* db, char** errptr);

/**
 * Closes the database. Returns 0 if snapshots, iterators or read transactions
 * still exist; the database then stays open. Otherwise returns 1 and destroys
 * `db`; an error concerns its last writes. A reference from varve_catalog_find
 * is released, which always returns 1.
 */
VARVE_EXPORT uint8_t varve_close_checked(varve_t* db, char** errptr);

/** Removes a key that was put only once since its last removal. */
VARVE_EXPORT void varve_singledelete(varve_t* db,
                                     const varve_writeoptions_t* options,
                                     const char* key, size_t keylen,
                                     char** errptr);

/** Removes the keys from start_key up to, not including, end_key. */
VARVE_EXPORT void varve_delete_range(varve_t* db,
                                     const varve_writeoptions_t* options,
                                     const char* start_key,
                                     size_t start_key_len, const char* end_key,
                                     size_t end_key_len, char** errptr);

/**
 * Looks up num_keys keys like varve_get, all in one snapshot. The caller frees
 * each value and error. errs need not be initialized.
 */
VARVE_EXPORT void varve_multi_get(varve_t* db,
                                  const varve_readoptions_t* options,
                                  size_t num_keys, const char* const* keys_list,
                                  const size_t* keys_list_sizes,
                                  char** values_list, size_t* values_list_sizes,
                                  char** errs);

/** Pins the value, often without a copy. NULL as for varve_get. */
VARVE_EXPORT varve_pinnableslice_t* varve_get_pinned(
    varve_t* db, const varve_readoptions_t* options, const char* key,
    size_t keylen, char** errptr);
/** Returns its bytes, valid while it lives; NULL and 0 if `v` is NULL. */
VARVE_EXPORT const char* varve_pinnableslice_value(
    const varve_pinnableslice_t* v, size_t* vlen);
/** May be called after the database was closed. */
VARVE_EXPORT void varve_pinnableslice_destroy(varve_pinnableslice_t* v);

/**
 * Copies the value to `buffer` and returns 1. If it cannot, returns 0 and sets
 * *found to whether there is a value, and *vallen to the size it needs.
 */
VARVE_EXPORT uint8_t varve_get_into_buffer(varve_t* db,
                                           const varve_readoptions_t* options,
                                           const char* key, size_t keylen,
                                           char* buffer, size_t buffer_size,
                                           size_t* vallen, uint8_t* found,
                                           char** errptr);

/** Reads a property that is a number. Returns 0, or -1 if there is none. */
VARVE_EXPORT int varve_property_int(varve_t* db, const char* propname,
                                    uint64_t* out_val);

/** Returns the sequence number of the newest update. */
VARVE_EXPORT uint64_t varve_get_latest_sequence_number(varve_t* db);

/** Writes the memtables of the default family to tables. */
VARVE_EXPORT void varve_flush(varve_t* db, const varve_flushoptions_t* options,
                              char** errptr);
/** Writes the log to the operating system; with `sync`, to the device. */
VARVE_EXPORT void varve_flush_wal(varve_t* db, uint8_t sync, char** errptr);
/** Makes all earlier writes durable, as a write with sync does. */
VARVE_EXPORT void varve_sync_wal(varve_t* db, char** errptr);

/** Does varve_compact_range with options, and reports errors. */
VARVE_EXPORT void varve_compact_range_opt(varve_t* db,
                                          const varve_compactoptions_t* options,
                                          const char* start_key,
                                          size_t start_key_len,
                                          const char* limit_key,
                                          size_t limit_key_len, char** errptr);
/** Waits until no flush or compaction is due. */
VARVE_EXPORT void varve_wait_for_compact(varve_t* db, char** errptr);
/** Starts no more flushes and compactions, and stops those that run. */
VARVE_EXPORT void varve_cancel_all_background_work(varve_t* db, uint8_t wait);
/** Changes options by name while the database is open: DB::SetOptions. */
VARVE_EXPORT void varve_set_options(varve_t* db, int count,
                                    const char* const keys[],
                                    const char* const values[], char** errptr);
/** Changes options of the database: DB::SetDBOptions. */
VARVE_EXPORT void varve_set_db_options(varve_t* db, int count,
                                       const char* const keys[],
                                       const char* const values[],
                                       char** errptr);
/** Makes a database writable again after a failure made it read-only. */
VARVE_EXPORT void varve_resume(varve_t* db, char** errptr);
/** Reads all tables and compares checksums. */
VARVE_EXPORT void varve_verify_checksum(varve_t* db, char** errptr);

/** Creates copies of `db`. After `db` is closed, it can only be destroyed. */
VARVE_EXPORT varve_checkpoint_t* varve_checkpoint_object_create(varve_t* db,
                                                                char** errptr);
/**
 * Creates a copy of the database in checkpoint_dir, which must not exist.
 * Tables become hard links if possible. Use it for backups. The copy includes
 * the log, whatever log_size_for_flush is.
 */
VARVE_EXPORT void varve_checkpoint_create(varve_checkpoint_t* checkpoint,
                                          const char* checkpoint_dir,
                                          uint64_t log_size_for_flush,
                                          char** errptr);
/** Destroys the object, but not the copies. */
VARVE_EXPORT void varve_checkpoint_object_destroy(
    varve_checkpoint_t* checkpoint);

/* ---- Snapshots ---- */

/** Returns the number of the newest update that the snapshot contains. */
VARVE_EXPORT uint64_t
varve_snapshot_get_sequence_number(const varve_snapshot_t* snapshot);

/**
 * Begins a read transaction: a snapshot that also references the memtables and
 * tables it reads. See varve/read_transaction.h. Returns NULL if the database
 * was closed.
 */
VARVE_EXPORT varve_readtransaction_t* varve_readtransaction_begin(varve_t* db);
/**
 * Returns a snapshot for varve_readoptions_set_snapshot, valid until the
 * transaction ends. Do not release it.
 */
VARVE_EXPORT const varve_snapshot_t* varve_readtransaction_snapshot(
    const varve_readtransaction_t* transaction);
/** Ends the transaction, on any thread. Its iterators may live longer. */
VARVE_EXPORT void varve_readtransaction_end(
    varve_readtransaction_t* transaction);

/* ---- Iterators ---- */

/** Moves to the last entry at or before the key. */
VARVE_EXPORT void varve_iter_seek_for_prev(varve_iterator_t*, const char* k,
                                           size_t klen);

/**
 * Copies as many entries from the iterator's position on as `buffer` has space
 * for, and moves the iterator past them. Returns their number, and sets *used
 * to their bytes. An entry is the lengths of key and value, each in 4 bytes
 * with the lowest first, then the key, then the value. If the first entry does
 * not fit, returns 0 and sets *used to the space it needs. At the end, returns
 * 0 and sets *used to 0; then check the error. For languages in which a call
 * of C is expensive.
 */
VARVE_EXPORT size_t varve_iter_copy_entries(varve_iterator_t*, char* buffer,
                                            size_t buffer_size, size_t* used);

/* ---- Write batches ---- */

/** Creates a batch from varve_writebatch_data. Checked when written. */
VARVE_EXPORT varve_writebatch_t* varve_writebatch_create_from(const char* rep,
                                                              size_t size);
/** Returns the batch in RocksDB's format, valid until it changes. */
VARVE_EXPORT const char* varve_writebatch_data(const varve_writebatch_t*,
                                               size_t* size);
/** Returns the number of updates. */
VARVE_EXPORT int varve_writebatch_count(const varve_writebatch_t*);
/** See varve_singledelete. */
VARVE_EXPORT void varve_writebatch_singledelete(varve_writebatch_t*,
                                                const char* key, size_t klen);
/** See varve_delete_range. */
VARVE_EXPORT void varve_writebatch_delete_range(varve_writebatch_t*,
                                                const char* start_key,
                                                size_t start_key_len,
                                                const char* end_key,
                                                size_t end_key_len);
/** Adds a note for the log that changes nothing. */
VARVE_EXPORT void varve_writebatch_put_log_data(varve_writebatch_t*,
                                                const char* blob, size_t len);
/** Sets all keys of the entries that varve_iter_copy_entries copied. */
VARVE_EXPORT void varve_writebatch_put_entries(varve_writebatch_t*,
                                               const char* entries, size_t size,
                                               char** errptr);
/**
 * Like varve_writebatch_iterate, for every kind of update but merges. A
 * callback that is NULL is not called. Returns an error if the batch was
 * created from damaged bytes, and stops with "Not supported" at a merge: see
 * varve_writebatch_iterate_updates_cf.
 */
VARVE_EXPORT void varve_writebatch_iterate_all(
    const varve_writebatch_t*, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen),
    void (*single_deleted)(void*, const char* k, size_t klen),
    void (*range_deleted)(void*, const char* begin, size_t begin_len,
                          const char* end, size_t end_len),
    void (*log_data)(void*, const char* blob, size_t len), char** errptr);

/* ---- Options, each as in varve/options.h ---- */

/** Returns a copy, which points to the same objects. */
VARVE_EXPORT varve_options_t* varve_options_create_copy(const varve_options_t*);
/** Sets any option by name and text: SetOption in varve/options.h. */
VARVE_EXPORT void varve_options_set(varve_options_t*, const char* name,
                                    const char* value, char** errptr);
/**
 * Sets *new_options to base_options with the changes in a text such as
 * "write_buffer_size=8M;max_open_files=100". See GetOptionsFromString in
 * varve/convert.h.
 */
VARVE_EXPORT void varve_get_options_from_string(
    const varve_options_t* base_options, const char* text,
    varve_options_t* new_options, char** errptr);
/**
 * Reads the options and the families of the database in db_path from its newest
 * OPTIONS file: LoadLatestOptions in varve/convert.h. The default family is the
 * first. Free the results by varve_load_latest_options_destroy. After an error
 * they are NULL and 0.
 */
VARVE_EXPORT void varve_load_latest_options(
    const char* db_path, varve_options_t** db_options,
    size_t* num_column_families, char*** column_family_names,
    varve_options_t*** column_family_options, char** errptr);
/** Frees what varve_load_latest_options returned. */
VARVE_EXPORT void varve_load_latest_options_destroy(
    varve_options_t* db_options, char** list_column_family_names,
    varve_options_t** list_column_family_options, size_t len);
/** Whether keys that differ only in case are the same key. */
enum { varve_key_case_sensitive = 0, varve_key_case_insensitive = 1 };
/** Sets one of the above. */
VARVE_EXPORT void varve_options_set_key_case(varve_options_t*, int);
/** Maximum number of memtables in memory. */
VARVE_EXPORT void varve_options_set_max_write_buffer_number(varve_options_t*,
                                                            int);
/** Maximum number of concurrent flushes and compactions. */
VARVE_EXPORT void varve_options_set_max_background_jobs(varve_options_t*, int);
/** Maximum number of parallel parts of a compaction. */
VARVE_EXPORT void varve_options_set_max_subcompactions(varve_options_t*,
                                                       uint32_t);
/** Levels of tables, level 0 included. */
VARVE_EXPORT void varve_options_set_num_levels(varve_options_t*, int);
/** Approximate size of a table in bytes. */
VARVE_EXPORT void varve_options_set_target_file_size_base(varve_options_t*,
                                                          uint64_t);
/** Maximum size of the base level in bytes. */
VARVE_EXPORT void varve_options_set_max_bytes_for_level_base(varve_options_t*,
                                                             uint64_t);
/** Size ratio of a level to the previous one. */
VARVE_EXPORT void varve_options_set_max_bytes_for_level_multiplier(
    varve_options_t*, double);
/** Derives the sizes of levels from the size of the last level. */
VARVE_EXPORT void varve_options_set_level_compaction_dynamic_level_bytes(
    varve_options_t*, uint8_t);
/** Level-0 tables that start a compaction. */
VARVE_EXPORT void varve_options_set_level0_file_num_compaction_trigger(
    varve_options_t*, int);
/** Level-0 tables at which writes are delayed. */
VARVE_EXPORT void varve_options_set_level0_slowdown_writes_trigger(
    varve_options_t*, int);
/** Level-0 tables at which writes are stopped. */
VARVE_EXPORT void varve_options_set_level0_stop_writes_trigger(varve_options_t*,
                                                               int);
/** Compacts only on request. */
VARVE_EXPORT void varve_options_set_disable_auto_compactions(varve_options_t*,
                                                             int);
/** Compressions by level, as for varve_options_set_compression. */
VARVE_EXPORT void varve_options_set_compression_per_level(
    varve_options_t*, const int* level_values, size_t num_levels);
/** Compression of tables on the deepest level of their key range. */
VARVE_EXPORT void varve_options_set_bottommost_compression(varve_options_t*,
                                                           int);
/** Charges indexes and filters of tables to the cache. */
VARVE_EXPORT void varve_options_set_cache_index_and_filter_blocks(
    varve_options_t*, uint8_t);
/** Bypasses the page cache. */
VARVE_EXPORT void varve_options_set_allow_mmap_reads(varve_options_t*, uint8_t);
VARVE_EXPORT void varve_options_set_use_direct_reads(varve_options_t*, uint8_t);
/** Bytes written to a table before writeback starts. */
VARVE_EXPORT void varve_options_set_bytes_per_sync(varve_options_t*, uint64_t);
/** Bytes written to a log before writeback starts. */
VARVE_EXPORT void varve_options_set_wal_bytes_per_sync(varve_options_t*,
                                                       uint64_t);
/** Keeps the log in the process until it is flushed. */
VARVE_EXPORT void varve_options_set_manual_wal_flush(varve_options_t*, uint8_t);
/** Limits the writes of flushes and compactions; NULL for no limit. */
VARVE_EXPORT void varve_options_set_ratelimiter(varve_options_t*,
                                                varve_ratelimiter_t*);
/** A budget shared with other databases; NULL for none. */
VARVE_EXPORT void varve_options_set_write_buffer_manager(
    varve_options_t*, varve_write_buffer_manager_t*);
/** Statistics to use; NULL for the database's own. */
VARVE_EXPORT void varve_options_set_statistics(varve_options_t*,
                                               varve_statistics_t*);

/** Sets the first key of iterators; NULL for no bound. */
VARVE_EXPORT void varve_readoptions_set_iterate_lower_bound(
    varve_readoptions_t*, const char* key, size_t keylen);
/** Sets the end of iterators, which is not included; NULL for no bound. */
VARVE_EXPORT void varve_readoptions_set_iterate_upper_bound(
    varve_readoptions_t*, const char* key, size_t keylen);
/** Bytes for iterators to read ahead; 0 for automatic. */
VARVE_EXPORT void varve_readoptions_set_readahead_size(varve_readoptions_t*,
                                                       size_t);

/** Does not write to the log. */
VARVE_EXPORT void varve_writeoptions_disable_WAL(varve_writeoptions_t*,
                                                 int disable);
/** Fails instead of waiting for a flush or compaction. */
VARVE_EXPORT void varve_writeoptions_set_no_slowdown(varve_writeoptions_t*,
                                                     uint8_t);

/** Creates options with which varve_flush waits. */
VARVE_EXPORT varve_flushoptions_t* varve_flushoptions_create(void);
/** Destroys the options. */
VARVE_EXPORT void varve_flushoptions_destroy(varve_flushoptions_t*);
/** Waits until the tables are written. Default: yes. */
VARVE_EXPORT void varve_flushoptions_set_wait(varve_flushoptions_t*, uint8_t);

/** Creates options with Varve's defaults. */
VARVE_EXPORT varve_compactoptions_t* varve_compactoptions_create(void);
/** Destroys the options. */
VARVE_EXPORT void varve_compactoptions_destroy(varve_compactoptions_t*);
/** Runs no other compaction at the same time. Default: yes. */
VARVE_EXPORT void varve_compactoptions_set_exclusive_manual_compaction(
    varve_compactoptions_t*, uint8_t);
/** Rewrites the last level, too. Default: no. */
VARVE_EXPORT void varve_compactoptions_set_bottommost_level_compaction(
    varve_compactoptions_t*, uint8_t);
/** The target level; -1, the default, for the last one in use. */
VARVE_EXPORT void varve_compactoptions_set_target_level(varve_compactoptions_t*,
                                                        int);

/* ---- Caches, environments, logs, rates ---- */

/** Sets the capacity. Evicts the excess at once. */
VARVE_EXPORT void varve_cache_set_capacity(varve_cache_t*, size_t capacity);
/** Returns the capacity in bytes. */
VARVE_EXPORT size_t varve_cache_get_capacity(const varve_cache_t*);
/** Returns the bytes in the cache. */
VARVE_EXPORT size_t varve_cache_get_usage(const varve_cache_t*);
/** Returns the bytes of pinned blocks. */
VARVE_EXPORT size_t varve_cache_get_pinned_usage(const varve_cache_t*);

/** Creates an environment with files in memory, for tests. */
VARVE_EXPORT varve_env_t* varve_create_mem_env(void);

/**
 * Creates a logger that calls log(state, level, line, length), with level 0
 * (debug) to 3 (error). destructor(state) is called when the logger was
 * destroyed and no database or options use it. Returns NULL without `log`.
 */
VARVE_EXPORT varve_logger_t* varve_logger_create(
    void* state, void (*destructor)(void*),
    void (*log)(void*, int level, const char* line, size_t length));
/** See varve_logger_create. */
VARVE_EXPORT void varve_logger_destroy(varve_logger_t*);

/** Creates a limiter of background writes. All numbers must be above 0. */
VARVE_EXPORT varve_ratelimiter_t* varve_ratelimiter_create(
    int64_t rate_bytes_per_sec, int64_t refill_period_us, int32_t fairness);
/** Databases that use the limiter keep it until they are closed. */
VARVE_EXPORT void varve_ratelimiter_destroy(varve_ratelimiter_t*);

/**
 * Creates a budget of buffer_size bytes for the write buffers of all databases
 * that use it; 0 for none. With allow_stall, writes wait while it is exceeded
 * and a flush frees memory. varve/write_buffer_manager.h has the details.
 */
VARVE_EXPORT varve_write_buffer_manager_t* varve_write_buffer_manager_create(
    size_t buffer_size, uint8_t allow_stall);
/** Also charges the memory to a cache; NULL for none. */
VARVE_EXPORT varve_write_buffer_manager_t*
varve_write_buffer_manager_create_with_cache(size_t buffer_size,
                                             const varve_cache_t* cache,
                                             uint8_t allow_stall);
/** Databases that use the manager keep it until they are closed. */
VARVE_EXPORT void varve_write_buffer_manager_destroy(
    varve_write_buffer_manager_t*);
/** Returns 1 if there is a budget. */
VARVE_EXPORT uint8_t
varve_write_buffer_manager_enabled(const varve_write_buffer_manager_t*);
/** Returns 1 if memory is charged to a cache. */
VARVE_EXPORT uint8_t
varve_write_buffer_manager_cost_to_cache(const varve_write_buffer_manager_t*);
/** Returns the bytes of all write buffers. */
VARVE_EXPORT size_t
varve_write_buffer_manager_memory_usage(const varve_write_buffer_manager_t*);
/** Returns the bytes of those that writes go to. */
VARVE_EXPORT size_t varve_write_buffer_manager_mutable_memtable_memory_usage(
    const varve_write_buffer_manager_t*);
/** Returns the bytes that are charged to the cache. */
VARVE_EXPORT size_t varve_write_buffer_manager_dummy_entries_in_cache_usage(
    const varve_write_buffer_manager_t*);
/** Returns the budget in bytes. */
VARVE_EXPORT size_t
varve_write_buffer_manager_buffer_size(const varve_write_buffer_manager_t*);
/** Changes the budget, also while it is in use. */
VARVE_EXPORT void varve_write_buffer_manager_set_buffer_size(
    varve_write_buffer_manager_t*, size_t new_size);
/** Allows or forbids that writes wait. */
VARVE_EXPORT void varve_write_buffer_manager_set_allow_stall(
    varve_write_buffer_manager_t*, uint8_t new_allow_stall);

/* ---- Statistics ---- */

/** Levels of measurement. Each includes the previous ones. */
enum {
  varve_statistics_level_disable_all = 0,
  varve_statistics_level_except_histogram_or_timers = 1,
  varve_statistics_level_except_timers = 2,
  varve_statistics_level_except_detailed_timers = 3,
  varve_statistics_level_except_time_for_mutex = 4,
  varve_statistics_level_all = 5
};

/** Values of a histogram, in its unit: microseconds or bytes. */
typedef struct varve_histogram_data_t {
  uint64_t count;       /**< Values. */
  double sum;           /**< Of all; saturates. */
  double min;           /**< The smallest. */
  double max;           /**< The largest. */
  double average;       /**< The sum divided by the count. */
  double median;        /**< Half of them are below. */
  double percentile95;  /**< 95 of 100 are below. */
  double percentile99;  /**< 99 of 100 are below. */
  double percentile999; /**< 999 of 1000 are below. */
} varve_histogram_data_t;

/** Creates counters, which databases may share. */
VARVE_EXPORT varve_statistics_t* varve_statistics_create(int level);
/** Databases that use the statistics keep them until they are closed. */
VARVE_EXPORT void varve_statistics_destroy(varve_statistics_t*);
/** Changes the level of measurement from now on. */
VARVE_EXPORT void varve_statistics_set_level(varve_statistics_t*, int level);
/** Returns all counters, one per line. */
VARVE_EXPORT char* varve_statistics_get_string(const varve_statistics_t*);
/** Returns all counters in the format of Prometheus. */
VARVE_EXPORT char* varve_statistics_get_prometheus(const varve_statistics_t*);
/** Returns a ticker by name, such as "varve.bytes.written". */
VARVE_EXPORT uint64_t varve_statistics_get_ticker(const varve_statistics_t*,
                                                  const char* name,
                                                  char** errptr);
/** Returns a histogram by name, such as "varve.db.get.micros". */
VARVE_EXPORT void varve_statistics_get_histogram(const varve_statistics_t*,
                                                 const char* name,
                                                 varve_histogram_data_t* data,
                                                 char** errptr);
/** Sets all counters to zero. */
VARVE_EXPORT void varve_statistics_reset(varve_statistics_t*);

/* ---- Traces: see varve/trace.h. Names are kept for ever: have few. ---- */

/** Starts to trace the calling thread. */
VARVE_EXPORT varve_trace_t* varve_trace_begin(const char* name);
/**
 * Ends the trace on the same thread, after all its spans have ended. Returns
 * the spans, root first, as a JSON array of objects with trace, span, parent,
 * name, begin_ns, end_ns, thread and done_by. The last two are kernel thread
 * ids.
 */
VARVE_EXPORT char* varve_trace_end(varve_trace_t* trace);
/** Begins a span of the calling thread, inside its current one. */
VARVE_EXPORT varve_tracespan_t* varve_tracespan_begin(const char* name);
/** Ends a span on the same thread, the last one begun first. */
VARVE_EXPORT void varve_tracespan_end(varve_tracespan_t* span);

/** Creates options that trace every operation of the process. */
VARVE_EXPORT varve_traceoptions_t* varve_traceoptions_create(void);
/** Destroys the options. */
VARVE_EXPORT void varve_traceoptions_destroy(varve_traceoptions_t*);
/** The fraction of operations to trace, from 0 to 1. Default: 1. */
VARVE_EXPORT void varve_traceoptions_set_sampling(varve_traceoptions_t*,
                                                  double part);
/** Keeps only operations that took this long. Default: 0. */
VARVE_EXPORT void varve_traceoptions_set_slower_than_us(varve_traceoptions_t*,
                                                        uint64_t);
/** Traces short steps, too. Default: no. */
VARVE_EXPORT void varve_traceoptions_set_short_steps(varve_traceoptions_t*,
                                                     uint8_t);
/** The format of a file of traces. */
enum { varve_trace_chrome = 0, varve_trace_otlp = 1 };
/** Writes traces to the file `path` until varve_trace_stop. */
VARVE_EXPORT void varve_trace_start(const varve_traceoptions_t* options,
                                    int format, const char* path,
                                    char** errptr);
/** Writes the traces that have ended to the file. */
VARVE_EXPORT void varve_trace_flush(char** errptr);
/** Flushes the traces and stops. The file is then complete. */
VARVE_EXPORT void varve_trace_stop(char** errptr);

/* ---- Catalogs: many databases in a directory, see varve/catalog.h ---- */

/**
 * Opens the catalog in the directory `root`. Creates it if it does not exist
 * and create_if_missing is set. Its databases have these options, and share
 * caches and other objects where possible. Returns NULL on failure.
 */
VARVE_EXPORT varve_catalog_t* varve_catalog_open(const varve_options_t* options,
                                                 const char* root,
                                                 char** errptr);
/**
 * Closes the catalog and returns 1. If references, iterators or snapshots still
 * exist, returns 0, and the catalog stays open.
 */
VARVE_EXPORT uint8_t varve_catalog_close(varve_catalog_t*, char** errptr);
/** Creates an empty database. Fails if the name exists. */
VARVE_EXPORT void varve_catalog_create_db(varve_catalog_t*, const char* name,
                                          char** errptr);
/**
 * Returns a reference to the database of that name, which varve_close releases.
 * Returns NULL on failure, and if there is none, which is no error. The
 * database is not closed or dropped while the reference exists.
 */
VARVE_EXPORT varve_t* varve_catalog_find(varve_catalog_t*, const char* name,
                                         char** errptr);
/** Removes a database. Fails if there is none, or if it stays in use. */
VARVE_EXPORT void varve_catalog_drop_db(varve_catalog_t*, const char* name,
                                        char** errptr);
/**
 * Returns the names, folded and in order, and sets *count to their number. Free
 * the array, but not the names in it.
 */
VARVE_EXPORT const char** varve_catalog_list(varve_catalog_t*, size_t* count);
/**
 * Closes databases that have no references and that varve_catalog_find has not
 * returned since a call of this function at least idle_us microseconds ago.
 * Returns their number.
 */
VARVE_EXPORT size_t varve_catalog_close_idle(varve_catalog_t*, uint64_t idle_us,
                                             char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_families.h"
