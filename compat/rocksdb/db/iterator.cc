// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Iterators.
#include "compat/rocksdb/db/iterator.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/db/lifetime.h"

namespace varve::rocksdb_c {

rocksdb_iterator_t* NewInvalid(const Status& status) {
  auto* const iterator = new rocksdb_iterator_t;
  iterator->rep = NewErrorIterator(status);
  return iterator;
}

namespace {

using Family = rocksdb_column_family_handle_t;

// Copies the bounds of the options, because the program may destroy its
// ReadOptions and change the bytes while the iterator exists. Returns null if
// there are none.
std::shared_ptr<KeptBounds> KeepBounds(ReadOptions* options) {
  const auto keep = [](const Slice** bound, std::string* bytes, Slice* slice) {
    if (*bound == nullptr) return;
    bytes->assign((*bound)->data(), (*bound)->size());
    *slice = *bytes;
    *bound = slice;
  };
  if (options->iterate_lower_bound == nullptr &&
      options->iterate_upper_bound == nullptr) {
    return nullptr;
  }
  auto kept = std::make_shared<KeptBounds>();
  keep(&options->iterate_lower_bound, &kept->lower, &kept->lower_slice);
  keep(&options->iterate_upper_bound, &kept->upper, &kept->upper_slice);
  return kept;
}

}  // namespace

IteratorParts::IteratorParts(const rocksdb_readoptions_t& program, bool opt_in)
    : options(program.rep), bounds(KeepBounds(&options)) {
  if (opt_in && !options.prefix_same_as_start && !options.auto_prefix_mode) {
    options.total_order_seek = true;
  }
}

std::unique_ptr<rocksdb_iterator_t> IteratorParts::NewHandle(
    DB* db, const Family* family) const {
  auto iterator = std::make_unique<rocksdb_iterator_t>();
  iterator->db = db;
  if (family != nullptr) iterator->family = family->rep;
  iterator->options = options;
  iterator->bounds = bounds;
  return iterator;
}

namespace {

// Gives the handle a new iterator of the engine.
void AttachNew(rocksdb_iterator_t* iterator) {
  iterator->rep =
      iterator->db->NewIterator(iterator->options, iterator->family.get());
}

// `status` is the result of checking the arguments.
rocksdb_iterator_t* Create(rocksdb_t* db, const rocksdb_readoptions_t* options,
                           const Family* family, const Status& status) {
  if (!status.ok()) return NewInvalid(status);
  if (options->refused != nullptr) return NewInvalid(Missing(options->refused));
  auto iterator = IteratorParts(*options, db->prefix_seek_opt_in_only)
                      .NewHandle(db->db, family);
  AttachNew(iterator.get());
  return iterator.release();
}

// Lets the iterator see the newest state. Its old state is let go last, since
// it can be what keeps the database open.
void Renew(rocksdb_iterator_t* iterator) {
  iterator->options.snapshot = nullptr;
  std::unique_ptr<Iterator> old = std::move(iterator->rep);
  AttachNew(iterator);
  LetGo([&old] { old.reset(); });
}

// Returns whether the iterator can seek to the key. Gives it an error if the
// key is not usable.
bool CanSeek(rocksdb_iterator_t* iterator, const Bytes& key) {
  if (iterator == nullptr) [[unlikely]]
    return false;
  if (key.ok()) [[likely]]
    return true;
  iterator->db = nullptr;
  LetGo([&] { iterator->rep = NewErrorIterator(Check(key)); });
  return false;
}

bool IsValid(const rocksdb_iterator_t* iterator) {
  return iterator != nullptr && iterator->rep->Valid();
}

const char* Show(const Slice& bytes, size_t* size) {
  if (size != nullptr) *size = bytes.size();
  return bytes.data();
}

// Returns no bytes. Programs do not expect a null pointer.
const char* ShowNothing(size_t* size) {
  if (size != nullptr) *size = 0;
  return "";
}

rocksdb_slice_t ToSlice(const Slice& bytes) {
  return {bytes.data(), bytes.size()};
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::ArrayOf;
using varve::rocksdb_c::AttachNew;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::CanSeek;
using varve::rocksdb_c::Check;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::IsValid;
using varve::rocksdb_c::IteratorParts;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Ready;
using varve::rocksdb_c::Show;
using varve::rocksdb_c::ShowNothing;
using varve::rocksdb_c::ToSlice;
using varve::rocksdb_c::Usable;

extern "C" {

rocksdb_iterator_t* rocksdb_create_iterator(
    rocksdb_t* db, const rocksdb_readoptions_t* options) {
  return varve::rocksdb_c::Create(db, options, nullptr,
                                  Check(Open{db}, Given{options, "options"}));
}

rocksdb_iterator_t* rocksdb_create_iterator_cf(
    rocksdb_t* db, const rocksdb_readoptions_t* options,
    rocksdb_column_family_handle_t* column_family) {
  return varve::rocksdb_c::Create(
      db, options, column_family,
      Check(Open{db}, Given{options, "options"}, FamilyOf{column_family, db}));
}

void rocksdb_create_iterators(rocksdb_t* db, rocksdb_readoptions_t* opts,
                              rocksdb_column_family_handle_t** column_families,
                              rocksdb_iterator_t** iterators, size_t size,
                              char** errptr) {
  if (!Usable(errptr, Given{iterators, "iterators"},
              ArrayOf<rocksdb_column_family_handle_t*>{
                  column_families, static_cast<ptrdiff_t>(size),
                  "column_families"})) {
    return;
  }
  std::fill_n(iterators, size, nullptr);
  if (!Ready(errptr, db, opts)) return;
  std::vector<varve::ColumnFamilyHandle*> families;
  for (size_t i = 0; i < size; ++i) {
    if (!Usable(errptr, FamilyOf{column_families[i], db})) return;
    families.push_back(column_families[i]->rep.get());
  }
  const IteratorParts parts(*opts, db->prefix_seek_opt_in_only);
  std::vector<std::unique_ptr<varve::Iterator>> created;
  if (Failed(errptr, db->db->NewIterators(parts.options, families, &created))) {
    return;
  }
  for (size_t i = 0; i < size; ++i) {
    auto iterator = parts.NewHandle(db->db, column_families[i]);
    iterator->rep = std::move(created[i]);
    iterators[i] = iterator.release();
  }
}

void rocksdb_iter_destroy(rocksdb_iterator_t* iter) {
  if (iter == nullptr) return;
  // Let go by itself, afterwards, since it can be a transaction.
  const std::shared_ptr<void> batch = std::move(iter->batch);
  varve::rocksdb_c::LetGo([iter] { delete iter; });
}

unsigned char rocksdb_iter_valid(const rocksdb_iterator_t* iter) {
  return IsValid(iter) ? 1 : 0;
}

void rocksdb_iter_seek_to_first(rocksdb_iterator_t* iter) {
  if (!CanSeek(iter, {})) return;
  iter->rep->SeekToFirst();
}

void rocksdb_iter_seek_to_last(rocksdb_iterator_t* iter) {
  if (!CanSeek(iter, {})) return;
  iter->rep->SeekToLast();
}

void rocksdb_iter_seek(rocksdb_iterator_t* iter, const char* k, size_t klen) {
  const Bytes key{k, klen, "k"};
  if (!CanSeek(iter, key)) return;
  iter->rep->Seek(key.slice());
}

void rocksdb_iter_seek_for_prev(rocksdb_iterator_t* iter, const char* k,
                                size_t klen) {
  const Bytes key{k, klen, "k"};
  if (!CanSeek(iter, key)) return;
  iter->rep->SeekForPrev(key.slice());
}

void rocksdb_iter_next(rocksdb_iterator_t* iter) {
  if (IsValid(iter)) iter->rep->Next();
}

void rocksdb_iter_prev(rocksdb_iterator_t* iter) {
  if (IsValid(iter)) iter->rep->Prev();
}

const char* rocksdb_iter_key(const rocksdb_iterator_t* iter, size_t* klen) {
  return IsValid(iter) ? Show(iter->rep->key(), klen) : ShowNothing(klen);
}

const char* rocksdb_iter_value(const rocksdb_iterator_t* iter, size_t* vlen) {
  return IsValid(iter) ? Show(iter->rep->value(), vlen) : ShowNothing(vlen);
}

rocksdb_slice_t rocksdb_iter_key_slice(const rocksdb_iterator_t* iter) {
  return IsValid(iter) ? ToSlice(iter->rep->key()) : rocksdb_slice_t{"", 0};
}

rocksdb_slice_t rocksdb_iter_value_slice(const rocksdb_iterator_t* iter) {
  return IsValid(iter) ? ToSlice(iter->rep->value()) : rocksdb_slice_t{"", 0};
}

// A key without a user timestamp has an empty one.
const char* rocksdb_iter_timestamp(const rocksdb_iterator_t* /*iter*/,
                                   size_t* tslen) {
  return ShowNothing(tslen);
}

rocksdb_slice_t rocksdb_iter_timestamp_slice(
    const rocksdb_iterator_t* /*iter*/) {
  return {"", 0};
}

void rocksdb_iter_get_error(const rocksdb_iterator_t* iter, char** errptr) {
  if (!Usable(errptr, Given{iter, "iter"})) return;
  Failed(errptr, iter->rep->status());
}

void rocksdb_iter_refresh(const rocksdb_iterator_t* iter, char** errptr) {
  if (!Usable(errptr, Given{iter, "iter"})) return;
  if (iter->shows_batch) {
    Failed(errptr, varve::Status::NotSupported("Refresh() is not supported"));
    return;
  }
  if (iter->db != nullptr) {
    // The program's iterator is const by the function's declaration only.
    varve::rocksdb_c::Renew(const_cast<rocksdb_iterator_t*>(iter));
  }
  Failed(errptr, iter->rep->status());
}

}  // extern "C"
