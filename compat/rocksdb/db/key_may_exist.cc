// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// rocksdb_key_may_exist.

#include <string>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

// Where the value goes that was found on the way.
struct FoundValue {
  char** value;
  size_t* size;
  unsigned char* found;

  void Clear() const {
    if (found != nullptr) *found = 0;
  }
  void Set(const Slice& bytes) const {
    if (value == nullptr || size == nullptr || found == nullptr) return;
    *value = CopyBytes(bytes);
    *size = bytes.size();
    *found = 1;
  }
};

// Returns true unless the key certainly does not exist. Calls on no open
// database return false.
bool KeyMayExist(rocksdb_t* db, const rocksdb_readoptions_t* options,
                 ColumnFamilyHandle* family, const Bytes& key,
                 const FoundValue& result) {
  if (!Ready(nullptr, db, options, key)) return false;
  std::string value;
  bool found = false;
  const bool may =
      db->db->KeyMayExist(options->rep, family, key.slice(), &value, &found);
  // As by RocksDB, a key that certainly does not exist has an empty value.
  if (found || !may) result.Set(value);
  return may;
}

// Returns whether the call has a timestamp, and says that there are none.
bool RefusesTimestamp(const char* timestamp, const char* function) {
  if (timestamp == nullptr) return false;
  NoteMissing(function, "user timestamps");
  return true;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::FoundValue;
using varve::rocksdb_c::KeyMayExist;
using varve::rocksdb_c::RefusesTimestamp;

extern "C" {

unsigned char rocksdb_key_may_exist(
    rocksdb_t* db, const rocksdb_readoptions_t* options, const char* key,
    size_t key_len, char** value, size_t* val_len, const char* timestamp,
    size_t /*timestamp_len*/, unsigned char* value_found) {
  const FoundValue result{value, val_len, value_found};
  result.Clear();
  if (RefusesTimestamp(timestamp, "rocksdb_key_may_exist")) return 0;
  return KeyMayExist(db, options, nullptr, {key, key_len, "key"}, result);
}

unsigned char rocksdb_key_may_exist_cf(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family, const char* key,
    size_t key_len, char** value, size_t* val_len, const char* timestamp,
    size_t /*timestamp_len*/, unsigned char* value_found) {
  const FoundValue result{value, val_len, value_found};
  result.Clear();
  if (RefusesTimestamp(timestamp, "rocksdb_key_may_exist_cf") ||
      !FamilyOf{column_family, db}.ok()) {
    return 0;
  }
  return KeyMayExist(db, options, column_family->rep.get(),
                     {key, key_len, "key"}, result);
}

}  // extern "C"
