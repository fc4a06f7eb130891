// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Env is Varve's interface to the operating system: files, directories, a clock
// and background threads. Set your own in Options::env to store a database
// elsewhere. Derive from EnvWrapper to change a few calls of another Env.
//
// Methods return OK, NotFound for a missing file, or IOError with the path and
// errno's text. On failure output parameters are null or unchanged.
// Thread-safety: an Env is thread-safe. Each file class states its own.

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
  // sets *result to the bytes read, which may be in scratch. Fewer than `count`
  // bytes mean that the end of the file was reached.
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

// A file read at any offset. Thread-safety: thread-safe.
class VARVE_EXPORT RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Reads up to `count` bytes from `offset` into `scratch` (of at least `count`
  // bytes) and sets *result to the bytes read, which may be in scratch or in
  // memory that lives as long as the file object. Fewer than `count` bytes mean
  // that the end of the file was reached.
  virtual Status Read(uint64_t offset, size_t count, Slice* result,
                      char* scratch) const = 0;

  // Reads like Read, but may stop once `least` bytes were read, without another
  // system call. Fewer than `count` bytes then do not mean the end of the file.
  // The default reads `count`. REQUIRES: least <= count.
  virtual Status ReadAtLeast(uint64_t offset, size_t least, size_t count,
                             Slice* result, char* scratch) const;

  // Does all reads of the array, in any order. Each has its own status. The
  // default does them one at a time.
  virtual void MultiRead(ReadRequest* requests, size_t count) const;

  // Hints that `count` bytes from `offset` will be read soon. May do nothing.
  virtual void Prefetch(uint64_t offset, size_t count) const;

  // Returns the alignment of offset, length and scratch, in bytes, that a read
  // needs to avoid a copy; 1 for buffered files. Unaligned reads work through a
  // copy.
  virtual size_t RequiredAlignment() const { return 1; }

  // Returns a file descriptor from which pread reads the same bytes as Read,
  // for use by Env::MultiRead. It is valid until ReleaseDescriptor, which must
  // be called and reports how many bytes were read from it. Returns -1 if there
  // is none, and then nothing must be released. A file that wraps another and
  // changes its reads has none. There may also be none without waiting until
  // another is released.
  virtual int AcquireDescriptor() const { return -1; }
  virtual void ReleaseDescriptor(size_t /*bytes_read*/) const {}

  // Returns the whole file in memory, valid as long as this object, if all
  // reads are served from there and no descriptor stays open. Read then ignores
  // `scratch`, which may be null. Otherwise the data is null.
  virtual Slice Mapping() const { return Slice(nullptr, 0); }
};

// One read of a batch from several files.
struct FileReadRequest {
  const RandomAccessFile* file = nullptr;
  ReadRequest read;
};

// A file to open for reading, and its first read.
struct OpenRequest {
  std::string path;
  // The bytes to read; none if `length` is 0. See ReadRequest.
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
  // Closes the file if Close was not called, and ignores errors.
  virtual ~WritableFile() = default;

  // Appends bytes, possibly only to a buffer of the object.
  virtual Status Append(const Slice& data) = 0;
  // Appends the concatenation of `count` parts as AppendParts would with a
  // flush, and returns true, if that is only a copy in memory, without a system
  // call. Otherwise changes nothing and returns false. So does the default.
  virtual bool TryStore(const Slice* parts, size_t count);
  // Appends the concatenation of `count` parts, then flushes if `flush`. The
  // default calls Append for each part, and Flush.
  virtual Status AppendParts(const Slice* parts, size_t count, bool flush);

  // Writes buffered bytes to the operating system. They then survive a crash of
  // the process, but not of the machine.
  virtual Status Flush() = 0;

  // Flushes, then waits until data and size are on the device (fdatasync).
  // After a failure the state of the file is unknown: do not retry.
  virtual Status Sync() = 0;

  // Flushes and closes the descriptor. Does not sync. No other call is allowed
  // afterwards.
  virtual Status Close() = 0;

  // Allocates `length` bytes from `offset` without changing the file's size. A
  // hint: errors are ignored.
  virtual void Allocate(uint64_t offset, uint64_t length);

  // Like Allocate, or by zeros after the appended bytes, so that writes there
  // cannot run out of space. If there is not enough, returns an error with
  // IsNoSpace. Returns OK if that cannot be determined.
  virtual Status Reserve(uint64_t offset, uint64_t length);

  // Releases the allocated space after the last appended byte. A hint. Call
  // Flush first, since buffered bytes may need the space.
  virtual void Release();

  // Starts writing back `length` bytes from `offset` without waiting. A hint:
  // durability still needs Sync.
  virtual void RangeSync(uint64_t offset, uint64_t length);

  // Returns the number of bytes appended.
  virtual uint64_t Size() const = 0;

  // Returns how appended bytes reach the operating system now: "write" or
  // "mapped". Ends with a reason in parentheses if FileOptions::write_method
  // cannot be followed. Thread-safe.
  virtual std::string WritePath() const { return "write"; }
};

// An open directory.
// Thread-safety: thread-safe.
class VARVE_EXPORT Directory {
 public:
  virtual ~Directory() = default;
  // Waits until creations, renames and removals in the directory are on the
  // device.
  virtual Status Sync() = 0;
};

// A held lock; see Env::LockFile.
class VARVE_EXPORT FileLock {
 public:
  virtual ~FileLock() = default;
  // Returns IOError if the locked path no longer names the locked file, for
  // example after the directory was removed. Another process may then hold a
  // lock on the file that the path names. The default does not check.
  virtual Status Verify() const { return Status::OK(); }
  // Returns how the lock is weaker than Env::LockFile promises, or null if it
  // is not.
  virtual const char* Caveat() const { return nullptr; }
};

// The importance of a log line.
enum class LogLevel : uint8_t { kDebug = 0, kInfo, kWarn, kError };

// Receives the engine's log messages, one line each. Thread-safety:
// thread-safe. It is called with locks of the DB held, and by flush and
// compaction threads. It must not call any DB: a write to another DB may wait
// for a flush that only this thread could do.
class VARVE_EXPORT Logger {
 public:
  virtual ~Logger() = default;
  // Writes one line. `format` is printf's. Never fails visibly.
  virtual void Logv(LogLevel level, const char* format, va_list arguments) = 0;
};

// Writes a line to `logger`; does nothing if it is null.
VARVE_EXPORT void Log(LogLevel level, Logger* logger, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

// How a file is appended to.
enum class WriteMethod : uint8_t {
  // By a system call for each Flush.
  kCall,
  // By stores into a memory mapping of the file. Pieces of 16 KiB and more go
  // by a system call. A file system that cannot map is written as by kCall.
  kMap,
  // As by kMap while the file is appended to often and not synced, if file
  // system and kernel are known to report errors ahead: ext4, XFS or tmpfs,
  // and Linux 5.14. Otherwise as by kCall.
  kAuto,
};

// Options for opening a file.
struct FileOptions {
  // Bypass the page cache when reading (O_DIRECT). If the file system does not
  // support it, files are opened buffered.
  bool use_direct_reads = false;
  // For measurement: open without cached knowledge of the path and the device.
  bool uncached_open = false;
  // Start writeback of a written file each time this many bytes were written. 0
  // leaves it to the kernel.
  uint64_t bytes_per_sync = 0;
  // How bytes are appended. Unless it is kCall, the file can have up to 128 KiB
  // of zeros after the appended bytes until it is closed.
  WriteMethod write_method = WriteMethod::kCall;
  // For a file that is often synced after a few bytes. Periodically writes this
  // many zeros after its end, so that Sync need not wait for the file system to
  // record a new size and blocks. Until it is closed, the file then has zeros
  // after the appended bytes. 0: never.
  uint64_t sync_ahead_bytes = 0;
  // Map a file that is opened for reading into memory, with its size at that
  // time, and close its descriptor (RandomAccessFile::Mapping). Nobody may
  // truncate the file while it is mapped: an access after its end raises
  // SIGBUS. A file that cannot be mapped is opened as usual, and so is every
  // file with use_direct_reads or uncached_open.
  bool use_mmap_reads = false;
};

class DirectoryEnv;

// The identity of a file; see Env::GetFileId.
struct FileId {
  uint64_t device = 0;
  uint64_t number = 0;      // Of the file on the device.
  uint64_t changed_ns = 0;  // When it got its name, or its bytes, if known.

  // Returns whether both are of one file. Its bytes may have changed.
  bool IsSameFile(const FileId& other) const {
    return device == other.device && number == other.number;
  }
  // Returns whether both are of one file whose bytes did not change between.
  bool operator==(const FileId& other) const {
    return IsSameFile(other) && changed_ns == other.changed_ns;
  }
};

class VARVE_EXPORT VARVE_USES_CONTAINERS Env {
 public:
  // Background work is queued by priority; each has its own threads. Work of
  // kLow may be done by threads that leave the processor to others. kMedium is
  // for the same kind of work when something waits for it. An Env may treat it
  // like kLow.
  enum class Priority : uint8_t { kLow = 0, kHigh = 1, kMedium = 2 };

  virtual ~Env() = default;

  // Returns the environment of the operating system. It is never destroyed.
  static Env* Default();

  // Opens an existing file.
  virtual Status NewSequentialFile(const std::string& path,
                                   const FileOptions& options,
                                   std::unique_ptr<SequentialFile>* file) = 0;
  virtual Status NewRandomAccessFile(
      const std::string& path, const FileOptions& options,
      std::unique_ptr<RandomAccessFile>* file) = 0;
  // Does all reads of the array, in any order. Each has its own status. The
  // files belong to this Env or wrap its files. If `done` is not null, calls it
  // for each read as soon as the read ends, while others are still running.
  // `done` must not call MultiRead. The default does the reads one at a time.
  using ReadDone = std::function<void(FileReadRequest*)>;
  virtual void MultiRead(FileReadRequest* requests, size_t count,
                         const ReadDone& done = nullptr);
  // Opens many files by NewRandomAccessFile, then reads from all of them by one
  // MultiRead. Each has its own status.
  void OpenRandomAccessFiles(OpenRequest* requests, size_t count,
                             const FileOptions& options);
  // Returns how batches of reads are done, such as "io_uring", or "pread
  // (io_uring: Operation not permitted)".
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

  // Returns OK, NotFound, or another error if that cannot be determined.
  virtual Status FileExists(const std::string& path) = 0;
  // Lists the names (not paths) of a directory's entries without "." and "..".
  virtual Status GetChildren(const std::string& path,
                             std::vector<std::string>* names) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  // Returns OK if the directory exists, but not for a link to one.
  virtual Status CreateDirIfMissing(const std::string& path) = 0;
  virtual Status RemoveDir(const std::string& path) = 0;
  // In bytes. Returns NotSupported for what is neither a regular file nor a
  // link to one, such as a directory or a link that leads nowhere.
  virtual Status GetFileSize(const std::string& path, uint64_t* size) = 0;
  // Sets *id to what tells the file of that name from any other file that has,
  // or had, the name while this one is open. Returns NotFound if there is no
  // file, and NotSupported if the Env does not know, which is the default.
  virtual Status GetFileId(const std::string& path, FileId* id);
  // Stores when the file's bytes were last changed, in seconds since 1970.
  // Returns NotSupported if that is not known, which is the default.
  virtual Status GetFileModificationTime(const std::string& path,
                                         uint64_t* time_s);
  // Replaces `target` atomically if it exists.
  virtual Status RenameFile(const std::string& source,
                            const std::string& target) = 0;
  // Makes `target` another name of the file `source`. Returns NotSupported if
  // hard links are not possible.
  virtual Status LinkFile(const std::string& source,
                          const std::string& target) = 0;
  // Makes the bytes of a file durable that another program, or an earlier
  // WritableFile, has written. Returns NotSupported if that is not possible,
  // which is the default.
  virtual Status SyncFile(const std::string& path);
  // Truncates the file to `size` bytes.
  virtual Status Truncate(const std::string& path, uint64_t size) = 0;

  // Takes an exclusive lock on a file, which is created if it does not exist.
  // No other process, and no other caller in this process, can hold it at the
  // same time. Returns Busy, with the holder's pid if known. Waits only, for up
  // to a second, if that process has ended and left the lock to its children.
  virtual Status LockFile(const std::string& path,
                          std::unique_ptr<FileLock>* lock) = 0;
  // Releases and destroys the lock.
  virtual Status UnlockFile(std::unique_ptr<FileLock> lock) = 0;

  // Returns the path in a form that does not depend on the working directory.
  // Returns the path itself if it has no other, which is the default. DB,
  // Catalog, Checkpoint, RepairDB and DestroyDB use this form of the path they
  // are given.
  virtual std::string AbsolutePath(const std::string& path) { return path; }
  // Creates an Env for a directory that may be moved while it is in use. Null
  // if this Env has none, which is the default. An EnvWrapper has none either,
  // since calls of the new Env would not go through the wrapper.
  virtual std::unique_ptr<DirectoryEnv> NewDirectoryEnv(
      const std::string& directory);

  // Runs `work` once on a background thread of that priority. Returns IOError,
  // and never runs `work`, if the first thread cannot be started.
  virtual Status Schedule(std::function<void()> work, Priority priority) = 0;
  // Raises the number of background threads of a priority to at least
  // `count`. Threads start when there is work; all DBs of an Env share them.
  // DB::Open calls it. An Env should give its threads the scheduling of the
  // thread that opened a database, and not that of the caller of Schedule,
  // which may be a thread of low priority.
  virtual void RaiseBackgroundThreads(int count, Priority priority) = 0;

  // Creates a logger that writes to a new file, as by NewWritableFile.
  virtual Status NewLogger(const std::string& path,
                           std::shared_ptr<Logger>* logger) = 0;

  // Returns the wall clock in microseconds since the epoch. For dates only.
  virtual uint64_t NowMicros() = 0;
  // Returns nanoseconds of a monotonic clock. For durations.
  virtual uint64_t NowNanos() = 0;
  virtual void SleepForMicroseconds(uint64_t duration_us) = 0;
};

// An Env that finds one directory without its path. It uses the clock, the
// threads and all other directories of the Env that created it, which must
// outlive it.
class VARVE_EXPORT DirectoryEnv : public Env {
 public:
  ~DirectoryEnv() override;
  // Opens the directory. From then on its path, and paths that begin with it,
  // lead into the open directory, wherever it is moved and whatever takes its
  // name. While a lock on a file directly in it is held by LockFile, changes of
  // names in the directory fail with FileLock::Verify's error, if it has one.
  // Called at most once, before other threads use this Env.
  virtual Status Hold() = 0;
  // Closes the directory. From then on paths are names again. Called when
  // nothing else uses this Env. The default does nothing.
  virtual void LetGo();
};

// Forwards each call but NewDirectoryEnv to another Env, which must outlive it.
class VARVE_EXPORT EnvWrapper : public Env {
 public:
  // REQUIRES: `target` is not null.
  explicit EnvWrapper(Env* target) : target_(target) {}
  ~EnvWrapper() override;

  // Returns the Env that calls are forwarded to.
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
  Status GetFileId(const std::string& path, FileId* id) override {
    return target_->GetFileId(path, id);
  }
  Status GetFileModificationTime(const std::string& path,
                                 uint64_t* time_s) override {
    return target_->GetFileModificationTime(path, time_s);
  }
  Status RenameFile(const std::string& source,
                    const std::string& target) override {
    return target_->RenameFile(source, target);
  }
  Status LinkFile(const std::string& source,
                  const std::string& target) override {
    return target_->LinkFile(source, target);
  }
  Status SyncFile(const std::string& path) override {
    return target_->SyncFile(path);
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

// Creates an Env with files in memory. It uses the clock and threads of `base`,
// which must outlive it.
VARVE_EXPORT std::unique_ptr<Env> NewMemoryEnv(Env* base);

// Reads or writes a whole small file. WriteStringToFile syncs it if `sync`.
VARVE_EXPORT Status ReadFileToString(Env* env, const std::string& path,
                                     std::string* data);
VARVE_EXPORT Status WriteStringToFile(Env* env, const Slice& data,
                                      const std::string& path, bool sync);

}  // namespace varve
