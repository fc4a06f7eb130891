// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The version of the RocksDB that a program is compared with.

#include <link.h>
#include <rocksdb/version.h>

#include <fstream>
#include <iterator>
#include <string>

namespace varve {

inline int FindRocksLibrary(dl_phdr_info* info, size_t /*size*/, void* path) {
  const std::string name = info->dlpi_name;
  if (name.find("librocksdb") == std::string::npos) return 0;
  *static_cast<std::string*>(path) = name;
  return 1;
}

// Returns the version, and whether a shared library was built with assertions,
// which make it much slower. The library does not report that, but it calls the
// function in which assertions end. For a static library it is unknown.
inline std::string DescribeRocksDb() {
  std::string version = rocksdb::GetRocksVersionAsString();
  std::string path;
  dl_iterate_phdr(FindRocksLibrary, &path);
  if (path.empty()) return version;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  if (bytes.find("__assert_fail") != std::string::npos) {
    version += " (built with assertions)";
  }
  return version;
}

}  // namespace varve
