// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The directory of a database: where it is, that it is held by this process,
// whether it is still there, and the identity that is kept in it.
// Thread-safety: Verify, and what directory() leads to, by any thread between
// Open and Unlock; the rest by one thread at a time.

#include <memory>
#include <string>

#include "db/parts/shared_directory.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class DatabasePlace {
 public:
  DatabasePlace(Env* env, const std::string& path)
      : path_(env->AbsolutePath(path)),
        directory_env_(env->NewDirectoryEnv(path_)),
        env_(directory_env_ != nullptr ? directory_env_.get() : env) {}
  DatabasePlace(const DatabasePlace&) = delete;
  DatabasePlace& operator=(const DatabasePlace&) = delete;

  const std::string& path() const { return path_; }
  // To be used for all files of the database: it finds them wherever the
  // directory is moved, if the Env can do that.
  Env* env() const { return env_; }

  // Takes the lock. `name_is_safe`: the directory is there, and no power cut
  // takes it. Without create_if_missing a directory that holds no file of a
  // database is left alone.
  Status Open(bool name_is_safe, bool create_if_missing);
  // Without the lock.
  void OpenForReading();
  // Gives the lock back, if there is one.
  Status Unlock();

  // IOError if the directory is no longer where it was, as far as the Env can
  // say, or was removed, or another may have taken the lock: then nothing that
  // is written here may be found again, and a database there is another's.
  Status Verify() const {
    return lock_ != nullptr ? lock_->Verify() : Status::OK();
  }
  // What is less safe about the lock than one would think; null if nothing.
  const char* LockCaveat() const {
    return lock_ != nullptr ? lock_->Caveat() : nullptr;
  }
  // Null without the lock.
  SharedDirectory* directory() const { return directory_.get(); }

  // Reads the identity. Where there is none it becomes the one in the MANIFEST,
  // `db_id`, or a new one.
  Status LoadIdentity(const std::string& db_id);
  // Writes it to IDENTITY by way of a file of that name, if it was not read
  // from there.
  Status StoreIdentity(const std::string& temporary);
  const std::string& identity() const { return identity_; }
  bool identity_is_stored() const { return identity_is_stored_; }

 private:
  const std::string path_;
  const std::unique_ptr<DirectoryEnv> directory_env_;  // Perhaps null.
  Env* const env_;
  std::unique_ptr<SharedDirectory> directory_;
  std::unique_ptr<FileLock> lock_;
  std::string identity_;
  bool identity_is_stored_ = false;
};

// What an Open says of a directory that it is not to make a database in.
Status NoDatabase(const std::string& path, bool read_only);

}  // namespace varve
