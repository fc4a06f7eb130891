// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Env is all that Varve asks of an operating system: files, directories, a
// clock and background threads. Give your own through Options::env to put a
// database elsewhere; derive from EnvWrapper to change a few calls of another.
//
// Every method returns OK or says what failed: NotFound for a missing file,
// IOError with the path and errno's text else. Output parameters are null or
// untouched on failure.
// Thread-safety: an Env is thread-safe. Files say it each for themselves.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// A file read once from front to back.
// Thread-safety: owned by one thread at a time.
class VARVE_EXPORT SequentialFile {
 public:
  virtual ~SequentialFile() = default;

  // Reads up to `count` bytes into `scratch` (of at least `count` bytes) and
  // sets *result to what was read, which may lie in scratch. Fewer than
  // `count` bytes mean that the end of the file was reached.
  virtual Status Read(size_t count, Slice* result, char* scratch) = 0;

  // Skips `count` bytes; stops at the end of the file without an error.
  virtual Status Skip(uint64_t count) = 0;
};

// One read of a batch.
struct ReadRequest {
  uint64_t offset = 0;
  size_t length = 0;
  // At least `length` bytes, owned by the caller.
  char* scratch = nullptr;
  // Outputs. Fewer bytes than `length` mean the end of the file.
  Slice result;
  Status status;
};

// A file read at any place.
// Thread-safety: thread-safe.
class VARVE_EXPORT RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Reads up to `count` bytes from `offset` into `scratch` (of at least
  // `count` bytes) and sets *result to what was read, which may lie in
  // scratch or in memory that lives as long as the file object. Fewer than
  // `count` bytes mean that the end of the file was reached.
  virtual Status Read(uint64_t offset, size_t count, Slice* result,
                      char* scratch) const = 0;

  // The same, for a caller who does not need all of it: stops, without another
  // system call, when `least` bytes are there, so that fewer than `count` do
  // not mean the end of the file. The default reads `count`.
  // REQUIRES: least <= count.
  virtual Status ReadAtLeast(uint64_t offset, size_t least, size_t count,
                             Slice* result, char* scratch) const;

  // Does all reads of the array, in any order; each has its own status. The
  // default does them one by one.
  virtual void MultiRead(ReadRequest* requests, size_t count) const;

  // A hint that `count` bytes from `offset` will be read soon. May do
  // nothing.
  virtual void Prefetch(uint64_t offset, size_t count) const;

  // Alignment that offset, length and scratch of a read should have to go to
  // the device without a copy, in bytes; 1 for buffered files. Unaligned
  // reads work as well, through a copy.
  virtual size_t RequiredAlignment() const { return 1; }

  // A descriptor of the operating system from which pread reads what Read
  // reads, so that Env::MultiRead may read from it in Read's place. It is good
  // until a call of ReleaseDescriptor, which must follow and says how many
  // bytes were read from it. -1, and nothing to release, if there is none, as
  // for a file that wraps another to change its reads, or none without waiting
  // for some other to be released.
  virtual int AcquireDescriptor() const { return -1; }
  virtual void ReleaseDescriptor(size_t /*bytes_read*/) const {}
};

// One read of a batch from several files.
struct FileReadRequest {
  const RandomAccessFile* file = nullptr;
  ReadRequest read;
};

// A file to be opened for reading, and its first read.
struct OpenRequest {
  std::string path;
  // What to read at once; nothing if `length` is 0. See ReadRequest.
  uint64_t offset = 0;
  size_t length = 0;
  char* scratch = nullptr;
  // Outputs. Null if opening or reading failed.
  std::unique_ptr<RandomAccessFile> file;
  Slice result;
  Status status;
};

// A file written from front to back.
// Thread-safety: owned by one thread at a time.
class VARVE_EXPORT WritableFile {
 public:
  // Closes the file if Close was not called; errors are lost then.
  virtual ~WritableFile() = default;

  // Adds bytes at the end, perhaps only to a buffer of the object.
  virtual Status Append(const Slice& data) = 0;

  // Hands what is buffered to the operating system: it then survives the
  // death of the process, not of the machine.
  virtual Status Flush() = 0;

  // Flush, then waits until data and size are on the device (fdatasync).
  // After a failure the state of the file is unknown: do not retry on it.
  virtual Status Sync() = 0;

  // Flush, then gives the descriptor back. Does not sync. The object accepts
  // no other call afterwards.
  virtual Status Close() = 0;

  // Asks for space of `length` bytes from `offset`, without changing the
  // file's size. A hint: errors are ignored.
  virtual void Allocate(uint64_t offset, uint64_t length);

  // As Allocate, where writes must not find the device full halfway: IsNoSpace
  // if it has not so much space, and then the file is as it was. OK where that
  // cannot be told.
  virtual Status Reserve(uint64_t offset, uint64_t length);

  // Gives back the space after the last byte that was appended, which Allocate
  // and Reserve requested. A hint. Call Flush first: buffered bytes may need
  // the space.
  virtual void Release();

  // Starts writing back `length` bytes from `offset` without waiting. A hint:
  // durability still needs Sync.
  virtual void RangeSync(uint64_t offset, uint64_t length);

  // Bytes appended so far.
  virtual uint64_t Size() const = 0;
};

// An open directory.
// Thread-safety: thread-safe.
class VARVE_EXPORT Directory {
 public:
  virtual ~Directory() = default;
  // Waits until creations, renames and removals in it are on the device.
  virtual Status Sync() = 0;
};

// A held lock; see Env::LockFile.
class VARVE_EXPORT FileLock {
 public:
  virtual ~FileLock() = default;
  // IOError if the path that was locked no longer names the locked file, as
  // after the directory was removed: then somebody else may hold a lock on the
  // file that it names. The default does not look.
  virtual Status Verify() const { return Status::OK(); }
  // How the lock is weaker than Env::LockFile promises; null if it is not.
  virtual const char* Caveat() const { return nullptr; }
};

// How much a line of a log matters.
enum class LogLevel : uint8_t { kDebug = 0, kInfo, kWarn, kError };

// Where the engine writes what it does, a line a message.
// Thread-safety: thread-safe. It is called with locks of the DB held, and by
// the threads that flush and compact, and so must call no DB: a write to
// another one may wait for a flush that only this thread could do.
class VARVE_EXPORT Logger {
 public:
  virtual ~Logger() = default;
  // Writes one line. `format` is printf's. Never fails visibly.
  virtual void Logv(LogLevel level, const char* format, va_list arguments) = 0;
};

// Writes a line to `logger`; does nothing if it is null.
VARVE_EXPORT void Log(LogLevel level, Logger* logger, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

// How a file is to be opened.
struct FileOptions {
  // Bypass the page cache when reading (O_DIRECT). Files on a file system
  // that refuses it are opened buffered.
  bool use_direct_reads = false;
  // For measurement: see table_open in experimental.h.
  bool uncached_open = false;
  // Bytes after which a written file's pages are pushed to the device in the
  // background; 0 leaves it to the kernel.
  uint64_t bytes_per_sync = 0;
  // Write through a shared mapping of allocated space, where the file system
  // can do that. Until it is closed, the file is then longer than what was
  // appended, by zeros. A device that fails kills the process (SIGBUS).
  bool use_mmap_writes = false;
  // For a file that is synced after a few bytes again and again: writes so many
  // zeros behind its end now and then, so that Sync need not wait for the file
  // system to note the new size and blocks as well. Until it is closed, the
  // file is then longer than what was appended. 0: never.
  uint64_t sync_ahead_bytes = 0;
};

class DirectoryEnv;

class VARVE_EXPORT Env {
 public:
  // Background work is queued by priority; each has its own threads.
  enum class Priority : uint8_t { kLow = 0, kHigh = 1 };

  virtual ~Env() = default;

  // The environment of the operating system. Lives for ever.
  static Env* Default();

  // Opens an existing file.
  virtual Status NewSequentialFile(const std::string& path,
                                   const FileOptions& options,
                                   std::unique_ptr<SequentialFile>* file) = 0;
  virtual Status NewRandomAccessFile(
      const std::string& path, const FileOptions& options,
      std::unique_ptr<RandomAccessFile>* file) = 0;
  // Does all reads of the array, in any order; each has its own status. The
  // files are of this Env or wrap such. Calls `done`, if it is not null, for
  // each as soon as it is done, while others are still under way; it must not
  // call MultiRead. The default does them one by one.
  using ReadDone = std::function<void(FileReadRequest*)>;
  virtual void MultiRead(FileReadRequest* requests, size_t count,
                         const ReadDone& done = nullptr);
  // Opens many files by NewRandomAccessFile, and then reads from all of them by
  // one MultiRead; each has its own status.
  void OpenRandomAccessFiles(OpenRequest* requests, size_t count,
                             const FileOptions& options);
  // How batches of reads are done, such as "io_uring", or "pread (io_uring:
  // Operation not permitted)".
  virtual std::string IoPath() { return "pread"; }
  // Creates an empty file. A file of that name is replaced in one step, never
  // emptied: under its other names (hard links) it keeps its bytes, and a crash
  // leaves the old file or the new one.
  virtual Status NewWritableFile(const std::string& path,
                                 const FileOptions& options,
                                 std::unique_ptr<WritableFile>* file) = 0;
  // Opens an existing directory.
  virtual Status NewDirectory(const std::string& path,
                              std::unique_ptr<Directory>* directory) = 0;

  // OK, NotFound, or another error when it cannot be said.
  virtual Status FileExists(const std::string& path) = 0;
  // The names (not paths) of a directory's entries without "." and "..".
  virtual Status GetChildren(const std::string& path,
                             std::vector<std::string>* names) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  // OK as well if the directory is there, but not for a link to one.
  virtual Status CreateDirIfMissing(const std::string& path) = 0;
  virtual Status RemoveDir(const std::string& path) = 0;
  // In bytes.
  virtual Status GetFileSize(const std::string& path, uint64_t* size) = 0;
  // Replaces `target` atomically if it exists.
  virtual Status RenameFile(const std::string& source,
                            const std::string& target) = 0;
  // Makes `target` another name of the file `source`. NotSupported if that
  // cannot be done here.
  virtual Status LinkFile(const std::string& source,
                          const std::string& target) = 0;
  // Cuts the file to `size` bytes.
  virtual Status Truncate(const std::string& path, uint64_t size) = 0;

  // Takes an exclusive lock on a file, made if missing, that other processes
  // (and other callers in this one) cannot hold at the same time. Does not
  // wait: Busy, naming the holder's pid where it is known.
  virtual Status LockFile(const std::string& path,
                          std::unique_ptr<FileLock>* lock) = 0;
  // Releases and destroys the lock.
  virtual Status UnlockFile(std::unique_ptr<FileLock> lock) = 0;

  // The path in a form that does not depend on the working directory. Returns
  // the path itself if it has no other, which is the default. DB, Catalog,
  // Checkpoint, RepairDB and DestroyDB use this form of the path they are
  // given.
  virtual std::string AbsolutePath(const std::string& path) { return path; }
  // Creates an Env for a directory that may be moved while it is in use. Null
  // if this Env has none, which is the default. An EnvWrapper has none either,
  // since calls of the new Env would not go through the wrapper.
  virtual std::unique_ptr<DirectoryEnv> NewDirectoryEnv(
      const std::string& directory);

  // Runs `work` once on a background thread of that priority. IOError, and
  // `work` never runs, if the system refuses to start the first thread.
  virtual Status Schedule(std::function<void()> work, Priority priority) = 0;
  // Raises the number of background threads of a priority to at least
  // `count`. Threads start when there is work; all DBs of an Env share them.
  virtual void RaiseBackgroundThreads(int count, Priority priority) = 0;

  // A logger that writes to a new file, made as by NewWritableFile.
  virtual Status NewLogger(const std::string& path,
                           std::shared_ptr<Logger>* logger) = 0;

  // The wall clock: microseconds since the epoch. For dates only.
  virtual uint64_t NowMicros() = 0;
  // Nanoseconds of a clock that nobody sets, never backwards. For durations.
  virtual uint64_t NowNanos() = 0;
  virtual void SleepForMicroseconds(uint64_t duration_us) = 0;
};

// An Env that finds one directory without its path. Clock, threads and all
// other directories are those of the Env that created it, which must outlive
// it.
class VARVE_EXPORT DirectoryEnv : public Env {
 public:
  ~DirectoryEnv() override;
  // Opens the directory. From then on its path, and paths that begin with it,
  // lead into the open directory, wherever it is moved and whatever takes its
  // name. While a lock on a file directly in it is held by LockFile, changes of
  // names in the directory fail with FileLock::Verify's error, if it has one.
  // Called at most once, before other threads use this Env.
  virtual Status Hold() = 0;
};

// Forwards each call but NewDirectoryEnv to another Env, which must outlive it.
class VARVE_EXPORT EnvWrapper : public Env {
 public:
  // REQUIRES: `target` is not null.
  explicit EnvWrapper(Env* target) : target_(target) {}
  ~EnvWrapper() override;

  // What calls are forwarded to.
  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override {
    return target_->NewSequentialFile(path, options, file);
  }
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    return target_->NewRandomAccessFile(path, options, file);
  }
  void MultiRead(FileReadRequest* requests, size_t count,
                 const ReadDone& done = nullptr) override {
    target_->MultiRead(requests, count, done);
  }
  std::string IoPath() override { return target_->IoPath(); }
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    return target_->NewWritableFile(path, options, file);
  }
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override {
    return target_->NewDirectory(path, directory);
  }
  Status FileExists(const std::string& path) override {
    return target_->FileExists(path);
  }
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    return target_->GetChildren(path, names);
  }
  Status RemoveFile(const std::string& path) override {
    return target_->RemoveFile(path);
  }
  Status CreateDirIfMissing(const std::string& path) override {
    return target_->CreateDirIfMissing(path);
  }
  Status RemoveDir(const std::string& path) override {
    return target_->RemoveDir(path);
  }
  Status GetFileSize(const std::string& path, uint64_t* size) override {
    return target_->GetFileSize(path, size);
  }
  Status RenameFile(const std::string& source,
                    const std::string& target) override {
    return target_->RenameFile(source, target);
  }
  Status LinkFile(const std::string& source,
                  const std::string& target) override {
    return target_->LinkFile(source, target);
  }
  Status Truncate(const std::string& path, uint64_t size) override {
    return target_->Truncate(path, size);
  }
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override {
    return target_->LockFile(path, lock);
  }
  Status UnlockFile(std::unique_ptr<FileLock> lock) override {
    return target_->UnlockFile(std::move(lock));
  }
  std::string AbsolutePath(const std::string& path) override {
    return target_->AbsolutePath(path);
  }
  Status Schedule(std::function<void()> work, Priority priority) override {
    return target_->Schedule(std::move(work), priority);
  }
  void RaiseBackgroundThreads(int count, Priority priority) override {
    target_->RaiseBackgroundThreads(count, priority);
  }
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override {
    return target_->NewLogger(path, logger);
  }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  uint64_t NowNanos() override { return target_->NowNanos(); }
  void SleepForMicroseconds(uint64_t duration_us) override {
    target_->SleepForMicroseconds(duration_us);
  }

 private:
  Env* target_;
};

// A new Env whose files live in memory; clock and threads are those of
// `base`, which must outlive it.
VARVE_EXPORT std::unique_ptr<Env> NewMemoryEnv(Env* base);

// Reads or writes a whole small file. WriteStringToFile syncs it if `sync`.
VARVE_EXPORT Status ReadFileToString(Env* env, const std::string& path,
                                     std::string* data);
VARVE_EXPORT Status WriteStringToFile(Env* env, const Slice& data,
                                      const std::string& path, bool sync);

}  // namespace varve
