// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of indexed batches.

#include <memory>
#include <string>
#include <utility>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "capi/lifetime.h"
#include "capi/requests.h"

using varve::ColumnFamilyHandle;
using varve::PinnableSlice;
using varve::Slice;
using varve::Status;
using varve::WriteBatchWithIndex;
using varve::capi::Bytes;
using varve::capi::Check;
using varve::capi::Given;
using varve::capi::OwnFamily;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace {

// Methods that add an update of a key, and of a key and a value or the end of a
// range.
using OfKey = Status (WriteBatchWithIndex::*)(ColumnFamilyHandle*,
                                              const Slice&);
using OfTwo = Status (WriteBatchWithIndex::*)(ColumnFamilyHandle*, const Slice&,
                                              const Slice&);
constexpr OfTwo kPut = &WriteBatchWithIndex::Put;
constexpr OfTwo kMerge = &WriteBatchWithIndex::Merge;
constexpr OfTwo kDeleteRange = &WriteBatchWithIndex::DeleteRange;
constexpr OfKey kDelete = &WriteBatchWithIndex::Delete;
constexpr OfKey kSingleDelete = &WriteBatchWithIndex::SingleDelete;

Slice ToSlice(const Bytes& bytes) {
  return varve::capi::ToSlice(bytes.data, bytes.size);
}

// A column family of a database that is open.
struct OpenFamily {
  const varve_column_family_handle_t* family;
  static constexpr const char* name = "column_family";

  bool ok() const {
    return family != nullptr && family->db != varve::capi::ClosedDb();
  }
  const char* Problem() const {
    return family == nullptr ? "is NULL" : "is of a closed database";
  }
  // The handle that knows the family's comparator. REQUIRES: ok().
  ColumnFamilyHandle* rep() const {
    return family->rep != nullptr ? family->rep.get()
                                  : family->db->DefaultColumnFamily();
  }
};

// Adds an update.
template <typename Method, typename... Arguments>
void AddTo(varve_writebatch_wi_t* batch, ColumnFamilyHandle* family,
           Status status, Method method, const Arguments&... arguments) {
  if (status.ok()) status = Check(arguments...);
  if (status.ok())
    status = (batch->rep.get()->*method)(family, ToSlice(arguments)...);
  if (!status.ok() && batch->problem.ok()) batch->problem = std::move(status);
}

template <typename Method, typename... Arguments>
void Add(varve_writebatch_wi_t* batch, Method method,
         const Arguments&... arguments) {
  if (batch != nullptr) AddTo(batch, nullptr, Status(), method, arguments...);
}

template <typename Method, typename... Arguments>
void AddOf(varve_writebatch_wi_t* batch,
           const varve_column_family_handle_t* family, Method method,
           const Arguments&... arguments) {
  if (batch == nullptr) return;
  const OpenFamily open{family};
  AddTo(batch, open.ok() ? open.rep() : nullptr, Check(open), method,
        arguments...);
}

// Reads a key of the batch. A null family is the default one.
char* Get(varve_writebatch_wi_t* batch, ColumnFamilyHandle* family,
          const Bytes& key, size_t* vallen, char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  if (!Usable(errptr, Given{batch, "batch"}, key, Given{vallen, "vallen"})) {
    return nullptr;
  }
  std::string value;
  const Status status = batch->rep->GetFromBatch(family, varve::DBOptions(),
                                                 ToSlice(key), &value);
  return varve::capi::TakeValue(status, value, vallen, errptr);
}

// A read of a batch and a database. A null family is the default one.
struct Read {
  varve_writebatch_wi_t* batch;
  varve_t* db;
  const varve_readoptions_t* options;
  const varve_column_family_handle_t* family;
  Bytes key;

  bool CanRead(char** errptr) const {
    return Usable(errptr, Given{batch, "batch"}, Given{db, "db"},
                  Given{options, "options"}, key);
  }
  Status To(PinnableSlice* value) const {
    if (db->db == varve::capi::ClosedDb()) {
      return db->db->Get(options->rep, ToSlice(key), value);
    }
    return batch->rep->GetFromBatchAndDB(
        db->db, options->rep, family != nullptr ? family->rep.get() : nullptr,
        ToSlice(key), value);
  }
};

char* GetCopy(const Read& read, size_t* vallen, char** errptr) {
  if (vallen != nullptr) *vallen = 0;
  if (!read.CanRead(errptr) || !Usable(errptr, Given{vallen, "vallen"})) {
    return nullptr;
  }
  PinnableSlice value;
  const Status status = read.To(&value);
  return varve::capi::TakeValue(status, value, vallen, errptr);
}

varve_pinnableslice_t* GetPinned(const Read& read, char** errptr) {
  if (!read.CanRead(errptr)) return nullptr;
  auto value = std::make_unique<varve_pinnableslice_t>();
  const Status status = read.To(&value->rep);
  if (status.ok()) return value.release();
  if (!status.IsNotFound()) SaveError(errptr, status);
  return nullptr;
}

// Returns an iterator over the database and the batch. `status` is the result
// of checking the arguments.
varve_iterator_t* NewIterator(varve_writebatch_wi_t* batch, varve_t* db,
                              const varve_readoptions_t* options,
                              const varve_column_family_handle_t* family,
                              Status status) {
  auto* const iterator = new varve_iterator_t;
  varve::ReadOptions read;
  if (status.ok()) {
    status = varve::capi::KeepBounds(*options, &iterator->bounds, &read);
  }
  if (!status.ok()) {
    iterator->rep = varve::NewErrorIterator(status);
    return iterator;
  }
  ColumnFamilyHandle* const handle = family != nullptr && family->rep != nullptr
                                         ? family->rep.get()
                                         : db->db->DefaultColumnFamily();
  // As in transactions.
  if (!read.prefix_same_as_start && !read.auto_prefix_mode) {
    read.total_order_seek = true;
  }
  std::unique_ptr<varve::Iterator> base = db->db->NewIterator(read, handle);
  // An iterator that could not be created does not keep the database open.
  if (base->status().ok()) {
    iterator->owner = varve::capi::OwnerOf(db);
    iterator->updates = batch->rep;
    base = batch->rep->NewIteratorWithBase(handle, std::move(base), &read);
  }
  iterator->rep = std::move(base);
  return iterator;
}

}  // namespace

extern "C" {

// ---- Batches ----------------------------------------------------------------

varve_writebatch_wi_t* varve_writebatch_wi_create(
    const varve_comparator_t* comparator, size_t reserved_bytes,
    uint8_t overwrite_key, size_t max_bytes) {
  if (reserved_bytes > varve::capi::kMaxLength) return nullptr;
  const varve::Comparator* const order =
      comparator != nullptr ? comparator : varve::BytewiseComparator();
  return new varve_writebatch_wi_t{
      std::make_shared<WriteBatchWithIndex>(order, reserved_bytes,
                                            overwrite_key != 0, max_bytes),
      Status()};
}

void varve_writebatch_wi_destroy(varve_writebatch_wi_t* batch) { delete batch; }

void varve_writebatch_wi_clear(varve_writebatch_wi_t* batch) {
  if (batch == nullptr) return;
  batch->rep->Clear();
  batch->problem = Status();
}

int varve_writebatch_wi_count(varve_writebatch_wi_t* batch) {
  if (batch == nullptr) return 0;
  return static_cast<int>(batch->rep->GetWriteBatch()->Count());
}

const char* varve_writebatch_wi_data(varve_writebatch_wi_t* batch,
                                     size_t* size) {
  if (size != nullptr) *size = 0;
  if (batch == nullptr || size == nullptr) return nullptr;
  const std::string& data = batch->rep->GetWriteBatch()->Data();
  *size = data.size();
  return data.c_str();
}

void varve_writebatch_wi_set_save_point(varve_writebatch_wi_t* batch) {
  if (batch != nullptr) batch->rep->SetSavePoint();
}

void varve_writebatch_wi_rollback_to_save_point(varve_writebatch_wi_t* batch,
                                                char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"})) return;
  SaveError(errptr, batch->rep->RollbackToSavePoint());
}

void varve_write_writebatch_wi(varve_t* db, const varve_writeoptions_t* options,
                               varve_writebatch_wi_t* wbwi, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Given{wbwi, "wbwi"}) ||
      SaveError(errptr, wbwi->problem)) {
    return;
  }
  SaveError(errptr, db->db->Write(options->rep, wbwi->rep->GetWriteBatch()));
}

// ---- Updates ----------------------------------------------------------------

void varve_writebatch_wi_put(varve_writebatch_wi_t* batch, const char* key,
                             size_t klen, const char* val, size_t vlen) {
  Add(batch, kPut, Bytes{key, klen, "key"}, Bytes{val, vlen, "val"});
}

void varve_writebatch_wi_put_cf(varve_writebatch_wi_t* batch,
                                varve_column_family_handle_t* column_family,
                                const char* key, size_t klen, const char* val,
                                size_t vlen) {
  AddOf(batch, column_family, kPut, Bytes{key, klen, "key"},
        Bytes{val, vlen, "val"});
}

void varve_writebatch_wi_merge(varve_writebatch_wi_t* batch, const char* key,
                               size_t klen, const char* val, size_t vlen) {
  Add(batch, kMerge, Bytes{key, klen, "key"}, Bytes{val, vlen, "val"});
}

void varve_writebatch_wi_merge_cf(varve_writebatch_wi_t* batch,
                                  varve_column_family_handle_t* column_family,
                                  const char* key, size_t klen, const char* val,
                                  size_t vlen) {
  AddOf(batch, column_family, kMerge, Bytes{key, klen, "key"},
        Bytes{val, vlen, "val"});
}

void varve_writebatch_wi_delete(varve_writebatch_wi_t* batch, const char* key,
                                size_t klen) {
  Add(batch, kDelete, Bytes{key, klen, "key"});
}

void varve_writebatch_wi_delete_cf(varve_writebatch_wi_t* batch,
                                   varve_column_family_handle_t* column_family,
                                   const char* key, size_t klen) {
  AddOf(batch, column_family, kDelete, Bytes{key, klen, "key"});
}

void varve_writebatch_wi_singledelete(varve_writebatch_wi_t* batch,
                                      const char* key, size_t klen) {
  Add(batch, kSingleDelete, Bytes{key, klen, "key"});
}

void varve_writebatch_wi_singledelete_cf(
    varve_writebatch_wi_t* batch, varve_column_family_handle_t* column_family,
    const char* key, size_t klen) {
  AddOf(batch, column_family, kSingleDelete, Bytes{key, klen, "key"});
}

void varve_writebatch_wi_delete_range(varve_writebatch_wi_t* batch,
                                      const char* start_key,
                                      size_t start_key_len, const char* end_key,
                                      size_t end_key_len) {
  Add(batch, kDeleteRange, Bytes{start_key, start_key_len, "start_key"},
      Bytes{end_key, end_key_len, "end_key"});
}

void varve_writebatch_wi_delete_range_cf(
    varve_writebatch_wi_t* batch, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len) {
  AddOf(batch, column_family, kDeleteRange,
        Bytes{start_key, start_key_len, "start_key"},
        Bytes{end_key, end_key_len, "end_key"});
}

void varve_writebatch_wi_put_log_data(varve_writebatch_wi_t* batch,
                                      const char* blob, size_t len) {
  if (batch == nullptr) return;
  const Bytes bytes{blob, len, "blob"};
  Status status = Check(bytes);
  if (status.ok()) status = batch->rep->PutLogData(ToSlice(bytes));
  if (!status.ok() && batch->problem.ok()) batch->problem = std::move(status);
}

// ---- Reads ------------------------------------------------------------------

char* varve_writebatch_wi_get_from_batch(varve_writebatch_wi_t* batch,
                                         const char* key, size_t keylen,
                                         size_t* vallen, char** errptr) {
  return Get(batch, nullptr, {key, keylen, "key"}, vallen, errptr);
}

char* varve_writebatch_wi_get_from_batch_cf(
    varve_writebatch_wi_t* batch, varve_column_family_handle_t* column_family,
    const char* key, size_t keylen, size_t* vallen, char** errptr) {
  const OpenFamily open{column_family};
  if (!Usable(errptr, open)) {
    if (vallen != nullptr) *vallen = 0;
    return nullptr;
  }
  return Get(batch, open.rep(), {key, keylen, "key"}, vallen, errptr);
}

char* varve_writebatch_wi_get_from_batch_and_db(
    varve_writebatch_wi_t* batch, varve_t* db,
    const varve_readoptions_t* options, const char* key, size_t keylen,
    size_t* vallen, char** errptr) {
  return GetCopy({batch, db, options, nullptr, {key, keylen, "key"}}, vallen,
                 errptr);
}

char* varve_writebatch_wi_get_from_batch_and_db_cf(
    varve_writebatch_wi_t* batch, varve_t* db,
    const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    size_t* vallen, char** errptr) {
  if (!Usable(errptr, OwnFamily{column_family, db})) {
    if (vallen != nullptr) *vallen = 0;
    return nullptr;
  }
  return GetCopy({batch, db, options, column_family, {key, keylen, "key"}},
                 vallen, errptr);
}

varve_pinnableslice_t* varve_writebatch_wi_get_pinned_from_batch_and_db(
    varve_writebatch_wi_t* batch, varve_t* db,
    const varve_readoptions_t* options, const char* key, size_t keylen,
    char** errptr) {
  return GetPinned({batch, db, options, nullptr, {key, keylen, "key"}}, errptr);
}

varve_pinnableslice_t* varve_writebatch_wi_get_pinned_from_batch_and_db_cf(
    varve_writebatch_wi_t* batch, varve_t* db,
    const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family, const char* key, size_t keylen,
    char** errptr) {
  if (!Usable(errptr, OwnFamily{column_family, db})) return nullptr;
  return GetPinned({batch, db, options, column_family, {key, keylen, "key"}},
                   errptr);
}

varve_iterator_t* varve_writebatch_wi_create_iterator(
    varve_writebatch_wi_t* batch, varve_t* db,
    const varve_readoptions_t* options) {
  return NewIterator(
      batch, db, options, nullptr,
      Check(Given{batch, "batch"}, Given{db, "db"}, Given{options, "options"}));
}

varve_iterator_t* varve_writebatch_wi_create_iterator_cf(
    varve_writebatch_wi_t* batch, varve_t* db,
    const varve_readoptions_t* options,
    varve_column_family_handle_t* column_family) {
  return NewIterator(
      batch, db, options, column_family,
      Check(Given{batch, "batch"}, Given{db, "db"}, Given{options, "options"},
            OwnFamily{column_family, db}));
}

}  // extern "C"
