// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/file_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace varve {

namespace {

constexpr std::string_view kManifestPrefix = "MANIFEST-";
constexpr std::string_view kOptionsPrefix = "OPTIONS-";
constexpr std::string_view kOldInfoLogPrefix = "LOG.old.";
constexpr std::string_view kTempSuffix = ".dbtmp";

// File numbers are padded to this many digits.
constexpr size_t kNumberDigits = 6;

struct FixedName {
  std::string_view name;
  FileKind type;
};
constexpr std::array<FixedName, 5> kFixedNames = {{
    {"CURRENT", FileKind::kCurrent},
    {"LOCK", FileKind::kLock},
    {"LOG", FileKind::kInfoLog},
    {"LOG.old", FileKind::kInfoLog},
    {"IDENTITY", FileKind::kIdentity},
}};

// The suffixes that may follow a number.
constexpr std::array<FixedName, 7> kSuffixes = {{
    {".log", FileKind::kWal},
    {".log.dbtmp", FileKind::kTemp},
    {".sst", FileKind::kTable},
    {".sst.trash", FileKind::kTemp},
    {".ldb", FileKind::kLevelDbTable},
    {".blob", FileKind::kBlob},
    {kTempSuffix, FileKind::kTemp},
}};

bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// Removes the decimal digits at the front of *text. Returns false if the number
// does not fit, or is not in the engine's form: padded with zeros up to
// `least_digits`, and no further.
bool ConsumeNumber(std::string_view* text, size_t least_digits,
                   uint64_t* number) {
  const char first = text->empty() ? '\0' : text->front();
  uint64_t value = 0;
  size_t digit_count = 0;
  for (const char c : *text) {
    if (c < '0' || c > '9') break;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
    ++digit_count;
  }
  if (digit_count < least_digits) return false;
  if (digit_count > least_digits && first == '0') return false;
  text->remove_prefix(digit_count);
  *number = value;
  return true;
}

// Removes all of *text if it is a suffix that may follow a number.
bool ConsumeSuffix(std::string_view* text, FileKind* type) {
  for (const FixedName& suffix : kSuffixes) {
    if (*text == suffix.name) {
      *text = {};
      *type = suffix.type;
      return true;
    }
  }
  return false;
}

std::string SixDigits(uint64_t number) {
  char digits[20];
  const auto [end, error] =
      std::to_chars(std::begin(digits), std::end(digits), number);
  const auto count = static_cast<size_t>(end - digits);
  std::string text(count < kNumberDigits ? kNumberDigits - count : 0, '0');
  text.append(digits, count);
  return text;
}

std::string Join(const std::string& directory, std::string_view name) {
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path.append(directory);
  path.push_back('/');
  path.append(name);
  return path;
}

std::string ManifestName(uint64_t number) {
  return std::string(kManifestPrefix) + SixDigits(number);
}

}  // namespace

bool ParseFileName(const std::string& name, uint64_t* number, FileKind* type) {
  for (const FixedName& fixed : kFixedNames) {
    if (name == fixed.name) {
      *number = 0;
      *type = fixed.type;
      return true;
    }
  }
  std::string_view rest = name;
  uint64_t parsed = 0;
  FileKind found = FileKind::kTemp;
  if (ConsumePrefix(&rest, kManifestPrefix)) {
    found = FileKind::kManifest;
    if (!ConsumeNumber(&rest, kNumberDigits, &parsed)) return false;
  } else if (ConsumePrefix(&rest, kOldInfoLogPrefix)) {
    found = FileKind::kInfoLog;
    if (!ConsumeNumber(&rest, 1, &parsed)) return false;
  } else if (ConsumePrefix(&rest, kOptionsPrefix)) {
    if (!ConsumeNumber(&rest, kNumberDigits, &parsed)) return false;
    const bool temporary = ConsumePrefix(&rest, kTempSuffix);
    found = temporary ? FileKind::kTemp : FileKind::kOptions;
  } else {
    if (!ConsumeNumber(&rest, kNumberDigits, &parsed)) return false;
    if (!ConsumeSuffix(&rest, &found)) return false;
  }
  if (!rest.empty()) return false;
  *number = parsed;
  *type = found;
  return true;
}

std::string WalFileName(const std::string& directory, uint64_t number) {
  return Join(directory, SixDigits(number) + ".log");
}

std::string TableFileName(const std::string& directory, uint64_t number) {
  return Join(directory, SixDigits(number) + ".sst");
}

std::string LevelDbTableFileName(const std::string& directory,
                                 uint64_t number) {
  return Join(directory, SixDigits(number) + ".ldb");
}

std::string ManifestFileName(const std::string& directory, uint64_t number) {
  return Join(directory, ManifestName(number));
}

std::string OptionsFileName(const std::string& directory, uint64_t number) {
  return Join(directory, std::string(kOptionsPrefix) + SixDigits(number));
}

std::string TempFileName(const std::string& directory, uint64_t number) {
  return Join(directory, SixDigits(number) + std::string(kTempSuffix));
}

std::string CurrentFileName(const std::string& directory) {
  return Join(directory, "CURRENT");
}

std::string LockFileName(const std::string& directory) {
  return Join(directory, "LOCK");
}

std::string IdentityFileName(const std::string& directory) {
  return Join(directory, "IDENTITY");
}

std::string InfoLogFileName(const std::string& directory) {
  return Join(directory, "LOG");
}

std::string OldInfoLogFileName(const std::string& directory, uint64_t time_us) {
  return Join(directory,
              std::string(kOldInfoLogPrefix) + std::to_string(time_us));
}

void SortOldInfoLogs(uint64_t now_us, std::vector<std::string>* names) {
  const auto age_rank = [now_us](const std::string& name) {
    uint64_t time_us = 0;
    FileKind type = FileKind::kInfoLog;
    if (!ParseFileName(name, &time_us, &type)) time_us = 0;
    return std::pair(time_us <= now_us, time_us);
  };
  std::sort(names->begin(), names->end(),
            [&age_rank](const std::string& a, const std::string& b) {
              return age_rank(a) < age_rank(b);
            });
}

std::string ParentDirectory(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.find_last_of('/', last);
  if (slash == std::string::npos) return ".";
  const size_t end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

Status MakeSafeDirectory(Env* env, const std::string& path,
                         bool create_if_missing) {
  Status status = env->FileExists(path);
  const bool is_missing = status.IsNotFound();
  if (is_missing && !create_if_missing) {
    return Status::InvalidArgument(
        path, "does not exist (create_if_missing is false)");
  }
  if (is_missing) status = env->CreateDirIfMissing(path);
  if (!status.ok()) return status;
  std::unique_ptr<Directory> parent;
  status = env->NewDirectory(ParentDirectory(path), &parent);
  // The creator of the directory may deny access to its parent.
  if (!status.ok() && !is_missing) return Status::OK();
  if (status.ok()) status = parent->Sync();
  // The next attempt must find it missing: no later sync makes durable the
  // changes of a failed sync.
  if (!status.ok() && is_missing) env->RemoveDir(path).IgnoreError();
  return status;
}

Status SetCurrentFile(Env* env, const std::string& directory, Directory* handle,
                      uint64_t manifest_number, bool* may_be_new) {
  if (may_be_new != nullptr) *may_be_new = false;
  const std::string temporary = TempFileName(directory, manifest_number);
  // Synced before the rename: otherwise a crash may leave the new name with
  // no contents.
  Status status = WriteStringToFile(env, ManifestName(manifest_number) + "\n",
                                    temporary, /*sync=*/true);
  if (!status.ok()) return status;
  if (may_be_new != nullptr) *may_be_new = true;
  status = env->RenameFile(temporary, CurrentFileName(directory));
  if (!status.ok()) {
    // If it stays, garbage collection removes it later. The first error counts.
    env->RemoveFile(temporary).IgnoreError();
    return status;
  }
  return handle->Sync();
}

Status ReadCurrentFile(Env* env, const std::string& directory,
                       std::string* manifest_name) {
  const std::string path = CurrentFileName(directory);
  std::unique_ptr<SequentialFile> file;
  Status status = env->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  // The longest valid name and its newline need 30 bytes. No more than this is
  // read of a damaged file, however long it is.
  char scratch[64];
  Slice contents;
  status = file->Read(sizeof(scratch), &contents, scratch);
  if (!status.ok()) return status;

  if (contents.empty()) return Status::Corruption(path, "empty");
  if (contents.size() == sizeof(scratch)) {
    return Status::Corruption(path, "too long to name a MANIFEST");
  }
  std::string_view line = contents.ToStringView();
  if (line.back() != '\n') {
    return Status::Corruption(path, "no newline at the end");
  }
  line.remove_suffix(1);
  uint64_t number = 0;
  FileKind type = FileKind::kTemp;
  std::string name(line);
  if (!ParseFileName(name, &number, &type) || type != FileKind::kManifest) {
    return Status::Corruption(path, "does not name a MANIFEST");
  }
  *manifest_name = std::move(name);
  return Status::OK();
}

}  // namespace varve
