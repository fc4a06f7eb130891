// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database of RocksDB's shared library.

#include <string>

#include "test/testing/rocksdb_library.h"

namespace varve::test {

// One database at a time. Each call expects that RocksDB returns no error.
// Thread-safety: owned by one thread.
class RocksDbDatabase : public RocksDbLibrary {
 public:
  ~RocksDbDatabase() { Close(); }

  // `options_text` has RocksDB's syntax of options.
  void Open(const std::string& path, const std::string& options_text) {
    void* const defaults = Call<void*>("options_create");
    options_ = Call<void*>("options_create");
    CallChecked<void>("get_options_from_string", defaults, options_text.c_str(),
                      options_);
    Call<void>("options_destroy", defaults);
    Call<void>("options_enable_statistics", options_);
    db_ = CallChecked<void*>("open", options_, path.c_str());
    ASSERT_NE(db_, nullptr) << options_text;
    read_options_ = Call<void*>("readoptions_create");
    write_options_ = Call<void*>("writeoptions_create");
    flush_options_ = Call<void*>("flushoptions_create");
  }
  void Close() {
    if (db_ == nullptr) return;
    Call<void>("close", db_);
    db_ = nullptr;
    Call<void>("flushoptions_destroy", flush_options_);
    Call<void>("writeoptions_destroy", write_options_);
    Call<void>("readoptions_destroy", read_options_);
    Call<void>("options_destroy", options_);
  }

  void Put(const std::string& key, const std::string& value) {
    CallChecked<void>("put", db_, write_options_, key.data(), key.size(),
                      value.data(), value.size());
  }
  void Delete(const std::string& key) {
    CallChecked<void>("delete", db_, write_options_, key.data(), key.size());
  }
  // Returns the value, or "NotFound".
  std::string Get(const std::string& key) {
    size_t size = 0;
    char* const value = CallChecked<char*>("get", db_, read_options_,
                                           key.data(), key.size(), &size);
    if (value == nullptr) return "NotFound";
    std::string result(value, size);
    Call<void>("free", static_cast<void*>(value));
    return result;
  }
  void Flush() { CallChecked<void>("flush", db_, flush_options_); }
  void CompactAll() {
    Call<void>("compact_range", db_, static_cast<const char*>(nullptr),
               size_t{0}, static_cast<const char*>(nullptr), size_t{0});
  }

 protected:
  void* db() const { return db_; }
  void* options() const { return options_; }

 private:
  void* db_ = nullptr;
  // Of an open database.
  void* options_ = nullptr;
  void* read_options_ = nullptr;
  void* write_options_ = nullptr;
  void* flush_options_ = nullptr;
};

}  // namespace varve::test
