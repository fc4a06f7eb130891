// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/unused_logs.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "db/directory/file_copy.h"
#include "env/file_names.h"

namespace varve {

namespace {

// A longer file is not what KeepUnusedLogs has written.
constexpr uint64_t kMaxBytes = 1 << 20;

std::string NotePath(const std::string& db_path) {
  return LostDirectory(db_path) + "/UNUSED";
}

// Takes the next line, without its end. Returns false if there is none.
bool TakeLine(std::string_view* text, std::string_view* line) {
  const size_t end = text->find('\n');
  if (end == std::string_view::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  return true;
}

// Takes "<word> <number>".
bool TakeNumber(std::string_view* line, std::string_view word,
                uint64_t* number) {
  if (!line->starts_with(word)) return false;
  line->remove_prefix(word.size());
  if (!line->starts_with(' ')) return false;
  line->remove_prefix(1);
  const auto [end, error] =
      std::from_chars(line->data(), line->data() + line->size(), *number);
  if (error != std::errc()) return false;
  line->remove_prefix(static_cast<size_t>(end - line->data()));
  return true;
}

// Parses what KeepUnusedLogs has written.
bool Parse(std::string_view text, UnusedLogs* logs) {
  std::string_view line;
  if (!TakeLine(&text, &line) || !TakeNumber(&line, "after", &logs->after) ||
      !line.empty() || !TakeLine(&text, &line) ||
      !TakeNumber(&line, "end", &logs->end) || !line.empty()) {
    return false;
  }
  while (TakeLine(&text, &line)) {
    UnusedLogs::File file;
    if (!TakeNumber(&line, "log", &file.number) || !line.starts_with(' ') ||
        line.find('/') != std::string_view::npos) {
      return false;
    }
    file.name = line.substr(1);
    logs->files.push_back(std::move(file));
  }
  return text.empty();
}

}  // namespace

std::string LostDirectory(const std::string& db_path) {
  return db_path + "/lost";
}

std::string FreeLostName(Env* env, const std::string& db_path,
                         const std::string& name) {
  const std::string path = LostDirectory(db_path) + "/" + name;
  std::string free = path;
  for (int i = 1; env->FileExists(free).ok(); ++i) {
    free = path + "." + std::to_string(i);
  }
  return free;
}

Status KeepUnusedLogs(Env* env, const std::string& db_path,
                      const UnusedLogs& logs) {
  const std::string lost_path = LostDirectory(db_path);
  Status status = env->CreateDirIfMissing(lost_path);
  std::string text = "after " + std::to_string(logs.after) + "\nend " +
                     std::to_string(logs.end) + "\n";
  for (const auto& [number, name] : logs.files) {
    if (!status.ok()) return status;
    const std::string from = WalFileName(db_path, number);
    const std::string to =
        FreeLostName(env, db_path, from.substr(db_path.size() + 1));
    status = env->LinkFile(from, to);
    if (status.IsNotSupported()) status = CopyFile(env, from, to, kWholeFile);
    text += "log " + std::to_string(number) +
            to.substr(lost_path.size()).replace(0, 1, " ") + "\n";
  }
  if (status.ok()) {
    status = WriteStringToFile(env, text, NotePath(db_path), true);
  }
  std::unique_ptr<Directory> lost;
  if (status.ok()) status = env->NewDirectory(lost_path, &lost);
  return status.ok() ? lost->Sync() : status;
}

UnusedLogs ReadUnusedLogs(Env* env, const std::string& db_path) {
  UnusedLogs logs;
  const std::string path = NotePath(db_path);
  uint64_t size = 0;
  std::string text;
  if (!env->GetFileSize(path, &size).ok() || size > kMaxBytes ||
      !ReadFileToString(env, path, &text).ok() || !Parse(text, &logs)) {
    return UnusedLogs();
  }
  return logs;
}

void ForgetUnusedLogs(Env* env, const std::string& db_path) {
  // If it stays, another repair adds the same updates.
  env->RemoveFile(NotePath(db_path)).IgnoreError();
}

}  // namespace varve
