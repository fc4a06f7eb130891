/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * What a library that hides its symbols shows all the same.
 */

/** Before each function that C programs may call. */
#if defined(__GNUC__)
#define VARVE_EXPORT __attribute__((visibility("default")))
#else
#define VARVE_EXPORT
#endif
