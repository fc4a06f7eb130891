// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Databases, snapshots and iterators, as LevelDB has them.

#include "capi/handles.h"

using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::capi::CopyBytes;
using varve::capi::SaveError;
using varve::capi::ToSlice;

namespace varve::capi {

char* TakeValue(const Status& status, const Slice& value, size_t* size,
                char** errptr) {
  *size = 0;
  if (!status.ok()) {
    if (!status.IsNotFound()) SaveError(errptr, status);
    return nullptr;
  }
  char* const copy = CopyBytes(value);
  if (copy == nullptr) {
    SaveError(errptr, Status::Aborted("no memory for a value of",
                                      std::to_string(value.size())));
    return nullptr;
  }
  *size = value.size();
  return copy;
}

}  // namespace varve::capi

extern "C" {

// ---- Databases --------------------------------------------------------------

varve_t* varve_open(const varve_options_t* options, const char* name,
                    char** errptr) {
  auto handle = std::make_unique<varve_t>();
  const Status status =
      varve::DB::Open(options->ForUse(), name, &handle->owned);
  if (SaveError(errptr, status)) return nullptr;
  handle->db = handle->owned.get();
  return handle.release();
}

void varve_close(varve_t* db) { delete db; }

void varve_put(varve_t* db, const varve_writeoptions_t* options,
               const char* key, size_t keylen, const char* val, size_t vallen,
               char** errptr) {
  SaveError(errptr, db->db->Put(options->rep, ToSlice(key, keylen),
                                ToSlice(val, vallen)));
}

void varve_delete(varve_t* db, const varve_writeoptions_t* options,
                  const char* key, size_t keylen, char** errptr) {
  SaveError(errptr, db->db->Delete(options->rep, ToSlice(key, keylen)));
}

void varve_write(varve_t* db, const varve_writeoptions_t* options,
                 varve_writebatch_t* batch, char** errptr) {
  SaveError(errptr, db->db->Write(options->rep, &batch->rep));
}

char* varve_get(varve_t* db, const varve_readoptions_t* options,
                const char* key, size_t keylen, size_t* vallen, char** errptr) {
  PinnableSlice value;
  const Status status = db->db->Get(options->rep, ToSlice(key, keylen), &value);
  return varve::capi::TakeValue(status, value, vallen, errptr);
}

char* varve_property_value(varve_t* db, const char* propname) {
  std::string value;
  if (!db->db->GetProperty(propname, &value)) return nullptr;
  return CopyBytes(value);
}

void varve_approximate_sizes(varve_t* db, int num_ranges,
                             const char* const* range_start_key,
                             const size_t* range_start_key_len,
                             const char* const* range_limit_key,
                             const size_t* range_limit_key_len,
                             uint64_t* sizes) {
  for (int i = 0; i < num_ranges; ++i) {
    const varve::Range range = {
        ToSlice(range_start_key[i], range_start_key_len[i]),
        ToSlice(range_limit_key[i], range_limit_key_len[i])};
    // There is no way to tell.
    if (!db->db->GetApproximateSizes(&range, 1, &sizes[i]).ok()) sizes[i] = 0;
  }
}

void varve_compact_range(varve_t* db, const char* start_key,
                         size_t start_key_len, const char* limit_key,
                         size_t limit_key_len) {
  const Slice begin = ToSlice(start_key, start_key_len);
  const Slice end = ToSlice(limit_key, limit_key_len);
  // There is no way to tell; varve_compact_range_opt has one.
  db->db
      ->CompactRange({}, start_key == nullptr ? nullptr : &begin,
                     limit_key == nullptr ? nullptr : &end)
      .IgnoreError();
}

void varve_destroy_db(const varve_options_t* options, const char* name,
                      char** errptr) {
  // What options may name beside needs not be there any more.
  SaveError(errptr, varve::DestroyDB(name, options->rep));
}

void varve_repair_db(const varve_options_t* options, const char* name,
                     char** errptr) {
  SaveError(errptr, varve::RepairDB(name, options->ForUse()));
}

// ---- Snapshots --------------------------------------------------------------

const varve_snapshot_t* varve_create_snapshot(varve_t* db) {
  return new varve_snapshot_t{db->db->GetSnapshot(), false};
}

void varve_release_snapshot(varve_t* db, const varve_snapshot_t* snapshot) {
  if (snapshot == nullptr || snapshot->borrowed) return;
  db->db->ReleaseSnapshot(snapshot->rep);
  delete snapshot;
}

// ---- Iterators --------------------------------------------------------------

varve_iterator_t* varve_create_iterator(varve_t* db,
                                        const varve_readoptions_t* options) {
  auto* const iterator = new varve_iterator_t;
  varve::ReadOptions read = options->rep;
  if (options->has_lower) {
    iterator->lower = options->lower;
    iterator->lower_slice = iterator->lower;
    read.iterate_lower_bound = &iterator->lower_slice;
  }
  if (options->has_upper) {
    iterator->upper = options->upper;
    iterator->upper_slice = iterator->upper;
    read.iterate_upper_bound = &iterator->upper_slice;
  }
  iterator->rep = db->db->NewIterator(read);
  return iterator;
}

void varve_iter_destroy(varve_iterator_t* iterator) { delete iterator; }

uint8_t varve_iter_valid(const varve_iterator_t* iterator) {
  return iterator->rep->Valid() ? 1 : 0;
}

void varve_iter_seek_to_first(varve_iterator_t* iterator) {
  iterator->rep->SeekToFirst();
}

void varve_iter_seek_to_last(varve_iterator_t* iterator) {
  iterator->rep->SeekToLast();
}

void varve_iter_seek(varve_iterator_t* iterator, const char* k, size_t klen) {
  iterator->rep->Seek(ToSlice(k, klen));
}

void varve_iter_next(varve_iterator_t* iterator) { iterator->rep->Next(); }

void varve_iter_prev(varve_iterator_t* iterator) { iterator->rep->Prev(); }

const char* varve_iter_key(const varve_iterator_t* iterator, size_t* klen) {
  const Slice key = iterator->rep->key();
  *klen = key.size();
  return key.data();
}

const char* varve_iter_value(const varve_iterator_t* iterator, size_t* vlen) {
  const Slice value = iterator->rep->value();
  *vlen = value.size();
  return value.data();
}

void varve_iter_get_error(const varve_iterator_t* iterator, char** errptr) {
  SaveError(errptr, iterator->rep->status());
}

}  // extern "C"
