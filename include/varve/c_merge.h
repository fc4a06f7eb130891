/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of merge operators and compaction filters: see
 * varve/merge_operator.h and varve/compaction_filter.h. varve/c.h, which
 * includes this file, describes errors, memory and threads.
 *
 * Options of a family, see varve/options.h, are set in the varve_options_t that
 * the family is opened or created with.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Applies the operands of varve_merge. */
typedef struct varve_mergeoperator_t varve_mergeoperator_t;
/** Decides which entries compactions keep. */
typedef struct varve_compactionfilter_t varve_compactionfilter_t;
/** Creates a filter for each compaction. */
typedef struct varve_compactionfilterfactory_t varve_compactionfilterfactory_t;
/** The compaction that a filter is created for. */
typedef struct varve_compactionfiltercontext_t varve_compactionfiltercontext_t;

/* ---- Merge operators ---- */

/**
 * Creates an operator. `full_merge` returns the value that results from the
 * operands, oldest first, of which there is at least one. existing_value is
 * NULL if the key has no value. `partial_merge` returns one operand in place of
 * at least two, oldest first; NULL if operands cannot be combined. Both set
 * *new_value_length, and *success to 0 if they fail; it is 1 before. A
 * result that is not NULL is copied, and passed to `delete_value`, or to free
 * if that is NULL. NULL means failure, unless the length is 0.
 *
 * `name` is called once, here. destructor(state), if not NULL, is called when
 * the handle is destroyed, and no database or options have the operator.
 * Returns NULL without `full_merge` or `name`.
 */
VARVE_EXPORT varve_mergeoperator_t* varve_mergeoperator_create(
    void* state, void (*destructor)(void*),
    char* (*full_merge)(void*, const char* key, size_t key_length,
                        const char* existing_value,
                        size_t existing_value_length,
                        const char* const* operands_list,
                        const size_t* operands_list_length, int num_operands,
                        uint8_t* success, size_t* new_value_length),
    char* (*partial_merge)(void*, const char* key, size_t key_length,
                           const char* const* operands_list,
                           const size_t* operands_list_length, int num_operands,
                           uint8_t* success, size_t* new_value_length),
    void (*delete_value)(void*, const char* value, size_t value_length),
    const char* (*name)(void*));
/**
 * Returns a built-in operator by its name, such as "uint64add" or "max"; see
 * varve::FindMergeOperator. Returns NULL if there is none.
 */
VARVE_EXPORT varve_mergeoperator_t* varve_mergeoperator_create_builtin(
    const char* name);
/** Adds unsigned numbers of 64 bits, stored as 8 bytes, lowest first. */
VARVE_EXPORT varve_mergeoperator_t* varve_mergeoperator_create_uint64add(void);
/** Joins operands with the delimiter, which may be NULL if its length is 0. */
VARVE_EXPORT varve_mergeoperator_t* varve_mergeoperator_create_stringappend(
    const char* delimiter, size_t length);
/** Options and databases that have the operator keep it. */
VARVE_EXPORT void varve_mergeoperator_destroy(varve_mergeoperator_t*);

/** NULL for none. */
VARVE_EXPORT void varve_options_set_merge_operator(varve_options_t*,
                                                   varve_mergeoperator_t*);
/** As varve_mergeoperator_create_uint64add. */
VARVE_EXPORT void varve_options_set_uint64add_merge_operator(varve_options_t*);
/** Operands in a row that varve_merge replaces by a value. Default: 0, never.
 */
VARVE_EXPORT void varve_options_set_max_successive_merges(varve_options_t*,
                                                          size_t);
/** Returns the number. */
VARVE_EXPORT size_t
varve_options_get_max_successive_merges(const varve_options_t*);

/* ---- Merges ---- */

/**
 * Adds an operand to a key. Reads and compactions apply it to the value. Fails
 * with "Not supported" if the family has no merge operator.
 */
VARVE_EXPORT void varve_merge(varve_t* db, const varve_writeoptions_t* options,
                              const char* key, size_t keylen, const char* val,
                              size_t vallen, char** errptr);
/** See varve_merge. */
VARVE_EXPORT void varve_merge_cf(varve_t* db,
                                 const varve_writeoptions_t* options,
                                 varve_column_family_handle_t* column_family,
                                 const char* key, size_t keylen,
                                 const char* val, size_t vallen, char** errptr);
/** Adds an update that adds an operand to a key. */
VARVE_EXPORT void varve_writebatch_merge(varve_writebatch_t*, const char* key,
                                         size_t klen, const char* val,
                                         size_t vlen);
/** See varve_writebatch_merge. */
VARVE_EXPORT void varve_writebatch_merge_cf(
    varve_writebatch_t*, varve_column_family_handle_t* column_family,
    const char* key, size_t klen, const char* val, size_t vlen);
/** Like varve_writebatch_iterate_all_cf, for merges too. */
VARVE_EXPORT void varve_writebatch_iterate_updates_cf(
    const varve_writebatch_t*, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*single_deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*range_deleted_cf)(void*, uint32_t cfid, const char* begin,
                             size_t begin_len, const char* end, size_t end_len),
    void (*merge_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                     const char* v, size_t vlen),
    void (*log_data)(void*, const char* blob, size_t len), char** errptr);

/* ---- Compaction filters ---- */

/**
 * Creates a filter. `filter` returns 1 to remove the key. If it returns 0 and
 * sets *value_changed to 1, the value becomes the *new_value_length bytes at
 * *new_value. They are copied, and stay the filter's own. Merge operands are
 * kept.
 *
 * `name` is called once, here. destructor(state), if not NULL, is called when
 * the filter is destroyed. Returns NULL without `filter` or `name`.
 */
VARVE_EXPORT varve_compactionfilter_t* varve_compactionfilter_create(
    void* state, void (*destructor)(void*),
    uint8_t (*filter)(void*, int level, const char* key, size_t key_length,
                      const char* existing_value, size_t value_length,
                      char** new_value, size_t* new_value_length,
                      uint8_t* value_changed),
    const char* (*name)(void*));
/**
 * Must outlive all databases opened with the filter. Never call it for a filter
 * that a factory has returned.
 */
VARVE_EXPORT void varve_compactionfilter_destroy(varve_compactionfilter_t*);
/** NULL for none. Many threads call the filter at the same time. */
VARVE_EXPORT void varve_options_set_compaction_filter(
    varve_options_t*, varve_compactionfilter_t*);

/**
 * Creates a factory. `create_compaction_filter` returns a filter for one
 * compaction or a part of one, or NULL for none. One thread calls that filter,
 * and the database destroys it. The context exists only during the call.
 *
 * `name` is called once, here. destructor(state), if not NULL, is called when
 * the handle is destroyed, and no database or options have the factory. Returns
 * NULL without `create_compaction_filter` or `name`.
 */
VARVE_EXPORT varve_compactionfilterfactory_t*
varve_compactionfilterfactory_create(
    void* state, void (*destructor)(void*),
    varve_compactionfilter_t* (*create_compaction_filter)(
        void*, varve_compactionfiltercontext_t* context),
    const char* (*name)(void*));
/** Options and databases that have the factory keep it. */
VARVE_EXPORT void varve_compactionfilterfactory_destroy(
    varve_compactionfilterfactory_t*);
/** NULL for none. Not used if there is a varve_compactionfilter_t, too. */
VARVE_EXPORT void varve_options_set_compaction_filter_factory(
    varve_options_t*, varve_compactionfilterfactory_t*);

/** Returns 1 if all tables of the family are compacted. */
VARVE_EXPORT uint8_t varve_compactionfiltercontext_is_full_compaction(
    varve_compactionfiltercontext_t* context);
/** Returns 1 if varve_compact_range or a function like it started it. */
VARVE_EXPORT uint8_t varve_compactionfiltercontext_is_manual_compaction(
    varve_compactionfiltercontext_t* context);

/* ---- Compactions by age, see varve/options.h ---- */

/** Age in seconds of tables above the last level. Default: 0, never. */
VARVE_EXPORT void varve_options_set_ttl(varve_options_t*, uint64_t);
/** Returns the age. */
VARVE_EXPORT uint64_t varve_options_get_ttl(const varve_options_t*);
/** Age in seconds of all tables. Default: 0, never. */
VARVE_EXPORT void varve_options_set_periodic_compaction_seconds(
    varve_options_t*, uint64_t);
/** Returns the age. */
VARVE_EXPORT uint64_t
varve_options_get_periodic_compaction_seconds(const varve_options_t*);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "varve/c_external_files.h"
#include "varve/c_indexed_batches.h"
