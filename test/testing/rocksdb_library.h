// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's shared library, loaded beside Varve and called by its C interface.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace varve::test {

// Thread-safety: owned by one thread.
class RocksDbLibrary {
 public:
  RocksDbLibrary()
      : library_(
            dlopen("librocksdb.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) {
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  // The library stays loaded, since its threads may still run.
  RocksDbLibrary(const RocksDbLibrary&) = delete;
  RocksDbLibrary& operator=(const RocksDbLibrary&) = delete;

  bool loaded() const { return library_ != nullptr; }

  // Calls the function rocksdb_<name>. The types must be the function's.
  template <typename Result, typename... Arguments>
  Result Call(const char* name, Arguments... arguments) const {
    void* const symbol =
        dlsym(library_, (std::string("rocksdb_") + name).c_str());
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<Result (*)(Arguments...)>(symbol)(arguments...);
  }

  // Calls a function whose last argument is for an error, and expects none.
  template <typename Result, typename... Arguments>
  Result CallChecked(const char* name, Arguments... arguments) const {
    char* error = nullptr;
    struct Check {
      ~Check() { EXPECT_EQ(*error, nullptr) << name << ": " << *error; }
      const char* name;
      char** error;
    } const check{name, &error};
    return Call<Result>(name, arguments..., &error);
  }

 private:
  void* const library_;
};

}  // namespace varve::test
