// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_backup.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/varve/varve_checkpoint.h"
#include "tools/varve/varve_cleanup.h"
#include "tools/varve/varve_commands.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_json.h"
#include "tools/varve/varve_live.h"
#include "util/base/mutex.h"
#include "varve/backup_engine.h"

namespace varve {

namespace {

constexpr uint64_t kMegabyte = 1'000'000;
constexpr uint64_t kNoLimit = uint64_t{1} << 40;
constexpr uint64_t kMaxThreads = 64;

std::string Megabytes(uint64_t bytes) {
  char text[48];
  snprintf(text, sizeof(text), "%llu.%llu MB",
           static_cast<unsigned long long>(bytes / kMegabyte),
           static_cast<unsigned long long>(bytes % kMegabyte * 10 / kMegabyte));
  return text;
}

// Limits the rate of --rate, and shows what was copied.
class ShownLimiter final : public RateLimiter {
 public:
  // `total_bytes` 0: unknown.
  ShownLimiter(const Session& session, const char* what, uint64_t total_bytes)
      : progress_(session), what_(what), total_bytes_(total_bytes) {
    const uint64_t rate = session.line.Number("rate", 0);
    if (rate != 0) limiter_ = NewGenericRateLimiter(rate);
  }

  void Request(uint64_t bytes, Priority priority) override {
    if (limiter_ != nullptr) limiter_->Request(bytes, priority);
    MutexLock lock(&mu_);
    bytes_ += bytes;
    ++requests_;
    if (!progress_.Due()) return;
    std::string text = what_;
    text += " " + Megabytes(bytes_);
    if (total_bytes_ != 0) text += " of " + Megabytes(total_bytes_);
    progress_.Show(text);
  }
  void SetBytesPerSecond(uint64_t bytes_per_second) override {
    if (limiter_ != nullptr) limiter_->SetBytesPerSecond(bytes_per_second);
  }
  uint64_t GetBytesPerSecond() const override {
    return limiter_ != nullptr ? limiter_->GetBytesPerSecond() : kNoLimit;
  }
  uint64_t GetTotalBytesThrough(Priority /*priority*/) const override {
    MutexLock lock(&mu_);
    return bytes_;
  }
  uint64_t GetTotalRequests(Priority /*priority*/) const override {
    MutexLock lock(&mu_);
    return requests_;
  }

 private:
  mutable Mutex mu_;
  Progress progress_;
  const char* const what_;
  const uint64_t total_bytes_;
  std::shared_ptr<RateLimiter> limiter_;
  uint64_t bytes_ VARVE_GUARDED_BY(mu_) = 0;
  uint64_t requests_ VARVE_GUARDED_BY(mu_) = 0;
};

// Returns InvalidArgument for arguments that make no sense.
Status EngineOptions(Session* session, const char* directory_option,
                     BackupEngineOptions* options) {
  options->backup_dir = session->line.Text(directory_option);
  if (options->backup_dir.empty()) {
    return session->WrongUse(std::string("--") + directory_option +
                             "=BACKUPS is missing");
  }
  const uint64_t threads = session->line.Number("threads", 1);
  if (threads < 1 || threads > kMaxThreads) {
    return session->WrongUse("--threads is 1 to 64");
  }
  options->max_background_operations = static_cast<int>(threads);
  return Status::OK();
}

// A copy by hard links beside a database that another process has open, which
// is removed in the end.
class CopyBeside {
 public:
  explicit CopyBeside(const std::string& path)
      : path_(path), copy_(CopyName(path)) {}
  CopyBeside(const CopyBeside&) = delete;
  CopyBeside& operator=(const CopyBeside&) = delete;

  const std::string& path() const { return copy_; }

  Status Create() {
    CheckpointBuilder builder(Env::Default(), path_, copy_);
    Status status = builder.Begin();
    return status.ok() ? CheckpointBeside(path_, &builder) : status;
  }
  Status Remove() const { return DestroyDB(copy_, Options()); }

 private:
  static std::string CopyName(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path + ".backup-" + std::to_string(getpid());
  }

  const std::string path_;
  const std::string copy_;
};

// Backs up the database of a command line, which may be a copy.
Status BackUpDatabase(Session* session, const CommandLine& line,
                      BackupEngine* engine, BackupID* id) {
  // The backup is of what there is. Merging also needs the operators.
  const auto stay = [](Options* options) {
    options->disable_auto_compactions = true;
  };
  Database db;
  // As if another process had it open.
  Status status = MayWrite(line.Text("db"))
                      ? db.Open(line, stay, /*read_only=*/false)
                      : Status::Busy(line.Text("db"), "is not writable");
  CreateBackupOptions create;
  create.flush_before_backup = session->line.Has("flush");
  if (status.ok()) status = engine->CreateNewBackup(create, db.get(), id);
  if (status.ok()) status = db.Close();
  return status;
}

std::string DateOf(int64_t timestamp_s) {
  const auto time = static_cast<time_t>(timestamp_s);
  struct tm parts;
  char text[64];
  if (gmtime_r(&time, &parts) == nullptr ||
      strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) == 0) {
    return std::to_string(timestamp_s);
  }
  return text;
}

}  // namespace

// ---- varve backup -----------------------------------------------------------

Status RunBackup(Session* session) {
  Status status = RequireDatabase(session->line);
  BackupEngineOptions options("");
  if (status.ok()) status = EngineOptions(session, "to", &options);
  if (status.ok()) status = RequireUpdates(*session);
  if (!status.ok()) return status;
  const auto limiter =
      std::make_shared<ShownLimiter>(*session, "copied", /*total_bytes=*/0);
  options.backup_rate_limiter = limiter;
  std::unique_ptr<BackupEngine> engine;
  status = BackupEngine::Open(options, nullptr, &engine);
  if (!status.ok()) return status;
  BackupID id = 0;
  bool is_in_use = false;
  status = BackUpDatabase(session, session->line, engine.get(), &id);
  // Another engine may be busy with the backups, too.
  is_in_use = status.IsBusy() &&
              (!FindHolder(session->line).empty() || !MayWrite(session->db()));
  if (is_in_use) {
    NoteHolder(*session);
    CopyBeside copy(session->db());
    const SignalCleanup cleanup([&copy] { copy.Remove().IgnoreError(); });
    status = copy.Create();
    CommandLine line = session->line;
    line.options["db"] = copy.path();
    if (status.ok()) status = BackUpDatabase(session, line, engine.get(), &id);
    const Status removed = copy.Remove();
    if (status.ok()) status = removed;
  }
  const uint64_t keep = session->line.Number("keep", 0);
  if (status.ok() && keep != 0) {
    status = engine->PurgeOldBackups(
        static_cast<uint32_t>(std::min<uint64_t>(keep, UINT32_MAX)));
  }
  BackupInfo info;
  if (status.ok()) status = engine->GetBackupInfo(id, &info);
  if (status.ok()) {
    fprintf(
        session->out, "backup %u: %s in %u files, %s copied\n", id,
        Megabytes(info.size).c_str(), info.number_files,
        Megabytes(limiter->GetTotalBytesThrough(RateLimiter::Priority::kLow))
            .c_str());
  }
  return status;
}

// ---- varve restore ----------------------------------------------------------

Status RunRestore(Session* session) {
  BackupEngineOptions options("");
  Status status = EngineOptions(session, "from", &options);
  if (!status.ok()) return status;
  const std::string path = session->db();
  if (!session->line.Has("replace") &&
      Env::Default()->FileExists(path + "/CURRENT").ok()) {
    return session->WrongUse(path +
                             " has a database: --replace removes it first");
  }
  uint64_t total_bytes = 0;
  const uint64_t id = session->line.Number("id", 0);
  if (id > UINT32_MAX || (session->line.Has("id") && id == 0)) {
    return session->WrongUse("--id is the number of a backup");
  }
  std::unique_ptr<BackupEngineReadOnly> engine;
  {
    status = BackupEngineReadOnly::Open(options, nullptr, &engine);
    if (!status.ok()) return status;
    BackupInfo info;
    const Status known =
        id != 0 ? engine->GetBackupInfo(static_cast<BackupID>(id), &info)
                : engine->GetLatestBackupInfo(&info);
    if (!known.ok()) return known;
    total_bytes = info.size;
  }
  options.restore_rate_limiter =
      std::make_shared<ShownLimiter>(*session, "restored", total_bytes);
  status = BackupEngineReadOnly::Open(options, nullptr, &engine);
  if (!status.ok()) return status;
  std::error_code none_there;
  const bool is_new =
      std::filesystem::symlink_status(path, none_there).type() ==
      std::filesystem::file_type::not_found;
  BackupID restored = static_cast<BackupID>(id);
  if (id != 0) {
    status = engine->RestoreDBFromBackup({}, restored, path, path);
  } else {
    status = engine->RestoreDBFromLatestBackup({}, path, path, &restored);
  }
  if (!status.ok() && is_new) {
    std::error_code ignored;  // The status says what is wrong.
    std::filesystem::remove_all(path, ignored);
  }
  if (!status.ok()) return status;
  BackupInfo latest;
  std::vector<BackupID> corrupt;
  engine->GetCorruptedBackups(&corrupt);
  const bool is_older =
      id == 0 && ((engine->GetLatestBackupInfo(&latest).ok() &&
                   latest.backup_id != restored) ||
                  (!corrupt.empty() && corrupt.back() > restored));
  if (is_older) {
    fprintf(session->err,
            "varve: note: newer backups are damaged; see varve backups\n");
  }
  fprintf(session->out, "restored backup %u\n", restored);
  return status;
}

// ---- varve backups ----------------------------------------------------------

Status RunBackups(Session* session) {
  BackupEngineOptions options("");
  Status status = EngineOptions(session, "from", &options);
  std::unique_ptr<BackupEngineReadOnly> engine;
  if (status.ok()) {
    status = BackupEngineReadOnly::Open(options, nullptr, &engine);
  }
  if (!status.ok()) return status;
  const bool is_json = session->line.Has("json");
  TextOutput out(session->out);
  Progress progress(*session);
  Status damage;
  const auto add = [&](const BackupInfo& info, const Status& found) {
    if (damage.ok()) damage = found;
    const std::string id = std::to_string(info.backup_id);
    if (is_json) {
      JsonLine line(&out);
      line.Literal("id", id);
      if (info.number_files != 0) {
        line.Literal("time", std::to_string(info.timestamp))
            .Number("bytes", info.size)
            .Number("files", info.number_files)
            .Text("metadata", info.app_metadata);
      }
      if (!found.ok()) line.Text("damage", found.ToString());
      return;
    }
    out.Add(id);
    if (info.number_files != 0) {
      out.Add("  " + DateOf(info.timestamp) + "  " + Megabytes(info.size) +
              "  " + std::to_string(info.number_files) + " files");
      if (!info.app_metadata.empty()) {
        out.Add("  ");
        out.Add(info.app_metadata, FormOf(session->line));
      }
    }
    if (!found.ok()) {
      out.Add("  damaged: " + found.ToString());
    } else if (session->line.Has("verify")) {
      out.Add("  verified");
    }
    out.Add("\n");
  };
  std::vector<BackupInfo> infos;
  engine->GetBackupInfo(&infos);
  std::vector<BackupID> corrupt;
  engine->GetCorruptedBackups(&corrupt);
  for (const BackupID id : corrupt) {
    infos.emplace_back().backup_id = id;
  }
  std::sort(infos.begin(), infos.end(),
            [](const BackupInfo& a, const BackupInfo& b) {
              return a.backup_id < b.backup_id;
            });
  for (const BackupInfo& info : infos) {
    BackupInfo ignored;
    Status found = engine->GetBackupInfo(info.backup_id, &ignored);
    if (found.ok() && session->line.Has("verify")) {
      if (progress.Due()) {
        progress.Show("verifying backup " + std::to_string(info.backup_id) +
                      ", " + Megabytes(info.size));
      }
      found = engine->VerifyBackup(info.backup_id, true);
    }
    add(info, found);
    FlushOutput(&out, session);
  }
  // The list names them all.
  if (!damage.ok()) {
    session->exit_code = kExitDamage;
    return Status::Corruption(options.backup_dir, "has damaged backups");
  }
  return Status::OK();
}

}  // namespace varve
