// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace varve {

namespace {

// The bytes that are converted to text at once.
constexpr size_t kPieceBytes = 4096;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsPlain(char c) { return c >= ' ' && c <= '~'; }

void AppendByte(const char* before, char c, std::string* text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const auto byte = static_cast<uint8_t>(c);
  *text += before;
  *text += kDigits[byte >> 4];
  *text += kDigits[byte & 15];
}

void AppendJson(const Slice& bytes, std::string* text) {
  for (const char c : std::string_view(bytes.data(), bytes.size())) {
    if (c == '"' || c == '\\') {
      *text += '\\';
      *text += c;
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      AppendByte("\\u00", c, text);
    } else {
      *text += c;
    }
  }
}

void AppendHex(const Slice& bytes, std::string* text) {
  *text += bytes.ToString(true);
}

void AppendQuotable(const Slice& bytes, std::string* text) {
  for (const char c : std::string_view(bytes.data(), bytes.size())) {
    if (IsPlain(c) && c != '\'' && c != '\\') {
      *text += c;
    } else {
      AppendByte("\\x", c, text);
    }
  }
}

template <typename Append>
void PrintPieces(Slice bytes, FILE* out, const Append& append) {
  std::string text;
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kPieceBytes);
    text.clear();
    append(Slice(bytes.data(), size), &text);
    fwrite(text.data(), 1, text.size(), out);
    bytes.remove_prefix(size);
  }
}

// Returns the length of the UTF-8 character at p, or 0 if there is none.
size_t CharacterSize(const uint8_t* p, size_t left) {
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
  const size_t size = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
  if (left < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((p[i] & 0xC0) != 0x80) return 0;
  }
  // Too long a form, surrogates, and numbers that are too large.
  if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] >= 0xA0) ||
      (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] >= 0x90)) {
    return 0;
  }
  return size;
}

}  // namespace

bool DecodeHex(const Slice& text, std::string* bytes) {
  if (!text.starts_with("0x") || text.size() % 2 != 0) return false;
  bytes->clear();
  for (size_t i = 2; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high << 4 | low));
  }
  return true;
}

void PrintHex(const Slice& bytes, FILE* out) {
  fputs("0x", out);
  PrintPieces(bytes, out, AppendHex);
}

void PrintLdb(const Slice& bytes, bool hex, FILE* out) {
  if (hex) {
    PrintHex(bytes, out);
  } else {
    fwrite(bytes.data(), 1, strnlen(bytes.data(), bytes.size()), out);
  }
}

void PrintQuoted(const Slice& bytes, bool hex, FILE* out) {
  if (hex) {
    PrintHex(bytes, out);
    return;
  }
  fputc('\'', out);
  PrintPieces(bytes, out, AppendQuotable);
  fputc('\'', out);
}

bool IsUtf8(const Slice& bytes) {
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t left = bytes.size(); left > 0;) {
    const size_t size = CharacterSize(p, left);
    if (size == 0) return false;
    p += size;
    left -= size;
  }
  return true;
}

void PrintJsonField(const char* name, const Slice& bytes, bool hex, FILE* out) {
  hex = hex || !IsUtf8(bytes);
  fprintf(out, "\"%s%s\":\"", name, hex ? "_hex" : "");
  if (hex) {
    PrintPieces(bytes, out, AppendHex);
  } else {
    PrintPieces(bytes, out, AppendJson);
  }
  fputc('"', out);
}

void AppendEscaped(const Slice& bytes, std::string* text) {
  for (const char c : std::string_view(bytes.data(), bytes.size())) {
    if (c == '\\') {
      *text += "\\\\";
    } else if (IsPlain(c)) {
      *text += c;
    } else {
      AppendByte("\\x", c, text);
    }
  }
}

std::string Escaped(const Slice& bytes) {
  std::string text;
  AppendEscaped(bytes, &text);
  return text;
}

bool DecodeEscaped(const Slice& text, std::string* bytes) {
  bytes->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsPlain(text[i])) return false;
    if (text[i] != '\\') {
      bytes->push_back(text[i]);
      continue;
    }
    if (++i == text.size()) return false;
    if (text[i] == '\\') {
      bytes->push_back('\\');
      continue;
    }
    if (text[i] != 'x' || i + 2 >= text.size()) return false;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return true;
}

}  // namespace varve
