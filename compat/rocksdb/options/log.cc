// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/log.h"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "compat/rocksdb/options/translate.h"

namespace varve::rocksdb_c {
namespace {

// Writes one line. Not limited in length.
void WriteLine(Logger* logger, const std::string& line) {
  Log(LogLevel::kInfo, logger, "%s", line.c_str());
}

// A place for the file LOG: the database's directory, or db_log_dir, where the
// name then begins with the database's path.
std::string LogPath(const rocksdb_options_t& options, const std::string& path) {
  if (options.db_log_dir.empty()) return path + "/LOG";
  std::string name;
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    const bool stays = isalnum(static_cast<unsigned char>(c)) != 0 ||
                       c == '-' || c == '.' || c == '_';
    if (stays) name += c;
    if (!stays && i > 0) name += '_';
  }
  return options.db_log_dir + "/" + name + "_LOG";
}

// Removes all but the ten newest files whose paths begin with `prefix`, as the
// engine does in the database's directory.
void RemoveOldest(Env* env, const std::string& directory,
                  const std::string& prefix) {
  constexpr size_t kKept = 10;
  std::vector<std::string> names;
  env->GetChildren(directory, &names).IgnoreError();
  for (std::string& name : names) name.insert(0, directory + "/");
  std::erase_if(names, [&](const std::string& path) {
    return !path.starts_with(prefix);
  });
  // Their names end with times of the same length.
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i + kKept < names.size(); ++i) {
    env->RemoveFile(names[i]).IgnoreError();
  }
}

// Creates the file at its first line from the engine, which has the lock of the
// database then. Earlier lines wait for it. Thread-safety: thread-safe.
class DatabaseLog final : public Logger {
 public:
  struct File {
    std::shared_ptr<Env> env;  // Null: the operating system's.
    std::string directory;     // Created if it is not the database's.
    std::string path;
    LogLevel least = LogLevel::kDebug;
  };

  // With the program's logger, which filters lines itself.
  explicit DatabaseLog(std::shared_ptr<Logger> target)
      : target_(std::move(target)), is_open_(true) {}
  explicit DatabaseLog(File file) : file_(std::move(file)) {}

  void Logv(LogLevel level, const char* format, va_list arguments) override {
    Open();
    if (level >= file_.least && target_ != nullptr) {
      target_->Logv(level, format, arguments);
    }
  }

  // Writes a line that no level drops.
  void Write(const std::string& line) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!is_open_) {
        early_.push_back(line);
        return;
      }
    }
    WriteLine(target_.get(), line);
  }

 private:
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_open_) return;
    is_open_ = true;
    Env* const env = file_.env != nullptr ? file_.env.get() : Env::Default();
    if (!file_.directory.empty()) {
      env->CreateDirIfMissing(file_.directory).IgnoreError();
    }
    // Losing an old log is no reason to refuse a database, nor is the lack of a
    // new one.
    const std::string old = file_.path + ".old.";
    // The date of the new log.
    env->RenameFile(file_.path, old + std::to_string(env->NowMicros()))
        .IgnoreError();
    if (!file_.directory.empty()) RemoveOldest(env, file_.directory, old);
    env->NewLogger(file_.path, &target_).IgnoreError();
    for (const std::string& line : early_) WriteLine(target_.get(), line);
    early_.clear();
  }

  const File file_;
  std::mutex mutex_;
  // Guarded by mutex_ until is_open_; then constant.
  std::shared_ptr<Logger> target_;
  bool is_open_ = false;
  std::vector<std::string> early_;
};

// The logs of all databases. Never destroyed.
struct OpenLogs {
  std::mutex mutex;
  std::vector<std::weak_ptr<DatabaseLog>> logs;
};
OpenLogs& AllLogs() {
  static auto* const logs = new OpenLogs;
  return *logs;
}

}  // namespace

std::shared_ptr<Logger> NewDatabaseLog(const rocksdb_options_t& options,
                                       const std::string& path,
                                       bool read_only) {
  std::shared_ptr<DatabaseLog> log;
  if (options.info_log != nullptr) {
    log = std::make_shared<DatabaseLog>(options.info_log);
  } else if (!read_only) {
    const std::string absolute = EnvOf(options)->AbsolutePath(path);
    const int least = std::clamp(options.info_log_level, 0,
                                 static_cast<int>(LogLevel::kError));
    log = std::make_shared<DatabaseLog>(DatabaseLog::File{
        options.env, options.db_log_dir, LogPath(options, absolute),
        static_cast<LogLevel>(least)});
  } else {
    return nullptr;
  }
  OpenLogs& all = AllLogs();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.logs, [](const auto& one) { return one.expired(); });
  all.logs.push_back(log);
  return log;
}

void LogLines(const std::vector<std::string>& lines, Logger* log) {
  if (log == nullptr) return;
  for (const std::string& line : lines) {
    static_cast<DatabaseLog*>(log)->Write(line);
  }
}

bool LogToOpenDatabases(const std::string& line) {
  std::vector<std::shared_ptr<DatabaseLog>> logs;
  OpenLogs& all = AllLogs();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto& one : all.logs) {
      if (auto log = one.lock()) logs.push_back(std::move(log));
    }
  }
  for (const auto& log : logs) log->Write(line);
  return !logs.empty();
}

void NoteAccepted(const char* name, const std::string& value) {
  struct Noted {
    std::mutex mutex;
    std::set<std::string> names;
  };
  // Never destroyed: a program can call functions while it ends.
  static auto* const noted = new Noted;
  {
    const std::lock_guard<std::mutex> lock(noted->mutex);
    if (!noted->names.insert(name).second) return;
  }
  if (!LogToOpenDatabases(std::string("accepted, no effect: ") + name + " = " +
                          value)) {
    const std::lock_guard<std::mutex> lock(noted->mutex);
    noted->names.erase(name);
  }
}

}  // namespace varve::rocksdb_c
