// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/backup_meta.h"

#include <set>
#include <string_view>
#include <utility>

#include "util/base/append_format.h"
#include "util/bytes/checksum.h"

namespace varve {

namespace {

using std::string_view;

constexpr string_view kSchemaField = "schema_version ";
constexpr string_view kMetadataField = "metadata";
constexpr string_view kChecksumField = "crc32";  // It is a CRC-32C.
constexpr string_view kSizeField = "size";
constexpr string_view kTemperatureField = "temp";
constexpr string_view kExcludedField = "ni::excluded";
// Readers that do not know such a field must not use the backup.
constexpr string_view kRequiredPrefix = "ni::";
constexpr string_view kFooter = "// FOOTER";
// Varve's own, which RocksDB skips: the CRC-32C of the text before its line.
constexpr string_view kOwnChecksumField = "varve.crc32c";

constexpr std::pair<string_view, Temperature> kTemperatures[] = {
    {"kHot", Temperature::kHot},
    {"kWarm", Temperature::kWarm},
    {"kCold", Temperature::kCold},
};

bool ParseNumber(string_view text, uint64_t max, uint64_t* value) {
  if (text.empty()) return false;
  uint64_t result = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (result > (max - digit) / 10) return false;
    result = result * 10 + digit;
  }
  *value = result;
  return true;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ParseHex(string_view text, std::string* bytes) {
  if (text.size() % 2 != 0) return false;
  bytes->clear();
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high * 16 + low));
  }
  return true;
}

void AppendHex(const std::string& bytes, std::string* text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text->push_back(kDigits[byte >> 4]);
    text->push_back(kDigits[byte & 15]);
  }
}

// Reads the lines of a text.
class MetaParser {
 public:
  MetaParser(const Slice& text, BackupMeta* meta)
      : text_(text.data(), text.size()), rest_(text_), meta_(meta) {}

  Status Parse() {
    Status status = ParseHeader();
    if (status.ok()) status = ParseFiles();
    if (status.ok() && schema_ >= 2) status = ParseFooter();
    return status;
  }

 private:
  Status Bad(const char* what) const {
    std::string message = "line ";
    message += std::to_string(line_number_);
    return Status::Corruption(message, what);
  }

  // Returns false at the end. A line without an end is none.
  bool NextLine(string_view* line) {
    const size_t end = rest_.find('\n');
    if (end == string_view::npos) return false;
    *line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    ++line_number_;
    return true;
  }

  // Takes the part up to the next space from *line.
  static string_view NextWord(string_view* line) {
    const size_t end = std::min(line->find(' '), line->size());
    const string_view word = line->substr(0, end);
    line->remove_prefix(std::min(end + 1, line->size()));
    return word;
  }

  Status ParseHeader() {
    string_view line;
    if (!NextLine(&line)) return Bad("the text is incomplete");
    if (line.starts_with(kSchemaField)) {
      const string_view version = line.substr(kSchemaField.size());
      if (version != "2" && !version.starts_with("2.")) {
        return Status::NotSupported("schema version", std::string(version));
      }
      schema_ = 2;
      if (!NextLine(&line)) return Bad("the text is incomplete");
    }
    uint64_t value;
    if (!ParseNumber(line, INT64_MAX, &value)) return Bad("not a time");
    meta_->timestamp_s = static_cast<int64_t>(value);
    if (!NextLine(&line) || !ParseNumber(line, UINT64_MAX, &meta_->sequence)) {
      return Bad("not a sequence number");
    }
    return ParseFields();
  }

  // Ends after the number of files.
  Status ParseFields() {
    string_view line;
    while (NextLine(&line)) {
      if (!line.empty() && line[0] >= '0' && line[0] <= '9') {
        return ParseNumber(line, UINT32_MAX, &file_count_)
                   ? Status::OK()
                   : Bad("not a number of files");
      }
      const string_view name = NextWord(&line);
      if (name == kMetadataField) {
        if (line.size() > 2 * kMaxAppMetadataBytes ||
            !ParseHex(line, &meta_->app_metadata)) {
          return Bad("metadata that is not hexadecimal");
        }
      } else if (schema_ < 2) {
        return Bad("no number of files");
      } else if (name.starts_with(kRequiredPrefix)) {
        return Status::NotSupported("field", std::string(name));
      }
    }
    return Bad("the text is incomplete");
  }

  Status ParseFiles() {
    string_view line;
    for (uint64_t i = 0; i < file_count_; ++i) {
      if (!NextLine(&line)) return Bad("the text is incomplete");
      Status status = ParseFile(line);
      if (!status.ok()) return status;
    }
    if (schema_ < 2 && !rest_.empty()) return Bad("more files than announced");
    return Status::OK();
  }

  Status ParseFile(string_view line) {
    BackupFile file;
    file.path = NextWord(&line);
    BackupPath path;
    if (!ParseBackupPath(file.path, meta_->id, &path)) {
      return Bad("not a file of a backup");
    }
    if (!names_.insert(path.db_name).second) return Bad("a file twice");
    file.size = path.size;
    bool is_excluded = false;
    while (!line.empty()) {
      const string_view field = NextWord(&line);
      const string_view value = NextWord(&line);
      uint64_t number;
      if (field == kChecksumField) {
        if (!ParseNumber(value, UINT32_MAX, &number)) return Bad("a checksum");
        file.crc32c = static_cast<uint32_t>(number);
        file.has_checksum = true;
      } else if (schema_ < 2) {
        return Bad("an unknown field");
      } else if (field == kSizeField) {
        if (!ParseNumber(value, INT64_MAX, &number)) return Bad("a size");
        if (file.size != kUnknownSize && file.size != number) {
          return Bad("two sizes");
        }
        file.size = number;
      } else if (field == kTemperatureField) {
        for (const auto& [name, temperature] : kTemperatures) {
          if (value == name) file.temperature = temperature;
        }
      } else if (field == kExcludedField) {
        is_excluded = value == "true";
      } else if (field.starts_with(kRequiredPrefix)) {
        return Status::NotSupported("field", std::string(field));
      }
    }
    if (schema_ < 2 && !file.has_checksum) return Bad("no checksum");
    if (is_excluded) {
      if (!path.is_shared) return Bad("an excluded private file");
      meta_->excluded.push_back(std::move(file.path));
    } else {
      meta_->files.push_back(std::move(file));
    }
    return Status::OK();
  }

  Status ParseFooter() {
    string_view line;
    if (!NextLine(&line)) return Status::OK();
    if (line != kFooter) return Bad("no footer");
    size_t before = text_.size() - rest_.size();
    while (NextLine(&line)) {
      const string_view field = NextWord(&line);
      if (field.starts_with(kRequiredPrefix)) {
        return Status::NotSupported("field", std::string(field));
      }
      uint64_t number;
      if (field == kOwnChecksumField &&
          (!ParseNumber(line, UINT32_MAX, &number) ||
           number != Crc32c(text_.data(), before))) {
        return Bad("the text has another checksum");
      }
      before = text_.size() - rest_.size();
    }
    return rest_.empty() ? Status::OK() : Bad("the text is incomplete");
  }

  const string_view text_;
  string_view rest_;
  BackupMeta* const meta_;
  int schema_ = 1;
  uint64_t file_count_ = 0;
  uint64_t line_number_ = 0;
  std::set<std::string> names_;  // In the database's directory.
};

}  // namespace

uint64_t BackupMeta::Size() const {
  uint64_t size = 0;
  for (const BackupFile& file : files) size += file.size;
  return size;
}

Status ParseBackupMeta(const Slice& text, BackupID id, BackupMeta* meta) {
  *meta = BackupMeta();
  meta->id = id;
  return MetaParser(text, meta).Parse().Annotate(MetaPath(id));
}

std::string FormatBackupMeta(const BackupMeta& meta, int schema_version) {
  std::string text;
  if (schema_version >= 2) text.append(kSchemaField).append("2.0\n");
  text += std::to_string(meta.timestamp_s) + "\n";
  text += std::to_string(meta.sequence) + "\n";
  if (!meta.app_metadata.empty()) {
    text.append(kMetadataField).append(" ");
    AppendHex(meta.app_metadata, &text);
    text += "\n";
  }
  text += std::to_string(meta.files.size() + meta.excluded.size()) + "\n";
  for (const std::string& path : meta.excluded) {
    text.append(path).append(" ").append(kExcludedField).append(" true\n");
  }
  const auto add = [&](string_view field, uint64_t value) {
    text.append(" ").append(field).append(" ").append(std::to_string(value));
  };
  for (const BackupFile& file : meta.files) {
    text += file.path;
    if (file.has_checksum) add(kChecksumField, file.crc32c);
    if (schema_version >= 2) add(kSizeField, file.size);
    text += "\n";
  }
  if (schema_version >= 2) {
    text.append(kFooter).append("\n");
    const uint32_t crc = Crc32c(text.data(), text.size());
    text.append(kOwnChecksumField).append(" ");
    text.append(std::to_string(crc)).append("\n");
  }
  return text;
}

}  // namespace varve
