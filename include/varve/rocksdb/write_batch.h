// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's WriteBatch; see varve/rocksdb.h.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "varve/rocksdb/names.h"
#include "varve/write_batch.h"

namespace VARVE_ROCKSDB_NAMESPACE {

// OK, as a result that a program may ignore.
struct AlwaysOk : Status {};

// DB::Write checks the batch.
class WriteBatch : public varve::WriteBatch {
 public:
  // Its functions do nothing, and DeleteRangeCF is an error, until they are
  // overridden.
  class Handler : public varve::WriteBatch::Handler {
   public:
    void Put(const Slice& /*key*/, const Slice& /*value*/) override {}
    void Delete(const Slice& /*key*/) override {}
    void SingleDelete(const Slice& /*key*/) override {}
    void DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) override {}
    Status DeleteRangeCF(uint32_t /*family*/, const Slice& /*begin*/,
                         const Slice& /*end*/) override {
      return Status::InvalidArgument("the handler has no DeleteRangeCF");
    }
  };

  explicit WriteBatch(size_t /*reserved_bytes*/ = 0, size_t /*max_bytes*/ = 0) {
  }
  explicit WriteBatch(std::string representation)
      : varve::WriteBatch(std::move(representation)) {}

  AlwaysOk Put(const Slice& key, const Slice& value) {
    varve::WriteBatch::Put(key, value);
    return {};
  }
  AlwaysOk Put(ColumnFamilyHandle* family, const Slice& key,
               const Slice& value) {
    varve::WriteBatch::Put(family, key, value);
    return {};
  }
  AlwaysOk Delete(const Slice& key) {
    varve::WriteBatch::Delete(key);
    return {};
  }
  AlwaysOk Delete(ColumnFamilyHandle* family, const Slice& key) {
    varve::WriteBatch::Delete(family, key);
    return {};
  }
  AlwaysOk SingleDelete(const Slice& key) {
    varve::WriteBatch::SingleDelete(key);
    return {};
  }
  AlwaysOk SingleDelete(ColumnFamilyHandle* family, const Slice& key) {
    varve::WriteBatch::SingleDelete(family, key);
    return {};
  }
  AlwaysOk Merge(const Slice& key, const Slice& operand) {
    varve::WriteBatch::Merge(key, operand);
    return {};
  }
  AlwaysOk Merge(ColumnFamilyHandle* family, const Slice& key,
                 const Slice& operand) {
    varve::WriteBatch::Merge(family, key, operand);
    return {};
  }
  AlwaysOk DeleteRange(const Slice& begin, const Slice& end) {
    varve::WriteBatch::DeleteRange(begin, end);
    return {};
  }
  AlwaysOk DeleteRange(ColumnFamilyHandle* family, const Slice& begin,
                       const Slice& end) {
    varve::WriteBatch::DeleteRange(family, begin, end);
    return {};
  }
  AlwaysOk PutLogData(const Slice& blob) {
    varve::WriteBatch::PutLogData(blob);
    return {};
  }
  size_t GetDataSize() const { return ApproximateSize(); }
};

}  // namespace VARVE_ROCKSDB_NAMESPACE
