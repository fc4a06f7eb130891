// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_live.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "db/recovery/directory_observation.h"
#include "db/wal/wal_reader.h"
#include "env/file_names.h"
#include "env/lock_holder.h"
#include "tools/varve/varve_text.h"
#include "varve/env.h"

namespace varve {

namespace {

constexpr int kMaxAttempts = 100;

}  // namespace

std::string FindHolder(const CommandLine& line) {
  const std::string db = line.Text("db");
  LockHolder holder;
  return !db.empty() && FindLockHolder(LockFileName(db), &holder)
             ? holder.description
             : "";
}

void NoteHolder(const Session& session) {
  const std::string holder = FindHolder(session.line);
  if (holder.empty()) return;
  fprintf(session.err, "varve: note: %s is open in %s\n", session.db().c_str(),
          holder.c_str());
}

Status ReadUnlocked(const std::string& db_path,
                    const std::function<Status()>& attempt) {
  Env* const env = Env::Default();
  DirectoryObservation before = ObserveDirectory(env, db_path);
  Status status;
  for (int i = 0; i < kMaxAttempts; ++i) {
    status = attempt();
    if (!status.IsNotFound() && !status.IsCorruption()) return status;
    const DirectoryObservation after = ObserveDirectory(env, db_path);
    if (after == before) return status;
    before = after;
  }
  return status;
}

bool IsBeingWritten(const std::string& path, uint64_t number, uint64_t end) {
  Env* const env = Env::Default();
  const std::filesystem::path directory =
      std::filesystem::absolute(path).parent_path();
  LockHolder holder;
  const bool held = FindLockHolder(LockFileName(directory.string()), &holder);
  const int attempts = held ? kHeldLogAttempts : kLogAttempts;
  for (int i = 0; i < attempts; ++i) {
    std::unique_ptr<SequentialFile> file;
    if (!env->NewSequentialFile(path, FileOptions(), &file).ok()) return false;
    wal::Reader reader(std::move(file), path, number);
    Slice record;
    while (reader.RecordEnd() <= end) {
      if (reader.ReadRecord(&record) != wal::ReadOutcome::kRecord) break;
    }
    if (reader.RecordEnd() > end) return true;
    env->SleepForMicroseconds(kLogWaitUs << i);
  }
  return false;
}

}  // namespace varve
