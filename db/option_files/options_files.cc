// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/option_files/options_files.h"

#include <algorithm>
#include <set>

#include "db/option_files/newest_options.h"
#include "db/option_files/options_lines.h"
#include "env/file_names.h"

namespace varve {

namespace {

constexpr size_t kKeptFiles = 2;

std::set<std::string> FamiliesOf(const OptionsDocument& document) {
  std::set<std::string> names;
  for (const OptionsDocument::Family& one : document.families) {
    names.insert(one.name);
  }
  return names;
}

}  // namespace

void OptionsFiles::Found(std::vector<uint64_t> numbers) {
  numbers_ = std::move(numbers);
  std::sort(numbers_.begin(), numbers_.end());
}

Status OptionsFiles::Merge(const OptionsDocument& document, std::string* text,
                           std::string* newest_text) const {
  *text = ToString(document);
  if (numbers_.empty()) return Status::OK();
  const std::string path = PathOf(this->newest());
  Status status = ReadOptionsText(env_, path, newest_text);
  // Otherwise its lines might be there the next time.
  if (status.IsIOError()) return status;
  OptionsDocument newest;
  if (!status.ok() || *text == *newest_text ||
      !ParseOptionsDocument(*newest_text, path, &newest).ok()) {
    return Status::OK();
  }
  OptionsDocument merged = document;
  KeepOtherLines(newest, &merged);
  *text = ToString(merged);
  return Status::OK();
}

Status OptionsFiles::GetText(const OptionsDocument& document,
                             std::string* text) const {
  std::string newest_text;
  return Merge(document, text, &newest_text);
}

Status OptionsFiles::Write(const OptionsDocument& document,
                           const std::function<uint64_t()>& new_number) {
  std::string text;
  std::string newest_text;
  Status status = Merge(document, &text, &newest_text);
  if (!status.ok() || text == newest_text) return status;
  const uint64_t number = new_number();
  status = WriteFile(text, number);
  if (!status.ok()) return status;
  numbers_.push_back(number);
  return status;
}

void OptionsFiles::RemoveOld() { Keep(kKeptFiles).IgnoreError(); }

Status OptionsFiles::RemoveUnlessOf(const OptionsDocument& document) {
  if (numbers_.empty()) return Status::OK();
  OptionsDocument newest;
  Status status = ReadOptionsDocument(env_, PathOf(numbers_.back()), &newest);
  if (status.IsIOError()) return status;  // As in Merge.
  return status.ok() && FamiliesOf(newest) == FamiliesOf(document)
             ? Status::OK()
             : Keep(0);
}

std::string OptionsFiles::PathOf(uint64_t number) const {
  return OptionsFileName(directory_, number);
}

Status OptionsFiles::WriteFile(const std::string& text, uint64_t number) {
  const std::string path = PathOf(number);
  const std::string temporary = path + ".dbtmp";
  Status status = WriteStringToFile(env_, text, temporary, /*sync=*/true);
  if (status.ok()) status = env_->RenameFile(temporary, path);
  if (!status.ok()) env_->RemoveFile(temporary).IgnoreError();
  return status;
}

Status OptionsFiles::Keep(size_t count) {
  Status result;
  std::vector<uint64_t> kept;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    Status status;
    if (i + count < numbers_.size()) {
      status = env_->RemoveFile(PathOf(numbers_[i]));
      if (status.ok() || status.IsNotFound()) continue;
    }
    kept.push_back(numbers_[i]);
    if (result.ok()) result = status;
  }
  numbers_ = std::move(kept);
  return result;
}

}  // namespace varve
