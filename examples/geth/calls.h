// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Each function is one call from Go. It returns by value the results that the C
// API stores through pointers: C may not write to a Go variable on the stack.

#include <varve/c.h>

typedef struct {
  char* error;    // For varve_free. NULL on success.
  size_t size;    // Bytes.
  size_t count;   // Entries.
  uint8_t found;  // Whether the key exists.
} answer;

// If the value does not fit, `size` is larger than `buffer_size`.
static inline answer call_get(varve_t* db, const varve_readoptions_t* options,
                              const char* key, size_t key_size, char* buffer,
                              size_t buffer_size) {
  answer a = {NULL, 0, 0, 0};
  varve_get_into_buffer(db, options, key, key_size, buffer, buffer_size,
                        &a.size, &a.found, &a.error);
  return a;
}

// Applies a batch that has the format of docs/format.md.
static inline answer call_write(varve_t* db,
                                const varve_writeoptions_t* options,
                                const char* bytes, size_t size) {
  answer a = {NULL, 0, 0, 0};
  varve_writebatch_t* batch = varve_writebatch_create_from(bytes, size);
  varve_write(db, options, batch, &a.error);
  varve_writebatch_destroy(batch);
  return a;
}

static inline answer call_delete_range(varve_t* db,
                                       const varve_writeoptions_t* options,
                                       const char* start, size_t start_size,
                                       const char* end, size_t end_size) {
  answer a = {NULL, 0, 0, 0};
  varve_delete_range(db, options, start, start_size, end, end_size, &a.error);
  return a;
}

// Creates an iterator at `from`. It ends before `to`, unless that is NULL.
static inline varve_iterator_t* call_iterate(varve_t* db, const char* from,
                                             size_t from_size, const char* to,
                                             size_t to_size) {
  varve_readoptions_t* options = varve_readoptions_create();
  if (to != NULL) {
    varve_readoptions_set_iterate_upper_bound(options, to, to_size);
  }
  varve_iterator_t* iterator = varve_create_iterator(db, options);
  varve_readoptions_destroy(options);
  varve_iter_seek(iterator, from, from_size);
  return iterator;
}

// Copies entries: see varve_iter_copy_entries. If the first entry does not fit,
// `count` is 0 and `size` the space that it needs.
static inline answer call_fill(varve_iterator_t* iterator, char* buffer,
                               size_t buffer_size) {
  answer a = {NULL, 0, 0, 0};
  a.count = varve_iter_copy_entries(iterator, buffer, buffer_size, &a.size);
  if (a.count == 0 && a.size == 0) varve_iter_get_error(iterator, &a.error);
  return a;
}
