// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_live.h"

#include "db/recovery/directory_observation.h"
#include "env/file_names.h"
#include "env/lock_holder.h"
#include "varve/env.h"

namespace varve {

namespace {

constexpr int kMaxAttempts = 100;

}  // namespace

std::string FindHolder(const CommandLine& line) {
  const std::string db = line.Text("db");
  LockHolder holder;
  if (db.empty() || !FindLockHolder(LockFileName(db), &holder)) return "";
  return holder.description;
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

}  // namespace varve
