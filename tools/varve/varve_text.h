// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bytes as text, and back.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "varve/slice.h"

namespace varve {

// How keys and values are printed. All but kRaw encode line ends, so that an
// entry stays on one line.
enum class Form : uint8_t {
  // For terminals: UTF-8 as it is, but two backslashes for one, and \xHH for
  // control characters, for characters that change the direction of text, and
  // for bytes that are not UTF-8.
  kText,
  kRaw,      // The bytes.
  kHex,      // 0x6162.
  kEscaped,  // Like kText, but \xHH for all that is not printable ASCII.
};

// Writes text to a file in large pieces, so that neither long values nor many
// short ones cost much.
// Thread-safety: owned by one thread.
class TextOutput {
 public:
  // `file` must outlive this.
  explicit TextOutput(FILE* file);
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;
  ~TextOutput() { Flush(); }

  void Add(std::string_view text);
  void Add(const Slice& bytes, Form form);
  // Adds `"name":"text"`, or `"name_hex":"6162"` if the bytes are not UTF-8 or
  // `hex` is set.
  void AddJsonField(std::string_view name, const Slice& bytes, bool hex);

  // Passes everything to the file. Its buffer may still hold a part.
  void Flush();
  // Returns the errno of the first error of the file, or 0.
  int error() const { return error_; }
  // Crc returns the CRC-32C of everything that was added after BeginCrc.
  void BeginCrc();
  uint32_t Crc();

 private:
  // Adds the output of one of the encoders in varve_text.cc.
  template <typename Encode>
  void AddPieces(const Slice& bytes, const Encode& encode);

  FILE* const file_;
  const std::unique_ptr<char[]> buffer_;
  size_t size_ = 0;
  int error_ = 0;
  bool has_crc_ = false;
  uint32_t crc_ = 0;
};

// Prints `'text'`, with \xHH for a quote, a backslash, and all that is not
// printable ASCII; or hexadecimal.
void PrintQuoted(const Slice& bytes, bool hex, FILE* out);

// Parses all of the text as a number without a sign. Returns false if it has
// another form or does not fit. `base`: 10 or 16.
bool ParseNumber(std::string_view text, int base, uint64_t* number);

// Decodes 0x6162 to ab. Returns false if the text has another form.
bool DecodeHex(const Slice& text, std::string* bytes);
// Decodes Form::kEscaped. Returns false if the text has another form.
bool DecodeEscaped(const Slice& text, std::string* bytes);
// Decodes Form::kText, which includes Form::kEscaped. Returns false if a
// backslash has no meaning.
bool DecodeText(const Slice& text, std::string* bytes);

bool IsUtf8(const Slice& bytes);

// Returns the bytes in Form::kText or Form::kEscaped. Use these for names and
// messages that come from a file, since a terminal may interpret other bytes.
std::string Printable(const Slice& bytes);
std::string Escaped(const Slice& bytes);
// As Printable, but a backslash stays one. Use it for whole messages, in which
// bytes may be escaped already.
std::string Visible(const Slice& bytes);

}  // namespace varve
