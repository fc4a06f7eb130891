/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * What a library that hides its symbols shows all the same.
 */

/** Before each class and function that programs may use. */
#ifdef __cplusplus
#define VARVE_EXPORT [[gnu::visibility("default")]]
#else
#define VARVE_EXPORT __attribute__((visibility("default")))
#endif
