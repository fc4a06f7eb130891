// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// leveldb-copy DIRECTORY NEW_DIRECTORY: copies a database of Varve to a new one
// of LevelDB. It reads with the engine that is linked in, and writes with the C
// functions of the LevelDB library that the dynamic linker finds.

#include <dlfcn.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace {

using varve::Slice;
using varve::Status;

constexpr size_t kBatchBytes = 1 << 20;
constexpr uint64_t kProgressEntries = 1'000'000;

// LevelDB's C interface, as far as it is needed. Its objects are opaque, and
// live until the process ends.
class LevelDb {
 public:
  ~LevelDb() {
    if (db_ != nullptr) close_(db_);
  }

  // Finds the library and creates the database.
  Status Create(const std::string& path) {
    void* library = dlopen("libleveldb.so.1d", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      library = dlopen("libleveldb.so.1", RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) {
      return Status::NotFound("LevelDB's library is not installed", dlerror());
    }
    void* (*new_options)() = nullptr;
    void* (*new_write_options)() = nullptr;
    void* (*new_batch)() = nullptr;
    void (*set_create)(void*, unsigned char) = nullptr;
    void (*set_error)(void*, unsigned char) = nullptr;
    void* (*open)(void*, const char*, char**) = nullptr;
    if (!(Find(library, "options_create", &new_options) &&
          Find(library, "options_set_create_if_missing", &set_create) &&
          Find(library, "options_set_error_if_exists", &set_error) &&
          Find(library, "writeoptions_create", &new_write_options) &&
          Find(library, "open", &open) && Find(library, "close", &close_) &&
          Find(library, "writebatch_create", &new_batch) &&
          Find(library, "writebatch_clear", &clear_) &&
          Find(library, "writebatch_put", &put_) &&
          Find(library, "write", &write_))) {
      return Status::NotSupported("LevelDB's library lacks a function",
                                  dlerror());
    }
    void* const options = new_options();
    set_create(options, 1);
    set_error(options, 1);
    options_ = new_write_options();
    batch_ = new_batch();
    char* error = nullptr;
    db_ = open(options, path.c_str(), &error);
    if (error != nullptr) return Status::IOError(error);
    if (access((path + "/VARVE.txt").c_str(), F_OK) == 0) {
      return Status::InvalidArgument(
          "the library is Varve's, not LevelDB's; see LD_LIBRARY_PATH");
    }
    return Status::OK();
  }

  Status Put(const Slice& key, const Slice& value) {
    put_(batch_, key.data(), key.size(), value.data(), value.size());
    bytes_ += key.size() + value.size();
    return bytes_ < kBatchBytes ? Status::OK() : Write();
  }

  Status Write() {
    char* error = nullptr;
    write_(db_, options_, batch_, &error);
    clear_(batch_);
    bytes_ = 0;
    return error == nullptr ? Status::OK() : Status::IOError(error);
  }

 private:
  template <typename Function>
  static bool Find(void* library, const char* name, Function* function) {
    void* const found =
        dlsym(library, (std::string("leveldb_") + name).c_str());
    *function = reinterpret_cast<Function>(found);
    return found != nullptr;
  }

  void (*close_)(void*) = nullptr;
  void (*clear_)(void*) = nullptr;
  void (*put_)(void*, const char*, size_t, const char*, size_t) = nullptr;
  void (*write_)(void*, void*, void*, char**) = nullptr;
  void* db_ = nullptr;
  void* options_ = nullptr;
  void* batch_ = nullptr;
  size_t bytes_ = 0;  // In batch_.
};

Status Copy(const std::string& source, const std::string& target,
            uint64_t* count) {
  varve::Options options;
  std::unique_ptr<varve::DB> db;
  Status status = varve::DB::OpenForReadOnly(options, source, &db);
  if (!status.ok()) return status;
  uint64_t expected = 0;
  db->GetIntProperty("varve.estimate-num-keys", &expected);
  LevelDb leveldb;
  status = leveldb.Create(target);
  if (!status.ok()) return status;
  varve::ReadOptions read_options;
  read_options.fill_cache = false;
  const std::unique_ptr<varve::Iterator> entry = db->NewIterator(read_options);
  for (entry->SeekToFirst(); entry->Valid() && status.ok(); entry->Next()) {
    status = leveldb.Put(entry->key(), entry->value());
    if (++*count % kProgressEntries == 0) {
      fprintf(stderr, "%" PRIu64 " of about %" PRIu64 " entries\n", *count,
              expected);
    }
  }
  if (status.ok()) status = entry->status();
  return status.ok() ? leveldb.Write() : status;
}

int Fail(const std::string& message) {
  fprintf(stderr, "leveldb-copy: %s\n", message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return Fail("usage: leveldb-copy DIRECTORY NEW_DIRECTORY");
  const std::string target = argv[2];
  std::error_code error;
  if (std::filesystem::exists(target, error) || error) {
    return Fail(target + " exists already");
  }
  uint64_t count = 0;
  if (const Status status = Copy(argv[1], target, &count); !status.ok()) {
    std::filesystem::remove_all(target, error);
    return Fail(status.ToString());
  }
  printf("%" PRIu64 " entries\n", count);
  return 0;
}
