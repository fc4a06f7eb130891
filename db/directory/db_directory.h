// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The directory of a database: its path, its lock, the check that it still
// exists, and the identity of the database. Thread-safety: any thread may call
// Verify and use directory() between Open and Unlock. The rest is for one
// thread at a time.

#include <memory>
#include <string>

#include "db/directory/sticky_error_directory.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class DbDirectory {
 public:
  DbDirectory(Env* env, const std::string& path)
      : name_(path),
        path_(env->AbsolutePath(path)),
        given_env_(env),
        directory_env_(env->NewDirectoryEnv(path_)),
        env_(directory_env_ != nullptr ? directory_env_.get() : env) {}
  DbDirectory(const DbDirectory&) = delete;
  DbDirectory& operator=(const DbDirectory&) = delete;

  // Return the path and the Env as they were given.
  const std::string& name() const { return name_; }
  Env* given_env() const { return given_env_; }
  const std::string& path() const { return path_; }
  // Use it for all files of the database. If the Env supports it, files are
  // found even after the directory was moved.
  Env* env() const { return env_; }

  // Takes the lock. `name_is_safe`: the directory exists, and its name is
  // durable. Without create_if_missing, a directory without a database's files
  // is not changed.
  Status Open(bool name_is_safe, bool create_if_missing);
  // Opens the directory without the lock.
  void OpenForReading();
  // Takes the lock after OpenForReading. Returns Busy if it is held.
  Status LockForWriting();
  // Releases the lock, if it is held.
  Status Unlock();
  // Does Unlock, and closes the directory. The Env finds files by their paths
  // from now on.
  Status Close();

  // Returns IOError if the directory was moved or removed, as far as the Env
  // can tell, or if another process may have taken the lock. Files written here
  // may then not be found again, and a database there belongs to another
  // process.
  Status Verify() const {
    return lock_ != nullptr ? lock_->Verify() : Status::OK();
  }
  // Returns a weakness of the lock, or null.
  const char* LockCaveat() const {
    return lock_ != nullptr ? lock_->Caveat() : nullptr;
  }
  // Returns null without the lock.
  StickyErrorDirectory* directory() const { return directory_.get(); }

  // Reads the identity. If there is none, uses the MANIFEST's `db_id`, or a new
  // one.
  Status LoadIdentity(const std::string& db_id);
  // Writes the identity to IDENTITY through the file `temporary`, unless it was
  // read from there.
  Status StoreIdentity(const std::string& temporary);
  const std::string& identity() const { return identity_; }
  bool identity_is_stored() const { return identity_is_stored_; }

 private:
  const std::string name_;
  const std::string path_;
  Env* const given_env_;
  const std::unique_ptr<DirectoryEnv> directory_env_;  // May be null.
  Env* const env_;
  std::unique_ptr<StickyErrorDirectory> directory_;
  std::unique_ptr<FileLock> lock_;
  std::string identity_;
  bool identity_is_stored_ = false;
};

// Returns the error of an Open that finds no database and may not create one.
Status NoDatabase(const std::string& path, bool read_only);

}  // namespace varve
