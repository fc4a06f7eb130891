// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "util/bytes/checksum.h"

namespace varve {

namespace {

constexpr size_t kBufferBytes = 128 << 10;
// The longest output of one call of an encoder: \uHHHH in JSON.
constexpr size_t kLongestText = 6;

constexpr char kDigits[] = "0123456789ABCDEF";

// Two hexadecimal digits for each byte.
constexpr auto kHexPairs = [] {
  std::array<char, 512> pairs{};
  for (size_t i = 0; i < 256; ++i) {
    pairs[2 * i] = kDigits[i >> 4];
    pairs[2 * i + 1] = kDigits[i & 15];
  }
  return pairs;
}();

// The values of hexadecimal digits; -1 for other characters.
constexpr auto kHexValues = [] {
  std::array<int8_t, 256> values{};
  for (int8_t& value : values) value = -1;
  for (int i = 0; i < 16; ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
    if (i >= 10) {
      values[static_cast<size_t>('a' + i - 10)] = static_cast<int8_t>(i);
    }
  }
  return values;
}();

// Sets *byte to the value of two hexadecimal digits. Returns false if they are
// other characters.
bool DecodePair(const char* digits, char* byte) {
  const int high = kHexValues[static_cast<uint8_t>(digits[0])];
  const int low = kHexValues[static_cast<uint8_t>(digits[1])];
  *byte = static_cast<char>(high << 4 | low);
  return (high | low) >= 0;
}

bool IsPlain(char c) { return c >= ' ' && c <= '~'; }

// Returns the length of the run of printable ASCII without backslashes at the
// beginning of a text.
size_t PlainRun(const char* from, const char* end) {
  const char* p = from;
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kTops = 0x8080808080808080;
  // Eight bytes at a time. A byte is out of range if its top bit is set in one
  // of: the byte itself, the byte less a space, the byte plus one (0x7F), and
  // the difference to a backslash less one, where the difference is small.
  for (; end - p >= 8; p += 8) {
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    const uint64_t backslash = word ^ (kOnes * '\\');
    const uint64_t odd = word | ((word - kOnes * ' ') & ~word) |
                         (word + kOnes) | ((backslash - kOnes) & ~backslash);
    if ((odd & kTops) != 0) break;
  }
  while (p < end && IsPlain(*p) && *p != '\\') ++p;
  return static_cast<size_t>(p - from);
}

char* AppendHexPair(char c, char* to) {
  memcpy(to, &kHexPairs[size_t{2} * static_cast<uint8_t>(c)], 2);
  return to + 2;
}

char* AppendByte(char c, char* to) {
  *to++ = '\\';
  *to++ = 'x';
  return AppendHexPair(c, to);
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

// Returns whether a terminal shows a character of two bytes or more, and shows
// it in its place: not U+0080 to U+009F, the marks of direction, the line and
// paragraph separators, and U+FEFF.
bool IsVisible(const uint8_t* p) {
  if (p[0] == 0xC2) return p[1] >= 0xA0;
  if (p[0] == 0xD8) return p[1] != 0x9C;
  if (p[0] == 0xE2 && p[1] == 0x80) {
    return !((p[2] >= 0x8B && p[2] <= 0x8F) || (p[2] >= 0xA8 && p[2] <= 0xAE));
  }
  if (p[0] == 0xE2 && p[1] == 0x81) return p[2] < 0xA6 || p[2] > 0xA9;
  return !(p[0] == 0xEF && p[1] == 0xBB && p[2] == 0xBF);
}

// Returns the length of the visible character of several bytes at `from`, or 0.
size_t VisibleCharacter(const char* from, const char* end) {
  const auto* const p = reinterpret_cast<const uint8_t*>(from);
  if (p[0] < 0x80) return 0;
  const size_t size = CharacterSize(p, static_cast<size_t>(end - from));
  return size > 0 && IsVisible(p) ? size : 0;
}

// ---- Encoders --------------------------------------------------------------
//
// encode(from, end, to) encodes a byte or character, moves *from beyond it, and
// returns the end of its output.

struct EncodeHex {
  char* operator()(const char** from, const char* /*end*/, char* to) const {
    return AppendHexPair(*(*from)++, to);
  }
};

struct EncodeEscaped {
  char* operator()(const char** from, const char* /*end*/, char* to) const {
    const char c = *(*from)++;
    if (!IsPlain(c)) return AppendByte(c, to);
    if (c == '\\') *to++ = c;
    *to++ = c;
    return to;
  }
};

struct EncodeText {
  char* operator()(const char** from, const char* end, char* to) const {
    const size_t size = VisibleCharacter(*from, end);
    if (size == 0) return EncodeEscaped()(from, end, to);
    memcpy(to, *from, size);
    *from += size;
    return to + size;
  }
};

struct EncodeVisible {
  char* operator()(const char** from, const char* end, char* to) const {
    if (**from != '\\') return EncodeText()(from, end, to);
    *to++ = *(*from)++;
    return to;
  }
};

struct EncodeQuoted {
  char* operator()(const char** from, const char* /*end*/, char* to) const {
    const char c = *(*from)++;
    if (!IsPlain(c) || c == '\'' || c == '\\') return AppendByte(c, to);
    *to++ = c;
    return to;
  }
};

// REQUIRES: the bytes are UTF-8.
struct EncodeJson {
  char* operator()(const char** from, const char* end, char* to) const {
    const auto* const p = reinterpret_cast<const uint8_t*>(*from);
    if (p[0] >= 0x80 && !IsVisible(p)) {
      const size_t size = CharacterSize(p, static_cast<size_t>(end - *from));
      *from += size;
      const uint32_t code =
          size == 2
              ? (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)
              : (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
      memcpy(to, "\\u", 2);
      to = AppendHexPair(static_cast<char>(code >> 8), to + 2);
      return AppendHexPair(static_cast<char>(code & 0xFF), to);
    }
    const char c = *(*from)++;
    if (c == '"' || c == '\\') {
      *to++ = '\\';
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      memcpy(to, "\\u00", 4);
      return AppendHexPair(c, to + 4);
    }
    *to++ = c;
    return to;
  }
};

// Encodes from *from on while `size` bytes at `to` are enough, and moves *from.
// Returns the end of the output. REQUIRES: `size` is at least kLongestText.
template <typename Encode>
char* EncodePiece(const Encode& encode, const char** from, const char* end,
                  char* to, size_t size) {
  char* const last = to + size - kLongestText;
  const char* at = *from;
  while (at < end && to <= last) to = encode(&at, end, to);
  *from = at;
  return to;
}

// Calls use(piece) for one piece of the output after the other.
template <typename Encode, typename Use>
void EncodePieces(const Encode& encode, const Slice& bytes, const Use& use) {
  char piece[4096];
  for (const char* from = bytes.begin(); from < bytes.end();) {
    const char* const end =
        EncodePiece(encode, &from, bytes.end(), piece, sizeof(piece));
    use(std::string_view(piece, static_cast<size_t>(end - piece)));
  }
}

template <typename Encode>
std::string Encoded(const Slice& bytes) {
  std::string text;
  EncodePieces(Encode(), bytes, [&](std::string_view piece) { text += piece; });
  return text;
}

// Decodes backslashes. plain(c) tells which other characters may be there.
template <typename Plain>
bool DecodeBackslashes(const Slice& text, const Plain& plain,
                       std::string* bytes) {
  bytes->clear();
  const char* from = text.begin();
  const char* const end = text.end();
  while (from < end) {
    const size_t run = PlainRun(from, end);
    bytes->append(from, run);
    from += run;
    if (from == end) break;
    if (*from != '\\') {
      if (!plain(*from)) return false;
      bytes->push_back(*from++);
      continue;
    }
    if (end - from >= 2 && from[1] == '\\') {
      bytes->push_back('\\');
      from += 2;
      continue;
    }
    char byte;
    if (end - from < 4 || from[1] != 'x' || !DecodePair(from + 2, &byte)) {
      return false;
    }
    bytes->push_back(byte);
    from += 4;
  }
  return true;
}

}  // namespace

// ---- TextOutput ------------------------------------------------------------

TextOutput::TextOutput(FILE* file)
    : file_(file), buffer_(std::make_unique<char[]>(kBufferBytes)) {}

void TextOutput::Flush() {
  if (has_crc_) crc_ = Crc32cExtend(crc_, buffer_.get(), size_);
  if (fwrite(buffer_.get(), 1, size_, file_) < size_ && error_ == 0) {
    error_ = errno;
  }
  size_ = 0;
}

void TextOutput::BeginCrc() {
  Flush();
  has_crc_ = true;
  crc_ = 0;
}

uint32_t TextOutput::Crc() {
  Flush();
  return crc_;
}

void TextOutput::Add(std::string_view text) {
  while (!text.empty()) {
    if (size_ == kBufferBytes) Flush();
    const size_t size = std::min(text.size(), kBufferBytes - size_);
    memcpy(buffer_.get() + size_, text.data(), size);
    size_ += size;
    text.remove_prefix(size);
  }
}

template <typename Encode>
void TextOutput::AddPieces(const Slice& bytes, const Encode& encode) {
  for (const char* from = bytes.begin(); from < bytes.end();) {
    if (kBufferBytes - size_ < kLongestText) Flush();
    const char* const to =
        EncodePiece(encode, &from, bytes.end(), buffer_.get() + size_,
                    kBufferBytes - size_);
    size_ = static_cast<size_t>(to - buffer_.get());
  }
}

void TextOutput::Add(const Slice& bytes, Form form) {
  // Encodes single characters only where a run of plain text ends.
  const auto runs = [this, &bytes](const auto& encode) {
    Slice rest = bytes;
    while (!rest.empty()) {
      const size_t run = PlainRun(rest.begin(), rest.end());
      Add(std::string_view(rest.data(), run));
      rest.remove_prefix(run);
      if (rest.empty()) return;
      // Up to eight bytes that are not plain, since more of them often follow.
      if (kBufferBytes - size_ < 8 * kLongestText) Flush();
      char* to = buffer_.get() + size_;
      const char* from = rest.begin();
      for (int i = 0; i < 8 && from < rest.end(); ++i) {
        to = encode(&from, rest.end(), to);
      }
      rest.remove_prefix(static_cast<size_t>(from - rest.begin()));
      size_ = static_cast<size_t>(to - buffer_.get());
    }
  };
  switch (form) {
    case Form::kText:
      runs(EncodeText());
      break;
    case Form::kEscaped:
      runs(EncodeEscaped());
      break;
    case Form::kRaw:
      Add(bytes.ToStringView());
      break;
    case Form::kHex:
      Add("0x");
      AddPieces(bytes, EncodeHex());
      break;
  }
}

void TextOutput::AddJsonField(std::string_view name, const Slice& bytes,
                              bool hex) {
  hex = hex || !IsUtf8(bytes);
  Add("\"");
  Add(name);
  Add(hex ? "_hex\":\"" : "\":\"");
  if (hex) {
    AddPieces(bytes, EncodeHex());
  } else {
    AddPieces(bytes, EncodeJson());
  }
  Add("\"");
}

void PrintQuoted(const Slice& bytes, bool hex, FILE* out) {
  const auto print = [out](std::string_view piece) {
    fwrite(piece.data(), 1, piece.size(), out);
  };
  fputs(hex ? "0x" : "'", out);
  if (hex) {
    EncodePieces(EncodeHex(), bytes, print);
  } else {
    EncodePieces(EncodeQuoted(), bytes, print);
    fputc('\'', out);
  }
}

// ---- Strings ---------------------------------------------------------------

bool ParseNumber(std::string_view text, int base, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number, base);
  return error == std::errc() && rest == end;
}

bool DecodeHex(const Slice& text, std::string* bytes) {
  if (!text.starts_with("0x") || text.size() % 2 != 0) return false;
  bytes->resize(text.size() / 2 - 1);
  const char* from = text.begin() + 2;
  for (char& byte : *bytes) {
    if (!DecodePair(from, &byte)) return false;
    from += 2;
  }
  return true;
}

bool DecodeEscaped(const Slice& text, std::string* bytes) {
  return DecodeBackslashes(text, IsPlain, bytes);
}

bool DecodeText(const Slice& text, std::string* bytes) {
  return DecodeBackslashes(
      text, [](char) { return true; }, bytes);
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

std::string Printable(const Slice& bytes) { return Encoded<EncodeText>(bytes); }

std::string Visible(const Slice& bytes) {
  return Encoded<EncodeVisible>(bytes);
}

std::string Escaped(const Slice& bytes) {
  return Encoded<EncodeEscaped>(bytes);
}

}  // namespace varve
