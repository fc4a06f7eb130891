// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/folding/key_case.h"

#include "db/write/write_batch_internal.h"

namespace varve {

namespace {

// On disk: what it names never changes.
constexpr char kCaseFoldNfc[] = "casefold-nfc";

}  // namespace

KeyFolding KeyFoldingOf(const Options& options) {
  if (options.key_case == KeyCase::kSensitive) return KeyFolding::kNone;
  return IsProduction(options.ablation.key_case) ? KeyFolding::kAsciiFirst
                                                 : KeyFolding::kUnicode;
}

std::string KeyFoldingName(KeyCase key_case) {
  return key_case == KeyCase::kInsensitive ? kCaseFoldNfc : "";
}

Status CheckKeyFolding(const std::string& recorded, const Options& options) {
  if (recorded == KeyFoldingName(options.key_case)) return Status::OK();
  if (recorded.empty()) {
    return Status::InvalidArgument(
        "key_case: the database's keys are case-sensitive, Options::key_case "
        "is kInsensitive (if RocksDB has written to it and forgotten the "
        "setting, RepairDB sets it again)");
  }
  if (recorded == kCaseFoldNfc) {
    return Status::InvalidArgument(
        "key_case: the database's keys are case-insensitive, "
        "Options::key_case is kSensitive");
  }
  return Status::NotSupported("keys that are folded as", recorded);
}

Status CheckIsFolded(const Slice& key, KeyFolding folding) {
  const FoldedKey folded(key, folding);
  if (!folded.ok()) return UnfoldableKey(key);
  if (folded.slice() == key) return Status::OK();
  return Status::InvalidArgument(
      "key_case: the database has keys that are not folded, such as",
      key.ToString(true));
}

Status UnfoldableKey(const Slice& key) {
  return Status::InvalidArgument(
      "a key of a case-insensitive database is not UTF-8", key.ToString(true));
}

Status FoldBatch(const WriteBatch& batch, KeyFolding folding,
                 WriteBatch* folded) {
  BatchReader reader;
  Status status = reader.Init(batch.Data());
  BatchRecord record;
  bool done = false;
  while (status.ok()) {
    status = reader.NextOfOurs(&record, &done);
    if (!status.ok() || done) break;
    if (record.is_log_data) {
      folded->PutLogData(record.key);
      continue;
    }
    const FoldedKey key(record.key, folding);
    if (!key.ok()) return UnfoldableKey(record.key);
    switch (record.type) {
      case ValueType::kValue:
        folded->Put(key.slice(), record.value);
        break;
      case ValueType::kRangeDeletion: {
        const FoldedKey end(record.value, folding);
        if (!end.ok()) return UnfoldableKey(record.value);
        folded->DeleteRange(key.slice(), end.slice());
        break;
      }
      case ValueType::kSingleDeletion:
        folded->SingleDelete(key.slice());
        break;
      default:
        folded->Delete(key.slice());
    }
  }
  return status.Annotate("batch");
}

Status FoldedBounds::Fold(KeyFolding folding, const Slice** lower,
                          const Slice** upper) {
  if (folding == KeyFolding::kNone) return Status::OK();
  Status status = FoldOne(folding, lower, &lower_);
  if (status.ok()) status = FoldOne(folding, upper, &upper_);
  return status;
}

Status FoldedBounds::FoldOne(KeyFolding folding, const Slice** bound,
                             Bound* copy) {
  if (*bound == nullptr) return Status::OK();
  if (!FoldText(**bound, folding, &copy->text)) return UnfoldableKey(**bound);
  copy->slice = copy->text;
  *bound = &copy->slice;
  return Status::OK();
}

}  // namespace varve
