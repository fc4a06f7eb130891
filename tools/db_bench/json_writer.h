// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Writes JSON: objects and lists, one member a line.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "util/base/append_format.h"

namespace varve {

// Thread-safety: thread-compatible.
class JsonWriter {
 public:
  void Open(const char* name, char bracket) {
    Key(name);
    text_.push_back(bracket);
    first_ = true;
    ++depth_;
  }
  void Close(char bracket) {
    --depth_;
    NewLine();
    text_.push_back(bracket);
    first_ = false;
  }
  void Text(const char* name, const std::string& value) {
    Key(name);
    Quote(value);
  }
  void Number(const char* name, double value) {
    Key(name);
    AppendFormat(&text_, "%.6g", value);
  }
  void Integer(const char* name, uint64_t value) {
    Key(name);
    text_.append(std::to_string(value));
  }
  std::string Finish() { return std::move(text_) + "\n"; }

 private:
  void NewLine() {
    if (!text_.empty()) text_.push_back('\n');
    text_.append(2 * depth_, ' ');
  }
  // A null name is an element of a list.
  void Key(const char* name) {
    if (!first_) text_.push_back(',');
    first_ = false;
    NewLine();
    if (name == nullptr) return;
    Quote(name);
    text_.append(": ");
  }
  void Quote(const std::string& value) {
    text_.push_back('"');
    for (const char c : value) {
      if (c == '"' || c == '\\') {
        text_.push_back('\\');
        text_.push_back(c);
      } else if (static_cast<unsigned char>(c) < ' ') {
        AppendFormat(&text_, "\\u%04x", static_cast<unsigned>(c));
      } else {
        text_.push_back(c);
      }
    }
    text_.push_back('"');
  }

  std::string text_;
  size_t depth_ = 0;
  bool first_ = true;
};

}  // namespace varve
