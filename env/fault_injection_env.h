// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env for tests that makes calls fail and cuts the power. It works on the
// files of any other Env.
//
// Failing calls: FailAfter lets one operation, or all from one on, fail.
// Power cuts: SetFilesystemActive(false) is the moment of the cut; then the
// engine is closed, and CrashAndReset leaves of its files what a machine might
// find at its next start (crash_model.h says what that is). Handles that are
// still open fail from then on.
//
// Sync and Directory::Sync only take notes: nothing is synced in the target,
// whose own crash is not the subject. The info log is written without counting
// or failing, since how many lines there are is nobody's contract.
// Not like the operating system's files, a file whose write or sync failed
// accepts more. An engine that retries a sync is told OK, and loses the bytes
// in the crash: that is what kernels do.
//
// Thread-safety: thread-safe; files as in varve/env.h. CrashAndReset must not
// run together with other calls.

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "env/crash_model.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "varve/env.h"

namespace varve {

// Bits, to be or-ed.
using OperationMask = uint32_t;

// What an operation on a file or directory is counted as.
enum FileOperation : OperationMask {
  kOpenOperation = 1u << 0,    // Of what exists: files to read, directories.
  kReadOperation = 1u << 1,    // Also Skip, and each request of a MultiRead.
  kQueryOperation = 1u << 2,   // FileExists, GetFileSize, GetChildren.
  kCreateOperation = 1u << 3,  // NewWritableFile, NewLogger.
  kWriteOperation = 1u << 4,   // Append, Flush.
  kSyncOperation = 1u << 5,
  kCloseOperation = 1u << 6,  // Of written files.
  kRenameOperation = 1u << 7,
  kRemoveOperation = 1u << 8,  // RemoveFile, RemoveDir.
  kLinkOperation = 1u << 9,
  kTruncateOperation = 1u << 10,
  kSyncDirectoryOperation = 1u << 11,
  kCreateDirOperation = 1u << 12,
  kLockOperation = 1u << 13,  // LockFile. Unlocking never fails.
};
inline constexpr OperationMask kAllOperations = (1u << 14) - 1;
// Those that still work once the file system is not active.
inline constexpr OperationMask kReadingOperations =
    kOpenOperation | kReadOperation | kQueryOperation;

struct FailureOptions {
  // False: every operation from the first failing one on fails.
  bool once = true;
  // A failing Append leaves the first half of its bytes in the file.
  bool partial_append = false;
};

class FaultInjectionEnv final : public EnvWrapper {
 public:
  // `target` must outlive this.
  explicit FaultInjectionEnv(Env* target);
  ~FaultInjectionEnv() override;

  // False: every operation but reading ones fails with an IOError, and
  // changes nothing.
  void SetFilesystemActive(bool active) VARVE_EXCLUDES(mu_);

  // A power cut and a new start: see above. Then the file system is active,
  // and no failure is planned. An error means that the target failed.
  Status CrashAndReset(const CrashOptions& options) VARVE_EXCLUDES(mu_);

  // Lets operations fail: of those of `kinds` from now on, the one with index
  // `operation_count` (0 is the next). It changes nothing and returns `error`
  // with the path before its message. Replaces an earlier plan.
  void FailAfter(uint64_t operation_count, const Status& error,
                 OperationMask kinds, FailureOptions options = {})
      VARVE_EXCLUDES(mu_);
  void ClearFailure() VARVE_EXCLUDES(mu_);
  // Only paths with this part are counted and fail; all if it is empty. Of a
  // rename or link either path counts.
  void SetPathFilter(const std::string& part) VARVE_EXCLUDES(mu_);

  // Operations of `kinds` started so far, failed ones as well, but not those
  // refused because the file system was not active.
  uint64_t OperationCount(OperationMask kinds = kAllOperations) const
      VARVE_EXCLUDES(mu_);
  // Operations that failed because of FailAfter.
  uint64_t FailureCount() const VARVE_EXCLUDES(mu_);

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
  Status RenameFile(const std::string& source,
                    const std::string& target_path) override;
  Status LinkFile(const std::string& source,
                  const std::string& target_path) override;
  Status Truncate(const std::string& path, uint64_t size) override;
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override;
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override;

 private:
  class Sequential;
  class RandomAccess;
  class Writable;
  class SyncedDirectory;
  class InfoLogger;

  static constexpr size_t kKindCount = 14;

  // Counts an operation and says whether it fails. A handle passes the
  // generation it was opened in.
  Status Begin(FileOperation kind, const std::string& path) VARVE_EXCLUDES(mu_);
  Status Begin(FileOperation kind, const std::string& path,
               uint64_t handle_generation) VARVE_EXCLUDES(mu_);
  Status BeginLocked(FileOperation kind, const std::string& path)
      VARVE_REQUIRES(mu_);
  bool LeavesPartialAppends() const VARVE_EXCLUDES(mu_);
  // Whether a handle may still change its file.
  bool IsActive(uint64_t handle_generation) const VARVE_EXCLUDES(mu_);
  uint64_t generation() const VARVE_EXCLUDES(mu_);

  CrashModel model_;
  // Guarded by mu_.
  mutable Mutex mu_;
  bool active_ VARVE_GUARDED_BY(mu_) = true;
  uint64_t generation_ VARVE_GUARDED_BY(mu_) = 0;  // Crashes so far.
  std::string path_filter_ VARVE_GUARDED_BY(mu_);
  std::array<uint64_t, kKindCount> counts_ VARVE_GUARDED_BY(mu_) = {};
  uint64_t failure_count_ VARVE_GUARDED_BY(mu_) = 0;
  // The plan; no kinds means that there is none.
  OperationMask failing_kinds_ VARVE_GUARDED_BY(mu_) = 0;
  uint64_t operations_until_failure_ VARVE_GUARDED_BY(mu_) = 0;
  Status error_ VARVE_GUARDED_BY(mu_);
  FailureOptions failure_options_ VARVE_GUARDED_BY(mu_);
};

}  // namespace varve
