// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Writes lines of JSON, and reads JSON that other programs wrote.

#include <charconv>
#include <cstdint>
#include <string>

#include "tools/varve/varve_text.h"
#include "varve/slice.h"

namespace varve {

// Writes a JSON object as a line, which the destructor ends. Names are ASCII
// without quotes.
// Thread-safety: owned by one thread.
class JsonLine {
 public:
  // `out` must outlive this.
  explicit JsonLine(TextOutput* out) : out_(*out) { out_.Add("{"); }
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;
  ~JsonLine() { out_.Add("}\n"); }

  // Adds "name":"text", or "name_hex":"6162" if the bytes are not UTF-8 or
  // `hex` is set.
  JsonLine& Text(std::string_view name, const Slice& bytes, bool hex = false) {
    Separate();
    out_.AddJsonField(name, bytes, hex);
    return *this;
  }
  JsonLine& Number(std::string_view name, uint64_t number) {
    return Literal(name, std::to_string(number));
  }
  // Adds a number, object or list as it is. REQUIRES: `json` is JSON.
  JsonLine& Literal(std::string_view name, std::string_view json) {
    Separate();
    out_.Add("\"");
    out_.Add(name);
    out_.Add("\":");
    out_.Add(json);
    return *this;
  }

 private:
  void Separate() {
    if (!is_first_) out_.Add(",");
    is_first_ = false;
  }

  TextOutput& out_;
  bool is_first_ = true;
};

// Reads JSON from front to back. After an error every call fails.
// Thread-safety: owned by one thread.
class JsonReader {
 public:
  explicit JsonReader(const Slice& text) : text_(text) {}

  bool failed() const { return failed_; }
  size_t offset() const { return at_; }
  // Why the text was refused; empty if it is not JSON.
  const std::string& reason() const { return reason_; }
  // Returns false.
  bool Fail(const char* reason = "") {
    if (!failed_) reason_ = reason;
    failed_ = true;
    return false;
  }
  // Returns the next character that is no space, or 0 at the end.
  char Peek() {
    SkipSpace();
    return failed_ || at_ == text_.size() ? '\0' : text_[at_];
  }

  // Calls member(key) for each member; it must read the value. It returns false
  // to end the reading.
  template <typename Member>
  bool ReadObject(Member member) {
    return ReadList('{', '}', [&] {
      std::string key;
      return ReadString(&key) && Take(':') && member(key);
    });
  }
  template <typename Element>
  bool ReadArray(Element element) {
    return ReadList('[', ']', element);
  }
  bool ReadString(std::string* out) {
    out->clear();
    if (!Take('"')) return Fail();
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ == text_.size()) return Fail();
        if (!ReadEscape(text_[at_++], out)) return Fail();
        continue;
      }
      out->push_back(c);
    }
    return Take('"') || Fail();
  }
  // Reads a string, or the text of a number or literal. Skips anything else and
  // leaves `out` empty.
  bool ReadScalar(std::string* out) {
    out->clear();
    const char c = Peek();
    if (c == '"') return ReadString(out);
    const size_t start = at_;
    if (!Skip()) return false;
    if (c != '{' && c != '[') out->assign(text_.data() + start, at_ - start);
    return true;
  }
  // Reads a number that is not negative, in thousandths, rounded down.
  bool ReadThousandths(uint64_t* out) {
    SkipSpace();
    uint64_t value = 0;
    int places = -1;
    const size_t start = at_;
    for (; at_ < text_.size() && places < 3; ++at_) {
      const char c = text_[at_];
      if (c == '.' && places < 0) {
        places = 0;
      } else if (c >= '0' && c <= '9' && value < UINT64_MAX / 10) {
        value = value * 10 + static_cast<uint64_t>(c - '0');
        if (places >= 0) ++places;
      } else {
        break;
      }
    }
    if (at_ == start) return Fail();
    if (places == 3) SkipDigits();
    for (; places < 3; ++places) {
      if (places < 0) places = 0;
      if (value > UINT64_MAX / 10) return Fail();
      value *= 10;
    }
    // The number is too large, or has an exponent.
    if (at_ < text_.size() && IsNumber(text_[at_])) return Fail();
    *out = value;
    return true;
  }
  bool ReadInteger(uint64_t* out) {
    SkipSpace();
    const size_t start = at_;
    SkipDigits();
    const auto [end, error] =
        std::from_chars(text_.data() + start, text_.data() + at_, *out);
    if (error != std::errc() || (at_ < text_.size() && IsNumber(text_[at_]))) {
      return Fail();
    }
    return true;
  }
  // Skips any value. `depth` is its nesting within the skipped one.
  bool Skip(int depth = 0) {
    if (depth > kMaxDepth) return Fail();
    SkipSpace();
    if (at_ == text_.size()) return Fail();
    const char c = text_[at_];
    std::string ignored;
    if (c == '"') return ReadString(&ignored);
    if (c == '{') {
      return ReadObject([&](const std::string&) { return Skip(depth + 1); });
    }
    if (c == '[') return ReadArray([&] { return Skip(depth + 1); });
    const size_t start = at_;
    while (at_ < text_.size() &&
           (IsNumber(text_[at_]) || (text_[at_] >= 'a' && text_[at_] <= 'z'))) {
      ++at_;
    }
    return at_ > start || Fail();
  }

 private:
  // Bounds the recursion. Traces are nested less deeply.
  static constexpr int kMaxDepth = 64;

  // Appends the character that an escape stands for. `c` is the character after
  // the backslash.
  bool ReadEscape(char c, std::string* out) {
    constexpr char kShort[] = "b\bf\fn\nr\rt\t";
    for (const char* p = kShort; *p != '\0'; p += 2) {
      if (*p != c) continue;
      c = p[1];
      break;
    }
    if (c != 'u') {
      out->push_back(c);
      return true;
    }
    uint32_t code = 0;
    if (!ReadHex4(&code)) return false;
    // A surrogate pair.
    if (code >= 0xd800 && code < 0xdc00 && text_.size() - at_ >= 6 &&
        text_[at_] == '\\' && text_[at_ + 1] == 'u') {
      at_ += 2;
      uint32_t low = 0;
      if (!ReadHex4(&low)) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + ((low - 0xdc00) & 0x3ff);
    }
    AppendUtf8(code, out);
    return true;
  }
  bool ReadHex4(uint32_t* code) {
    if (text_.size() - at_ < 4) return false;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + 4, *code, 16);
    at_ += 4;
    return error == std::errc() && end == begin + 4;
  }
  static void AppendUtf8(uint32_t code, std::string* out) {
    const auto rest = [&](int shift) {
      out->push_back(static_cast<char>(0x80 | (code >> shift & 0x3f)));
    };
    if (code >= 0xd800 && code < 0xe000) {
      out->push_back('?');  // A surrogate without its other half.
    } else if (code < 0x80) {
      out->push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out->push_back(static_cast<char>(0xc0 | code >> 6));
      rest(0);
    } else if (code < 0x10000) {
      out->push_back(static_cast<char>(0xe0 | code >> 12));
      rest(6);
      rest(0);
    } else {
      out->push_back(static_cast<char>(0xf0 | (code >> 18 & 7)));
      rest(12);
      rest(6);
      rest(0);
    }
  }
  static bool IsNumber(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' ||
           c == 'e' || c == 'E';
  }
  void SkipDigits() {
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                  text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool Take(char c) {
    SkipSpace();
    if (failed_ || at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  template <typename Element>
  bool ReadList(char open, char close, Element element) {
    if (!Take(open)) return Fail();
    if (Take(close)) return true;
    do {
      if (!element()) return Fail();
    } while (Take(','));
    return Take(close) || Fail();
  }

  const Slice text_;
  size_t at_ = 0;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace varve
