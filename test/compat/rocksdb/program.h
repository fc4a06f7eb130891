// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The parts that the tests of RocksDB's C interface share. They see its header
// only, so most of them also run with RocksDB's library.

#include <gtest/gtest.h>
#include <rocksdb/c.h>

#include <memory>
#include <string>
#include <utility>

#include "test/testing/temp_dir.h"

namespace rocksdb_test {

// Receives errors of calls.
class Error {
 public:
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  ~Error() { rocksdb_free(text_); }

  // Returns the argument of a call.
  operator char**() { return &text_; }  // NOLINT(google-explicit-constructor)
  // Returns the error of the calls since the last Take; "OK" without one.
  std::string Take() {
    std::string text = text_ == nullptr ? "OK" : text_;
    rocksdb_free(std::exchange(text_, nullptr));
    return text;
  }

 private:
  char* text_ = nullptr;
};

// Owns an object that a function destroys.
template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
template <typename T, auto kDestroy>
using Owned = std::unique_ptr<T, Destroy<kDestroy>>;

using OptionsPtr = Owned<rocksdb_options_t, rocksdb_options_destroy>;
using ReadOptionsPtr =
    Owned<rocksdb_readoptions_t, rocksdb_readoptions_destroy>;
using WriteOptionsPtr =
    Owned<rocksdb_writeoptions_t, rocksdb_writeoptions_destroy>;
using DbPtr = Owned<rocksdb_t, rocksdb_close>;
using FamilyPtr =
    Owned<rocksdb_column_family_handle_t, rocksdb_column_family_handle_destroy>;
using IteratorPtr = Owned<rocksdb_iterator_t, rocksdb_iter_destroy>;

// Returns options that create a database.
inline OptionsPtr Creating() {
  OptionsPtr options(rocksdb_options_create());
  rocksdb_options_set_create_if_missing(options.get(), 1);
  return options;
}

// Return a result from malloc, which they free; "null" for null.
inline std::string TakeText(char* text) {
  std::string copy = text == nullptr ? "null" : text;
  rocksdb_free(text);
  return copy;
}
inline std::string TakeBytes(char* bytes, size_t size) {
  std::string copy = bytes == nullptr ? "null" : std::string(bytes, size);
  rocksdb_free(bytes);
  return copy;
}

// A new database with calls that are short to write. Errors are in `error`.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() : path_(directory_.Sub("db")) {}

  void Open() {
    db_.reset(rocksdb_open(options_.get(), path_.c_str(), error_));
    ASSERT_EQ(error_.Take(), "OK");
  }
  void Reopen() {
    db_.reset();
    Open();
  }
  std::string Put(const std::string& key, const std::string& value) {
    rocksdb_put(db_.get(), write_.get(), key.data(), key.size(), value.data(),
                value.size(), error_);
    return error_.Take();
  }
  std::string PutTo(rocksdb_column_family_handle_t* family,
                    const std::string& key, const std::string& value) {
    rocksdb_put_cf(db_.get(), write_.get(), family, key.data(), key.size(),
                   value.data(), value.size(), error_);
    return error_.Take();
  }
  // Returns the value, "null" or the error.
  std::string Get(const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_get(db_.get(), read_.get(), key.data(),
                                    key.size(), &size, error_);
    return Taken(value, size);
  }
  std::string GetFrom(rocksdb_column_family_handle_t* family,
                      const std::string& key) {
    size_t size = 1;
    char* const value = rocksdb_get_cf(db_.get(), read_.get(), family,
                                       key.data(), key.size(), &size, error_);
    return Taken(value, size);
  }
  // Returns the entries from the first one on as "key=value ".
  static std::string Scan(rocksdb_iterator_t* iterator) {
    rocksdb_iter_seek_to_first(iterator);
    return Rest(iterator);
  }
  static std::string Rest(rocksdb_iterator_t* iterator) {
    std::string out;
    for (; rocksdb_iter_valid(iterator) != 0; rocksdb_iter_next(iterator)) {
      out += Entry(iterator) + " ";
    }
    Error error;
    rocksdb_iter_get_error(iterator, error);
    EXPECT_EQ(error.Take(), "OK");
    return out;
  }
  static std::string Entry(const rocksdb_iterator_t* iterator) {
    size_t size = 0;
    const char* data = rocksdb_iter_key(iterator, &size);
    std::string out(data, size);
    data = rocksdb_iter_value(iterator, &size);
    return out + "=" + std::string(data, size);
  }
  void Flush() {
    rocksdb_flushoptions_t* const options = rocksdb_flushoptions_create();
    rocksdb_flush(db_.get(), options, error_);
    rocksdb_flushoptions_destroy(options);
    ASSERT_EQ(error_.Take(), "OK");
  }

  const varve::test::TempDir directory_;
  const std::string path_;
  const OptionsPtr options_ = Creating();
  const ReadOptionsPtr read_{rocksdb_readoptions_create()};
  const WriteOptionsPtr write_{rocksdb_writeoptions_create()};
  Error error_;
  DbPtr db_;

 private:
  std::string Taken(char* value, size_t size) {
    const std::string error = error_.Take();
    const std::string taken = TakeBytes(value, size);
    return error == "OK" ? taken : error;
  }
};

}  // namespace rocksdb_test
