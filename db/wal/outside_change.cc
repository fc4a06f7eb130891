// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/outside_change.h"

#include <string>
#include <utility>

#include "db/write/write_batch_internal.h"
#include "util/bytes/coding.h"

namespace varve {

namespace {

constexpr char kPrefix[] = "varve.wal.outside:";

}  // namespace

void OutsideChange::EncodeTo(WriteBatch* batch) const {
  std::string note = kPrefix;
  note.push_back(static_cast<char>(kind));
  PutFixed64(&note, first);
  PutFixed64(&note, last);
  for (const TransactionLogGap::File& file : files) {
    PutVarint32(&note, file.column_family_id);
    PutLengthPrefixedSlice(&note, file.name);
    PutLengthPrefixedSlice(&note, file.external_path);
  }
  batch->Clear();
  batch->PutLogData(note);
}

std::optional<OutsideChange> OutsideChange::Decode(const Slice& log_data) {
  Slice fields = log_data;
  if (!fields.starts_with(kPrefix)) return std::nullopt;
  fields.remove_prefix(Slice(kPrefix).size());
  if (fields.empty()) return std::nullopt;
  OutsideChange change;
  const auto kind = static_cast<uint8_t>(fields[0]);
  if (kind != static_cast<uint8_t>(TransactionLogGap::Kind::kIngested) &&
      kind != static_cast<uint8_t>(TransactionLogGap::Kind::kRemoved)) {
    return std::nullopt;
  }
  change.kind = static_cast<TransactionLogGap::Kind>(kind);
  fields.remove_prefix(1);
  if (!GetFixed64(&fields, &change.first) ||
      !GetFixed64(&fields, &change.last) || change.first > change.last) {
    return std::nullopt;
  }
  while (!fields.empty()) {
    TransactionLogGap::File file;
    Slice name;
    Slice external_path;
    if (!GetVarint32(&fields, &file.column_family_id) ||
        !GetLengthPrefixedSlice(&fields, &name) ||
        !GetLengthPrefixedSlice(&fields, &external_path)) {
      return std::nullopt;
    }
    file.name = name.ToString();
    file.external_path = external_path.ToString();
    change.files.push_back(std::move(file));
  }
  return change;
}

}  // namespace varve
