// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of write batches.

#include <algorithm>
#include <climits>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "util/bytes/coding.h"

using varve::Slice;
using varve::Status;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::ToUpdate;
using varve::capi::Usable;

namespace {

// The error of functions that have no callback for merges.
Status NoMerges() {
  return Status::NotSupported(
      "the batch has merges: see varve_writebatch_iterate_updates_cf");
}

// Passes the updates to callbacks, each of which may be null.
struct Visitor final : varve::WriteBatch::Handler {
  using OnKey = void (*)(void*, const char* k, size_t klen);
  using OnTwo = void (*)(void*, const char* a, size_t alen, const char* b,
                         size_t blen);

  Visitor(void* callers_state, OnTwo on_put, OnKey on_deleted)
      : state(callers_state),
        put(on_put),
        deleted(on_deleted),
        single_deleted(on_deleted) {}

  void Put(const Slice& key, const Slice& value) override {
    Call(put, key, value);
  }
  void Delete(const Slice& key) override { Call(deleted, key); }
  void SingleDelete(const Slice& key) override { Call(single_deleted, key); }
  void DeleteRange(const Slice& begin, const Slice& end) override {
    Call(range_deleted, begin, end);
  }
  Status MergeCF(uint32_t family, const Slice& key,
                 const Slice& operand) override {
    if (family != 0) return Handler::MergeCF(family, key, operand);
    return refuses_merges ? NoMerges() : Status::OK();
  }
  void LogData(const Slice& blob) override { Call(log_data, blob); }

  void Call(OnKey callback, const Slice& key) const {
    if (callback != nullptr) callback(state, key.data(), key.size());
  }
  void Call(OnTwo callback, const Slice& a, const Slice& b) const {
    if (callback == nullptr) return;
    callback(state, a.data(), a.size(), b.data(), b.size());
  }

  void* const state;
  const OnTwo put;
  const OnKey deleted;
  OnKey single_deleted;
  OnTwo range_deleted = nullptr;
  OnKey log_data = nullptr;
  bool refuses_merges = false;
};

// Passes the updates of all families to callbacks, each of which may be null.
struct FamilyVisitor final : varve::WriteBatch::Handler {
  using OnKey = void (*)(void*, uint32_t cfid, const char* k, size_t klen);
  using OnTwo = void (*)(void*, uint32_t cfid, const char* a, size_t alen,
                         const char* b, size_t blen);
  using OnBlob = void (*)(void*, const char* blob, size_t len);

  FamilyVisitor(void* callers_state, OnTwo on_put, OnKey on_deleted)
      : state(callers_state),
        put(on_put),
        deleted(on_deleted),
        single_deleted(on_deleted) {}

  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    return Call(put, family, key, value);
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    return Call(deleted, family, key);
  }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override {
    return Call(single_deleted, family, key);
  }
  Status DeleteRangeCF(uint32_t family, const Slice& begin,
                       const Slice& end) override {
    return Call(range_deleted, family, begin, end);
  }
  Status MergeCF(uint32_t family, const Slice& key,
                 const Slice& operand) override {
    if (refuses_merges) return NoMerges();
    return Call(merge, family, key, operand);
  }
  void LogData(const Slice& blob) override {
    if (log_data != nullptr) log_data(state, blob.data(), blob.size());
  }
  // Those above are called in their place.
  void Put(const Slice& /*key*/, const Slice& /*value*/) override {}
  void Delete(const Slice& /*key*/) override {}
  void DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) override {}

  Status Call(OnKey callback, uint32_t family, const Slice& key) const {
    if (callback != nullptr) callback(state, family, key.data(), key.size());
    return Status::OK();
  }
  Status Call(OnTwo callback, uint32_t family, const Slice& a,
              const Slice& b) const {
    if (callback != nullptr) {
      callback(state, family, a.data(), a.size(), b.data(), b.size());
    }
    return Status::OK();
  }

  void* const state;
  const OnTwo put;
  const OnKey deleted;
  OnKey single_deleted;
  OnTwo range_deleted = nullptr;
  OnTwo merge = nullptr;
  OnBlob log_data = nullptr;
  bool refuses_merges = false;
};

// Makes DB::Write refuse the batch.
void Spoil(varve_writebatch_t* batch) {
  batch->rep.PutLogData(ToUpdate(nullptr, 1));
}

// Returns whether the batch can take an update of the family. If the handle is
// unusable, spoils the batch: the call cannot return an error.
bool CanAdd(varve_writebatch_t* batch,
            const varve_column_family_handle_t* family) {
  if (batch == nullptr) return false;
  if (family != nullptr && family->handle != nullptr) return true;
  Spoil(batch);
  return false;
}

// Returns the handle of the DB. CanAdd was true.
varve::ColumnFamilyHandle* HandleOf(
    const varve_column_family_handle_t* family) {
  return family->rep != nullptr ? family->rep.get()
                                : family->db->DefaultColumnFamily();
}

}  // namespace

extern "C" {

varve_writebatch_t* varve_writebatch_create(void) {
  return new varve_writebatch_t;
}

void varve_writebatch_destroy(varve_writebatch_t* batch) { delete batch; }

void varve_writebatch_clear(varve_writebatch_t* batch) {
  if (batch != nullptr) batch->rep.Clear();
}

void varve_writebatch_put(varve_writebatch_t* batch, const char* key,
                          size_t klen, const char* val, size_t vlen) {
  if (batch == nullptr) return;
  batch->rep.Put(ToUpdate(key, klen), ToUpdate(val, vlen));
}

void varve_writebatch_delete(varve_writebatch_t* batch, const char* key,
                             size_t klen) {
  if (batch != nullptr) batch->rep.Delete(ToUpdate(key, klen));
}

void varve_writebatch_iterate(const varve_writebatch_t* batch, void* state,
                              void (*put)(void*, const char* k, size_t klen,
                                          const char* v, size_t vlen),
                              void (*deleted)(void*, const char* k,
                                              size_t klen)) {
  if (batch == nullptr) return;
  Visitor visitor(state, put, deleted);
  // A damaged batch, created from bytes, is rejected when it is written.
  batch->rep.Iterate(&visitor).IgnoreError();
}

void varve_writebatch_append(varve_writebatch_t* destination,
                             const varve_writebatch_t* source) {
  if (destination == nullptr || source == nullptr) return;
  destination->rep.Append(source->rep);
}

varve_writebatch_t* varve_writebatch_create_from(const char* rep, size_t size) {
  if (!Usable(nullptr, Bytes{rep, size, "rep"})) {
    auto* const batch = new varve_writebatch_t;
    Spoil(batch);
    return batch;
  }
  return new varve_writebatch_t{
      varve::WriteBatch(ToSlice(rep, size).ToString())};
}

const char* varve_writebatch_data(const varve_writebatch_t* batch,
                                  size_t* size) {
  if (size != nullptr) *size = batch != nullptr ? batch->rep.Data().size() : 0;
  return batch != nullptr ? batch->rep.Data().data() : nullptr;
}

int varve_writebatch_count(const varve_writebatch_t* batch) {
  if (batch == nullptr) return 0;
  return static_cast<int>(std::min(batch->rep.Count(), uint32_t{INT_MAX}));
}

void varve_writebatch_singledelete(varve_writebatch_t* batch, const char* key,
                                   size_t klen) {
  if (batch != nullptr) batch->rep.SingleDelete(ToUpdate(key, klen));
}

void varve_writebatch_delete_range(varve_writebatch_t* batch,
                                   const char* start_key, size_t start_key_len,
                                   const char* end_key, size_t end_key_len) {
  if (batch == nullptr) return;
  batch->rep.DeleteRange(ToUpdate(start_key, start_key_len),
                         ToUpdate(end_key, end_key_len));
}

void varve_writebatch_put_log_data(varve_writebatch_t* batch, const char* blob,
                                   size_t len) {
  if (batch != nullptr) batch->rep.PutLogData(ToUpdate(blob, len));
}

void varve_writebatch_put_entries(varve_writebatch_t* batch,
                                  const char* entries, size_t size,
                                  char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"}, Bytes{entries, size, "entries"})) {
    return;
  }
  Slice rest = ToSlice(entries, size);
  varve::WriteBatch added;
  while (!rest.empty()) {
    uint32_t key_size;
    uint32_t value_size;
    if (!varve::GetFixed32(&rest, &key_size) ||
        !varve::GetFixed32(&rest, &value_size) ||
        rest.size() < uint64_t{key_size} + value_size) {
      SaveError(errptr, varve::Status::Corruption("the last entry is cut off"));
      return;
    }
    added.Put(Slice(rest.data(), key_size),
              Slice(rest.data() + key_size, value_size));
    rest.remove_prefix(size_t{key_size} + value_size);
  }
  batch->rep.Append(added);
}

void varve_writebatch_iterate_all(
    const varve_writebatch_t* batch, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen),
    void (*single_deleted)(void*, const char* k, size_t klen),
    void (*range_deleted)(void*, const char* begin, size_t begin_len,
                          const char* end, size_t end_len),
    void (*log_data)(void*, const char* blob, size_t len), char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"})) return;
  Visitor visitor(state, put, deleted);
  visitor.single_deleted = single_deleted;
  visitor.range_deleted = range_deleted;
  visitor.log_data = log_data;
  visitor.refuses_merges = true;
  SaveError(errptr, batch->rep.Iterate(&visitor));
}

// ---- Column families --------------------------------------------------------

void varve_writebatch_put_cf(varve_writebatch_t* batch,
                             varve_column_family_handle_t* column_family,
                             const char* key, size_t klen, const char* val,
                             size_t vlen) {
  if (!CanAdd(batch, column_family)) return;
  batch->rep.Put(HandleOf(column_family), ToUpdate(key, klen),
                 ToUpdate(val, vlen));
}

void varve_writebatch_delete_cf(varve_writebatch_t* batch,
                                varve_column_family_handle_t* column_family,
                                const char* key, size_t klen) {
  if (!CanAdd(batch, column_family)) return;
  batch->rep.Delete(HandleOf(column_family), ToUpdate(key, klen));
}

void varve_writebatch_singledelete_cf(
    varve_writebatch_t* batch, varve_column_family_handle_t* column_family,
    const char* key, size_t klen) {
  if (!CanAdd(batch, column_family)) return;
  batch->rep.SingleDelete(HandleOf(column_family), ToUpdate(key, klen));
}

void varve_writebatch_delete_range_cf(
    varve_writebatch_t* batch, varve_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* end_key,
    size_t end_key_len) {
  if (!CanAdd(batch, column_family)) return;
  batch->rep.DeleteRange(HandleOf(column_family),
                         ToUpdate(start_key, start_key_len),
                         ToUpdate(end_key, end_key_len));
}

void varve_writebatch_iterate_cf(
    varve_writebatch_t* batch, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*merge_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                     const char* v, size_t vlen)) {
  if (batch == nullptr) return;
  FamilyVisitor visitor(state, put_cf, deleted_cf);
  visitor.merge = merge_cf;
  // As in varve_writebatch_iterate.
  batch->rep.Iterate(&visitor).IgnoreError();
}

void varve_writebatch_iterate_all_cf(
    const varve_writebatch_t* batch, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*single_deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*range_deleted_cf)(void*, uint32_t cfid, const char* begin,
                             size_t begin_len, const char* end, size_t end_len),
    void (*log_data)(void*, const char* blob, size_t len), char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"})) return;
  FamilyVisitor visitor(state, put_cf, deleted_cf);
  visitor.single_deleted = single_deleted_cf;
  visitor.range_deleted = range_deleted_cf;
  visitor.log_data = log_data;
  visitor.refuses_merges = true;
  SaveError(errptr, batch->rep.Iterate(&visitor));
}

// ---- Merges -----------------------------------------------------------------

void varve_writebatch_merge(varve_writebatch_t* batch, const char* key,
                            size_t klen, const char* val, size_t vlen) {
  if (batch == nullptr) return;
  batch->rep.Merge(ToUpdate(key, klen), ToUpdate(val, vlen));
}

void varve_writebatch_merge_cf(varve_writebatch_t* batch,
                               varve_column_family_handle_t* column_family,
                               const char* key, size_t klen, const char* val,
                               size_t vlen) {
  if (!CanAdd(batch, column_family)) return;
  batch->rep.Merge(HandleOf(column_family), ToUpdate(key, klen),
                   ToUpdate(val, vlen));
}

void varve_writebatch_iterate_updates_cf(
    const varve_writebatch_t* batch, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*single_deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*range_deleted_cf)(void*, uint32_t cfid, const char* begin,
                             size_t begin_len, const char* end, size_t end_len),
    void (*merge_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                     const char* v, size_t vlen),
    void (*log_data)(void*, const char* blob, size_t len), char** errptr) {
  if (!Usable(errptr, Given{batch, "batch"})) return;
  FamilyVisitor visitor(state, put_cf, deleted_cf);
  visitor.single_deleted = single_deleted_cf;
  visitor.range_deleted = range_deleted_cf;
  visitor.merge = merge_cf;
  visitor.log_data = log_data;
  SaveError(errptr, batch->rep.Iterate(&visitor));
}

}  // extern "C"
