/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * The mark of public symbols, and the check of the platform.
 */

#if !defined(__linux__) || __SIZEOF_POINTER__ < 8 || \
    __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Varve needs Linux on a 64-bit little-endian machine."
#endif

/** Marks each class and function that programs may use. */
#ifdef __cplusplus
#define VARVE_EXPORT [[gnu::visibility("default")]]
#else
#define VARVE_EXPORT __attribute__((visibility("default")))
#endif
