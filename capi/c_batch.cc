// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Write batches.

#include "capi/handles.h"

using varve::Slice;
using varve::capi::ToSlice;

namespace {

// Hands the updates to callbacks.
class Visitor final : public varve::WriteBatch::Handler {
 public:
  using OnPut = void (*)(void*, const char* k, size_t klen, const char* v,
                         size_t vlen);
  using OnKey = void (*)(void*, const char* k, size_t klen);

  Visitor(void* state, OnPut put, OnKey deleted)
      : state_(state), put_(put), deleted_(deleted) {}

  void Put(const Slice& key, const Slice& value) override {
    put_(state_, key.data(), key.size(), value.data(), value.size());
  }
  void Delete(const Slice& key) override {
    deleted_(state_, key.data(), key.size());
  }
  void DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) override {}

 private:
  void* const state_;
  const OnPut put_;
  const OnKey deleted_;
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

}  // extern "C"
