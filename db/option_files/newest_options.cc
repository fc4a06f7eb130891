// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/option_files/newest_options.h"

#include <cstdint>
#include <vector>

#include "env/file_names.h"

namespace varve {

namespace {

// A file has a few KB for each column family.
constexpr uint64_t kMaxOptionsBytes = uint64_t{64} << 20;

}  // namespace

Status FindNewestOptions(Env* env, const std::string& directory,
                         std::string* name) {
  std::vector<std::string> names;
  Status status = env->GetChildren(directory, &names);
  if (!status.ok()) return status;
  uint64_t newest = 0;
  name->clear();
  for (const std::string& one : names) {
    uint64_t number = 0;
    FileKind kind;
    if (!ParseFileName(one, &number, &kind) || kind != FileKind::kOptions ||
        (number < newest && !name->empty())) {
      continue;
    }
    newest = number;
    *name = one;
  }
  return name->empty() ? Status::NotFound(directory, "has no OPTIONS file")
                       : Status::OK();
}

Status ReadOptionsDocument(Env* env, const std::string& path,
                           OptionsDocument* document, std::string* text) {
  uint64_t size = 0;
  std::string contents;
  Status status = env->GetFileSize(path, &size);
  if (status.ok() && size > kMaxOptionsBytes) {
    status = Status::Corruption(path, "it is too large for options");
  }
  if (status.ok()) status = ReadFileToString(env, path, &contents);
  if (status.ok()) status = ParseOptionsDocument(contents, path, document);
  if (status.ok() && text != nullptr) *text = std::move(contents);
  return status;
}

}  // namespace varve
