// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/option_files/options_document.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "varve/column_family.h"

namespace varve {

namespace {

// More than RocksDB has options. Options are searched for one by one.
constexpr size_t kMaxLines = 1000;  // In a section.
constexpr size_t kMaxLineBytes = 64 << 10;

constexpr std::string_view kOwnLine = "#varve ";
constexpr std::string_view kFamilyTitle = "CFOptions";
constexpr std::string_view kDatabaseTitle = "DBOptions";
constexpr std::string_view kTableTitle = "TableOptions/BlockBasedTable";
constexpr std::string_view kAnyTableTitle = "TableOptions/";
constexpr std::string_view kVersionTitle = "Version";

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Removes a comment, which begins at a '#' without a backslash before it.
std::string_view WithoutComment(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

// Reads a document line by line.
class Reader {
 public:
  Reader(const std::string& path, OptionsDocument* document)
      : path_(path), document_(document) {}

  Status Read(std::string_view text) {
    *document_ = OptionsDocument();
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      ++line_number_;
      Status status = ReadLine(text.substr(0, end));
      if (!status.ok()) return status;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (document_->families.empty()) {
      return Wrong("the file has no default family");
    }
    return Status::OK();
  }

 private:
  Status Wrong(std::string_view what) const {
    return Status::Corruption(path_ + ":" + std::to_string(line_number_), what);
  }

  Status ReadLine(std::string_view line) {
    if (line.size() > kMaxLineBytes) return Wrong("the line is too long");
    line = Trimmed(line);
    const bool is_own = line.starts_with(kOwnLine);
    if (is_own) line.remove_prefix(kOwnLine.size());
    line = Trimmed(WithoutComment(line));
    if (line.empty()) return Status::OK();
    if (!is_own && line.front() == '[' && line.back() == ']') {
      return BeginSection(line.substr(1, line.size() - 2));
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Wrong("the line has no '='");
    OptionsLine one = {std::string(Trimmed(line.substr(0, equals))),
                       std::string(Trimmed(line.substr(equals + 1))), is_own,
                       line_number_};
    if (one.name.empty()) return Wrong("the line has no name");
    if (section_ == nullptr) return Wrong("the line is in no section");
    if (section_->size() == kMaxLines) return Wrong("too many lines");
    section_->push_back(std::move(one));
    return section_ == &version_ ? ReadVersion(version_.back()) : Status::OK();
  }

  Status ReadVersion(const OptionsLine& line) {
    if (line.name == "rocksdb_version") {
      document_->version = line.value;
    } else if (line.name == "options_file_version") {
      int major = 0;
      const char* const end = line.value.data() + line.value.size();
      const auto read = std::from_chars(line.value.data(), end, major);
      if (read.ec != std::errc() || major != 1) {
        return Wrong("the format's version is not 1");
      }
    }
    return Status::OK();
  }

  // Takes the text between the brackets, such as CFOptions "default".
  Status BeginSection(std::string_view text) {
    std::string family;
    const size_t quote = std::min(text.find('"'), text.size());
    const std::string_view title = Trimmed(text.substr(0, quote));
    if (quote < text.size()) {
      const size_t end = text.rfind('"');
      if (end == quote) return Wrong("the section's name has no end");
      family = UnescapeOption(text.substr(quote + 1, end - quote - 1));
    }
    if (title == kVersionTitle) {
      if (section_ != nullptr) {
        return Wrong("[Version] must be the first section, and only once");
      }
      section_ = &version_;
      return Status::OK();
    }
    if (section_ == nullptr)
      return Wrong("[Version] must be the first section");
    if (title == kDatabaseTitle) return BeginDatabase();
    if (title == kFamilyTitle) return BeginFamily(std::move(family));
    if (title.starts_with(kAnyTableTitle)) {
      return BeginTable(family, title == kTableTitle);
    }
    return Wrong("unknown section");
  }

  Status BeginDatabase() {
    if (has_database_) return Wrong("[DBOptions] must be there only once");
    has_database_ = true;
    section_ = &document_->database;
    return Status::OK();
  }

  Status BeginFamily(std::string name) {
    if (!has_database_) return Wrong("[DBOptions] must be before families");
    if (name.empty()) return Wrong("the family has no name");
    if (!names_.insert(name).second) return Wrong("the family is there twice");
    if (document_->families.empty() && name != kDefaultColumnFamilyName) {
      return Wrong("the default family must be the first");
    }
    OptionsDocument::Family& family = document_->families.emplace_back();
    family.name = std::move(name);
    section_ = &family.lines;
    return Status::OK();
  }

  Status BeginTable(const std::string& name, bool is_block_based) {
    if (document_->families.empty() ||
        document_->families.back().name != name) {
      return Wrong("the table is not after its family");
    }
    OptionsDocument::Family& family = document_->families.back();
    if (section_ != &family.lines) return Wrong("the table is there twice");
    section_ = is_block_based ? &family.table : &other_table_;
    return Status::OK();
  }

  const std::string& path_;
  OptionsDocument* const document_;
  OptionsLines* section_ = nullptr;  // Gets the lines.
  OptionsLines version_;
  OptionsLines other_table_;
  std::set<std::string> names_;  // Of families.
  bool has_database_ = false;
  size_t line_number_ = 0;
};

void AddSection(std::string_view title, const std::string* family,
                const OptionsLines& lines, std::string* text) {
  text->append("\n[").append(title);
  if (family != nullptr) {
    text->append(" \"").append(EscapeOption(*family)).append("\"");
  }
  text->append("]\n");
  for (const OptionsLine& line : lines) {
    text->append("  ").append(line.is_own ? kOwnLine : "");
    text->append(line.name).append("=").append(line.value).append("\n");
  }
}

}  // namespace

const OptionsLine* FindLine(const OptionsLines& lines, std::string_view name) {
  const auto found =
      std::find_if(lines.begin(), lines.end(),
                   [&](const OptionsLine& one) { return one.name == name; });
  return found == lines.end() ? nullptr : &*found;
}

Status ParseOptionsDocument(std::string_view text, const std::string& path,
                            OptionsDocument* document) {
  return Reader(path, document).Read(text);
}

std::string ToString(const OptionsDocument& document) {
  std::string text = "# This is a RocksDB option file.\n# Varve wrote it.\n";
  AddSection(
      kVersionTitle, nullptr,
      {{"rocksdb_version", document.version}, {"options_file_version", "1.1"}},
      &text);
  AddSection(kDatabaseTitle, nullptr, document.database, &text);
  for (const OptionsDocument::Family& family : document.families) {
    AddSection(kFamilyTitle, &family.name, family.lines, &text);
    AddSection(kTableTitle, &family.name, family.table, &text);
  }
  return text;
}

std::string UnescapeOption(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    ++i;
    result += text[i] == 'n' ? '\n' : text[i] == 'r' ? '\r' : text[i];
  }
  return result;
}

std::string EscapeOption(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      result += c == '\n' ? "\\n" : "\\r";
      continue;
    }
    if (c == '\\' || c == '#' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace varve
