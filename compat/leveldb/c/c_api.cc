// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// LevelDB's C functions for databases, iterators and batches. A C handle is a
// pointer to the object of the C++ interface, so a function is one call. The
// handle of a closed database is thereby safe to use; see closed_db.h.
//
// Unlike in LevelDB, `errptr` may be null, and what destroys accepts null.
#include "compat/leveldb/c/c_handles.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/own_db.h"

using leveldb::Slice;
using leveldb::Status;
using varve::compat::CopyBytes;
using varve::compat::CopyText;
using varve::compat::SaveError;
using varve::compat::ToHandle;
using varve::compat::ToObject;

#pragma GCC visibility push(default)
extern "C" {

// ---- Databases --------------------------------------------------------------

leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name,
                        char** errptr) {
  leveldb::DB* db = nullptr;
  SaveError(errptr, leveldb::DB::Open(*ToObject(options), name, &db));
  return ToHandle(db);
}

void leveldb_close(leveldb_t* db) { delete ToObject(db); }

void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options,
                 const char* key, size_t keylen, const char* val, size_t vallen,
                 char** errptr) {
  SaveError(errptr, ToObject(db)->Put(*ToObject(options), Slice(key, keylen),
                                      Slice(val, vallen)));
}

void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options,
                    const char* key, size_t keylen, char** errptr) {
  SaveError(errptr,
            ToObject(db)->Delete(*ToObject(options), Slice(key, keylen)));
}

void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                   leveldb_writebatch_t* batch, char** errptr) {
  SaveError(errptr, ToObject(db)->Write(*ToObject(options), ToObject(batch)));
}

char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options,
                  const char* key, size_t keylen, size_t* vallen,
                  char** errptr) {
  varve::PinnableSlice value;
  const Status status =
      static_cast<varve::compat::OwnDb*>(ToObject(db))
          ->GetPinned(*ToObject(options), Slice(key, keylen), &value);
  if (status.ok()) {
    char* const copy = CopyBytes(value.data(), value.size());
    *vallen = copy != nullptr ? value.size() : 0;
    // Without an error, null means that there is no such key.
    if (copy == nullptr) {
      SaveError(errptr, varve::compat::IOError("no memory for the value"));
    }
    return copy;
  }
  *vallen = 0;
  if (status.code() != Status::kNotFound) SaveError(errptr, status);
  return nullptr;
}

leveldb_iterator_t* leveldb_create_iterator(
    leveldb_t* db, const leveldb_readoptions_t* options) {
  return ToHandle(ToObject(db)->NewIterator(*ToObject(options)));
}

const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db) {
  return ToHandle(ToObject(db)->GetSnapshot());
}

void leveldb_release_snapshot(leveldb_t* db,
                              const leveldb_snapshot_t* snapshot) {
  ToObject(db)->ReleaseSnapshot(ToObject(snapshot));
}

char* leveldb_property_value(leveldb_t* db, const char* propname) {
  std::string value;
  if (!ToObject(db)->GetProperty(propname, &value)) return nullptr;
  return CopyText(value);
}

void leveldb_approximate_sizes(leveldb_t* db, int num_ranges,
                               const char* const* range_start_key,
                               const size_t* range_start_key_len,
                               const char* const* range_limit_key,
                               const size_t* range_limit_key_len,
                               uint64_t* sizes) {
  for (int i = 0; i < num_ranges; ++i) {
    const leveldb::Range range{
        Slice(range_start_key[i], range_start_key_len[i]),
        Slice(range_limit_key[i], range_limit_key_len[i])};
    ToObject(db)->GetApproximateSizes(&range, 1, &sizes[i]);
  }
}

void leveldb_compact_range(leveldb_t* db, const char* start_key,
                           size_t start_key_len, const char* limit_key,
                           size_t limit_key_len) {
  const Slice start(start_key, start_key_len);
  const Slice limit(limit_key, limit_key_len);
  ToObject(db)->CompactRange(start_key != nullptr ? &start : nullptr,
                             limit_key != nullptr ? &limit : nullptr);
}

void leveldb_destroy_db(const leveldb_options_t* options, const char* name,
                        char** errptr) {
  SaveError(errptr, leveldb::DestroyDB(name, *ToObject(options)));
}

void leveldb_repair_db(const leveldb_options_t* options, const char* name,
                       char** errptr) {
  SaveError(errptr, leveldb::RepairDB(name, *ToObject(options)));
}

// ---- Iterators --------------------------------------------------------------

void leveldb_iter_destroy(leveldb_iterator_t* iterator) {
  delete ToObject(iterator);
}
uint8_t leveldb_iter_valid(const leveldb_iterator_t* iterator) {
  return ToObject(iterator)->Valid() ? 1 : 0;
}
void leveldb_iter_seek_to_first(leveldb_iterator_t* iterator) {
  ToObject(iterator)->SeekToFirst();
}
void leveldb_iter_seek_to_last(leveldb_iterator_t* iterator) {
  ToObject(iterator)->SeekToLast();
}
void leveldb_iter_seek(leveldb_iterator_t* iterator, const char* k,
                       size_t klen) {
  ToObject(iterator)->Seek(Slice(k, klen));
}
void leveldb_iter_next(leveldb_iterator_t* iterator) {
  ToObject(iterator)->Next();
}
void leveldb_iter_prev(leveldb_iterator_t* iterator) {
  ToObject(iterator)->Prev();
}
const char* leveldb_iter_key(const leveldb_iterator_t* iterator, size_t* klen) {
  const Slice key = ToObject(iterator)->key();
  *klen = key.size();
  return key.data();
}
const char* leveldb_iter_value(const leveldb_iterator_t* iterator,
                               size_t* vlen) {
  const Slice value = ToObject(iterator)->value();
  *vlen = value.size();
  return value.data();
}
void leveldb_iter_get_error(const leveldb_iterator_t* iterator, char** errptr) {
  SaveError(errptr, ToObject(iterator)->status());
}

// ---- Batches ----------------------------------------------------------------

leveldb_writebatch_t* leveldb_writebatch_create(void) {
  return ToHandle(new leveldb::WriteBatch);
}
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch) {
  delete ToObject(batch);
}
void leveldb_writebatch_clear(leveldb_writebatch_t* batch) {
  ToObject(batch)->Clear();
}
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key,
                            size_t klen, const char* val, size_t vlen) {
  ToObject(batch)->Put(Slice(key, klen), Slice(val, vlen));
}
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key,
                               size_t klen) {
  ToObject(batch)->Delete(Slice(key, klen));
}

void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                void (*put)(void*, const char* k, size_t klen,
                                            const char* v, size_t vlen),
                                void (*deleted)(void*, const char* k,
                                                size_t klen)) {
  class Calls final : public leveldb::WriteBatch::Handler {
   public:
    Calls(void* state, decltype(put) put, decltype(deleted) deleted)
        : state_(state), put_(put), deleted_(deleted) {}
    void Put(const Slice& key, const Slice& value) override {
      put_(state_, key.data(), key.size(), value.data(), value.size());
    }
    void Delete(const Slice& key) override {
      deleted_(state_, key.data(), key.size());
    }

   private:
    void* const state_;
    const decltype(put) put_;
    const decltype(deleted) deleted_;
  };
  Calls calls(state, put, deleted);
  ToObject(batch)->Iterate(&calls);
}

void leveldb_writebatch_append(leveldb_writebatch_t* destination,
                               const leveldb_writebatch_t* source) {
  ToObject(destination)->Append(*ToObject(source));
}

}  // extern "C"
#pragma GCC visibility pop
