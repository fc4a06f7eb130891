// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The threads of this process, without those that only their end is left of:
// pthread_join returns when the thread's memory is free, and the kernel lists
// the thread in /proc/self/task for a moment longer.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace varve::test {

// Returns the threads' names. Linux only.
inline std::vector<std::string> NamesOfLiveThreads() {
  constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel's task flags.
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream file(task.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;  // It has ended.
    // "1234 (name) S parent group session terminal group flags ...". A name may
    // have a parenthesis of its own.
    const size_t name_begin = line.find('(') + 1;
    const size_t name_end = line.rfind(')');
    std::istringstream fields(line.substr(name_end + 1));
    std::string state;
    long skipped = 0;
    unsigned flags = 0;
    fields >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    fields >> flags;
    if ((flags & kExiting) != 0) continue;
    names.push_back(line.substr(name_begin, name_end - name_begin));
  }
  return names;
}

// Returns how many of the threads have names that begin like this.
inline int CountLiveThreads(const std::string& name_begin = "") {
  int count = 0;
  for (const std::string& name : NamesOfLiveThreads()) {
    if (name.rfind(name_begin, 0) == 0) ++count;
  }
  return count;
}

}  // namespace varve::test
