// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A Status is the outcome of an operation: success, or a code with a message
// that says what failed, on which file, at which offset.
//
// Cost: success is one null pointer; an error owns one heap allocation, but
// for a NotFound without a message.
// Thread-safety: thread-compatible; const methods may run concurrently.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

class [[nodiscard]] VARVE_EXPORT Status {
 public:
  // What kind of outcome it is.
  enum class Code : uint8_t {
    kOk = 0,
    kNotFound = 1,         // The key, file or name does not exist.
    kCorruption = 2,       // Stored bytes contradict their checksum or format.
    kNotSupported = 3,     // Valid, but a feature that Varve does not have.
    kInvalidArgument = 4,  // The caller passed something out of bounds.
    kIOError = 5,          // The operating system refused; errno's text is in.
    kIncomplete = 6,       // Would have to wait, and was asked not to.
    kShutdownInProgress = 7,  // The DB is closing.
    kAborted = 8,             // Cancelled by the caller.
    kBusy = 9,                // Somebody else holds what is needed.
  };

  Status() = default;
  ~Status() = default;
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  // Success, which costs nothing.
  static Status OK() { return Status(); }
  // Each makes "<code>: <message>" or "<code>: <message>: <detail>".
  // Without a message: costs no allocation.
  static Status NotFound() {
    Status status;
    status.state_.reset(&plain_not_found_);
    return status;
  }
  static Status NotFound(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kNotFound, message, detail);
  }
  static Status Corruption(const Slice& message,
                           const Slice& detail = Slice()) {
    return Status(Code::kCorruption, message, detail);
  }
  static Status NotSupported(const Slice& message,
                             const Slice& detail = Slice()) {
    return Status(Code::kNotSupported, message, detail);
  }
  static Status InvalidArgument(const Slice& message,
                                const Slice& detail = Slice()) {
    return Status(Code::kInvalidArgument, message, detail);
  }
  static Status IOError(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kIOError, message, detail);
  }
  // An IOError made from errno: "<context>: <strerror(error_number)>".
  // ENOENT gives NotFound; ENOSPC and EDQUOT answer true to IsNoSpace().
  static Status FromErrno(const Slice& context, int error_number);
  static Status Incomplete(const Slice& message,
                           const Slice& detail = Slice()) {
    return Status(Code::kIncomplete, message, detail);
  }
  static Status ShutdownInProgress(const Slice& message = "shutting down") {
    return Status(Code::kShutdownInProgress, message, Slice());
  }
  static Status Aborted(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kAborted, message, detail);
  }
  static Status Busy(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kBusy, message, detail);
  }

  // Which code it is.
  bool ok() const { return state_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : state_->code; }
  bool IsNotFound() const { return code() == Code::kNotFound; }
  bool IsCorruption() const { return code() == Code::kCorruption; }
  bool IsNotSupported() const { return code() == Code::kNotSupported; }
  bool IsInvalidArgument() const { return code() == Code::kInvalidArgument; }
  bool IsIOError() const { return code() == Code::kIOError; }
  bool IsIncomplete() const { return code() == Code::kIncomplete; }
  bool IsShutdownInProgress() const {
    return code() == Code::kShutdownInProgress;
  }
  bool IsAborted() const { return code() == Code::kAborted; }
  bool IsBusy() const { return code() == Code::kBusy; }
  // The device or the quota is full.
  bool IsNoSpace() const { return state_ != nullptr && state_->no_space; }

  // "OK", or "<code>: <message>".
  std::string ToString() const;
  // The message without the code; empty for success. Valid while *this is.
  Slice message() const {
    return ok() || IsPlain() ? Slice() : Slice(failure()->message);
  }

  // The same error with `context` put before its message; success stays.
  Status Annotate(const Slice& context) const;

  // Marks a deliberate discard. Say why at the call.
  void IgnoreError() const {}

 private:
  struct State {
    Code code;
    bool no_space = false;
  };
  // What every state but the plain one is.
  struct Failure : State {
    std::string message;
  };

  // Spares the one state that all share.
  struct Deleter {
    void operator()(State* state) const {
      if (state != &plain_not_found_) delete static_cast<Failure*>(state);
    }
  };
  using StatePtr = std::unique_ptr<State, Deleter>;

  Status(Code code, const Slice& message, const Slice& detail);
  static StatePtr Copy(const StatePtr& state);
  bool IsPlain() const { return state_.get() == &plain_not_found_; }
  // REQUIRES: neither ok() nor IsPlain().
  Failure* failure() const { return static_cast<Failure*>(state_.get()); }

  static State plain_not_found_;

  StatePtr state_;
};

}  // namespace varve
