// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds the cache lines to which a program stores, from the trace that
// valgrind's tool lackey writes. The traced program marks regions: stores to
// two addresses, which it writes to a file beforehand, begin and end a region.

#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "test/testing/directory.h"
#include "test/testing/machine/describe_address.h"

extern char** environ;

namespace varve::test {

// The traced program's side.
// Thread-safety: one thread at a time begins and ends regions.
class TraceMarkers {
 public:
  // The reader of the trace looks for these files in `directory`.
  static std::string MarkersPath(const std::string& directory) {
    return directory + "/markers";
  }
  static std::string MapsPath(const std::string& directory) {
    return directory + "/maps";
  }

  // Call it before the first region.
  static void Announce(const std::string& directory) {
    char text[64];
    snprintf(text, sizeof(text), "%p %p", const_cast<int*>(&words_[0]),
             const_cast<int*>(&words_[kWordsApart]));
    WriteWholeFile(MarkersPath(directory) + ".new", text);
    if (rename((MarkersPath(directory) + ".new").c_str(),
               MarkersPath(directory).c_str()) != 0) {
      abort();
    }
  }
  // Call it after the last one, so that addresses can be explained.
  static void SaveMaps(const std::string& directory) {
    WriteWholeFile(MapsPath(directory), ReadWholeFile("/proc/self/maps"));
  }

  static void Begin() { words_[0] = 1; }
  static void End() { words_[kWordsApart] = 1; }

 private:
  // The distance keeps the words out of one store.
  static constexpr int kWordsApart = 64;
  alignas(64) static inline volatile int words_[2 * kWordsApart] = {};
};

constexpr uint64_t kCacheLineBytes = 64;

// A line's address divided by kCacheLineBytes, and the instruction that stored
// to it first.
using StoredLines = std::unordered_map<uint64_t, uint64_t>;

struct StoreTrace {
  std::string error;  // Empty if the program succeeded.
  std::vector<StoredLines> regions;
};

// Runs a program under lackey and reads its trace as it comes.
// Thread-safety: owned by one thread at a time.
class StoreTracer {
 public:
  // The program finds the same directory by its arguments.
  explicit StoreTracer(std::string directory)
      : directory_(std::move(directory)) {}

  StoreTrace Run(const std::vector<std::string>& program) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      trace_.error = std::string("pipe: ") + strerror(errno);
      return trace_;
    }
    // Only for speed: a trace has many megabytes.
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    const pid_t pid = Spawn(program, ends[1]);
    close(ends[1]);
    if (pid > 0) {
      ReadTrace(ends[0]);
      int status = 0;
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        trace_.error = "the traced program ended with status " +
                       std::to_string(status) + "\n" + remarks_;
      }
    }
    close(ends[0]);
    if (trace_.error.empty() && inside_) trace_.error = "a region has no end";
    return trace_;
  }

 private:
  // The descriptor that valgrind writes to.
  static constexpr int kLogDescriptor = 9;

  pid_t Spawn(const std::vector<std::string>& program, int log) {
    std::vector<std::string> arguments = {
        "valgrind", "--tool=lackey", "--trace-mem=yes",
        "--log-fd=" + std::to_string(kLogDescriptor)};
    arguments.insert(arguments.end(), program.begin(), program.end());
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, log, kLogDescriptor);
    pid_t pid = -1;
    const int failed =
        posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed == 0) return pid;
    trace_.error = std::string("valgrind: ") + strerror(failed);
    return -1;
  }

  void ReadTrace(int fd) {
    std::vector<char> buffer(1 << 20);
    size_t kept = 0;
    for (;;) {
      const ssize_t n = read(fd, buffer.data() + kept, buffer.size() - kept);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      // The markers were written down before the first store to them, so
      // before what was read just now.
      if (begin_ == 0) FindMarkers();
      const char* line = buffer.data();
      const char* const limit = line + kept + n;
      while (const char* end = static_cast<const char*>(
                 memchr(line, '\n', static_cast<size_t>(limit - line)))) {
        ReadLine(line, end);
        line = end + 1;
      }
      kept = static_cast<size_t>(limit - line);
      memmove(buffer.data(), line, kept);
    }
  }

  void FindMarkers() {
    const std::string text =
        ReadWholeFile(TraceMarkers::MarkersPath(directory_));
    unsigned long long begin = 0, end = 0;
    if (sscanf(text.c_str(), "%llx %llx", &begin, &end) != 2) return;
    begin_ = begin;
    end_ = end;
  }

  // "I  address,size" is an instruction; " L", " S" and " M" are its loads,
  // stores and modifications.
  void ReadLine(const char* line, const char* end) {
    if (end - line < 4) return;
    if (line[0] != 'I' && line[0] != ' ') {
      if (remarks_.size() < 4000) remarks_ += std::string(line, end) + "\n";
      return;
    }
    if (begin_ == 0 || line[1] == 'L') return;
    uint64_t address = 0;
    const char* p = line + 3;
    for (; p < end && *p != ','; p++) address = address * 16 + Digit(*p);
    if (line[0] == 'I') {
      instruction_ = address;
      return;
    }
    uint64_t size = 0;
    for (p++; p < end; p++) size = size * 10 + Digit(*p);
    Store(address, size);
  }
  static uint64_t Digit(char c) {
    return static_cast<uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }

  void Store(uint64_t address, uint64_t size) {
    if (address == begin_) {
      if (inside_) trace_.error = "a region within a region";
      inside_ = true;
      trace_.regions.emplace_back();
    } else if (address == end_) {
      inside_ = false;
    } else if (inside_) {
      const uint64_t last = (address + (size > 0 ? size - 1 : 0));
      for (uint64_t l = address / kCacheLineBytes; l <= last / kCacheLineBytes;
           l++) {
        trace_.regions.back().try_emplace(l, instruction_);
      }
    }
  }

  const std::string directory_;
  StoreTrace trace_;
  std::string remarks_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  uint64_t instruction_ = 0;
  bool inside_ = false;
};

// Explains addresses of a traced program. This process is another run of the
// same program.
class TracedAddresses {
 public:
  explicit TracedAddresses(const std::string& directory) {
    const std::string text = ReadWholeFile(TraceMarkers::MapsPath(directory));
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      AddMapping(text.substr(at, end - at));
      at = end + 1;
    }
  }

  // Returns the name of the function or global variable at the address, or the
  // mapping that contains it.
  std::string Describe(uint64_t address) const {
    char hex[32];
    snprintf(hex, sizeof(hex), "0x%llx",
             static_cast<unsigned long long>(address));
    for (const auto& [path, start] : file_starts_) {
      const Module here = FindModule(path);
      if (here.size != 0 && address >= start && address - start < here.size) {
        return DescribeAddress(here.start + (address - start));
      }
    }
    for (const Mapping& m : mappings_) {
      if (address >= m.start && address < m.limit) {
        return std::string(hex) + " in " + m.line;
      }
    }
    return hex;
  }

 private:
  struct Mapping {
    uint64_t start;
    uint64_t limit;
    std::string line;
  };
  struct Module {
    std::string path;
    uint64_t start = 0;
    uint64_t size = 0;
  };

  void AddMapping(const std::string& line) {
    unsigned long long start = 0, limit = 0, offset = 0;
    char path[4096] = "";
    if (sscanf(line.c_str(), "%llx-%llx %*s %llx %*s %*s %4095s", &start,
               &limit, &offset, path) < 3) {
      return;
    }
    mappings_.push_back({start, limit, line});
    if (path[0] == '/' && offset == 0) {
      file_starts_.emplace_back(path, start);
    }
  }

  // Where this process has the same file.
  static Module FindModule(const std::string& path) {
    Module module;
    module.path = path;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* argument) {
          Module* wanted = static_cast<Module*>(argument);
          char self[4096] = "";
          std::string name = info->dlpi_name;
          if (name.empty() &&
              readlink("/proc/self/exe", self, sizeof(self) - 1) > 0) {
            name = self;
          }
          char real[PATH_MAX];
          if (realpath(name.c_str(), real) == nullptr || wanted->path != real) {
            return 0;
          }
          uint64_t low = UINT64_MAX, high = 0;
          for (int i = 0; i < info->dlpi_phnum; i++) {
            const ElfW(Phdr)& p = info->dlpi_phdr[i];
            if (p.p_type != PT_LOAD) continue;
            low = std::min<uint64_t>(low, p.p_vaddr & ~uint64_t{4095});
            high = std::max<uint64_t>(high, p.p_vaddr + p.p_memsz);
          }
          wanted->start = info->dlpi_addr + low;
          wanted->size = high - low;
          return 1;
        },
        &module);
    return module;
  }

  std::vector<Mapping> mappings_;
  std::vector<std::pair<std::string, uint64_t>> file_starts_;
};

}  // namespace varve::test
