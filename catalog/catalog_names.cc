// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "catalog/catalog_names.h"

#include <charconv>
#include <string_view>

#include "util/bytes/key_fold.h"

namespace varve {

namespace {

constexpr std::string_view kDatabasePrefix = "db-";
constexpr std::string_view kDroppedPrefix = "dropped-";
// Excluded so that few systems reject such names, for example in an export.
constexpr std::string_view kForbidden = "/\\:*?\"<>|";
constexpr char kHexDigits[] = "0123456789abcdef";

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool IsDeviceName(std::string_view name) {
  name = name.substr(0, name.find('.'));
  if (name == "con" || name == "prn" || name == "aux" || name == "nul") {
    return true;
  }
  return name.size() == 4 &&
         (name.starts_with("com") || name.starts_with("lpt")) &&
         name[3] >= '1' && name[3] <= '9';
}

// Returns whether there are control characters of ASCII or Latin-1, or line and
// paragraph separators.
bool HasControls(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    const std::string_view rest = name.substr(i);
    if (byte == 0xC2 && rest.size() > 1 &&
        static_cast<unsigned char>(rest[1]) < 0xA0) {
      return true;
    }
    if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) return true;
  }
  return false;
}

Status Refuse(const char* why, const Slice& name) {
  return Status::InvalidArgument(
      std::string("database name: ") + why,
      Slice(name.data(), std::min(name.size(), kMaxDatabaseNameBytes)));
}

}  // namespace

Status CheckDatabaseName(const Slice& folded) {
  const std::string_view name = folded.ToStringView();
  if (name.empty()) return Refuse("it is empty", folded);
  if (name.size() > kMaxDatabaseNameBytes) {
    return Refuse("it is longer than 80 bytes", folded);
  }
  if (HasControls(name)) {
    return Refuse("it has a control character", folded.ToString(true));
  }
  if (name.find_first_of(kForbidden) != name.npos) {
    return Refuse("it has one of / \\ : * ? \" < > |", folded);
  }
  if (name.find("..") != name.npos) return Refuse("it has two dots", folded);
  for (const char c : {name.front(), name.back()}) {
    if (c == '.' || c == ' ') {
      return Refuse("it begins or ends with a dot or space", folded);
    }
  }
  if (IsDeviceName(name)) return Refuse("it is reserved", folded);
  return Status::OK();
}

Status NoSuchDatabase(const Slice& folded) {
  Status status = CheckDatabaseName(folded);
  return status.ok() ? Status::NotFound("no database of that name", folded)
                     : status;
}

std::string DatabaseDirectory(const Slice& folded) {
  std::string directory(kDatabasePrefix);
  for (const char c : folded) {
    if (IsPlain(c)) {
      directory.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    directory.push_back('%');
    directory.push_back(kHexDigits[byte >> 4]);
    directory.push_back(kHexDigits[byte & 15]);
  }
  return directory;
}

bool ParseDatabaseDirectory(const std::string& directory, std::string* folded) {
  std::string_view rest = directory;
  if (!rest.starts_with(kDatabasePrefix)) return false;
  rest.remove_prefix(kDatabasePrefix.size());
  std::string name;
  while (!rest.empty()) {
    if (rest[0] != '%') {
      name.push_back(rest[0]);
      rest.remove_prefix(1);
      continue;
    }
    if (rest.size() < 3) return false;
    unsigned byte = 0;
    const char* const end = rest.data() + 3;
    if (std::from_chars(rest.data() + 1, end, byte, 16).ptr != end) {
      return false;
    }
    name.push_back(static_cast<char>(byte));
    rest.remove_prefix(3);
  }
  // A name that DatabaseDirectory would not produce belongs to others.
  std::string again;
  if (DatabaseDirectory(name) != directory || !CheckDatabaseName(name).ok() ||
      !FoldText(name, KeyFolding::kAsciiFirst, &again) || again != name) {
    return false;
  }
  *folded = std::move(name);
  return true;
}

std::string DroppedDirectory(uint64_t number) {
  return std::string(kDroppedPrefix) + std::to_string(number);
}

bool ParseDroppedDirectory(const std::string& directory, uint64_t* number) {
  std::string_view rest = directory;
  if (!rest.starts_with(kDroppedPrefix)) return false;
  rest.remove_prefix(kDroppedPrefix.size());
  const char* const end = rest.data() + rest.size();
  const auto [parsed, error] = std::from_chars(rest.data(), end, *number);
  return error == std::errc() && parsed == end &&
         DroppedDirectory(*number) == directory;
}

}  // namespace varve
