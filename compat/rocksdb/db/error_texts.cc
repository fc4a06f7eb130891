// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/error_texts.h"

#include <string_view>

#include "compat/rocksdb/base.h"

namespace varve::rocksdb_c {

namespace {

constexpr char kNoFile[] = "No such file or directory";

bool Contains(const Slice& text, std::string_view part) {
  return text.ToStringView().find(part) != std::string_view::npos;
}

// Returns RocksDB's name of the status's code.
const char* CodeName(const Status& status) {
  switch (status.code()) {
    case Status::Code::kOk:
      return "OK";
    case Status::Code::kNotFound:
      return "NotFound: ";
    case Status::Code::kCorruption:
      return "Corruption: ";
    case Status::Code::kNotSupported:
      return "Not implemented: ";
    case Status::Code::kInvalidArgument:
      return "Invalid argument: ";
    case Status::Code::kIOError:
      return "IO error: ";
    case Status::Code::kIncomplete:
      return "Result incomplete: ";
    case Status::Code::kShutdownInProgress:
      return "Shutdown in progress: ";
    case Status::Code::kAborted:
      return "Operation aborted: ";
    case Status::Code::kBusy:
      return "Resource busy: ";
    case Status::Code::kTimedOut:
      return "Operation timed out: ";
    case Status::Code::kExpired:
      return "Operation expired: ";
    case Status::Code::kTryAgain:
      return "Operation failed. Try again.: ";
    case Status::Code::kColumnFamilyDropped:
      return "Column family dropped: ";
  }
  return "Unknown code: ";
}

// Returns RocksDB's name of a detail of the code.
const char* SubcodeName(const Status& status) {
  switch (status.subcode()) {
    case Status::Subcode::kNoSpace:
      return "No space left on device: ";
    case Status::Subcode::kDeadlock:
      return "Deadlock: ";
    case Status::Subcode::kSpaceLimit:
      return "Space limit reached: ";
    case Status::Subcode::kMergeOperandsInsufficientCapacity:
      return "Insufficient capacity for merge operands: ";
    case Status::Subcode::kMergeOperatorFailed:
      return "Merge operator failed: ";
    default:
      return "";
  }
}

Status MissingFile(const std::string& path) {
  return Status::IOError(
      std::string(kNoFile) +
          ": While opening a file for sequentially reading: " + path,
      kNoFile);
}

}  // namespace

std::string ToText(const Status& status) {
  std::string text = CodeName(status);
  // Programs compare these two.
  if (status.IsLockTimeout()) return text + "Timeout waiting to lock key";
  if (status.IsLockLimit()) {
    return text + "Failed to acquire lock due to max_num_locks limit";
  }
  text += SubcodeName(status);
  return text.append(status.message().ToStringView());
}

Status OpenError(const Status& status, const std::string& path) {
  const Slice message = status.message();
  if (status.IsBusy() && Contains(message, "LOCK")) {
    return Status::IOError(message.ToString() + ": " + path + "/LOCK",
                           "No locks available");
  }
  if (status.IsNotFound()) {
    return Status::IOError(kNoFile, message);
  }
  if (!status.IsInvalidArgument()) return status;
  if (Contains(message, ": holds no database (create_if_missing is false)")) {
    return Status::InvalidArgument(
        path + "/CURRENT", "does not exist (create_if_missing is false)");
  }
  if (Contains(message, ": holds no database")) {
    return MissingFile(path + "/CURRENT");
  }
  if (Contains(message, "(error_if_exists is true)")) {
    return Status::InvalidArgument(path, "exists (error_if_exists is true)");
  }
  if (message.starts_with("Column famil")) {
    // Programs parse the list of names at the end.
    std::string_view text = message.ToStringView();
    if (text.ends_with(": " + path)) text.remove_suffix(path.size() + 2);
    return Status::InvalidArgument(text);
  }
  return status;
}

Status FamilyError(const Status& status) {
  if (!status.IsInvalidArgument()) return status;
  const Slice message = status.message();
  if (message.starts_with("column family ") && Contains(message, ": exists")) {
    return Status::InvalidArgument("Column family already exists");
  }
  if (message.starts_with("the default column family stays")) {
    return Status::InvalidArgument("Can't drop default column family");
  }
  if (Contains(message, "was dropped before")) {
    return Status::InvalidArgument("Column family already dropped!\n");
  }
  return status;
}

}  // namespace varve::rocksdb_c
