// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Which RocksDB a program is compared with.

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

// The version, and whether a shared library was built with assertions, which
// cost it a good part of its speed: it does not say so, but calls the function
// that they end in. Of a static library nothing is known.
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
