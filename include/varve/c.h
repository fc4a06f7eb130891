/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve for C, and for languages that call C. The first part has every function
 * of LevelDB 1.23's C interface under the prefix varve_, with the same
 * parameters and behaviour: replace leveldb_ by varve_ to move a program. The
 * second part, varve/c_more.h, comes along and has what else Varve offers,
 * under RocksDB's names where RocksDB has it.
 *
 * Objects are pointers to types that are never defined here. What a _create,
 * _begin or _open function returns is to be given to the _destroy, _end or
 * _close function of its kind, once; these take NULL, too, and do nothing then.
 *
 * Keys, values and other bytes are a pointer and a length, and may hold any
 * byte. A function copies what it keeps unless it says otherwise, so that the
 * caller's memory is free again when it returns. A pointer may be NULL only
 * where that is said, and where its length is 0.
 *
 * Wrong calls: NULL where it is not allowed, or a length above PTRDIFF_MAX, is
 * "Invalid argument". A function without `errptr` does nothing then, and
 * returns NULL or 0; options that were given such a value are refused when a
 * database is opened with them, and a batch when it is written. A call with a
 * closed varve_t is "Shutdown in progress", as long as it is one of the few
 * hundred that were closed last.
 *
 * Errors: a function that can fail takes `char** errptr`. Before the call,
 * *errptr is NULL or a message of an earlier call; `errptr` itself may be NULL,
 * and then the message is lost. Success leaves it alone.
 * Failure frees what is there and puts a message in its place, zero-terminated
 * and beginning with the kind of error: "NotFound: ", "Corruption: ",
 * "Not supported: ", "Invalid argument: ", "IO error: ", "Incomplete: ",
 * "Shutdown in progress: ", "Aborted: " or "Busy: ". Free it by varve_free.
 *
 * Memory: a `char*` that is returned and not const is the caller's, who gives
 * it to varve_free (or to free).
 *
 * Booleans are uint8_t: 0 for no, anything else for yes.
 *
 * Threads: a varve_t, a varve_cache_t, a varve_env_t, a varve_catalog_t and
 * what a varve_t was opened with may be used by many threads at once, as may a
 * snapshot, also that of a read transaction. All other objects may be used by
 * one thread at a time, options by many as long as nobody changes them.
 * Callbacks are called by any thread of the program and by threads of the
 * engine, many at a time; they must return, and must not throw.
 *
 * Lifetime: destroy iterators and pinned values, release snapshots and end
 * read transactions before their database is closed. An iterator, a snapshot
 * or a read transaction that is still out keeps the database open after
 * varve_close, and locked, until it is destroyed; iterators can be used
 * until then. Comparators, filter policies and environments must live until
 * all databases opened with them are closed. Options may be changed and
 * destroyed once the call that they were given to has returned. Their
 * defaults are Varve's, see varve/options.h.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "varve/export.h"
#include "varve/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An open database, or a reference of a catalog to one. */
typedef struct varve_t varve_t;
/** Blocks of tables in memory. */
typedef struct varve_cache_t varve_cache_t;
/** An order of keys. */
typedef struct varve_comparator_t varve_comparator_t;
/** Files, clock and threads. */
typedef struct varve_env_t varve_env_t;
/** A name that LevelDB has; no function takes it. */
typedef struct varve_filelock_t varve_filelock_t;
/** How filters of tables are made and asked. */
typedef struct varve_filterpolicy_t varve_filterpolicy_t;
/** A position in a database. */
typedef struct varve_iterator_t varve_iterator_t;
/** Where the engine says what it does. */
typedef struct varve_logger_t varve_logger_t;
/** How to open a database. */
typedef struct varve_options_t varve_options_t;
/** As varve_filelock_t. */
typedef struct varve_randomfile_t varve_randomfile_t;
/** How to read. */
typedef struct varve_readoptions_t varve_readoptions_t;
/** As varve_filelock_t. */
typedef struct varve_seqfile_t varve_seqfile_t;
/** A moment of a database. */
typedef struct varve_snapshot_t varve_snapshot_t;
/** As varve_filelock_t. */
typedef struct varve_writablefile_t varve_writablefile_t;
/** Updates that are done together. */
typedef struct varve_writebatch_t varve_writebatch_t;
/** How to write. */
typedef struct varve_writeoptions_t varve_writeoptions_t;

/* ---- Databases ---- */

/** Opens the database in the directory `name`. NULL on failure. */
VARVE_EXPORT varve_t* varve_open(const varve_options_t* options,
                                 const char* name, char** errptr);

/**
 * Closes a database, or gives a reference of a catalog back. If iterators,
 * snapshots or read transactions are still out, all writes are made durable and
 * background work ends; the database is closed when the last of them is
 * destroyed. varve_close_checked returns Busy instead.
 */
VARVE_EXPORT void varve_close(varve_t* db);

/** Sets a key. */
VARVE_EXPORT void varve_put(varve_t* db, const varve_writeoptions_t* options,
                            const char* key, size_t keylen, const char* val,
                            size_t vallen, char** errptr);

/** Removes a key. No error if it is not there. */
VARVE_EXPORT void varve_delete(varve_t* db, const varve_writeoptions_t* options,
                               const char* key, size_t keylen, char** errptr);

/**
 * Does all updates of a batch, or none. They stay in the batch, which no other
 * thread may use meanwhile.
 */
VARVE_EXPORT void varve_write(varve_t* db, const varve_writeoptions_t* options,
                              varve_writebatch_t* batch, char** errptr);

/**
 * The value of a key, for the caller to free, with its length in *vallen; not
 * NULL for an empty one. NULL with *vallen = 0 if there is no such key, which
 * is no error, and on failure.
 */
VARVE_EXPORT char* varve_get(varve_t* db, const varve_readoptions_t* options,
                             const char* key, size_t keylen, size_t* vallen,
                             char** errptr);

/** Never NULL; what went wrong is in varve_iter_get_error. */
VARVE_EXPORT varve_iterator_t* varve_create_iterator(
    varve_t* db, const varve_readoptions_t* options);

/**
 * The database as it is now, for varve_readoptions_set_snapshot. NULL if the
 * database was closed.
 */
VARVE_EXPORT const varve_snapshot_t* varve_create_snapshot(varve_t* db);

/**
 * To be called once for each snapshot. `snapshot` may be NULL. `db` is not
 * looked at: the snapshot knows its database, which may have been closed.
 */
VARVE_EXPORT void varve_release_snapshot(varve_t* db,
                                         const varve_snapshot_t* snapshot);

/**
 * What a property of that name says, for the caller to free; NULL if there is
 * none. See DB::GetProperty in varve/db.h; "leveldb." and "rocksdb." are taken
 * for "varve.".
 */
VARVE_EXPORT char* varve_property_value(varve_t* db, const char* propname);

/**
 * sizes[i] is about how many bytes of tables hold the keys from range_start_key
 * [i] up to, not including, range_limit_key[i]; 0 if that cannot be said. What
 * is in memory only does not count.
 */
VARVE_EXPORT void varve_approximate_sizes(varve_t* db, int num_ranges,
                                          const char* const* range_start_key,
                                          const size_t* range_start_key_len,
                                          const char* const* range_limit_key,
                                          const size_t* range_limit_key_len,
                                          uint64_t* sizes);

/**
 * Compacts the keys from start_key to limit_key, and returns when it is done.
 * NULL is before the first key, or behind the last. Failure is not told; see
 * varve_compact_range_opt.
 */
VARVE_EXPORT void varve_compact_range(varve_t* db, const char* start_key,
                                      size_t start_key_len,
                                      const char* limit_key,
                                      size_t limit_key_len);

/** Removes a closed database. No error if there is none. */
VARVE_EXPORT void varve_destroy_db(const varve_options_t* options,
                                   const char* name, char** errptr);

/** Saves what can be read of a damaged, closed database. */
VARVE_EXPORT void varve_repair_db(const varve_options_t* options,
                                  const char* name, char** errptr);

/* ---- Iterators. A new one is not valid: seek first. Moving one that is not
   valid does nothing, and its key and value are NULL. ---- */

/** Ends it. */
VARVE_EXPORT void varve_iter_destroy(varve_iterator_t*);
/** Whether it stands on an entry. */
VARVE_EXPORT uint8_t varve_iter_valid(const varve_iterator_t*);
/** To the first entry. */
VARVE_EXPORT void varve_iter_seek_to_first(varve_iterator_t*);
/** To the last entry. */
VARVE_EXPORT void varve_iter_seek_to_last(varve_iterator_t*);
/**
 * To the first entry at or behind the key. After a key that is NULL and has a
 * length the iterator has an error and can no longer be used.
 */
VARVE_EXPORT void varve_iter_seek(varve_iterator_t*, const char* k,
                                  size_t klen);
/** To the next entry. */
VARVE_EXPORT void varve_iter_next(varve_iterator_t*);
/** To the entry before. */
VARVE_EXPORT void varve_iter_prev(varve_iterator_t*);
/** The key; stays until the iterator moves. */
VARVE_EXPORT const char* varve_iter_key(const varve_iterator_t*, size_t* klen);
/** The value; stays until the iterator moves. */
VARVE_EXPORT const char* varve_iter_value(const varve_iterator_t*,
                                          size_t* vlen);
/** Why it stopped being valid; no error at the end of the data. */
VARVE_EXPORT void varve_iter_get_error(const varve_iterator_t*, char** errptr);

/* ---- Write batches ---- */

/** An empty batch. */
VARVE_EXPORT varve_writebatch_t* varve_writebatch_create(void);
/** Frees it. */
VARVE_EXPORT void varve_writebatch_destroy(varve_writebatch_t*);
/** Makes it empty. */
VARVE_EXPORT void varve_writebatch_clear(varve_writebatch_t*);
/** Adds the setting of a key. */
VARVE_EXPORT void varve_writebatch_put(varve_writebatch_t*, const char* key,
                                       size_t klen, const char* val,
                                       size_t vlen);
/** Adds the removal of a key. */
VARVE_EXPORT void varve_writebatch_delete(varve_writebatch_t*, const char* key,
                                          size_t klen);
/**
 * Calls put(state, ...) and deleted(state, ...) for the updates, in order. A
 * single delete counts as a delete; range deletions are passed over, see
 * varve_writebatch_iterate_all.
 */
VARVE_EXPORT void varve_writebatch_iterate(
    const varve_writebatch_t*, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen));
/** Adds the updates of `source`, which stays as it is, to `destination`. */
VARVE_EXPORT void varve_writebatch_append(varve_writebatch_t* destination,
                                          const varve_writebatch_t* source);

/* ---- Options ---- */

/** Varve's defaults. */
VARVE_EXPORT varve_options_t* varve_options_create(void);
/** Frees them; not what they point to. */
VARVE_EXPORT void varve_options_destroy(varve_options_t*);
/** The order of keys. Must outlive the databases. */
VARVE_EXPORT void varve_options_set_comparator(varve_options_t*,
                                               varve_comparator_t*);
/** Filters in tables; NULL for none. Must outlive the databases. */
VARVE_EXPORT void varve_options_set_filter_policy(varve_options_t*,
                                                  varve_filterpolicy_t*);
/** Make a missing database. Default: no. */
VARVE_EXPORT void varve_options_set_create_if_missing(varve_options_t*,
                                                      uint8_t);
/** An existing database is an error. Default: no. */
VARVE_EXPORT void varve_options_set_error_if_exists(varve_options_t*, uint8_t);
/** Check all tables when a database is opened. Default: yes. */
VARVE_EXPORT void varve_options_set_paranoid_checks(varve_options_t*, uint8_t);
/** Files and clock; NULL for the default. Must outlive the databases. */
VARVE_EXPORT void varve_options_set_env(varve_options_t*, varve_env_t*);
/** Where to log; NULL, the default, for a file in the database. */
VARVE_EXPORT void varve_options_set_info_log(varve_options_t*, varve_logger_t*);
/**
 * Bytes in memory before a table is written. As with LevelDB, this and the four
 * numbers below are taken for the nearest one that is allowed.
 */
VARVE_EXPORT void varve_options_set_write_buffer_size(varve_options_t*, size_t);
/** Table files held open; less than 0 for all. */
VARVE_EXPORT void varve_options_set_max_open_files(varve_options_t*, int);
/** Blocks in memory; databases may share it. NULL changes nothing. */
VARVE_EXPORT void varve_options_set_cache(varve_options_t*, varve_cache_t*);
/** Uncompressed bytes of a block, about. */
VARVE_EXPORT void varve_options_set_block_size(varve_options_t*, size_t);
/** Entries between keys stored in full. */
VARVE_EXPORT void varve_options_set_block_restart_interval(varve_options_t*,
                                                           int);
/** Bytes of a table, about. */
VARVE_EXPORT void varve_options_set_max_file_size(varve_options_t*, size_t);

/** How blocks are compressed. The first two are LevelDB's. */
enum {
  varve_no_compression = 0,
  varve_snappy_compression = 1,
  varve_lz4_compression = 4,
  varve_lz4hc_compression = 5,
  varve_zstd_compression = 7
};
/** One of the above; varve_open refuses any other. */
VARVE_EXPORT void varve_options_set_compression(varve_options_t*, int);

/* ---- Comparators ---- */

/**
 * An order of keys: compare(state, a, b) is < 0, 0 or > 0 as a is before, with
 * or behind b. Keys that are equal by it are the same key, whatever their
 * bytes; Bloom filters, which look at bytes, then must not be used.
 * name(state) is recorded in the database and must be the same whenever it is
 * opened. varve_comparator_destroy calls destructor(state), if that is not
 * NULL. Returns NULL without compare or name.
 */
VARVE_EXPORT varve_comparator_t* varve_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b,
                   size_t blen),
    const char* (*name)(void*));
/** Calls its destructor. */
VARVE_EXPORT void varve_comparator_destroy(varve_comparator_t*);

/* ---- Filter policies ---- */

/**
 * A filter of your own. create_filter makes the filter of a table from its
 * keys, which are in order: memory of malloc, which the engine frees, and its
 * length in *filter_length; NULL or no bytes for no filter. key_may_match gets
 * such a filter back, and answers 0 only for a key that it was not made from.
 * Filters are stored under name(state), and asked only by a policy of that
 * name. varve_filterpolicy_destroy calls destructor(state), if that is not
 * NULL, and nothing else is called after that. Returns NULL without one of the
 * other three, or without a name.
 */
VARVE_EXPORT varve_filterpolicy_t* varve_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array,
                           const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length,
                             const char* filter, size_t filter_length),
    const char* (*name)(void*));
/** Calls its destructor. */
VARVE_EXPORT void varve_filterpolicy_destroy(varve_filterpolicy_t*);

/** A Bloom filter; 10 bits a key give one false answer in a hundred. */
VARVE_EXPORT varve_filterpolicy_t* varve_filterpolicy_create_bloom(
    int bits_per_key);

/* ---- How to read and write ---- */

/** Varve's defaults. */
VARVE_EXPORT varve_readoptions_t* varve_readoptions_create(void);
/** Frees them. */
VARVE_EXPORT void varve_readoptions_destroy(varve_readoptions_t*);
/** Check what comes from files. Default: yes. */
VARVE_EXPORT void varve_readoptions_set_verify_checksums(varve_readoptions_t*,
                                                         uint8_t);
/** Keep the blocks read in the cache. Default: yes. */
VARVE_EXPORT void varve_readoptions_set_fill_cache(varve_readoptions_t*,
                                                   uint8_t);
/** Read the database as it was then; NULL for now. */
VARVE_EXPORT void varve_readoptions_set_snapshot(varve_readoptions_t*,
                                                 const varve_snapshot_t*);

/** Varve's defaults. */
VARVE_EXPORT varve_writeoptions_t* varve_writeoptions_create(void);
/** Frees them. */
VARVE_EXPORT void varve_writeoptions_destroy(varve_writeoptions_t*);
/** Wait until the write is on the device. Default: no. */
VARVE_EXPORT void varve_writeoptions_set_sync(varve_writeoptions_t*, uint8_t);

/* ---- Caches and environments ---- */

/** A cache of blocks, `capacity` in bytes. */
VARVE_EXPORT varve_cache_t* varve_cache_create_lru(size_t capacity);
/** Databases that use it keep it as long as they are open. */
VARVE_EXPORT void varve_cache_destroy(varve_cache_t* cache);

/** The operating system. */
VARVE_EXPORT varve_env_t* varve_create_default_env(void);
/** Destroy it after the databases that use it. */
VARVE_EXPORT void varve_env_destroy(varve_env_t*);

/**
 * A directory for tests, which is made if it is missing: the environment
 * variable TEST_TMPDIR, or one of the user in /tmp. NULL if it cannot be made.
 */
VARVE_EXPORT char* varve_env_get_test_directory(varve_env_t*);

/* ---- Others ---- */

/** Frees what a function of this header returned. `ptr` may be NULL. */
VARVE_EXPORT void varve_free(void* ptr);

/**
 * The major version of LevelDB whose interface this part is: always 1.
 * LevelDB's function has this meaning. For Varve's own version see
 * varve_version, and the macros of varve/version.h.
 */
VARVE_EXPORT int varve_major_version(void);
/** The minor version of LevelDB's interface: always 23. */
VARVE_EXPORT int varve_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_more.h"
