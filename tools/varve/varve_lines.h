// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Reads a text file line by line.
class LineReader {
 public:
  // `file` must outlive this; `name` is for messages.
  LineReader(FILE* file, std::string name)
      : file_(file), name_(std::move(name)) {}
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader() { free(buffer_); }

  // Sets *line to the next line, without its newline. It is valid until the
  // next call. Returns false at the end of the file and after an error.
  bool Next(Slice* line) {
    const ssize_t size = getline(&buffer_, &capacity_, file_);
    if (size < 0) {
      // The error may be a lack of memory for the line.
      if (feof(file_) == 0) status_ = Status::FromErrno(name_, errno);
      return false;
    }
    ++number_;
    *line = Slice(buffer_, static_cast<size_t>(size));
    ends_ = line->size() > 0 && buffer_[size - 1] == '\n';
    if (ends_) *line = Slice(buffer_, static_cast<size_t>(size) - 1);
    return true;
  }
  const Status& status() const { return status_; }
  // Returns whether the last line had a newline.
  bool ends() const { return ends_; }

  // Returns an error about the last line.
  Status Wrong(const std::string& what) const {
    return Status::InvalidArgument(name_ + " line " + std::to_string(number_),
                                   what);
  }

 private:
  FILE* const file_;
  const std::string name_;
  char* buffer_ = nullptr;
  size_t capacity_ = 0;
  uint64_t number_ = 0;
  bool ends_ = false;
  Status status_;
};

}  // namespace varve
