// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// librocksdb.so.7.8, for programs that were built for RocksDB 7.8: the
// functions whose signatures changed since. It loads librocksdb.so.11 for all
// others, and the dynamic linker finds these first.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

extern "C" {

typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_options_t rocksdb_options_t;
typedef struct rocksdb_slicetransform_t rocksdb_slicetransform_t;

rocksdb_slicetransform_t* rocksdb_slicetransform_create(
    void* state, void (*destructor)(void*),
    char* (*transform)(void*, const char* key, size_t length,
                       size_t* dst_length),
    unsigned char (*in_domain)(void*, const char* key, size_t length),
    unsigned char (*in_range)(void*, const char* key, size_t length),
    const char* (*name)(void*));
void rocksdb_options_set_plain_table_factory(rocksdb_options_t* options,
                                             uint32_t user_key_len,
                                             int bloom_bits_per_key,
                                             double hash_table_ratio,
                                             size_t index_sparseness);
void rocksdb_enable_file_deletions(rocksdb_t* db, unsigned char force,
                                   char** errptr);

}  // extern "C"

namespace {

// Returns the function of librocksdb.so.11.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// in_range has no effect, in RocksDB 7.8 either.
rocksdb_slicetransform_t* rocksdb_slicetransform_create(
    void* state, void (*destructor)(void*),
    char* (*transform)(void*, const char* key, size_t length,
                       size_t* dst_length),
    unsigned char (*in_domain)(void*, const char* key, size_t length),
    unsigned char (* /*in_range*/)(void*, const char* key, size_t length),
    const char* (*name)(void*)) {
  using Create = rocksdb_slicetransform_t*(
      void*, void (*)(void*), char* (*)(void*, const char*, size_t, size_t*),
      unsigned char (*)(void*, const char*, size_t), const char* (*)(void*));
  static auto* const create = Next<Create>("rocksdb_slicetransform_create");
  return create(state, destructor, transform, in_domain, name);
}

void rocksdb_options_set_plain_table_factory(rocksdb_options_t* options,
                                             uint32_t user_key_len,
                                             int bloom_bits_per_key,
                                             double hash_table_ratio,
                                             size_t index_sparseness) {
  using Set = void(rocksdb_options_t*, uint32_t, int, double, size_t, size_t,
                   char, unsigned char, unsigned char);
  static auto* const set = Next<Set>("rocksdb_options_set_plain_table_factory");
  set(options, user_key_len, bloom_bits_per_key, hash_table_ratio,
      index_sparseness, 0, 0, 0, 0);
}

void rocksdb_enable_file_deletions(rocksdb_t* db, unsigned char /*force*/,
                                   char** errptr) {
  using Enable = void(rocksdb_t*, char**);
  static auto* const enable = Next<Enable>("rocksdb_enable_file_deletions");
  enable(db, errptr);
}
