/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * The version of Varve; docs/versioning.md says what it promises. These numbers
 * are its only source: the build reads them from this file.
 */

#include "varve/export.h"

/** The version of the headers that a program is compiled with: major. */
#define VARVE_VERSION_MAJOR 0
/** The minor version of the headers. */
#define VARVE_VERSION_MINOR 1
/** The patch version of the headers. */
#define VARVE_VERSION_PATCH 0

#ifdef __cplusplus
namespace varve {

/**
 * Returns the version of the library that the program runs with, such as
 * "1.2.3". It differs from the macros if the shared library was replaced. The
 * C function for it is varve_version.
 */
VARVE_EXPORT const char* VersionString();

}  // namespace varve
#endif
