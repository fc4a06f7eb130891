// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of one key.
#include "compat/rocksdb/db/get.h"

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

// Reads a key of the default family (null) or another one. The arguments have
// been checked.
[[gnu::always_inline]] inline Status Read(rocksdb_t* db,
                                          const rocksdb_readoptions_t& options,
                                          ColumnFamilyHandle* family,
                                          const Slice& key,
                                          PinnableSlice* value) {
  return family == nullptr ? db->db->Get(options.rep, key, value)
                           : db->db->Get(options.rep, family, key, value);
}

char* GetCopy(rocksdb_t* db, const rocksdb_readoptions_t& options,
              ColumnFamilyHandle* family, Slice key, size_t* vallen,
              char** errptr) {
  return ReadCopy(
      [&](PinnableSlice* value) {
        return Read(db, options, family, key, value);
      },
      vallen, errptr);
}

rocksdb_pinnableslice_t* GetPinned(rocksdb_t* db,
                                   const rocksdb_readoptions_t& options,
                                   ColumnFamilyHandle* family, Slice key,
                                   char** errptr) {
  return ReadPinned(
      [&](PinnableSlice* value) {
        return Read(db, options, family, key, value);
      },
      errptr);
}

// Returns whether the value was found and fits into the buffer.
bool GetIntoBuffer(rocksdb_t* db, const rocksdb_readoptions_t& options,
                   ColumnFamilyHandle* family, Slice key, char* buffer,
                   size_t buffer_size, size_t* vallen, unsigned char* found,
                   char** errptr) {
  PinnableSlice value;
  if (!WasRead(Read(db, options, family, key, &value), errptr)) return false;
  *found = 1;
  *vallen = value.size();
  if (value.size() > buffer_size) return false;
  if (!value.empty()) memcpy(buffer, value.data(), value.size());
  return true;
}

// Sets what a read that fails leaves.
void ClearOutput(size_t* vallen, unsigned char* found) {
  if (vallen != nullptr) *vallen = 0;
  if (found != nullptr) *found = 0;
}

// rocksdb_get_pinned_v2 has a type of its own for the same thing.
rocksdb_pinnable_handle_t* ToHandle(rocksdb_pinnableslice_t* value) {
  return reinterpret_cast<rocksdb_pinnable_handle_t*>(value);
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Ready;
using varve::rocksdb_c::ReadyFamily;

extern "C" {

char* rocksdb_get(rocksdb_t* db, const rocksdb_readoptions_t* options,
                  const char* key, size_t keylen, size_t* vallen,
                  char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, bytes, Given{vallen, "vallen"})) {
    return nullptr;
  }
  return varve::rocksdb_c::GetCopy(db, *options, nullptr, bytes.slice(), vallen,
                                   errptr);
}

char* rocksdb_get_cf(rocksdb_t* db, const rocksdb_readoptions_t* options,
                     rocksdb_column_family_handle_t* column_family,
                     const char* key, size_t keylen, size_t* vallen,
                     char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  const Bytes bytes{key, keylen, "key"};
  if (!ReadyFamily(errptr, db, options, column_family, bytes,
                   Given{vallen, "vallen"})) {
    return nullptr;
  }
  return varve::rocksdb_c::GetCopy(db, *options, column_family->rep.get(),
                                   bytes.slice(), vallen, errptr);
}

rocksdb_pinnableslice_t* rocksdb_get_pinned(
    rocksdb_t* db, const rocksdb_readoptions_t* options, const char* key,
    size_t keylen, char** errptr) {
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, bytes)) return nullptr;
  return varve::rocksdb_c::GetPinned(db, *options, nullptr, bytes.slice(),
                                     errptr);
}

rocksdb_pinnableslice_t* rocksdb_get_pinned_cf(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, char** errptr) {
  const Bytes bytes{key, keylen, "key"};
  if (!ReadyFamily(errptr, db, options, column_family, bytes)) return nullptr;
  return varve::rocksdb_c::GetPinned(db, *options, column_family->rep.get(),
                                     bytes.slice(), errptr);
}

void rocksdb_pinnableslice_destroy(rocksdb_pinnableslice_t* v) { delete v; }

const char* rocksdb_pinnableslice_value(const rocksdb_pinnableslice_t* t,
                                        size_t* vlen) {
  if (t == nullptr) {
    if (vlen != nullptr) *vlen = 0;
    return nullptr;
  }
  if (vlen != nullptr) *vlen = t->rep.size();
  return t->rep.data();
}

rocksdb_pinnable_handle_t* rocksdb_get_pinned_v2(
    rocksdb_t* db, const rocksdb_readoptions_t* options, const char* key,
    size_t keylen, char** errptr) {
  return varve::rocksdb_c::ToHandle(
      rocksdb_get_pinned(db, options, key, keylen, errptr));
}

rocksdb_pinnable_handle_t* rocksdb_get_pinned_cf_v2(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, char** errptr) {
  return varve::rocksdb_c::ToHandle(
      rocksdb_get_pinned_cf(db, options, column_family, key, keylen, errptr));
}

const char* rocksdb_pinnable_handle_get_value(
    const rocksdb_pinnable_handle_t* handle, size_t* vallen) {
  return rocksdb_pinnableslice_value(
      reinterpret_cast<const rocksdb_pinnableslice_t*>(handle), vallen);
}

void rocksdb_pinnable_handle_destroy(rocksdb_pinnable_handle_t* handle) {
  delete reinterpret_cast<rocksdb_pinnableslice_t*>(handle);
}

unsigned char rocksdb_get_into_buffer(rocksdb_t* db,
                                      const rocksdb_readoptions_t* options,
                                      const char* key, size_t keylen,
                                      char* buffer, size_t buffer_size,
                                      size_t* vallen, unsigned char* found,
                                      char** errptr) {
  varve::rocksdb_c::ClearOutput(vallen, found);
  const Bytes bytes{key, keylen, "key"};
  if (!Ready(errptr, db, options, bytes, Bytes{buffer, buffer_size, "buffer"},
             Given{vallen, "vallen"}, Given{found, "found"})) {
    return 0;
  }
  return varve::rocksdb_c::GetIntoBuffer(db, *options, nullptr, bytes.slice(),
                                         buffer, buffer_size, vallen, found,
                                         errptr);
}

unsigned char rocksdb_get_into_buffer_cf(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t keylen, char* buffer, size_t buffer_size, size_t* vallen,
    unsigned char* found, char** errptr) {
  varve::rocksdb_c::ClearOutput(vallen, found);
  const Bytes bytes{key, keylen, "key"};
  if (!ReadyFamily(errptr, db, options, column_family, bytes,
                   Bytes{buffer, buffer_size, "buffer"},
                   Given{vallen, "vallen"}, Given{found, "found"})) {
    return 0;
  }
  return varve::rocksdb_c::GetIntoBuffer(db, *options, column_family->rep.get(),
                                         bytes.slice(), buffer, buffer_size,
                                         vallen, found, errptr);
}

}  // extern "C"
