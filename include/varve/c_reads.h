/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of reads with limits, and of databases whose entries
 * expire: see docs/reads.md and varve/db_ttl.h. varve/c.h, which includes this
 * file, describes errors, memory and threads.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Options of reads ---- */

/** Where a read may look; see varve::ReadTier. */
enum {
  varve_read_all_tier = 0,
  varve_block_cache_tier = 1,
  varve_persisted_tier = 2
};
/** Ignores a number that is not above. */
VARVE_EXPORT void varve_readoptions_set_read_tier(varve_readoptions_t*,
                                                  int tier);
/** In microseconds since 1970; 0 means none. */
VARVE_EXPORT void varve_readoptions_set_deadline(varve_readoptions_t*,
                                                 uint64_t microseconds);
/** 0 means no limit. */
VARVE_EXPORT void varve_readoptions_set_max_skippable_internal_keys(
    varve_readoptions_t*, uint64_t count);
/** Lets an iterator see later updates. */
VARVE_EXPORT void varve_readoptions_set_tailing(varve_readoptions_t*,
                                                uint8_t on);

/* ---- Reads ---- */

/**
 * Returns 0 only if the key does not exist, or a call is wrong. Reads no file.
 * column_family may be NULL. If the value is in memory, and `value` is not
 * NULL, *value is set to a copy, to be freed with varve_free, and *vallen to
 * its length. Otherwise *value is set to NULL.
 */
VARVE_EXPORT uint8_t varve_key_may_exist(
    varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char** value, size_t* vallen);
/** See varve::Iterator::Refresh. */
VARVE_EXPORT void varve_iter_refresh(varve_iterator_t* iterator, char** errptr);

/* ---- Databases whose entries expire ---- */

/** Opens a database whose entries live for `ttl` seconds. */
VARVE_EXPORT varve_t* varve_open_with_ttl(const varve_options_t* options,
                                          const char* name, int ttl,
                                          char** errptr);
/** ttls[i] is for column_family_names[i]. */
VARVE_EXPORT varve_t* varve_open_column_families_with_ttl(
    const varve_options_t* options, const char* name, int num_column_families,
    const char* const* column_family_names,
    const varve_options_t* const* column_family_options,
    varve_column_family_handle_t** column_family_handles, const int* ttls,
    char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif
