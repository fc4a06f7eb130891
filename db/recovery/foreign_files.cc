// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/foreign_files.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "db/wal/wal_reader.h"
#include "table/block/format.h"
#include "util/bytes/coding.h"

namespace varve {

namespace {

enum class Contents : uint8_t {
  kOwn,      // The engine's, or not to be read.
  kNothing,  // Empty, zero, or too little to tell.
  kForeign,  // The engine writes no such file.
};

// This many bytes at a file's begin are checked for text.
constexpr size_t kBeginningBytes = 512;

// This many random bytes, which a power failure may leave, are sometimes
// letters by chance.
constexpr size_t kFewBytes = 16;

// In the name of an old info log: microseconds since 1970, up to 2001. Nobody
// else writes a later time so.
constexpr uint64_t kPlausibleTimeUs = 1000000000000000;

// Returns false if it cannot be read.
bool ReadBeginning(Env* env, const std::string& path, std::string* text) {
  std::unique_ptr<SequentialFile> file;
  char scratch[kBeginningBytes];
  Slice result;
  if (!env->NewSequentialFile(path, FileOptions(), &file).ok() ||
      !file->Read(sizeof(scratch), &result, scratch).ok()) {
    return false;
  }
  *text = result.ToString();
  return true;
}

bool IsZero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// Returns the length of the UTF-8 character at the front of the text by its
// first byte. Returns 0 if no character begins with it, or if it is a control
// character other than a tab or a line end.
size_t CharacterBytes(unsigned char first) {
  if (first < 0x20) return first >= '\t' && first <= '\r' ? 1 : 0;
  if (first < 0x7F) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Returns true if the bytes are readable UTF-8, perhaps truncated at the end. A
// few bytes count only if they end in a line.
bool IsText(std::string_view bytes) {
  if (bytes.size() < 2) return false;
  if (bytes.size() < kFewBytes && bytes.back() != '\n') return false;
  while (!bytes.empty()) {
    const size_t size = CharacterBytes(static_cast<unsigned char>(bytes[0]));
    if (size == 0) return false;
    const std::string_view rest = bytes.substr(1, size - 1);
    if (std::any_of(rest.begin(), rest.end(),
                    [](char c) { return (c & 0xC0) != 0x80; })) {
      return false;
    }
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return true;
}

// For a log or a MANIFEST. A file with a far number is not searched for
// records. The type of a record is in the seventh byte, and no text has such a
// byte. A file that is neither a record nor a text may be a log torn by a power
// failure.
Contents ClassifyLog(Env* env, const std::string& path, uint64_t number,
                     bool is_far) {
  std::string beginning;
  std::unique_ptr<SequentialFile> file;
  if (!ReadBeginning(env, path, &beginning) ||
      !env->NewSequentialFile(path, FileOptions(), &file).ok()) {
    return Contents::kOwn;
  }
  wal::Reader reader(std::move(file), path, number);
  Slice record;
  const wal::ReadOutcome outcome = reader.ReadRecord(&record);
  if (outcome == wal::ReadOutcome::kEnd) return Contents::kNothing;
  if (outcome != wal::ReadOutcome::kDamage &&
      outcome != wal::ReadOutcome::kTornTail) {
    return Contents::kOwn;
  }
  if (!is_far && !reader.EndIsTorn(outcome, /*need_is_checked=*/true)) {
    return Contents::kOwn;
  }
  return IsText(beginning) ? Contents::kForeign : Contents::kNothing;
}

// A table that was interrupted while it was written has no end. But it begins
// with a block, whose first key shares 0 bytes with the previous key. So the
// file begins with that zero, or with a compressed block.
Contents ClassifyTable(Env* env, const std::string& path) {
  std::string beginning;
  uint64_t size = 0;
  if (!ReadBeginning(env, path, &beginning) ||
      !env->GetFileSize(path, &size).ok()) {
    return Contents::kOwn;
  }
  if (size == 0) return Contents::kNothing;
  std::unique_ptr<RandomAccessFile> file;
  char scratch[sizeof(uint64_t)];
  Slice magic;
  if (size >= sizeof(scratch) &&
      env->NewRandomAccessFile(path, FileOptions(), &file).ok() &&
      file->Read(size - sizeof(scratch), sizeof(scratch), &magic, scratch)
          .ok() &&
      magic.size() == sizeof(scratch)) {
    const uint64_t number = DecodeFixed64(magic.data());
    if (number == kBlockBasedTableMagic || number == kLegacyTableMagic) {
      return Contents::kOwn;
    }
  }
  return IsText(beginning) ? Contents::kForeign : Contents::kNothing;
}

// A temporary file for CURRENT, IDENTITY, an options file or a table, perhaps
// truncated.
Contents ClassifyTemporary(Env* env, const std::string& path) {
  static constexpr std::string_view kBeginnings[] = {
      "MANIFEST-", "# This is a RocksDB option file."};
  std::string text;
  if (!ReadBeginning(env, path, &text)) return Contents::kOwn;
  if (IsZero(text)) return Contents::kNothing;
  for (const std::string_view beginning : kBeginnings) {
    if (beginning.starts_with(text.substr(0, beginning.size()))) {
      return Contents::kOwn;
    }
  }
  const bool is_identity =
      text.find_first_not_of("0123456789abcdefABCDEF-\n") == std::string::npos;
  return is_identity || !IsText(text) ? Contents::kOwn : Contents::kForeign;
}

// Lines of an info log begin with a date.
Contents ClassifyInfoLog(Env* env, const std::string& path) {
  static constexpr std::string_view kDate = "dddd/dd/dd-dd:dd:dd";
  std::string text;
  if (!ReadBeginning(env, path, &text) || !IsText(text)) return Contents::kOwn;
  for (size_t i = 0; i < std::min(kDate.size(), text.size()); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kDate[i] == 'd' ? !is_digit : text[i] != kDate[i]) {
      return Contents::kForeign;
    }
  }
  return Contents::kOwn;
}

// A directory, a pipe, a socket, a device, or a link that leads nowhere. The
// engine creates none of these.
bool IsNoFile(Env* env, const std::string& path) {
  uint64_t size;
  return env->GetFileSize(path, &size).IsNotSupported();
}

}  // namespace

bool IsForeignFile(Env* env, const std::string& path, FileKind type,
                   uint64_t number, uint64_t next_file_number) {
  const bool is_far =
      number > kMaxFileNumber || (number >= next_file_number &&
                                  number - next_file_number >= kFarFileNumbers);
  Contents contents = Contents::kOwn;
  switch (type) {
    case FileKind::kCurrent:
    case FileKind::kLock:
    case FileKind::kIdentity:
      return false;  // A database needs them.
    default:
      if (IsNoFile(env, path)) return true;
  }
  switch (type) {
    case FileKind::kWal:
    case FileKind::kManifest:
      contents = ClassifyLog(env, path, number, is_far);
      break;
    case FileKind::kTable:
    case FileKind::kLevelDbTable:
      contents = ClassifyTable(env, path);
      break;
    case FileKind::kTemp:
      contents = ClassifyTemporary(env, path);
      break;
    case FileKind::kInfoLog:
      // The one in use has no number. A machine's clock may begin at 1970.
      return number != 0 && number < kPlausibleTimeUs &&
             ClassifyInfoLog(env, path) == Contents::kForeign;
    default:
      return false;
  }
  return contents == Contents::kForeign ||
         (contents == Contents::kNothing && is_far) || number > kMaxFileNumber;
}

}  // namespace varve
