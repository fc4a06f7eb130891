// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/engine_pebble.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

namespace {

constexpr size_t kMaxKeyBytes = 64;

// The functions of tools/peers/go/pebble_library.
struct PebbleLibrary {
  size_t (*error)(char* buffer, size_t size);
  size_t (*version)(char* buffer, size_t size);
  int (*destroy)(const char* path);
  int (*open)(const char* path, uint64_t cache_bytes,
              uint64_t write_buffer_bytes, int block_bytes, int bloom_bits,
              int jobs, uintptr_t* database);
  int (*close)(uintptr_t database);
  int (*put)(uintptr_t database, const char* key, size_t key_bytes,
             const char* value, size_t value_bytes);
  int (*remove)(uintptr_t database, const char* key, size_t key_bytes);
  int (*delete_range)(uintptr_t database, const char* begin, size_t begin_bytes,
                      const char* end, size_t end_bytes);
  void (*take_snapshot)(uintptr_t database);
  void (*release_snapshot)(uintptr_t database);
  int (*flush)(uintptr_t database);
  int (*compact)(uintptr_t database);
  uintptr_t (*new_cursor)(uintptr_t database);
  int (*seek)(uintptr_t cursor, const char* key, size_t key_bytes, char* found,
              size_t* found_bytes);
  int (*last)(uintptr_t cursor, char* found, size_t* found_bytes);
  int (*next)(uintptr_t cursor, char* found, size_t* found_bytes);
  void (*delete_cursor)(uintptr_t cursor);

  std::string Text(size_t (*function)(char*, size_t)) const {
    char buffer[256];
    return std::string(
        buffer, std::min(function(buffer, sizeof(buffer)), sizeof(buffer)));
  }
  Status ToStatus(int result) const {
    if (result == 0) return Status::OK();
    return Status::IOError("pebble: " + Text(error));
  }
};

class PebbleCursor final : public EngineCursor {
 public:
  PebbleCursor(const PebbleLibrary* library, uintptr_t database)
      : library_(library), cursor_(library->new_cursor(database)) {}
  ~PebbleCursor() override { library_->delete_cursor(cursor_); }

  // Each seek creates an iterator, in the same call.
  void Renew() override {}
  bool SeekToFirst() override { return SeekTo(nullptr, 0); }
  bool Seek(const Slice& target) override {
    return SeekTo(target.data(), target.size());
  }
  bool Next() override {
    size_t bytes = kMaxKeyBytes;
    const int result = library_->next(cursor_, found_, &bytes);
    return Arrive(result, bytes);
  }
  bool SeekToLast() override {
    size_t bytes = kMaxKeyBytes;
    const int result = library_->last(cursor_, found_, &bytes);
    return Arrive(result, bytes);
  }
  bool Prev() override {
    status_ = Status::NotSupported("pebble: Prev");
    return false;
  }
  Status status() const override { return status_; }

 private:
  bool SeekTo(const char* target, size_t target_bytes) {
    size_t bytes = kMaxKeyBytes;
    const int result =
        library_->seek(cursor_, target, target_bytes, found_, &bytes);
    return Arrive(result, bytes);
  }
  bool Arrive(int result, size_t bytes) {
    if (result < 0) status_ = library_->ToStatus(1);
    if (result != 1 || bytes > kMaxKeyBytes) return false;
    key = Slice(found_, bytes);
    return true;
  }

  const PebbleLibrary* const library_;
  const uintptr_t cursor_;
  char found_[kMaxKeyBytes];
  Status status_;
};

class PebbleSession final : public EngineSession {
 public:
  PebbleSession(const PebbleLibrary* library, uintptr_t database)
      : library_(library), database_(database) {}

  Lookup Get(const Slice& /*key*/, Slice* /*value*/) override {
    error_ = Status::NotSupported("pebble: Get");
    return Lookup::kError;
  }
  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    return GetEach(
        keys, found, value_bytes,
        [this](const Slice& key, Slice* value) { return Get(key, value); });
  }
  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<PebbleCursor>(library_, database_);
  }

  void Put(const Slice& key, const Slice& value) override {
    Note(library_->put(database_, key.data(), key.size(), value.data(),
                       value.size()));
  }
  void Delete(const Slice& key) override {
    Note(library_->remove(database_, key.data(), key.size()));
  }
  bool DeleteRange(const Slice& begin, const Slice& end) override {
    Note(library_->delete_range(database_, begin.data(), begin.size(),
                                end.data(), end.size()));
    return true;
  }
  Status Commit() override { return status_; }

 private:
  void Note(int result) {
    if (status_.ok()) status_ = library_->ToStatus(result);
  }

  const PebbleLibrary* const library_;
  const uintptr_t database_;
  Status status_;
};

class PebbleEngine final : public Engine {
 public:
  explicit PebbleEngine(const PebbleLibrary& library) : library_(library) {}

  std::string Version() const override {
    return library_.Text(library_.version);
  }
  Status Check(const EngineConfig& config) const override {
    if (config.compression == "snappy") return Status::OK();
    return Status::NotSupported("pebble: compression " + config.compression);
  }
  std::string IoPath() override { return "pread"; }

  Status Destroy(const EngineConfig& config) override {
    return library_.ToStatus(library_.destroy(config.path.c_str()));
  }
  Status Open(const EngineConfig& config) override {
    return library_.ToStatus(library_.open(
        config.path.c_str(), config.cache_bytes, config.write_buffer_bytes,
        static_cast<int>(config.block_bytes), config.bloom_bits,
        config.max_background_jobs, &database_));
  }
  Status Close() override {
    return library_.ToStatus(library_.close(database_));
  }
  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<PebbleSession>(&library_, database_);
  }

  Status TakeSnapshot() override {
    library_.take_snapshot(database_);
    return Status::OK();
  }
  void ReleaseSnapshot() override { library_.release_snapshot(database_); }
  Status Flush() override {
    return library_.ToStatus(library_.flush(database_));
  }
  Status Compact() override {
    return library_.ToStatus(library_.compact(database_));
  }
  Status WaitForCompaction() override {
    return Status::NotSupported("pebble: waiting for compactions");
  }
  Status VerifyChecksum() override {
    return Status::NotSupported("pebble: verification");
  }
  bool Property(const std::string& /*name*/, std::string* /*value*/) override {
    return false;
  }

 private:
  const PebbleLibrary library_;
  uintptr_t database_ = 0;
};

// Sets a function of the library. Returns false if it has none of this name.
template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Status NewPebbleEngine(const std::string& library_path,
                       std::unique_ptr<Engine>* engine) {
  // It cannot be unloaded, since it has threads.
  void* const loaded =
      dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (loaded == nullptr) {
    return Status::NotSupported(
        "engine pebble is not built in: tools/peers/build pebble_library (" +
        std::string(dlerror()) + ")");
  }
  PebbleLibrary library = {};
  const bool complete =
      Find(loaded, "PebbleError", &library.error) &&
      Find(loaded, "PebbleVersion", &library.version) &&
      Find(loaded, "PebbleDestroy", &library.destroy) &&
      Find(loaded, "PebbleOpen", &library.open) &&
      Find(loaded, "PebbleClose", &library.close) &&
      Find(loaded, "PebblePut", &library.put) &&
      Find(loaded, "PebbleDelete", &library.remove) &&
      Find(loaded, "PebbleDeleteRange", &library.delete_range) &&
      Find(loaded, "PebbleTakeSnapshot", &library.take_snapshot) &&
      Find(loaded, "PebbleReleaseSnapshot", &library.release_snapshot) &&
      Find(loaded, "PebbleFlush", &library.flush) &&
      Find(loaded, "PebbleCompact", &library.compact) &&
      Find(loaded, "PebbleNewCursor", &library.new_cursor) &&
      Find(loaded, "PebbleSeek", &library.seek) &&
      Find(loaded, "PebbleLast", &library.last) &&
      Find(loaded, "PebbleNext", &library.next) &&
      Find(loaded, "PebbleDeleteCursor", &library.delete_cursor);
  if (!complete) {
    return Status::NotSupported(library_path + " is of another version");
  }
  *engine = std::make_unique<PebbleEngine>(library);
  return Status::OK();
}

}  // namespace varve
