// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A Status is the outcome of an operation: success, or a code with a message
// that says what failed, on which file, at which offset.
//
// Cost: success is one null pointer. An error owns one heap allocation, except
// a NotFound without a message. Thread-safety: thread-compatible; const methods
// may run concurrently.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

class [[nodiscard]] VARVE_EXPORT Status {
 public:
  // The kind of outcome.
  enum class Code : uint8_t {
    kOk = 0,
    kNotFound = 1,         // The key, file or name does not exist.
    kCorruption = 2,       // Stored bytes contradict their checksum or format.
    kNotSupported = 3,     // Valid, but a feature that Varve does not have.
    kInvalidArgument = 4,  // The caller passed something out of bounds.
    kIOError = 5,          // A system call failed; has errno's text.
    kIncomplete = 6,       // Would have to wait, and must not.
    kShutdownInProgress = 7,  // The DB is closing.
    kAborted = 8,             // Cancelled by the caller.
    kBusy = 9,                // Another user holds the resource.
    kTimedOut = 11,           // Waited as long as the caller allowed.
    kExpired = 12,            // The transaction's time is over.
    // For programs that create them; Varve does not.
    kTryAgain = 13,             // The same call may succeed later.
    kColumnFamilyDropped = 14,  // The column family was dropped.
  };

  // The reason, if a caller may want to act on it. Other errors have kNone.
  enum class Subcode : uint8_t {
    kNone = 0,
    kNoSpace = 1,       // An IOError: the device or the quota is full.
    kLockTimeout = 2,   // A TimedOut: another transaction holds a key's lock.
    kDeadlock = 3,      // Busy: transactions would wait for each other.
    kLockLimit = 4,     // Busy: as many keys as may be are locked.
    kSpaceLimit = 5,    // An IOError: the limit of SstFileManager is reached.
    kPathNotFound = 6,  // A NotFound: a file or directory does not exist.
    // An Incomplete: more merge operands than the caller has room for.
    kMergeOperandsInsufficientCapacity = 7,
    kMergeOperatorFailed = 8,  // A Corruption: the operator refused the bytes.
  };

  Status() = default;
  ~Status() = default;
  Status(const Status& other)
      : state_(other.ok() ? nullptr : Copy(other.state_)) {}
  Status& operator=(const Status& other) {
    if (!ok() || !other.ok()) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  // Creates success, which costs nothing.
  static Status OK() { return Status(); }
  // Each creates "<code>: <message>" or "<code>: <message>: <detail>". Without
  // a message. Costs no allocation.
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
  static Status Corruption(Subcode reason, const Slice& message,
                           const Slice& detail) {
    return Status(Code::kCorruption, message, detail, reason);
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
  // Creates an IOError from errno: "<context>: <strerror(error_number)>".
  // ENOENT gives NotFound, and IsPathNotFound() is true. IsNoSpace() is true
  // for ENOSPC and EDQUOT.
  static Status FromErrno(const Slice& context, int error_number);
  // Creates an IOError with the subcode.
  static Status SpaceLimit(const Slice& message = "the limit is reached") {
    return Status(Code::kIOError, message, Slice(), Subcode::kSpaceLimit);
  }
  static Status Incomplete(const Slice& message,
                           const Slice& detail = Slice()) {
    return Status(Code::kIncomplete, message, detail);
  }
  static Status Incomplete(Subcode reason, const Slice& message) {
    return Status(Code::kIncomplete, message, Slice(), reason);
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
  static Status Busy(Subcode reason, const Slice& message) {
    return Status(Code::kBusy, message, Slice(), reason);
  }
  static Status TimedOut(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kTimedOut, message, detail);
  }
  static Status TimedOut(Subcode reason, const Slice& message) {
    return Status(Code::kTimedOut, message, Slice(), reason);
  }
  static Status Expired(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kExpired, message, detail);
  }
  static Status TryAgain(const Slice& message, const Slice& detail = Slice()) {
    return Status(Code::kTryAgain, message, detail);
  }
  static Status ColumnFamilyDropped(const Slice& message = "dropped") {
    return Status(Code::kColumnFamilyDropped, message, Slice());
  }

  // Returns true if the status has that code.
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
  bool IsTimedOut() const { return code() == Code::kTimedOut; }
  bool IsExpired() const { return code() == Code::kExpired; }
  bool IsTryAgain() const { return code() == Code::kTryAgain; }
  bool IsColumnFamilyDropped() const {
    return code() == Code::kColumnFamilyDropped;
  }
  Subcode subcode() const { return ok() ? Subcode::kNone : state_->subcode; }
  // Returns true if the status has that subcode.
  bool IsNoSpace() const { return subcode() == Subcode::kNoSpace; }
  bool IsLockTimeout() const { return subcode() == Subcode::kLockTimeout; }
  bool IsDeadlock() const { return subcode() == Subcode::kDeadlock; }
  bool IsLockLimit() const { return subcode() == Subcode::kLockLimit; }
  bool IsSpaceLimit() const { return subcode() == Subcode::kSpaceLimit; }
  bool IsPathNotFound() const { return subcode() == Subcode::kPathNotFound; }

  // Returns "OK" or "<code>: <message>".
  std::string ToString() const;
  // Returns the message without the code, or an empty slice for success. Valid
  // while *this is.
  Slice message() const {
    return ok() || IsPlain() ? Slice() : Slice(failure()->message);
  }

  // Returns the error with `context` before its message. Success is unchanged.
  Status Annotate(const Slice& context) const;

  // Discards the status deliberately. Give the reason at the call.
  void IgnoreError() const {}

 private:
  struct State {
    Code code;
    Subcode subcode = Subcode::kNone;
  };
  // The content of every state except the plain NotFound.
  struct Failure : State {
    std::string message;
  };

  // Does not free the plain state, which all share.
  struct Deleter {
    void operator()(State* state) const {
      if (state != &plain_not_found_) delete static_cast<Failure*>(state);
    }
  };
  using StatePtr = std::unique_ptr<State, Deleter>;

  Status(Code code, const Slice& message, const Slice& detail,
         Subcode subcode = Subcode::kNone);
  // REQUIRES: the status is not OK.
  static StatePtr Copy(const StatePtr& state);
  bool IsPlain() const { return state_.get() == &plain_not_found_; }
  // REQUIRES: neither ok() nor IsPlain().
  Failure* failure() const { return static_cast<Failure*>(state_.get()); }

  static State plain_not_found_;

  StatePtr state_;
};

}  // namespace varve
