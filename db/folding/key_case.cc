// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/folding/key_case.h"
#include "util/base/experiment.h"

namespace varve {

namespace {

// On disk: what it names never changes.
constexpr char kCaseFoldNfc[] = "casefold-nfc";

}  // namespace

KeyFolding KeyFoldingOf(const Options& options) {
  if (options.key_case == KeyCase::kSensitive) return KeyFolding::kNone;
  return ExperimentFlagsOf(options).folds_by_unicode ? KeyFolding::kUnicode
                                                     : KeyFolding::kAsciiFirst;
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
  return UnfoldableText("a key of a case-insensitive database",
                        key.ToString(true));
}

}  // namespace varve
