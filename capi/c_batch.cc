// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Write batches.

#include "capi/handles.h"
#include "util/coding.h"

using varve::Slice;
using varve::capi::SaveError;
using varve::capi::ToSlice;

namespace {

// Hands the updates to callbacks, each of which may be null.
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
};

}  // namespace

extern "C" {

varve_writebatch_t* varve_writebatch_create(void) {
  return new varve_writebatch_t;
}

void varve_writebatch_destroy(varve_writebatch_t* batch) { delete batch; }

void varve_writebatch_clear(varve_writebatch_t* batch) { batch->rep.Clear(); }

void varve_writebatch_put(varve_writebatch_t* batch, const char* key,
                          size_t klen, const char* val, size_t vlen) {
  batch->rep.Put(ToSlice(key, klen), ToSlice(val, vlen));
}

void varve_writebatch_delete(varve_writebatch_t* batch, const char* key,
                             size_t klen) {
  batch->rep.Delete(ToSlice(key, klen));
}

void varve_writebatch_iterate(const varve_writebatch_t* batch, void* state,
                              void (*put)(void*, const char* k, size_t klen,
                                          const char* v, size_t vlen),
                              void (*deleted)(void*, const char* k,
                                              size_t klen)) {
  Visitor visitor(state, put, deleted);
  // A damaged one, made of bytes, is refused when it is written.
  batch->rep.Iterate(&visitor).IgnoreError();
}

void varve_writebatch_append(varve_writebatch_t* destination,
                             const varve_writebatch_t* source) {
  destination->rep.Append(source->rep);
}

varve_writebatch_t* varve_writebatch_create_from(const char* rep, size_t size) {
  return new varve_writebatch_t{
      varve::WriteBatch(ToSlice(rep, size).ToString())};
}

const char* varve_writebatch_data(const varve_writebatch_t* batch,
                                  size_t* size) {
  *size = batch->rep.Data().size();
  return batch->rep.Data().data();
}

int varve_writebatch_count(const varve_writebatch_t* batch) {
  return static_cast<int>(batch->rep.Count());
}

void varve_writebatch_singledelete(varve_writebatch_t* batch, const char* key,
                                   size_t klen) {
  batch->rep.SingleDelete(ToSlice(key, klen));
}

void varve_writebatch_delete_range(varve_writebatch_t* batch,
                                   const char* start_key, size_t start_key_len,
                                   const char* end_key, size_t end_key_len) {
  batch->rep.DeleteRange(ToSlice(start_key, start_key_len),
                         ToSlice(end_key, end_key_len));
}

void varve_writebatch_put_log_data(varve_writebatch_t* batch, const char* blob,
                                   size_t len) {
  batch->rep.PutLogData(ToSlice(blob, len));
}

void varve_writebatch_put_entries(varve_writebatch_t* batch,
                                  const char* entries, size_t size,
                                  char** errptr) {
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
  Visitor visitor(state, put, deleted);
  visitor.single_deleted = single_deleted;
  visitor.range_deleted = range_deleted;
  visitor.log_data = log_data;
  SaveError(errptr, batch->rep.Iterate(&visitor));
}

}  // extern "C"
