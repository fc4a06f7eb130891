// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env for tests that makes calls fail and simulates power loss. It works on
// the files of any other Env. Link the library varve_testing; see "Testing with
// faults and power loss" in docs/embedding.md.
//
// Failing calls: FailAfter makes one operation fail, or every operation from
// one on.
// Power loss: SetFilesystemActive(false) is the moment of the cut. Close the
// database, then call CrashAndReset, which leaves the files as a machine might
// find them at its next start:
//  - A file keeps its bytes up to its size at the last sync. The rest may be
//    truncated anywhere. A truncation is not durable before a sync either.
//  - Creating, removing, renaming or linking a name is durable once the
//    directory is synced. Before that each operation survives or not,
//    independently of the others, except for operations that it depends on.
//  - No later sync makes durable what a failed sync should have made durable.
// Handles that are still open fail from then on.
//
// Sync and Directory::Sync only take notes: nothing is synced in the target,
// whose own crash is not simulated. The info log is written without counting or
// failing, since its number of lines is no contract.
// Unlike files of the operating system, a file whose write or sync failed
// accepts more. A retried sync succeeds, and loses the bytes in the crash, as
// with kernels.
//
// Paths are compared as strings. Repeated slashes and "." are removed. ".." and
// symbolic links are not supported.
//
// Thread-safety: thread-safe; files as in varve/env.h. CrashAndReset must not
// run at the same time as other calls.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Bits, to be or-ed.
using OperationMask = uint32_t;

// The kinds of operations on files and directories.
enum FileOperation : OperationMask {
  kOpenOperation = 1u << 0,  // Existing files and directories.
  kReadOperation = 1u << 1,  // Also Skip, and each request of a MultiRead.
  kQueryOperation =
      1u << 2,  // FileExists, GetFileSize, GetFileId, GetChildren.
  kCreateOperation = 1u << 3,  // NewWritableFile, NewLogger.
  kWriteOperation = 1u << 4,   // Append, Flush.
  kSyncOperation = 1u << 5,
  kCloseOperation = 1u << 6,  // Of a WritableFile.
  kRenameOperation = 1u << 7,
  kRemoveOperation = 1u << 8,  // RemoveFile, RemoveDir.
  kLinkOperation = 1u << 9,
  kTruncateOperation = 1u << 10,
  kSyncDirectoryOperation = 1u << 11,
  kCreateDirOperation = 1u << 12,
  kLockOperation = 1u << 13,  // LockFile. Unlocking never fails.
};
inline constexpr OperationMask kAllOperations = (1u << 14) - 1;
// The operations that still work while the file system is not active.
inline constexpr OperationMask kReadingOperations =
    kOpenOperation | kReadOperation | kQueryOperation;

struct FailureOptions {
  // False: every operation from the first failing one on fails.
  bool once = true;
  // A failing Append leaves the first half of its bytes in the file.
  bool partial_append = false;
};

// How FaultInjectionEnv::CrashAndReset treats what was not synced.
struct CrashOptions {
  // The same seed after the same operations leaves the same files.
  uint64_t seed = 0;
  // Among the surviving bytes after the last sync, fill sectors of 512 bytes,
  // chosen at random, with zeros or garbage.
  bool tear_sectors = true;
  // Undo operations on names whose directory was not synced.
  bool drop_directory_entries = true;
  // Nothing that was not synced survives.
  bool lose_everything_unsynced = false;
};

class FaultInjectionEnv final : public EnvWrapper {
 public:
  // REQUIRES: `target` is not null and outlives this.
  explicit FaultInjectionEnv(Env* target);
  ~FaultInjectionEnv() override;

  // While false, every operation outside kReadingOperations fails with an
  // IOError and changes nothing.
  void SetFilesystemActive(bool active);

  // Simulates the power loss and the next start, as described above. Afterwards
  // the file system is active and no failure is planned. An error means that
  // the target failed; the state of the files is then undefined.
  Status CrashAndReset(const CrashOptions& options);

  // Makes an operation fail: among the operations of `kinds` from now on, the
  // one with index `operation_count` (0 is the next). It changes nothing and
  // returns `error` with the path before its message. Replaces an earlier plan;
  // ClearFailure removes the plan.
  void FailAfter(uint64_t operation_count, const Status& error,
                 OperationMask kinds, FailureOptions options = {});
  void ClearFailure();
  // Counts and fails only operations on paths that contain `part`; all if it is
  // empty. For a rename or link, either path counts.
  void SetPathFilter(const std::string& part);

  // Operations of `kinds` started so far, including failed ones, but not those
  // refused because the file system was not active.
  uint64_t OperationCount(OperationMask kinds = kAllOperations) const;
  // Operations that failed because of FailAfter.
  uint64_t FailureCount() const;

  // An error that tests can recognize.
  static Status InjectedError();

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override;
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override;
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override;
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override;
  Status FileExists(const std::string& path) override;
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override;
  Status RemoveFile(const std::string& path) override;
  Status CreateDirIfMissing(const std::string& path) override;
  Status RemoveDir(const std::string& path) override;
  Status GetFileSize(const std::string& path, uint64_t* size) override;
  Status GetFileId(const std::string& path, FileId* id) override;
  Status RenameFile(const std::string& source,
                    const std::string& target_path) override;
  Status LinkFile(const std::string& source,
                  const std::string& target_path) override;
  Status SyncFile(const std::string& path) override;
  Status Truncate(const std::string& path, uint64_t size) override;
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override;
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override;

 private:
  class Core;

  // Not held by value, so that this header needs public ones only.
  const std::unique_ptr<Core> core_;
};

}  // namespace varve
