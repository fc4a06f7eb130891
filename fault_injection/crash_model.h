// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Models the state of a file system after a power cut. FaultInjectionEnv is its
// only user.
//
// Words. Every write goes to the base Env at once. The model records which of
// it is not yet durable, and Crash takes back some of that.
//  - A file's bytes are durable up to its size at the last sync. The rest may
//    be truncated anywhere. Truncating a file is not durable before a sync
//    either: the old bytes may come back.
//  - An operation on names (create, remove, rename, link, create or remove a
//    directory) is pending until the directory of its target is synced. Each
//    pending operation happened or not, independently of the others. But an
//    operation never survives one that it needs: an earlier one on the same
//    name, or the creation of a directory in which it works.
//  - A sync of a directory also makes its own creation durable, as journaling
//    file systems do.
//  - Bytes or names of a failed sync are not made durable by a later sync: the
//    kernel marks the pages clean. A name gets another chance by an operation
//    that needs it.
//
// Paths are compared as strings. Repeated slashes and "." are removed.
// ".." and symbolic links are not supported.
// Thread-safety: thread-safe. Calls of the base Env that change its state are
// made under the mutex, so that the records are in the order of the changes.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "util/base/mutex.h"
#include "util/base/random.h"
#include "util/base/thread_annotations.h"
#include "varve/env.h"
#include "varve/testing/fault_injection_env.h"

namespace varve {

class CrashModel {
 public:
  // One file, with all its names. Guarded by the model's mutex.
  struct FileState {
    uint64_t size = 0;
    uint64_t synced_size = 0;
    // The bytes of the last sync, if the file was truncated since.
    bool was_cut = false;
    std::string bytes_before_cut;
    // A sync failed. The kernel dropped the dirty pages and marked them clean,
    // so a later sync succeeds without making them durable.
    bool lost_dirty_pages = false;
  };
  using FileRef = std::shared_ptr<FileState>;
  // An open directory. Its path follows renames. Guarded by the model's mutex.
  struct DirectoryState {
    std::string path;
  };
  using DirectoryRef = std::shared_ptr<DirectoryState>;

  explicit CrashModel(Env* base) : base_(base) {}

  // Each performs the Env method of that name, and records its effects.
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file, FileRef* state);
  Status LockFile(const std::string& path, std::unique_ptr<FileLock>* lock);
  Status RemoveFile(const std::string& path);
  Status CreateDirIfMissing(const std::string& path);
  Status RemoveDir(const std::string& path);
  Status RenameFile(const std::string& source, const std::string& target);
  Status LinkFile(const std::string& source, const std::string& target);
  // Records that the sync failed, if `status` is an error, and returns it.
  Status SyncFile(const std::string& path, Status status);
  Status Truncate(const std::string& path, uint64_t size);

  // Appends bytes to an open file of the base, and flushes them to the system.
  Status Append(const FileRef& state, WritableFile* file, const Slice& data);
  // Records that the file's sync succeeded or failed.
  void NoteSync(const FileRef& state, bool succeeded);

  DirectoryRef OpenDirectory(const std::string& path);
  // Records that the directory's sync succeeded or failed.
  void NoteSync(const DirectoryRef& directory, bool succeeded);

  // Turns the files of the base into a state that a power cut may leave, and
  // clears the records. Files must be closed. After an error the state is
  // undefined.
  Status Crash(const CrashOptions& options);

 private:
  enum class Kind : uint8_t {
    kCreate,
    kRemove,
    kRename,
    kLink,
    kCreateDir,
    kRemoveDir,
  };
  // The kind of object that had the target's name before.
  enum class Displaced : uint8_t { kNothing, kFile, kDirectory };

  struct Operation {
    Operation(Kind its_kind, std::string its_target, std::string its_source);

    Kind kind;
    std::string target;
    std::string source;  // Empty unless a rename.
    Displaced displaced = Displaced::kNothing;
    // Its bytes at that time. The state is null if all its bytes were durable.
    std::string displaced_bytes;
    FileRef displaced_state;
    std::vector<uint64_t> needs;
    // For a rename: the operations that were in the directory. Others may have
    // been in a directory that had the target's name before.
    std::vector<uint64_t> moved;
    bool sync_failed = false;
  };
  using Operations = std::map<uint64_t, Operation>;  // By age.

  static bool Needs(const Operation& later, const Operation& earlier);
  void Note(Operation operation) VARVE_REQUIRES(mu_);
  void MakeSafe(uint64_t id) VARVE_REQUIRES(mu_);
  // Sets *state to the state of the file `path`. A file without one is taken to
  // be durable.
  Status StateOf(const std::string& path, FileRef* state) VARVE_REQUIRES(mu_);
  Status NoteCut(const std::string& path, uint64_t size, FileState* state)
      VARVE_REQUIRES(mu_);
  // Saves the object at `path`, which is about to be removed.
  Status SaveDisplaced(const std::string& path, Operation* operation)
      VARVE_REQUIRES(mu_);
  // Moves the records of `source`, and of its contents, to `target`.
  void MoveFiles(const std::string& source, const std::string& target)
      VARVE_REQUIRES(mu_);
  std::vector<uint64_t> MoveOperations(const std::string& source,
                                       const std::string& target)
      VARVE_REQUIRES(mu_);

  Status UndoOperations(const CrashOptions& options, Random* random)
      VARVE_REQUIRES(mu_);
  Status Undo(const Operation& operation) VARVE_REQUIRES(mu_);
  Status RestoreDisplaced(const Operation& operation) VARVE_REQUIRES(mu_);
  Status LoseBytes(const std::string& path, const FileState& state,
                   const CrashOptions& options, Random* random);

  // Immutable after construction.
  Env* const base_;
  // Guarded by mu_.
  Mutex mu_;
  std::map<std::string, FileRef> files_ VARVE_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<DirectoryState>> directories_ VARVE_GUARDED_BY(mu_);
  Operations pending_ VARVE_GUARDED_BY(mu_);
  uint64_t next_id_ VARVE_GUARDED_BY(mu_) = 0;
};

}  // namespace varve
