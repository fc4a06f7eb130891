// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Each function is one call from Go. It returns by value the results that the C
// API stores through pointers: C may not write to a Go variable on the stack.
//
// examples/geth/calls.h has call_get, call_write and call_fill too. Go does not
// build a package again if a header outside of its folder has changed, so the
// two modules share none.

#include <stdint.h>
#include <string.h>

#include "varve/c.h"

typedef struct {
  char* error;    // For varve_free. NULL on success.
  size_t size;    // Bytes.
  size_t count;   // Entries.
  uint8_t found;  // Whether the key exists.
} answer;

static inline answer call_write(varve_t* db,
                                const varve_writeoptions_t* options,
                                const char* bytes, size_t size) {
  answer a = {NULL, 0, 0, 0};
  varve_writebatch_t* batch = varve_writebatch_create_from(bytes, size);
  varve_write(db, options, batch, &a.error);
  varve_writebatch_destroy(batch);
  return a;
}

static inline answer call_load(varve_t* db, const varve_writeoptions_t* options,
                               const char* entries, size_t size) {
  answer a = {NULL, 0, 0, 0};
  varve_writebatch_t* batch = varve_writebatch_create();
  varve_writebatch_put_entries(batch, entries, size, &a.error);
  if (a.error == NULL) varve_write(db, options, batch, &a.error);
  varve_writebatch_destroy(batch);
  return a;
}

// If the value does not fit, `size` is larger than `buffer_size`.
static inline answer call_get(varve_t* db, const varve_readoptions_t* options,
                              const char* key, size_t key_size, char* buffer,
                              size_t buffer_size) {
  answer a = {NULL, 0, 0, 0};
  varve_get_into_buffer(db, options, key, key_size, buffer, buffer_size,
                        &a.size, &a.found, &a.error);
  return a;
}

// Reads many keys of one state. Each key is its length in 4 bytes, then its
// bytes. Each value has the same form, with the length 0xffffffff if the key
// does not exist. `count` is the number of keys that were read. If it is not
// all of them, `size` is the least size of a buffer that holds one more value.
static inline answer call_get_many(varve_t* db, const char* keys,
                                   size_t keys_size, char* buffer,
                                   size_t buffer_size) {
  answer a = {NULL, 0, 0, 0};
  varve_readoptions_t* options = varve_readoptions_create();
  const varve_snapshot_t* snapshot = varve_create_snapshot(db);
  varve_readoptions_set_snapshot(options, snapshot);
  while (keys_size >= 4) {
    uint32_t key_size;
    memcpy(&key_size, keys, 4);
    const size_t space =
        buffer_size - a.size < 4 ? 0 : buffer_size - a.size - 4;
    size_t value_size = 0;
    uint8_t found = 0;
    varve_get_into_buffer(db, options, keys + 4, key_size,
                          space ? buffer + a.size + 4 : NULL, space,
                          &value_size, &found, &a.error);
    if (a.error != NULL) break;
    if (!found) value_size = 0;
    if (buffer_size - a.size < 4 || value_size > space) {
      a.size += 4 + value_size;
      break;
    }
    const uint32_t told = found ? (uint32_t)value_size : UINT32_MAX;
    memcpy(buffer + a.size, &told, 4);
    a.size += 4 + value_size;
    a.count++;
    keys += 4 + key_size;
    keys_size -= 4 + key_size;
  }
  varve_release_snapshot(db, snapshot);
  varve_readoptions_destroy(options);
  return a;
}

static inline answer call_fill(varve_iterator_t* iterator, char* buffer,
                               size_t buffer_size) {
  answer a = {NULL, 0, 0, 0};
  a.count = varve_iter_copy_entries(iterator, buffer, buffer_size, &a.size);
  if (a.count == 0 && a.size == 0) varve_iter_get_error(iterator, &a.error);
  return a;
}

static inline varve_iterator_t* call_iterate(varve_t* db,
                                             varve_readtransaction_t* moment,
                                             const char* from, size_t from_size,
                                             const char* to, size_t to_size) {
  varve_readoptions_t* options = varve_readoptions_create();
  varve_readoptions_set_snapshot(options,
                                 varve_readtransaction_snapshot(moment));
  varve_readoptions_set_iterate_lower_bound(options, from, from_size);
  varve_readoptions_set_iterate_upper_bound(options, to, to_size);
  varve_readoptions_set_fill_cache(options, 0);
  varve_iterator_t* iterator = varve_create_iterator(db, options);
  varve_readoptions_destroy(options);
  varve_iter_seek_to_first(iterator);
  return iterator;
}

// Reads a property that is a number into `size`.
static inline answer call_property(varve_t* db, const char* name) {
  answer a = {NULL, 0, 0, 0};
  uint64_t value = 0;
  a.found = varve_property_int(db, name, &value) == 0;
  a.size = (size_t)value;
  return a;
}
