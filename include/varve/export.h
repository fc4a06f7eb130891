/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * The marks of public symbols, and the check of the platform.
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

/**
 * Marks each class whose layout or functions depend on the standard library's
 * containers. In libstdc++, the macros below change these. They then change the
 * names of the functions that use the class, so that a program does not link
 * with a library that was compiled otherwise.
 */
#ifdef __cplusplus
#include <cstddef>  // Defines _GLIBCXX_USE_CXX11_ABI.
#if defined(_GLIBCXX_DEBUG)
#define VARVE_USES_CONTAINERS [[gnu::abi_tag("_GLIBCXX_DEBUG")]]
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define VARVE_USES_CONTAINERS [[gnu::abi_tag("_GLIBCXX_USE_CXX11_ABI_0")]]
#else
#define VARVE_USES_CONTAINERS
#endif
#endif
