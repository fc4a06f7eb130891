/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C: prefixes of keys. docs/prefixes.md describes them.
 * varve/c.h, which includes this file, describes errors, memory and threads.
 * The options whole_key_filtering and memtable_prefix_bloom_size_ratio are set
 * by varve_options_set.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maps keys to prefixes. */
typedef struct varve_slicetransform_t varve_slicetransform_t;

/**
 * Creates a transform. `transform` returns the first bytes of the key that are
 * its prefix, and sets *prefix_length. It is called for keys for which
 * `in_domain` returns a number other than 0. Many threads call both at once.
 *
 * `name` is called once, here. destructor(state), if not NULL, is called when
 * the handle is destroyed, and no database or options have the transform.
 * Returns NULL without `transform`, `in_domain` or `name`.
 */
VARVE_EXPORT varve_slicetransform_t* varve_slicetransform_create(
    void* state, void (*destructor)(void*),
    char* (*transform)(void*, const char* key, size_t length,
                       size_t* prefix_length),
    uint8_t (*in_domain)(void*, const char* key, size_t length),
    const char* (*name)(void*));
/** The first bytes of keys that have so many; others have no prefix. */
VARVE_EXPORT varve_slicetransform_t* varve_slicetransform_create_fixed_prefix(
    size_t length);
/** At most so many first bytes. */
VARVE_EXPORT varve_slicetransform_t* varve_slicetransform_create_capped_prefix(
    size_t length);
/** The whole key. */
VARVE_EXPORT varve_slicetransform_t* varve_slicetransform_create_noop(void);
/** Options and databases that have the transform keep it. */
VARVE_EXPORT void varve_slicetransform_destroy(varve_slicetransform_t*);

/** NULL for none. */
VARVE_EXPORT void varve_options_set_prefix_extractor(varve_options_t*,
                                                     varve_slicetransform_t*);

/** Iterates over all keys, and asks no filter for prefixes. */
VARVE_EXPORT void varve_readoptions_set_total_order_seek(varve_readoptions_t*,
                                                         uint8_t);
/** Ends iterators with the prefix of their last seek's target. */
VARVE_EXPORT void varve_readoptions_set_prefix_same_as_start(
    varve_readoptions_t*, uint8_t);
/** Asks filters for prefixes where the bounds show that no key is missed. */
VARVE_EXPORT void varve_readoptions_set_auto_prefix_mode(varve_readoptions_t*,
                                                         uint8_t);

#ifdef __cplusplus
} /* extern "C" */
#endif
