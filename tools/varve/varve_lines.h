// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Reads a text file line by line, in memory that is bounded by the longest
// line. A line is at most as long as a dump's line of the largest entry.
// Thread-safety: owned by one thread.
class LineReader {
 public:
  // `file` must outlive this; `name` is for messages.
  LineReader(FILE* file, std::string name);
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Sets *line to the next line, without its newline, which follows it in
  // memory if there is one; see ends(). It is valid until the next call.
  // Returns false at the end of the file and after an error.
  bool Next(Slice* line);
  const Status& status() const { return status_; }
  // Returns whether the last line had a newline.
  bool ends() const { return ends_; }

  // Returns an error about the last line.
  Status Wrong(const std::string& what) const;

 private:
  struct Free {
    void operator()(char* buffer) const { free(buffer); }
  };

  // Appends bytes of the file to those that are left in the buffer. Returns
  // false at the end of the file and after an error.
  bool ReadMore();

  FILE* const file_;
  const std::string name_;
  std::unique_ptr<char, Free> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;  // Of the bytes that are left in the buffer.
  size_t end_ = 0;
  uint64_t number_ = 0;
  bool ends_ = false;
  Status status_;
};

}  // namespace varve
