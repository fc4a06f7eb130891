// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/status.h"

#include <cerrno>
#include <string>

#include "util/base/errno_text.h"

namespace varve {

namespace {

const char* CodeName(Status::Code code) {
  switch (code) {
    case Status::Code::kOk:
      return "OK";
    case Status::Code::kNotFound:
      return "NotFound";
    case Status::Code::kCorruption:
      return "Corruption";
    case Status::Code::kNotSupported:
      return "Not supported";
    case Status::Code::kInvalidArgument:
      return "Invalid argument";
    case Status::Code::kIOError:
      return "IO error";
    case Status::Code::kIncomplete:
      return "Incomplete";
    case Status::Code::kShutdownInProgress:
      return "Shutdown in progress";
    case Status::Code::kAborted:
      return "Aborted";
    case Status::Code::kBusy:
      return "Busy";
    case Status::Code::kTimedOut:
      return "Operation timed out";
    case Status::Code::kExpired:
      return "Operation expired";
    case Status::Code::kTryAgain:
      return "Operation failed. Try again.";
    case Status::Code::kColumnFamilyDropped:
      return "Column family dropped";
  }
  return "Unknown code";
}

}  // namespace

Status::Status(Code code, const Slice& message, const Slice& detail,
               Subcode subcode)
    : state_(new Failure) {
  state_->code = code;
  state_->subcode = subcode;
  std::string& text = failure()->message;
  text = message.ToString();
  if (!detail.empty()) {
    text.append(": ");
    text.append(detail.data(), detail.size());
  }
}

// Needs no initialization, and no destruction: other objects may still use it.
constinit Status::State Status::plain_not_found_{Code::kNotFound,
                                                 Subcode::kNone};

Status::StatePtr Status::Copy(const StatePtr& state) {
  if (state.get() == &plain_not_found_) return StatePtr(&plain_not_found_);
  return StatePtr(new Failure(*static_cast<Failure*>(state.get())));
}

Status Status::FromErrno(const Slice& context, int error_number) {
  const std::string text = ErrnoText(error_number);
  if (error_number == ENOENT) {
    return Status(Code::kNotFound, context, text, Subcode::kPathNotFound);
  }
  const bool is_full = error_number == ENOSPC || error_number == EDQUOT;
  return Status(Code::kIOError, context, text,
                is_full ? Subcode::kNoSpace : Subcode::kNone);
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string result = CodeName(state_->code);
  result.append(": ");
  result.append(message().data(), message().size());
  return result;
}

Status Status::Annotate(const Slice& context) const {
  if (ok()) return Status();
  return Status(state_->code, context, message(), state_->subcode);
}

}  // namespace varve
