// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of iterators.

#include <memory>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "capi/requests.h"
#include "db/engine/db_iterator.h"
#include "util/bytes/coding.h"

using varve::Slice;
using varve::Status;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::KeepBounds;
using varve::capi::OwnFamily;

namespace {

// Makes the iterator invalid with this error.
void SetError(varve_iterator_t* iterator, const varve::Status& status) {
  iterator->rep = varve::NewErrorIterator(status);
}

// Returns an iterator over a family; null is the default one. `status` is the
// result of checking the arguments.
varve_iterator_t* NewIterator(varve_t* db, const varve_readoptions_t* options,
                              const varve_column_family_handle_t* family,
                              Status status) {
  auto* const iterator = new varve_iterator_t;
  varve::ReadOptions read;
  if (status.ok()) status = KeepBounds(*options, &iterator->bounds, &read);
  if (!status.ok()) {
    SetError(iterator, status);
    return iterator;
  }
  iterator->rep = db->db->NewIterator(
      read, family != nullptr ? family->rep.get() : nullptr);
  // An iterator that could not be created does not keep the database open.
  if (iterator->rep->status().ok()) iterator->owner = varve::capi::OwnerOf(db);
  return iterator;
}

// Returns whether the iterator can seek to the key. Sets its error if the key
// is invalid.
bool CanSeek(varve_iterator_t* iterator, const Bytes& key) {
  if (iterator == nullptr) return false;
  if (key.ok()) [[likely]]
    return true;
  const varve_iterator_t& it = *iterator;
  varve::capi::LetGo(it.owner, [&] {
    SetError(iterator, varve::capi::BadArgument(key.name, key.Problem()));
    iterator->updates.reset();
  });
  iterator->owner = nullptr;
  return false;
}

bool IsValid(const varve_iterator_t* iterator) {
  return iterator != nullptr && iterator->rep->Valid();
}

const char* Show(const Slice& bytes, size_t* size) {
  if (size != nullptr) *size = bytes.size();
  return bytes.data();
}

const char* ShowNothing(size_t* size) {
  if (size != nullptr) *size = 0;
  return nullptr;
}

}  // namespace

extern "C" {

varve_iterator_t* varve_create_iterator(varve_t* db,
                                        const varve_readoptions_t* options) {
  return NewIterator(
      db, options, nullptr,
      varve::capi::Check(Given{db, "db"}, Given{options, "options"}));
}

varve_iterator_t* varve_create_iterator_cf(
    varve_t* db, const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family) {
  return NewIterator(
      db, options, column_family,
      varve::capi::Check(Given{db, "db"}, Given{options, "options"},
                         OwnFamily{column_family, db}));
}

void varve_create_iterators(varve_t* db, varve_readoptions_t* options,
                            varve_column_family_handle_t** column_families,
                            varve_iterator_t** iterators, size_t size,
                            char** errptr) {
  if (iterators == nullptr ||
      size > varve::capi::kMaxEntries<varve_iterator_t*>) {
    varve::capi::SaveError(
        errptr, varve::capi::BadArgument(
                    iterators == nullptr ? "iterators" : "size",
                    iterators == nullptr ? "is NULL" : "is no length"));
    return;
  }
  for (size_t i = 0; i < size; ++i) iterators[i] = nullptr;
  Status status = varve::capi::Check(Given{db, "db"}, Given{options, "options"},
                                     Given{column_families, "column_families"});
  std::vector<varve::ColumnFamilyHandle*> families;
  for (size_t i = 0; status.ok() && i < size; ++i) {
    status = varve::capi::Check(OwnFamily{column_families[i], db});
    if (status.ok()) families.push_back(column_families[i]->rep.get());
  }
  const auto bounds = std::make_shared<varve::capi::KeptBounds>();
  varve::ReadOptions read;
  if (status.ok()) status = KeepBounds(*options, bounds.get(), &read);
  std::vector<std::unique_ptr<varve::Iterator>> created;
  if (status.ok()) status = db->db->NewIterators(read, families, &created);
  if (varve::capi::SaveError(errptr, status)) return;
  for (size_t i = 0; i < size; ++i) {
    iterators[i] = new varve_iterator_t;
    iterators[i]->shared_bounds = bounds;
    iterators[i]->rep = std::move(created[i]);
    if (iterators[i]->rep->status().ok()) {
      iterators[i]->owner = varve::capi::OwnerOf(db);
    }
  }
}

void varve_iter_destroy(varve_iterator_t* iterator) {
  if (iterator == nullptr) return;
  varve::capi::LetGo(iterator->owner, [iterator] { delete iterator; });
}

uint8_t varve_iter_valid(const varve_iterator_t* iterator) {
  return IsValid(iterator) ? 1 : 0;
}

void varve_iter_seek_to_first(varve_iterator_t* iterator) {
  if (iterator != nullptr) iterator->rep->SeekToFirst();
}

void varve_iter_seek_to_last(varve_iterator_t* iterator) {
  if (iterator != nullptr) iterator->rep->SeekToLast();
}

void varve_iter_seek(varve_iterator_t* iterator, const char* k, size_t klen) {
  if (!CanSeek(iterator, {k, klen, "k"})) return;
  iterator->rep->Seek(varve::capi::ToSlice(k, klen));
}

void varve_iter_seek_for_prev(varve_iterator_t* iterator, const char* k,
                              size_t klen) {
  if (!CanSeek(iterator, {k, klen, "k"})) return;
  iterator->rep->SeekForPrev(varve::capi::ToSlice(k, klen));
}

void varve_iter_next(varve_iterator_t* iterator) {
  if (IsValid(iterator)) iterator->rep->Next();
}

void varve_iter_prev(varve_iterator_t* iterator) {
  if (IsValid(iterator)) iterator->rep->Prev();
}

const char* varve_iter_key(const varve_iterator_t* iterator, size_t* klen) {
  return IsValid(iterator) ? Show(iterator->rep->key(), klen)
                           : ShowNothing(klen);
}

const char* varve_iter_value(const varve_iterator_t* iterator, size_t* vlen) {
  return IsValid(iterator) ? Show(iterator->rep->value(), vlen)
                           : ShowNothing(vlen);
}

void varve_iter_get_error(const varve_iterator_t* iterator, char** errptr) {
  varve::capi::SaveError(errptr,
                         iterator != nullptr
                             ? iterator->rep->status()
                             : varve::capi::BadArgument("iterator", "is NULL"));
}

size_t varve_iter_copy_entries(varve_iterator_t* iterator, char* buffer,
                               size_t buffer_size, size_t* used) {
  constexpr size_t kLengthsBytes = 8;
  if (used == nullptr) return 0;
  *used = 0;
  if (!IsValid(iterator) || (buffer == nullptr && buffer_size > 0)) return 0;
  varve::Iterator& it = *iterator->rep;
  size_t count = 0;
  for (; it.Valid(); it.Next(), ++count) {
    const Slice key = it.key();
    const Slice value = it.value();
    const size_t bytes = kLengthsBytes + key.size() + value.size();
    if (bytes > buffer_size - *used) {
      if (count == 0) *used = bytes;
      break;
    }
    char* p = buffer + *used;
    varve::EncodeFixed32(p, static_cast<uint32_t>(key.size()));
    varve::EncodeFixed32(p + 4, static_cast<uint32_t>(value.size()));
    p += kLengthsBytes;
    if (!key.empty()) memcpy(p, key.data(), key.size());
    if (!value.empty()) memcpy(p + key.size(), value.data(), value.size());
    *used += bytes;
  }
  return count;
}

}  // extern "C"
