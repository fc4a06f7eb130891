// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_predecessor.h"

#include "util/bytes/coding.h"

namespace varve {

namespace {

constexpr char kPrefix[] = "varve.wal.predecessor:";

}  // namespace

void WalPredecessor::EncodeTo(WriteBatch* batch) const {
  std::string note = kPrefix;
  PutFixed64(&note, number);
  PutFixed64(&note, size);
  PutFixed64(&note, log);
  batch->Clear();
  batch->PutLogData(note);
}

std::optional<WalPredecessor> WalPredecessor::Decode(const Slice& record) {
  BatchReader reader;
  BatchRecord first;
  bool done = false;
  if (!reader.Init(record).ok() || reader.count() != 0 ||
      !reader.Next(&first, &done).ok() || done || !first.is_log_data ||
      !first.key.starts_with(kPrefix)) {
    return std::nullopt;
  }
  Slice fields = first.key;
  fields.remove_prefix(Slice(kPrefix).size());
  WalPredecessor result;
  if (!GetFixed64(&fields, &result.number) ||
      !GetFixed64(&fields, &result.size)) {
    return std::nullopt;
  }
  if (!GetFixed64(&fields, &result.log)) result.log = 0;
  return result;
}

}  // namespace varve
