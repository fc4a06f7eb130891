// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What a power cut may leave of the files written through it. FaultInjectionEnv
// is its only user.
//
// Words. Everything goes to the base Env at once; what is not yet safe is
// noted beside it, and Crash takes some of that back.
//  - A file's bytes are safe up to its size at the last sync. The rest may be
//    cut anywhere. Cutting a file is not safe before a sync either: the old
//    bytes may come back.
//  - An operation on names (create, remove, rename, link, make or remove a
//    directory) is pending until the directory of its target is synced. Each
//    pending operation happened or not, independently of the others, but an
//    operation never survives one that it needs: an earlier one on the same
//    name, or the one that made a directory it works in.
//  - To sync a directory makes safe its own creation, as journaling file
//    systems do.
//  - What a failed sync was to make safe, bytes or names, no later sync makes
//    safe: the kernel calls it clean. A name gets another chance by an
//    operation that needs it.
//
// Paths are compared by their spelling; repeated slashes and "." are removed,
// ".." and symbolic links are not understood.
// Thread-safety: thread-safe. Calls of the base Env that change something are
// made under the mutex, so that the notes are in the order of the facts.

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
  // One file, whatever names it has; guarded by the model's mutex.
  struct FileState {
    uint64_t size = 0;
    uint64_t synced_size = 0;
    // The bytes of the last sync, if they were cut since.
    bool was_cut = false;
    std::string bytes_before_cut;
    // A sync failed: the kernel dropped the dirty pages and calls them clean,
    // so that a later sync succeeds without making them safe.
    bool lost_dirty_pages = false;
  };
  using FileRef = std::shared_ptr<FileState>;
  // An open directory; its path follows renames. Guarded likewise.
  struct DirectoryState {
    std::string path;
  };
  using DirectoryRef = std::shared_ptr<DirectoryState>;

  explicit CrashModel(Env* base) : base_(base) {}

  // Each does what the method of Env of that name does, and takes notes.
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file, FileRef* state);
  Status LockFile(const std::string& path, std::unique_ptr<FileLock>* lock);
  Status RemoveFile(const std::string& path);
  Status CreateDirIfMissing(const std::string& path);
  Status RemoveDir(const std::string& path);
  Status RenameFile(const std::string& source, const std::string& target);
  Status LinkFile(const std::string& source, const std::string& target);
  Status Truncate(const std::string& path, uint64_t size);

  // Adds bytes to an open file of the base and hands them on to the system.
  Status Append(const FileRef& state, WritableFile* file, const Slice& data);
  // The file's sync succeeded, or failed.
  void NoteSync(const FileRef& state, bool succeeded);

  DirectoryRef OpenDirectory(const std::string& path);
  // Its sync succeeded, or failed.
  void NoteSync(const DirectoryRef& directory, bool succeeded);

  // Turns the files of the base into what a power cut may leave, and forgets
  // everything. Files must be closed. After an error the state is undefined.
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
  // What had the target's name before.
  enum class Displaced : uint8_t { kNothing, kFile, kDirectory };

  struct Operation {
    Operation(Kind its_kind, std::string its_target, std::string its_source);

    Kind kind;
    std::string target;
    std::string source;  // Of a rename; else empty.
    Displaced displaced = Displaced::kNothing;
    // As it was then; the state is null if all its bytes were safe.
    std::string displaced_bytes;
    FileRef displaced_state;
    std::vector<uint64_t> needs;
    // Of a rename: those that were in the directory. Others may have been in
    // one that had the target's name before.
    std::vector<uint64_t> moved;
    bool sync_failed = false;
  };
  using Operations = std::map<uint64_t, Operation>;  // By age.

  static bool Needs(const Operation& later, const Operation& earlier);
  void Note(Operation operation) VARVE_REQUIRES(mu_);
  void MakeSafe(uint64_t id) VARVE_REQUIRES(mu_);
  // The state of the file `path`; taken for safe if it was not seen yet.
  Status StateOf(const std::string& path, FileRef* state) VARVE_REQUIRES(mu_);
  Status NoteCut(const std::string& path, uint64_t size, FileState* state)
      VARVE_REQUIRES(mu_);
  // Remembers what is at `path`, which is about to go.
  Status SaveDisplaced(const std::string& path, Operation* operation)
      VARVE_REQUIRES(mu_);
  // Moves the notes on `source`, and on what is in it, to `target`.
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
