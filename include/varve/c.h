/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve for C, and for languages that call C. The first part has every function
 * of LevelDB 1.23's C interface under the prefix varve_, with the same
 * parameters and behavior. To move a program, replace leveldb_ by varve_. The
 * second part, varve/c_extensions.h and the other headers varve/c_..., is
 * included and has the rest of Varve's functions, under RocksDB's names where
 * RocksDB has them.
 *
 * Objects are pointers to types that are not defined here. Pass each object
 * that a _create, _begin or _open function returns exactly once to the
 * _destroy, _end or _close function of its kind. These functions ignore NULL.
 *
 * Keys, values and other bytes are a pointer and a length, and may contain any
 * byte. A function copies the bytes it keeps, unless documented otherwise. A
 * pointer may be NULL only if that is documented and its length is 0.
 *
 * Invalid calls: NULL where it is not allowed, or a length above PTRDIFF_MAX,
 * is "Invalid argument". A function without `errptr` then does nothing and
 * returns NULL or 0. Options that were given such a value are refused when a
 * database is opened with them, and a batch is refused when it is written. A
 * call with a closed varve_t fails with "Shutdown in progress", if it is one of
 * the last few hundred that were closed.
 *
 * Errors: a function that can fail takes `char** errptr`. Before the call,
 * *errptr must be NULL or a message of an earlier call. `errptr` itself may be
 * NULL; then the message is lost. Success does not change *errptr. Failure
 * frees the old message and sets *errptr to a new one. The message is
 * zero-terminated. It begins with the kind of error: "NotFound: ",
 * "Corruption: ", "Not supported: ", "Invalid argument: ", "IO error: ",
 * "Incomplete: ", "Shutdown in progress: ", "Aborted: ", "Busy: ",
 * "Operation timed out: " or "Operation expired: ". Free it with varve_free.
 *
 * Memory: the caller owns a returned `char*` that is not const, and frees it
 * with varve_free or free.
 *
 * Booleans are uint8_t: 0 is false, any other value is true.
 *
 * Threads: many threads may use a varve_t, a varve_cache_t, a varve_env_t, a
 * varve_catalog_t, and the objects that a varve_t was opened with. This also
 * holds for snapshots, including a read transaction's, and for handles of
 * column families. Options may be used by
 * many threads while no thread changes them. All other objects may be used by
 * one thread at a time. The engine calls callbacks on any thread of the program
 * and on its own threads, many at the same time. A callback must return, and
 * must not throw.
 *
 * Lifetime: before closing a database, destroy its iterators, release its
 * snapshots and end its read transactions. If one of them still exists, the
 * database stays open and locked after varve_close until it is destroyed.
 * Iterators can be used until then. Comparators, filter policies, compaction
 * filters and environments must outlive all databases opened with them. Options
 * may be changed and destroyed after the call that took them returns. Their
 * defaults are Varve's: see varve/options.h.
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
/** Caches blocks of tables in memory. */
typedef struct varve_cache_t varve_cache_t;
/** Orders keys. */
typedef struct varve_comparator_t varve_comparator_t;
/** Files, clock and threads. */
typedef struct varve_env_t varve_env_t;
/** Exists for LevelDB's sake. No function takes it. */
typedef struct varve_filelock_t varve_filelock_t;
/** Creates and queries the filters of tables. */
typedef struct varve_filterpolicy_t varve_filterpolicy_t;
/** A position in a database. */
typedef struct varve_iterator_t varve_iterator_t;
/** Receives the lines of the info log. */
typedef struct varve_logger_t varve_logger_t;
/** Options of a database. */
typedef struct varve_options_t varve_options_t;
/** As varve_filelock_t. */
typedef struct varve_randomfile_t varve_randomfile_t;
/** Options of a read. */
typedef struct varve_readoptions_t varve_readoptions_t;
/** As varve_filelock_t. */
typedef struct varve_seqfile_t varve_seqfile_t;
/** The state of a database at one moment. */
typedef struct varve_snapshot_t varve_snapshot_t;
/** As varve_filelock_t. */
typedef struct varve_writablefile_t varve_writablefile_t;
/** Updates that are applied atomically. */
typedef struct varve_writebatch_t varve_writebatch_t;
/** Options of a write. */
typedef struct varve_writeoptions_t varve_writeoptions_t;

/* ---- Databases ---- */

/** Opens the database in the directory `name`. Returns NULL on failure. */
VARVE_EXPORT varve_t* varve_open(const varve_options_t* options,
                                 const char* name, char** errptr);

/**
 * Closes a database, or releases a reference from varve_catalog_find. If
 * iterators, snapshots or read transactions still exist, makes all writes
 * durable and ends background work. The database is closed when the last of
 * them is destroyed. varve_close_checked returns an error instead.
 */
VARVE_EXPORT void varve_close(varve_t* db);

/** Sets a key. */
VARVE_EXPORT void varve_put(varve_t* db, const varve_writeoptions_t* options,
                            const char* key, size_t keylen, const char* val,
                            size_t vallen, char** errptr);

/** Removes a key. A key that does not exist is no error. */
VARVE_EXPORT void varve_delete(varve_t* db, const varve_writeoptions_t* options,
                               const char* key, size_t keylen, char** errptr);

/**
 * Applies all updates of a batch atomically. The batch keeps them. No other
 * thread may use the batch during the call.
 */
VARVE_EXPORT void varve_write(varve_t* db, const varve_writeoptions_t* options,
                              varve_writebatch_t* batch, char** errptr);

/**
 * Returns the value of a key and sets *vallen to its length. The caller frees
 * it. An empty value is not NULL. Returns NULL and sets *vallen to 0 if the key
 * does not exist, which is no error, and on failure.
 */
VARVE_EXPORT char* varve_get(varve_t* db, const varve_readoptions_t* options,
                             const char* key, size_t keylen, size_t* vallen,
                             char** errptr);

/** Never returns NULL. See varve_iter_get_error for errors. */
VARVE_EXPORT varve_iterator_t* varve_create_iterator(
    varve_t* db, const varve_readoptions_t* options);

/**
 * Returns a snapshot of the current state, for varve_readoptions_set_snapshot.
 * Returns NULL if the database was closed.
 */
VARVE_EXPORT const varve_snapshot_t* varve_create_snapshot(varve_t* db);

/**
 * Releases a snapshot. Call it once for each. `snapshot` may be NULL. `db` is
 * ignored: the snapshot knows its database, which may have been closed.
 */
VARVE_EXPORT void varve_release_snapshot(varve_t* db,
                                         const varve_snapshot_t* snapshot);

/**
 * Returns the value of a property, which the caller frees, or NULL if no
 * property has this name. See DB::GetProperty in varve/db.h. The prefixes
 * "leveldb." and "rocksdb." mean "varve.".
 */
VARVE_EXPORT char* varve_property_value(varve_t* db, const char* propname);

/**
 * Sets sizes[i] to the approximate size of the tables' data with keys from
 * range_start_key[i] up to, but not including, range_limit_key[i]. Sets it to 0
 * if the size is unknown. Data in memory is not included.
 */
VARVE_EXPORT void varve_approximate_sizes(varve_t* db, int num_ranges,
                                          const char* const* range_start_key,
                                          const size_t* range_start_key_len,
                                          const char* const* range_limit_key,
                                          const size_t* range_limit_key_len,
                                          uint64_t* sizes);

/**
 * Compacts the keys from start_key to limit_key, and returns when done. A
 * start_key of NULL means the first key, a limit_key of NULL the last one. Does
 * not report errors: see varve_compact_range_opt.
 */
VARVE_EXPORT void varve_compact_range(varve_t* db, const char* start_key,
                                      size_t start_key_len,
                                      const char* limit_key,
                                      size_t limit_key_len);

/** Removes a closed database. Does nothing if there is none. */
VARVE_EXPORT void varve_destroy_db(const varve_options_t* options,
                                   const char* name, char** errptr);

/** Recovers the readable data of a damaged, closed database. */
VARVE_EXPORT void varve_repair_db(const varve_options_t* options,
                                  const char* name, char** errptr);

/* ---- Iterators. A new one is not valid: seek first. Moving one that is not
   valid does nothing, and its key and value are NULL. ---- */

/** Destroys the iterator. */
VARVE_EXPORT void varve_iter_destroy(varve_iterator_t*);
/** Returns whether the iterator is on an entry. */
VARVE_EXPORT uint8_t varve_iter_valid(const varve_iterator_t*);
/** Moves to the first entry. */
VARVE_EXPORT void varve_iter_seek_to_first(varve_iterator_t*);
/** Moves to the last entry. */
VARVE_EXPORT void varve_iter_seek_to_last(varve_iterator_t*);
/**
 * Moves to the first entry at or after the key. A key that is NULL and has a
 * length sets an error; the iterator can then no longer be used.
 */
VARVE_EXPORT void varve_iter_seek(varve_iterator_t*, const char* k,
                                  size_t klen);
/** Moves to the next entry. */
VARVE_EXPORT void varve_iter_next(varve_iterator_t*);
/** Moves to the previous entry. */
VARVE_EXPORT void varve_iter_prev(varve_iterator_t*);
/** Returns the key, valid until the iterator moves. */
VARVE_EXPORT const char* varve_iter_key(const varve_iterator_t*, size_t* klen);
/** Returns the value, valid until the iterator moves. */
VARVE_EXPORT const char* varve_iter_value(const varve_iterator_t*,
                                          size_t* vlen);
/** Returns the error that made the iterator invalid, if any. */
VARVE_EXPORT void varve_iter_get_error(const varve_iterator_t*, char** errptr);

/* ---- Write batches ---- */

/** Creates an empty batch. */
VARVE_EXPORT varve_writebatch_t* varve_writebatch_create(void);
/** Destroys the batch. */
VARVE_EXPORT void varve_writebatch_destroy(varve_writebatch_t*);
/** Removes all updates. */
VARVE_EXPORT void varve_writebatch_clear(varve_writebatch_t*);
/** Adds an update that sets a key. */
VARVE_EXPORT void varve_writebatch_put(varve_writebatch_t*, const char* key,
                                       size_t klen, const char* val,
                                       size_t vlen);
/** Adds an update that removes a key. */
VARVE_EXPORT void varve_writebatch_delete(varve_writebatch_t*, const char* key,
                                          size_t klen);
/**
 * Calls put(state, ...) and deleted(state, ...) for the updates, in order. A
 * single delete counts as a delete. Range deletions and merges are skipped: see
 * varve_writebatch_iterate_updates_cf. Stops at an update of another column
 * family than the default one: see varve_writebatch_iterate_cf.
 */
VARVE_EXPORT void varve_writebatch_iterate(
    const varve_writebatch_t*, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen));
/** Appends the updates of `source`, which is unchanged, to `destination`. */
VARVE_EXPORT void varve_writebatch_append(varve_writebatch_t* destination,
                                          const varve_writebatch_t* source);

/* ---- Options ---- */

/** Creates options with Varve's defaults. */
VARVE_EXPORT varve_options_t* varve_options_create(void);
/** Destroys the options, but not the objects that they point to. */
VARVE_EXPORT void varve_options_destroy(varve_options_t*);
/** Sets the order of keys. Must outlive the databases. */
VARVE_EXPORT void varve_options_set_comparator(varve_options_t*,
                                               varve_comparator_t*);
/** Sets the filters in tables; NULL for none. Must outlive the databases. */
VARVE_EXPORT void varve_options_set_filter_policy(varve_options_t*,
                                                  varve_filterpolicy_t*);
/** Creates a database that does not exist. Default: no. */
VARVE_EXPORT void varve_options_set_create_if_missing(varve_options_t*,
                                                      uint8_t);
/** Refuses to open an existing database. Default: no. */
VARVE_EXPORT void varve_options_set_error_if_exists(varve_options_t*, uint8_t);
/** Checks all tables when a database is opened. Default: yes. */
VARVE_EXPORT void varve_options_set_paranoid_checks(varve_options_t*, uint8_t);
/** Sets files and clock; NULL for the default. Must outlive the databases. */
VARVE_EXPORT void varve_options_set_env(varve_options_t*, varve_env_t*);
/** Sets the info log; NULL, the default, for a file in the database. */
VARVE_EXPORT void varve_options_set_info_log(varve_options_t*, varve_logger_t*);
/**
 * Sets the size of a memtable at which it is written to a table. Like LevelDB,
 * clips this number and the four numbers below to the allowed range.
 */
VARVE_EXPORT void varve_options_set_write_buffer_size(varve_options_t*, size_t);
/** Sets the maximum number of open table files; below 0 for no limit. */
VARVE_EXPORT void varve_options_set_max_open_files(varve_options_t*, int);
/** Sets the block cache, which databases may share. NULL changes nothing. */
VARVE_EXPORT void varve_options_set_cache(varve_options_t*, varve_cache_t*);
/** Sets the approximate uncompressed size of a block in bytes. */
VARVE_EXPORT void varve_options_set_block_size(varve_options_t*, size_t);
/** Sets the number of entries between keys stored in full. */
VARVE_EXPORT void varve_options_set_block_restart_interval(varve_options_t*,
                                                           int);
/** Sets the approximate size of a table in bytes. */
VARVE_EXPORT void varve_options_set_max_file_size(varve_options_t*, size_t);

/** Compression of blocks. LevelDB has the first two. */
enum {
  varve_no_compression = 0,
  varve_snappy_compression = 1,
  varve_zlib_compression = 2,
  varve_bzip2_compression = 3,
  varve_lz4_compression = 4,
  varve_lz4hc_compression = 5,
  varve_zstd_compression = 7
};
/**
 * Sets one of the above. varve_open refuses any other value, and one that the
 * library was built without.
 */
VARVE_EXPORT void varve_options_set_compression(varve_options_t*, int);

/* ---- Comparators ---- */

/**
 * Creates an order of keys: compare(state, a, b) returns < 0, 0 or > 0 if a is
 * before, equal to or after b. Keys that compare as equal are the same key,
 * even if their bytes differ. Do not use Bloom filters then, since they hash
 * the bytes. name(state) is recorded in the database and must be the same at
 * each open. varve_comparator_destroy calls destructor(state), if that is not
 * NULL. Returns NULL without compare or name.
 */
VARVE_EXPORT varve_comparator_t* varve_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b,
                   size_t blen),
    const char* (*name)(void*));
/** Destroys the comparator and calls its destructor. */
VARVE_EXPORT void varve_comparator_destroy(varve_comparator_t*);

/* ---- Filter policies ---- */

/**
 * Creates a custom filter policy. create_filter creates the filter of a table
 * from its keys, which are in order. It returns memory of malloc, which the
 * engine frees, and sets *filter_length. NULL or no bytes means no filter.
 * key_may_match receives such a filter. It may return 0 only for a key that the
 * filter was not created from. Filters are stored under name(state), and only a
 * policy with that name reads them. varve_filterpolicy_destroy calls
 * destructor(state), if that is not NULL; no other function is called after
 * that. Returns NULL without one of the other three, or without a name.
 */
VARVE_EXPORT varve_filterpolicy_t* varve_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array,
                           const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length,
                             const char* filter, size_t filter_length),
    const char* (*name)(void*));
/** Destroys the policy and calls its destructor. */
VARVE_EXPORT void varve_filterpolicy_destroy(varve_filterpolicy_t*);

/** Creates a Bloom filter. 10 bits per key give about 1 % false positives. */
VARVE_EXPORT varve_filterpolicy_t* varve_filterpolicy_create_bloom(
    int bits_per_key);

/* ---- How to read and write ---- */

/** Creates options with Varve's defaults. */
VARVE_EXPORT varve_readoptions_t* varve_readoptions_create(void);
/** Destroys the options. */
VARVE_EXPORT void varve_readoptions_destroy(varve_readoptions_t*);
/** Verifies the checksums of data from files. Default: yes. */
VARVE_EXPORT void varve_readoptions_set_verify_checksums(varve_readoptions_t*,
                                                         uint8_t);
/** Keeps the blocks read in the cache. Default: yes. */
VARVE_EXPORT void varve_readoptions_set_fill_cache(varve_readoptions_t*,
                                                   uint8_t);
/** Reads from a snapshot; NULL for the current state. */
VARVE_EXPORT void varve_readoptions_set_snapshot(varve_readoptions_t*,
                                                 const varve_snapshot_t*);

/** Creates options with Varve's defaults. */
VARVE_EXPORT varve_writeoptions_t* varve_writeoptions_create(void);
/** Destroys the options. */
VARVE_EXPORT void varve_writeoptions_destroy(varve_writeoptions_t*);
/** Waits until the write is on the device. Default: no. */
VARVE_EXPORT void varve_writeoptions_set_sync(varve_writeoptions_t*, uint8_t);

/* ---- Caches and environments ---- */

/** Creates a block cache of `capacity` bytes. */
VARVE_EXPORT varve_cache_t* varve_cache_create_lru(size_t capacity);
/** Databases that use the cache keep it until they are closed. */
VARVE_EXPORT void varve_cache_destroy(varve_cache_t* cache);

/** Creates the environment of the operating system. */
VARVE_EXPORT varve_env_t* varve_create_default_env(void);
/** Destroy an environment after the databases that use it. */
VARVE_EXPORT void varve_env_destroy(varve_env_t*);

/**
 * Returns a directory for tests, and creates it if it does not exist: the
 * environment variable TEST_TMPDIR, or a directory of the user in /tmp. Returns
 * NULL if it cannot be created.
 */
VARVE_EXPORT char* varve_env_get_test_directory(varve_env_t*);

/* ---- Others ---- */

/** Frees memory that a function of this header returned. `ptr` may be NULL. */
VARVE_EXPORT void varve_free(void* ptr);

/**
 * Returns the major version of the LevelDB whose interface this part has:
 * always 1. LevelDB's function has this meaning. For Varve's own version see
 * varve_version, and the macros of varve/version.h.
 */
VARVE_EXPORT int varve_major_version(void);
/** Returns the minor version of that LevelDB: always 23. */
VARVE_EXPORT int varve_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_extensions.h"
