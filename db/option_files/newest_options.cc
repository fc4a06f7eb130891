// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/option_files/newest_options.h"

#include <cstdint>
#include <memory>
#include <utility>
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

Status ReadOptionsText(Env* env, const std::string& path, std::string* text) {
  // Most files are read by one call.
  constexpr size_t kReadBytes = 64 << 10;
  std::unique_ptr<SequentialFile> file;
  Status status = env->NewSequentialFile(path, FileOptions(), &file);
  const auto scratch = std::make_unique<char[]>(kReadBytes);
  text->clear();
  for (bool ended = false; status.ok() && !ended;) {
    Slice bytes;
    status = file->Read(kReadBytes, &bytes, scratch.get());
    text->append(bytes.data(), bytes.size());
    ended = bytes.size() < kReadBytes;
    if (text->size() > kMaxOptionsBytes) {
      return Status::Corruption(path, "it is too large for options");
    }
  }
  return status;
}

Status ReadOptionsDocument(Env* env, const std::string& path,
                           OptionsDocument* document) {
  std::string text;
  Status status = ReadOptionsText(env, path, &text);
  return status.ok() ? ParseOptionsDocument(text, path, document) : status;
}

}  // namespace varve
