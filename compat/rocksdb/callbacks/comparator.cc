// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/callbacks/comparator.h"

#include <rocksdb/c.h>

extern "C" {

rocksdb_comparator_t* rocksdb_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char* a, size_t alen, const char* b,
                   size_t blen),
    const char* (*name)(void*)) {
  if (compare == nullptr) return nullptr;
  return new rocksdb_comparator_t({state, destructor, name}, compare);
}

void rocksdb_comparator_destroy(rocksdb_comparator_t* comparator) {
  delete comparator;
}

}  // extern "C"
