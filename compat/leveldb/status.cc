// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <cstring>

#include "compat/leveldb/convert.h"

namespace leveldb {
Status::Status(Code code, const Slice& message, const Slice& detail) {
  const size_t separator = detail.empty() ? 0 : 2;
  const size_t length = message.size() + separator + detail.size();
  const auto stored = static_cast<uint32_t>(length);
  auto* state = new char[kHeaderBytes + length];
  memcpy(state, &stored, sizeof(stored));
  state[kCodeOffset] = static_cast<char>(code);
  char* out = state + kHeaderBytes;
  if (!message.empty()) memcpy(out, message.data(), message.size());
  if (!detail.empty()) {
    out += message.size();
    memcpy(out, ": ", separator);
    memcpy(out + separator, detail.data(), detail.size());
  }
  state_ = state;
}

const char* Status::CopyState(const char* state) {
  uint32_t length;
  memcpy(&length, state, sizeof(length));
  const size_t bytes = kHeaderBytes + length;
  auto* copy = new char[bytes];
  memcpy(copy, state, bytes);
  return copy;
}

// Programs compare these texts.
std::string Status::ToString() const {
  const char* prefix = nullptr;
  switch (code()) {
    case kOk:
      return "OK";
    case kNotFound:
      prefix = "NotFound: ";
      break;
    case kCorruption:
      prefix = "Corruption: ";
      break;
    case kNotSupported:
      prefix = "Not implemented: ";
      break;
    case kInvalidArgument:
      prefix = "Invalid argument: ";
      break;
    case kIOError:
      prefix = "IO error: ";
      break;
  }
  // A program may have made a status with a code of its own.
  if (prefix == nullptr) prefix = "Unknown code: ";
  return prefix + message().ToString();
}

}  // namespace leveldb

namespace varve::compat {

leveldb::Status FailureToLevelDb(const Status& status) {
  using leveldb::Status;
  Status::Code code = Status::kIOError;
  switch (status.code()) {
    case varve::Status::Code::kNotFound:
      code = Status::kNotFound;
      break;
    case varve::Status::Code::kCorruption:
      code = Status::kCorruption;
      break;
    case varve::Status::Code::kNotSupported:
      code = Status::kNotSupported;
      break;
    case varve::Status::Code::kInvalidArgument:
      code = Status::kInvalidArgument;
      break;
    default:
      break;
  }
  return {code, ToLevelDb(status.message()), leveldb::Slice()};
}

Status FailureToVarve(const leveldb::Status& status) {
  const Slice message = ToVarve(status.message());
  switch (status.code()) {
    case leveldb::Status::kNotFound:
      return Status::NotFound(message);
    case leveldb::Status::kCorruption:
      return Status::Corruption(message);
    case leveldb::Status::kNotSupported:
      return Status::NotSupported(message);
    case leveldb::Status::kInvalidArgument:
      return Status::InvalidArgument(message);
    default:
      return Status::IOError(message);
  }
}

}  // namespace varve::compat
