// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/backup_names.h"

#include <algorithm>
#include <string_view>

namespace varve {

namespace {

constexpr std::string_view kTemporaryEnd = ".tmp";
constexpr size_t kMaxSessionBytes = 64;
constexpr size_t kMaxNameBytes = 200;

bool ParseDecimal(std::string_view text, uint64_t* value) {
  constexpr size_t kMaxDigits = 19;  // Fits whatever the digits are.
  if (text.empty() || text.size() > kMaxDigits) return false;
  *value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    *value = *value * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z');
}

bool IsTable(FileKind kind) {
  return kind == FileKind::kTable || kind == FileKind::kLevelDbTable ||
         kind == FileKind::kBlob;
}

// Inserts before the extension.
std::string Insert(const std::string& db_name, const std::string& middle) {
  std::string name = db_name;
  return name.insert(std::min(name.rfind('.'), name.size()), middle);
}

// Sets the names and the size of a file in shared_checksum/.
bool ParseChecksumName(BackupPath* path) {
  const std::string& name = path->name;
  const size_t begin = name.find('_');
  const size_t end = name.rfind('.');
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return false;
  }
  const std::string_view middle =
      std::string_view(name).substr(begin, end - begin);
  for (const char c : middle) {
    if (c != '_' && !IsAlphanumeric(c)) return false;
  }
  // Without a size in it, the last part is "s" and the session.
  const std::string_view last = middle.substr(middle.rfind('_') + 1);
  uint64_t size;
  if (middle.rfind('_') != 0 && ParseDecimal(last, &size)) path->size = size;
  path->db_name = name.substr(0, begin) + name.substr(end);
  return true;
}

}  // namespace

bool ParseBackupPath(const std::string& path, BackupID id, BackupPath* result) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return false;
  *result = BackupPath();
  result->folder = path.substr(0, slash);
  result->name = path.substr(slash + 1);
  if (result->name.size() > kMaxNameBytes) return false;
  result->db_name = result->name;
  if (result->folder == kSharedChecksumFolder) {
    result->is_shared = result->has_checksum_name = true;
    if (!ParseChecksumName(result)) return false;
  } else if (result->folder == kSharedFolder) {
    result->is_shared = true;
  } else if (result->folder != PrivateFolder(id)) {
    return false;
  }
  if (!ParseFileName(result->db_name, &result->number, &result->kind)) {
    return false;
  }
  if (IsTable(result->kind)) return true;
  return !result->is_shared && (result->kind == FileKind::kWal ||
                                result->kind == FileKind::kManifest ||
                                result->kind == FileKind::kCurrent ||
                                result->kind == FileKind::kIdentity ||
                                result->kind == FileKind::kOptions);
}

bool ParseBackupId(const std::string& name, BackupID* id) {
  uint64_t value;
  if (!ParseDecimal(name, &value) || value == 0 || value > UINT32_MAX ||
      name[0] == '0') {
    return false;
  }
  *id = static_cast<BackupID>(value);
  return true;
}

std::string MetaPath(BackupID id, bool is_temporary) {
  const std::string path = std::string(kMetaFolder) + "/" + std::to_string(id);
  return is_temporary ? TemporaryPath(path) : path;
}

std::string PrivateFolder(BackupID id) {
  return std::string(kPrivateFolder) + "/" + std::to_string(id);
}

std::string TemporaryPath(const std::string& path) {
  std::string result = path;
  result.insert(path.rfind('/') + 1, ".");
  return result.append(kTemporaryEnd);
}

bool IsTemporaryName(const std::string& name) {
  return name.size() > kTemporaryEnd.size() && name.ends_with(kTemporaryEnd);
}

std::string SessionPath(const std::string& db_name, const std::string& session,
                        uint64_t size, bool with_size) {
  std::string middle = "_s" + session;
  if (with_size) middle += "_" + std::to_string(size);
  return std::string(kSharedChecksumFolder) + "/" + Insert(db_name, middle);
}

std::string ChecksumPath(const std::string& db_name, uint32_t crc32c,
                         uint64_t size) {
  return std::string(kSharedChecksumFolder) + "/" +
         Insert(db_name,
                "_" + std::to_string(crc32c) + "_" + std::to_string(size));
}

bool IsSessionName(const std::string& session) {
  return !session.empty() && session.size() <= kMaxSessionBytes &&
         std::all_of(session.begin(), session.end(), IsAlphanumeric);
}

}  // namespace varve
