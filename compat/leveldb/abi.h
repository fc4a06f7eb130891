// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The binary interface of LevelDB 1.23: its public classes, with the order of
// their virtual functions, the layout of their members, and the names of what
// the library exports. Programs were compiled against LevelDB's own headers, so
// nothing here can be reordered, renamed or resized. The assertions at the end,
// and test/compat/leveldb, compare it with those headers.
//
// Inline functions have a meaning that programs have compiled in. They are here
// only if this library calls them. The comments say what this library does; the
// contracts of the calls are LevelDB's.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define VARVE_LEVELDB_EXPORT __attribute__((visibility("default")))
#define VARVE_LEVELDB_HIDDEN __attribute__((visibility("hidden")))

namespace varve::compat {
struct BatchBytes;
}

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FileLock;
class FilterPolicy;
class Iterator;
class Logger;
class RandomAccessFile;
class SequentialFile;
class Snapshot;
class WritableFile;
class WriteBatch;

// ---- Values -----------------------------------------------------------------

class Slice {
 public:
  Slice() = default;
  Slice(const char* data, size_t size) : data_(data), size_(size) {}
  Slice(const std::string& s) : data_(s.data()), size_(s.size()) {}  // NOLINT
  Slice(const char* s) : data_(s), size_(strlen(s)) {}               // NOLINT

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string ToString() const { return std::string(data_, size_); }

 private:
  const char* data_ = "";
  size_t size_ = 0;
};

// An error is one block of memory from new char[]: the length of the message
// (4 bytes), the code (1 byte), the message. Programs free and copy it.
class VARVE_LEVELDB_EXPORT Status {
 public:
  enum Code : unsigned {
    kOk = 0,
    kNotFound = 1,
    kCorruption = 2,
    kNotSupported = 3,
    kInvalidArgument = 4,
    kIOError = 5
  };

  Status() noexcept = default;
  // The message is `message`, or "<message>: <detail>". REQUIRES: code != kOk.
  Status(Code code, const Slice& message, const Slice& detail);
  Status(const Status& other) : state_(CopyOf(other)) {}
  Status& operator=(const Status& other) {
    if (this != &other) {
      delete[] state_;
      state_ = CopyOf(other);
    }
    return *this;
  }
  Status(Status&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  Status& operator=(Status&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Status() { delete[] state_; }

  bool ok() const { return state_ == nullptr; }
  Code code() const {
    return ok() ? kOk : static_cast<Code>(state_[kCodeOffset]);
  }
  std::string ToString() const;

  // Returns the message without the code. Valid while *this is.
  Slice message() const {
    if (ok()) return Slice();
    uint32_t length;
    memcpy(&length, state_, sizeof(length));
    return Slice(state_ + kHeaderBytes, length);
  }

 private:
  static constexpr size_t kCodeOffset = 4;
  static constexpr size_t kHeaderBytes = 5;

  static const char* CopyState(const char* state);
  static const char* CopyOf(const Status& other) {
    return other.ok() ? nullptr : CopyState(other.state_);
  }

  const char* state_ = nullptr;
};

struct Range {
  Slice start;
  Slice limit;
};

// Programs set other numbers too. With a fixed type, reading them is defined.
enum CompressionType : unsigned { kNoCompression = 0, kSnappyCompression = 1 };

struct VARVE_LEVELDB_EXPORT Options {
  Options();

  const Comparator* comparator;
  bool create_if_missing = false;
  bool error_if_exists = false;
  bool paranoid_checks = false;
  Env* env;
  Logger* info_log = nullptr;
  size_t write_buffer_size = 4 << 20;
  int max_open_files = 1000;
  Cache* block_cache = nullptr;
  size_t block_size = 4 << 10;
  int block_restart_interval = 16;
  size_t max_file_size = 2 << 20;
  CompressionType compression = kSnappyCompression;
  bool reuse_logs = false;
  const FilterPolicy* filter_policy = nullptr;
};

struct ReadOptions {
  bool verify_checksums = false;
  bool fill_cache = true;
  const Snapshot* snapshot = nullptr;
};

struct WriteOptions {
  bool sync = false;
};

// ---- What programs implement ------------------------------------------------

class VARVE_LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();
  virtual int Compare(const Slice& a, const Slice& b) const = 0;
  virtual const char* Name() const = 0;
  virtual void FindShortestSeparator(std::string* start,
                                     const Slice& limit) const = 0;
  virtual void FindShortSuccessor(std::string* key) const = 0;
};
VARVE_LEVELDB_EXPORT const Comparator* BytewiseComparator();

class VARVE_LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();
  virtual const char* Name() const = 0;
  virtual void CreateFilter(const Slice* keys, int count,
                            std::string* filter) const = 0;
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};
VARVE_LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

class VARVE_LEVELDB_EXPORT Cache {
 public:
  using Deleter = void (*)(const Slice& key, void* value);
  struct Handle {};

  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  virtual ~Cache();
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         Deleter deleter) = 0;
  virtual Handle* Lookup(const Slice& key) = 0;
  virtual void Release(Handle* handle) = 0;
  virtual void* Value(Handle* handle) = 0;
  virtual void Erase(const Slice& key) = 0;
  virtual uint64_t NewId() = 0;
  virtual void Prune() {}
  virtual size_t TotalCharge() const = 0;

 private:
  // Neither LevelDB nor this library uses it, but it has its place.
  [[maybe_unused]] void* unused_;
};
VARVE_LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

class VARVE_LEVELDB_EXPORT Env {
 public:
  Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  virtual ~Env();
  static Env* Default();

  virtual Status NewSequentialFile(const std::string& path,
                                   SequentialFile** file) = 0;
  virtual Status NewRandomAccessFile(const std::string& path,
                                     RandomAccessFile** file) = 0;
  virtual Status NewWritableFile(const std::string& path,
                                 WritableFile** file) = 0;
  virtual Status NewAppendableFile(const std::string& path,
                                   WritableFile** file);
  virtual bool FileExists(const std::string& path) = 0;
  virtual Status GetChildren(const std::string& path,
                             std::vector<std::string>* names) = 0;
  // RemoveFile and DeleteFile, and RemoveDir and DeleteDir, call each other: an
  // Env overrides one of the two.
  virtual Status RemoveFile(const std::string& path);
  virtual Status DeleteFile(const std::string& path);
  virtual Status CreateDir(const std::string& path) = 0;
  virtual Status RemoveDir(const std::string& path);
  virtual Status DeleteDir(const std::string& path);
  virtual Status GetFileSize(const std::string& path, uint64_t* size) = 0;
  virtual Status RenameFile(const std::string& source,
                            const std::string& target) = 0;
  virtual Status LockFile(const std::string& path, FileLock** lock) = 0;
  virtual Status UnlockFile(FileLock* lock) = 0;
  virtual void Schedule(void (*function)(void*), void* argument) = 0;
  virtual void StartThread(void (*function)(void*), void* argument) = 0;
  virtual Status GetTestDirectory(std::string* path) = 0;
  virtual Status NewLogger(const std::string& path, Logger** logger) = 0;
  virtual uint64_t NowMicros() = 0;
  virtual void SleepForMicroseconds(int duration_us) = 0;
};

class VARVE_LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;
  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;
  virtual ~SequentialFile();
  virtual Status Read(size_t count, Slice* result, char* scratch) = 0;
  virtual Status Skip(uint64_t count) = 0;
};

class VARVE_LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;
  virtual ~RandomAccessFile();
  virtual Status Read(uint64_t offset, size_t count, Slice* result,
                      char* scratch) const = 0;
};

class VARVE_LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  virtual ~WritableFile();
  virtual Status Append(const Slice& data) = 0;
  virtual Status Close() = 0;
  virtual Status Flush() = 0;
  virtual Status Sync() = 0;
};

class VARVE_LEVELDB_EXPORT Logger {
 public:
  Logger() = default;
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  virtual ~Logger();
  virtual void Logv(const char* format, va_list arguments) = 0;
};

class VARVE_LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  virtual ~FileLock();
};

VARVE_LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data,
                                              const std::string& path);
VARVE_LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& path,
                                             std::string* data);

// Forwards each call to another Env. Programs derive from it.
class VARVE_LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  explicit EnvWrapper(Env* target) : target_(target) {}
  ~EnvWrapper() override;
  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& path,
                           SequentialFile** file) override {
    return target_->NewSequentialFile(path, file);
  }
  Status NewRandomAccessFile(const std::string& path,
                             RandomAccessFile** file) override {
    return target_->NewRandomAccessFile(path, file);
  }
  Status NewWritableFile(const std::string& path,
                         WritableFile** file) override {
    return target_->NewWritableFile(path, file);
  }
  Status NewAppendableFile(const std::string& path,
                           WritableFile** file) override {
    return target_->NewAppendableFile(path, file);
  }
  bool FileExists(const std::string& path) override {
    return target_->FileExists(path);
  }
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override {
    return target_->GetChildren(path, names);
  }
  Status RemoveFile(const std::string& path) override {
    return target_->RemoveFile(path);
  }
  Status CreateDir(const std::string& path) override {
    return target_->CreateDir(path);
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
  Status LockFile(const std::string& path, FileLock** lock) override {
    return target_->LockFile(path, lock);
  }
  Status UnlockFile(FileLock* lock) override {
    return target_->UnlockFile(lock);
  }
  void Schedule(void (*function)(void*), void* argument) override {
    target_->Schedule(function, argument);
  }
  void StartThread(void (*function)(void*), void* argument) override {
    target_->StartThread(function, argument);
  }
  Status GetTestDirectory(std::string* path) override {
    return target_->GetTestDirectory(path);
  }
  Status NewLogger(const std::string& path, Logger** logger) override {
    return target_->NewLogger(path, logger);
  }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  void SleepForMicroseconds(int duration_us) override {
    target_->SleepForMicroseconds(duration_us);
  }

 private:
  Env* target_;
};
VARVE_LEVELDB_EXPORT Env* NewMemEnv(Env* base);

// ---- Databases --------------------------------------------------------------

class VARVE_LEVELDB_EXPORT Iterator {
 public:
  using CleanupFunction = void (*)(void* first, void* second);

  Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator();
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(const Slice& target) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;
  virtual Status status() const = 0;
  void RegisterCleanup(CleanupFunction function, void* first, void* second);

 private:
  // A list. The first node is here, since most iterators have at most one.
  struct Cleanup {
    CleanupFunction function = nullptr;
    void* first = nullptr;
    void* second = nullptr;
    Cleanup* next = nullptr;
  };
  Cleanup cleanup_;
};
VARVE_LEVELDB_EXPORT Iterator* NewEmptyIterator();
VARVE_LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

// The bytes are LevelDB's: a sequence number (8 bytes), a count (4
// bytes), and the updates. RocksDB's batches begin in the same way.
class VARVE_LEVELDB_EXPORT WriteBatch {
 public:
  class VARVE_LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  WriteBatch();
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  ~WriteBatch();
  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  void Clear();
  size_t ApproximateSize() const;
  void Append(const WriteBatch& source);
  Status Iterate(Handler* handler) const;

 private:
  friend struct varve::compat::BatchBytes;
  std::string bytes_;
};

class VARVE_LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

class VARVE_LEVELDB_EXPORT DB {
 public:
  static Status Open(const Options& options, const std::string& name, DB** db);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  virtual ~DB();
  virtual Status Put(const WriteOptions& options, const Slice& key,
                     const Slice& value) = 0;
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  virtual Status Write(const WriteOptions& options, WriteBatch* batch) = 0;
  virtual Status Get(const ReadOptions& options, const Slice& key,
                     std::string* value) = 0;
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;
  virtual void GetApproximateSizes(const Range* ranges, int count,
                                   uint64_t* sizes) = 0;
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};
VARVE_LEVELDB_EXPORT Status DestroyDB(const std::string& name,
                                      const Options& options);
VARVE_LEVELDB_EXPORT Status RepairDB(const std::string& name,
                                     const Options& options);

// ---- Single tables ----------------------------------------------------------

class VARVE_LEVELDB_EXPORT Table {
 public:
  static Status Open(const Options& options, RandomAccessFile* file,
                     uint64_t file_bytes, Table** table);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();
  Iterator* NewIterator(const ReadOptions& options) const;
  uint64_t ApproximateOffsetOf(const Slice& key) const;

 private:
  struct VARVE_LEVELDB_HIDDEN Rep;
  explicit Table(Rep* rep) : rep_(rep) {}
  Rep* const rep_;
};

class VARVE_LEVELDB_EXPORT TableBuilder {
 public:
  TableBuilder(const Options& options, WritableFile* file);
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  ~TableBuilder();
  Status ChangeOptions(const Options& options);
  void Add(const Slice& key, const Slice& value);
  void Flush();
  Status status() const;
  Status Finish();
  void Abandon();
  uint64_t NumEntries() const;
  uint64_t FileSize() const;

 private:
  struct VARVE_LEVELDB_HIDDEN Rep;
  Rep* rep_;
};

VARVE_LEVELDB_EXPORT Status DumpFile(Env* env, const std::string& path,
                                     WritableFile* output);

// ---- Sizes and offsets ------------------------------------------------------

static_assert(sizeof(void*) == 8 && sizeof(std::string) == 32);
static_assert(sizeof(Slice) == 16 && alignof(Slice) == 8);
static_assert(std::is_trivially_copyable_v<Slice>);  // Returned in registers.
static_assert(sizeof(Status) == 8);
static_assert(sizeof(Range) == 32 && offsetof(Range, limit) == 16);
static_assert(sizeof(Options) == 96);
static_assert(offsetof(Options, comparator) == 0);
static_assert(offsetof(Options, create_if_missing) == 8);
static_assert(offsetof(Options, error_if_exists) == 9);
static_assert(offsetof(Options, paranoid_checks) == 10);
static_assert(offsetof(Options, env) == 16);
static_assert(offsetof(Options, info_log) == 24);
static_assert(offsetof(Options, write_buffer_size) == 32);
static_assert(offsetof(Options, max_open_files) == 40);
static_assert(offsetof(Options, block_cache) == 48);
static_assert(offsetof(Options, block_size) == 56);
static_assert(offsetof(Options, block_restart_interval) == 64);
static_assert(offsetof(Options, max_file_size) == 72);
static_assert(offsetof(Options, compression) == 80);
static_assert(offsetof(Options, reuse_logs) == 84);
static_assert(offsetof(Options, filter_policy) == 88);
static_assert(sizeof(ReadOptions) == 16);
static_assert(offsetof(ReadOptions, fill_cache) == 1);
static_assert(offsetof(ReadOptions, snapshot) == 8);
static_assert(sizeof(WriteOptions) == 1);
static_assert(sizeof(WriteBatch) == 32);
static_assert(sizeof(Iterator) == 40);  // The virtual table and four words.
static_assert(sizeof(Cache) == 16);
static_assert(sizeof(EnvWrapper) == 16);
static_assert(sizeof(Table) == 8 && sizeof(TableBuilder) == 8);
static_assert(sizeof(DB) == 8 && sizeof(Env) == 8 && sizeof(Snapshot) == 8);

}  // namespace leveldb
