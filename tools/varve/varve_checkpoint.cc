// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "db/recovery/checkpoint_builder.h"
#include "db/recovery/directory_observation.h"
#include "db/version/manifest_reader.h"
#include "db/wal/wal_reader.h"
#include "env/file_names.h"
#include "tools/varve/varve_cleanup.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_live.h"
#include "varve/checkpoint.h"

namespace varve {

namespace {

// Creates no directory after the cleanup of a signal has run.
class CheckpointEnv final : public EnvWrapper {
 public:
  CheckpointEnv() : EnvWrapper(Env::Default()) {}

  Status CreateDirIfMissing(const std::string& path) override {
    MutexLock guard(SignalCleanup::mutex());
    return EnvWrapper::CreateDirIfMissing(path);
  }
};

// Finds the size of a log up to the end of its last complete record. Bytes
// before that do not change, whatever the writer appends.
Status MeasureLog(const std::string& path, uint64_t number, bool is_newest,
                  uint64_t* size) {
  std::unique_ptr<SequentialFile> file;
  const Status status =
      Env::Default()->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  wal::Reader reader(std::move(file), path, number);
  Slice record;
  wal::ReadOutcome outcome;
  do {
    outcome = reader.ReadRecord(&record);
  } while (outcome == wal::ReadOutcome::kRecord);
  *size = reader.RecordEnd();
  if (outcome == wal::ReadOutcome::kEnd) return Status();
  // The last record of the newest log may be in the middle of being written. An
  // older log may have lost its end in a crash before the writer began.
  if (reader.EndIsTorn(outcome, is_newest)) return Status();
  const Status damage = reader.status();
  const bool is_damage = outcome == wal::ReadOutcome::kDamage;
  return is_damage && IsBeingWritten(path, number, *size) ? Status() : damage;
}

// Finds the files of a database that another process may be changing. Returns
// Corruption or NotFound if it changed them.
//
// The MANIFEST is the same before and after, so it named the tables during all
// of the time, and no log that it needs was removed. Logs are measured from the
// newest to the oldest. A log is complete before its successor has a record, so
// together they are a state of the database: all writes up to the last record
// of the newest one.
Status CutBeside(const std::string& path, CheckpointCut* cut) {
  Env* const env = Env::Default();
  const DirectoryObservation before = ObserveDirectory(env, path);
  FamilyList families;
  ManifestState state;
  Status status = ReadManifestAndFamilies(path, &families, &state);
  if (status.ok()) status = families.RequireComparators();
  if (!status.ok()) return status;
  if (!state.logs_are_files) {
    return Status::NotSupported(
        path,
        "is in use by another engine or on read-only media, and Varve has not "
        "written to it yet");
  }
  *cut = CheckpointCut();
  cut->manifest_number = state.manifest_number;
  cut->manifest_size = before.manifest_bytes;
  state.ForEachFile([cut](const FileMetaData* file) {
    cut->tables.emplace_back(file->number, file->file_size);
  });
  std::vector<std::string> names;
  status = env->GetChildren(path, &names);
  std::map<uint64_t, std::string> logs;
  for (const std::string& name : names) {
    uint64_t number;
    FileKind type;
    if (ParseFileName(name, &number, &type) && type == FileKind::kWal &&
        state.ReplaysLog(number)) {
      logs[number] = path + "/" + name;
    }
  }
  for (auto log = logs.rbegin(); log != logs.rend() && status.ok(); ++log) {
    uint64_t size = 0;
    status = MeasureLog(log->second, log->first, log == logs.rbegin(), &size);
    cut->wals.emplace_back(log->first, size);
  }
  if (!status.ok()) return status;
  const DirectoryObservation after = ObserveDirectory(env, path);
  if (state.torn_tail || !before.SameManifest(after)) {
    return Status::Corruption(path, "changed while it was read");
  }
  return status;
}

}  // namespace

bool MayWrite(const std::string& path) {
  const auto may_write = [](const std::string& name) {
    return faccessat(AT_FDCWD, name.c_str(), W_OK, AT_EACCESS) == 0 ||
           errno == ENOENT;
  };
  return may_write(path) && may_write(LockFileName(path));
}

Status CheckpointBeside(const std::string& path, CheckpointBuilder* builder) {
  return ReadUnlocked(path, [&] {
    CheckpointCut cut;
    Status status = builder->Begin();
    if (status.ok()) status = CutBeside(path, &cut);
    return status.ok() ? builder->Build(cut) : status;
  });
}

Status RunCheckpoint(Session* session) {
  const std::string path = session->db();
  Status status = RequireDatabase(session->line);
  CheckpointEnv env;
  CheckpointBuilder builder(&env, path, session->operand(0));
  // Removes what `builder`, or the database's own builder, has built when a
  // signal arrives. Its Env takes no mutex, since the cleanup holds it.
  CheckpointBuilder remover(Env::Default(), path, session->operand(0));
  if (status.ok()) status = RequireUpdates(*session);
  if (status.ok()) status = builder.Begin();
  if (status.ok()) status = remover.ForeseeAttempt();
  if (!status.ok()) return status;
  const SignalCleanup cleanup(
      [&remover] { remover.RemoveAttempt().IgnoreError(); });
  const auto set_env = [&env](Options* options) { options->env = &env; };
  Database db;
  // As if another process had it open.
  status = MayWrite(path) ? db.Open(session->line, set_env, false)
                          : Status::Busy(path, "is not writable");
  std::unique_ptr<Checkpoint> checkpoint;
  if (status.ok()) {
    status = Checkpoint::Create(db.get(), &checkpoint);
    if (status.ok()) status = checkpoint->CreateCheckpoint(session->operand(0));
    if (status.ok()) status = db.Close();
  } else if (status.IsBusy()) {
    NoteHolder(*session);
    status = CheckpointBeside(path, &builder);
  }
  if (status.ok()) fputs("OK\n", session->out);
  return status;
}

}  // namespace varve
