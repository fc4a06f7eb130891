// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_lines.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace varve {

namespace {

constexpr size_t kFirstCapacity = 256 << 10;
// Holds the largest key and value, 3 GiB together, \xHH for each byte.
constexpr size_t kMaxCapacity = (size_t{12} << 30) + kFirstCapacity;

}  // namespace

LineReader::LineReader(FILE* file, std::string name)
    : file_(file), name_(std::move(name)) {}

bool LineReader::Next(Slice* line) {
  if (!status_.ok()) return false;
  size_t searched = 0;
  for (;;) {
    const char* const from = buffer_.get() + begin_;
    const size_t left = end_ - begin_;
    const void* const newline =
        left == searched ? nullptr
                         : memchr(from + searched, '\n', left - searched);
    ends_ = newline != nullptr;
    if (ends_) {
      *line = Slice(
          from, static_cast<size_t>(static_cast<const char*>(newline) - from));
      begin_ += line->size() + 1;
      break;
    }
    searched = left;
    if (ReadMore()) continue;
    if (!status_.ok() || left == 0) return false;
    *line = Slice(buffer_.get() + begin_, left);
    begin_ = end_;
    break;
  }
  ++number_;
  return true;
}

bool LineReader::ReadMore() {
  const size_t left = end_ - begin_;
  if (begin_ > 0) memmove(buffer_.get(), buffer_.get() + begin_, left);
  begin_ = 0;
  end_ = left;
  if (left == capacity_) {
    if (capacity_ == kMaxCapacity) {
      ++number_;
      status_ = Wrong("the line is longer than that of any entry");
      return false;
    }
    const size_t capacity =
        capacity_ == 0 ? kFirstCapacity : std::min(2 * capacity_, kMaxCapacity);
    char* const larger = static_cast<char*>(realloc(buffer_.get(), capacity));
    if (larger == nullptr) {
      status_ = Status::FromErrno(name_, ENOMEM);
      return false;
    }
    static_cast<void>(buffer_.release());
    buffer_.reset(larger);
    capacity_ = capacity;
  }
  const size_t size = fread(buffer_.get() + end_, 1, capacity_ - end_, file_);
  end_ += size;
  if (size == 0 && ferror(file_) != 0) {
    status_ = Status::FromErrno(name_, errno);
  }
  return size > 0;
}

Status LineReader::Wrong(const std::string& what) const {
  return Status::InvalidArgument(name_ + " line " + std::to_string(number_),
                                 what);
}

}  // namespace varve
