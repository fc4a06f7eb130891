/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/**
 * @file
 * Varve's functions for C of tables from outside of a database: see
 * varve/sst_file_writer.h and varve/external_files.h. varve/c.h describes
 * errors, memory and threads.
 */

#include <stddef.h>
#include <stdint.h>

#include "varve/c.h"
#include "varve/c_families.h"
#include "varve/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Writes one table at a time. */
typedef struct varve_sstfilewriter_t varve_sstfilewriter_t;

/** The options are copied; their comparator must exist as long as the writer.
    Returns NULL without options. */
VARVE_EXPORT varve_sstfilewriter_t* varve_sstfilewriter_create(
    const varve_options_t* options);
/** Begins a file; one of that name is replaced. */
VARVE_EXPORT void varve_sstfilewriter_open(varve_sstfilewriter_t*,
                                           const char* name, char** errptr);
/** Keys must be added in order, each once. */
VARVE_EXPORT void varve_sstfilewriter_put(varve_sstfilewriter_t*,
                                          const char* key, size_t keylen,
                                          const char* val, size_t vallen,
                                          char** errptr);
VARVE_EXPORT void varve_sstfilewriter_merge(varve_sstfilewriter_t*,
                                            const char* key, size_t keylen,
                                            const char* val, size_t vallen,
                                            char** errptr);
VARVE_EXPORT void varve_sstfilewriter_delete(varve_sstfilewriter_t*,
                                             const char* key, size_t keylen,
                                             char** errptr);
/** In any order. Hides nothing of the same file. */
VARVE_EXPORT void varve_sstfilewriter_delete_range(
    varve_sstfilewriter_t*, const char* begin_key, size_t begin_keylen,
    const char* end_key, size_t end_keylen, char** errptr);
/** Completes and syncs the file. */
VARVE_EXPORT void varve_sstfilewriter_finish(varve_sstfilewriter_t*,
                                             char** errptr);
/** Stores the bytes written to the file so far. */
VARVE_EXPORT void varve_sstfilewriter_file_size(varve_sstfilewriter_t*,
                                                uint64_t* file_size);
/** An unfinished file is removed. */
VARVE_EXPORT void varve_sstfilewriter_destroy(varve_sstfilewriter_t*);

/** How varve_ingest_external_files takes the files; they are added up. Without
    the first two, the files are copied. */
enum {
  /** By a second name. */
  varve_ingest_link = 1,
  /** By a new name. */
  varve_ingest_move = 2,
  /** Verifies the checksums of all blocks first. */
  varve_ingest_verify = 4
};

/** Adds tables, all or none. `column_family` may be NULL, the default one. */
VARVE_EXPORT void varve_ingest_external_files(
    varve_t* db, varve_column_family_handle_t* column_family,
    const char* const* file_list, size_t list_len, int how, char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif
