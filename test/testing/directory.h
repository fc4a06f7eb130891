// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Directories of the operating system as values: copied, read whole, changed
// by hand.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace varve::test {

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in),
                     std::istreambuf_iterator<char>());
}

inline void WriteWholeFile(const std::string& path, const std::string& data) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
}

// `to` is removed first.
inline void CopyDirectory(const std::string& from, const std::string& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

// Bytes of each file by name; files in subdirectories are not read.
inline std::map<std::string, std::string> ReadDirectory(
    const std::string& path) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files[entry.path().filename()] =
        entry.is_regular_file() ? ReadWholeFile(entry.path()) : "";
  }
  return files;
}

// Returns how many tables of the directory this process has open.
inline size_t CountOpenTables(const std::string& directory) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), gone);
    count += target.starts_with(directory) && target.ends_with(".sst");
  }
  return count;
}

// Paths of the files with that ending, in order of their names.
inline std::vector<std::string> FilesEndingIn(const std::string& directory,
                                              const std::string& suffix) {
  std::vector<std::string> paths;
  for (const auto& [name, bytes] : ReadDirectory(directory)) {
    if (name.size() >= suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
      paths.push_back(directory + "/" + name);
    }
  }
  return paths;
}

// Paths of the files whose names begin so, in order of their names.
inline std::vector<std::string> FilesStartingWith(const std::string& directory,
                                                  const std::string& prefix) {
  std::vector<std::string> paths;
  for (const auto& [name, bytes] : ReadDirectory(directory)) {
    if (name.compare(0, prefix.size(), prefix) == 0) {
      paths.push_back(directory + "/" + name);
    }
  }
  return paths;
}

inline void FlipByte(const std::string& path, size_t offset) {
  std::string data = ReadWholeFile(path);
  data.at(offset) = static_cast<char>(data[offset] ^ 0x20);
  WriteWholeFile(path, data);
}

}  // namespace varve::test
