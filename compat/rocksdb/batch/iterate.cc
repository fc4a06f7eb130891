// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Iteration over a batch's updates. These calls report no errors. As with
// RocksDB, an iteration ends at the first update that has no callback: a range
// deletion, an update of another column family in the calls without families,
// and in the calls with families a single deletion of another family. Merge
// operands and single deletions of the default family are skipped if they have
// no callback.

#include <rocksdb/c.h>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/batch/write_batch.h"
#include "varve/status.h"

namespace {

using varve::Slice;
using varve::Status;

using PutFunction = void (*)(void*, const char* k, size_t klen, const char* v,
                             size_t vlen);
using DeleteFunction = void (*)(void*, const char* k, size_t klen);
using PutFamilyFunction = void (*)(void*, uint32_t cfid, const char* k,
                                   size_t klen, const char* v, size_t vlen);
using DeleteFamilyFunction = void (*)(void*, uint32_t cfid, const char* k,
                                      size_t klen);
using LogDataFunction = void (*)(void*, const char* blob, size_t blob_len);

class Handler : public varve::WriteBatch::Handler {
 public:
  Handler(void* state, LogDataFunction log_data)
      : state_(state), log_data_(log_data) {}

  void Put(const Slice& /*key*/, const Slice& /*value*/) override {}
  void Delete(const Slice& /*key*/) override {}
  void SingleDelete(const Slice& /*key*/) override {}
  void DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) override {}
  Status DeleteRangeCF(uint32_t /*family*/, const Slice& /*begin*/,
                       const Slice& /*end*/) override {
    return Status::InvalidArgument("no callback for range deletions");
  }
  void LogData(const Slice& blob) override {
    if (log_data_ != nullptr) log_data_(state_, blob.data(), blob.size());
  }

 protected:
  void* const state_;

 private:
  const LogDataFunction log_data_;
};

class DefaultFamilyHandler final : public Handler {
 public:
  DefaultFamilyHandler(void* state, PutFunction put, DeleteFunction deleted,
                       LogDataFunction log_data)
      : Handler(state, log_data), put_(put), deleted_(deleted) {}

  void Put(const Slice& key, const Slice& value) override {
    if (put_ == nullptr) return;
    put_(state_, key.data(), key.size(), value.data(), value.size());
  }
  void Delete(const Slice& key) override {
    if (deleted_ != nullptr) deleted_(state_, key.data(), key.size());
  }

 private:
  const PutFunction put_;
  const DeleteFunction deleted_;
};

class FamiliesHandler final : public Handler {
 public:
  FamiliesHandler(void* state, PutFamilyFunction put,
                  DeleteFamilyFunction deleted, PutFamilyFunction merge,
                  LogDataFunction log_data)
      : Handler(state, log_data), put_(put), deleted_(deleted), merge_(merge) {}

  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    if (put_ != nullptr) {
      put_(state_, family, key.data(), key.size(), value.data(), value.size());
    }
    return Status::OK();
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    if (deleted_ != nullptr) deleted_(state_, family, key.data(), key.size());
    return Status::OK();
  }
  Status MergeCF(uint32_t family, const Slice& key,
                 const Slice& operand) override {
    if (merge_ != nullptr) {
      merge_(state_, family, key.data(), key.size(), operand.data(),
             operand.size());
    }
    return Status::OK();
  }

 private:
  const PutFamilyFunction put_;
  const DeleteFamilyFunction deleted_;
  const PutFamilyFunction merge_;
};

void Iterate(const rocksdb_writebatch_t* batch, Handler* handler) {
  if (batch == nullptr) return;
  batch->rep.Iterate(handler).IgnoreError();  // The calls report none.
}

}  // namespace

extern "C" {

void rocksdb_writebatch_iterate(rocksdb_writebatch_t* batch, void* state,
                                void (*put)(void*, const char* k, size_t klen,
                                            const char* v, size_t vlen),
                                void (*deleted)(void*, const char* k,
                                                size_t klen)) {
  rocksdb_writebatch_iterate_ld(batch, state, put, deleted, nullptr);
}

void rocksdb_writebatch_iterate_ld(
    rocksdb_writebatch_t* batch, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen),
    void (*log_data)(void*, const char* blob, size_t blob_len)) {
  DefaultFamilyHandler handler(state, put, deleted, log_data);
  Iterate(batch, &handler);
}

void rocksdb_writebatch_iterate_cf(
    rocksdb_writebatch_t* batch, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*merge_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                     const char* v, size_t vlen)) {
  rocksdb_writebatch_iterate_cf_ld(batch, state, put_cf, deleted_cf, merge_cf,
                                   nullptr);
}

void rocksdb_writebatch_iterate_cf_ld(
    rocksdb_writebatch_t* batch, void* state,
    void (*put_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                   const char* v, size_t vlen),
    void (*deleted_cf)(void*, uint32_t cfid, const char* k, size_t klen),
    void (*merge_cf)(void*, uint32_t cfid, const char* k, size_t klen,
                     const char* v, size_t vlen),
    void (*log_data)(void*, const char* blob, size_t blob_len)) {
  FamiliesHandler handler(state, put_cf, deleted_cf, merge_cf, log_data);
  Iterate(batch, &handler);
}

void rocksdb_writebatch_wi_iterate(
    rocksdb_writebatch_wi_t* b, void* state,
    void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
    void (*deleted)(void*, const char* k, size_t klen)) {
  if (b == nullptr) return;
  DefaultFamilyHandler handler(state, put, deleted, nullptr);
  b->rep->GetWriteBatch()->Iterate(&handler).IgnoreError();
}

}  // extern "C"
