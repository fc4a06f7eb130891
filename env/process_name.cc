// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/process_name.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <span>

#include "env/descriptor_supply.h"

namespace varve {

namespace {

// Removes the number at the front of *text and returns it, or 0 if there is
// none.
uint64_t TakeNumber(std::string_view* text) {
  uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), number);
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return error == std::errc() ? number : 0;
}

// Reads the beginning of a file of a process in /proc. Returns the bytes, or an
// empty view.
std::string_view ReadOf(uint64_t pid, const char* file,
                        std::span<char> buffer) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + file;
  const int descriptor =
      OpenDescriptor([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) return {};
  const ssize_t size = read(descriptor, buffer.data(), buffer.size());
  close(descriptor);
  return {buffer.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

// Returns the name that the kernel has for a process. A process chooses it, so
// bytes that a terminal may interpret are replaced.
std::string CommandOf(uint64_t pid) {
  char bytes[64];
  std::string name(ReadOf(pid, "comm", bytes));
  if (name.ends_with('\n')) name.pop_back();
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name;
}

struct ProcessState {
  char state = 0;      // See proc(5). 0 if /proc has none.
  uint64_t start = 0;  // In clock ticks since boot.
};

ProcessState StateOf(uint64_t pid) {
  ProcessState result;
  char bytes[1024];
  std::string_view text = ReadOf(pid, "stat", bytes);
  // The second field is in parentheses and may hold any text. The start is the
  // 22nd.
  constexpr int kFieldsAfterName = 20;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) {
    return result;
  }
  result.state = text[name_end + 2];
  text.remove_prefix(name_end + 1);
  for (int i = 0; i < kFieldsAfterName; ++i) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return result;
    text.remove_prefix(space + 1);
  }
  result.start = TakeNumber(&text);
  return result;
}

bool HasEnded(const ProcessState& state) {
  return state.state == 'Z' || state.state == 'X';
}

// The process of a name from NameThisProcess.
struct NamedProcess {
  uint64_t pid = 0;  // 0 for any other text.
  bool runs = false;
};

NamedProcess FindProcess(std::string_view name) {
  NamedProcess result;
  const uint64_t pid = TakeNumber(&name);
  if (!name.starts_with(' ')) return result;
  result.pid = pid;
  name.remove_prefix(1);
  const uint64_t start = TakeNumber(&name);
  const ProcessState state = StateOf(pid);
  result.runs = pid != 0 && state.start == start && !HasEnded(state);
  return result;
}

}  // namespace

std::string NameThisProcess() {
  // The last process that called this, and its start: a forked child has a copy
  // of its parent's.
  static constexpr int kPidBits = 22;  // The kernel's bound.
  static constinit std::atomic<uint64_t> known{0};
  const auto pid = static_cast<uint64_t>(getpid());
  // relaxed, both: one word, which is right for the process in it.
  uint64_t name = known.load(std::memory_order_relaxed);
  if ((name & ((1 << kPidBits) - 1)) != pid) {
    name = StateOf(pid).start << kPidBits | pid;
    // relaxed: as above.
    known.store(name, std::memory_order_relaxed);
  }
  return std::to_string(pid) + " " + std::to_string(name >> kPidBits) + "\n";
}

std::string ReadProcessName(int descriptor) {
  char text[64];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  return {text, size > 0 ? static_cast<size_t>(size) : 0};
}

std::string DescribeProcess(std::string_view name) {
  const NamedProcess process = FindProcess(name);
  if (process.pid == 0) return "another process";
  if (!process.runs) {
    return "process " + std::to_string(process.pid) +
           ", which has ended or is not seen from here, or by a child of "
           "it";
  }
  return DescribePid(process.pid);
}

std::string DescribePid(uint64_t pid) {
  const std::string text = "process " + std::to_string(pid);
  if (pid == static_cast<uint64_t>(getpid())) return text + ", this one";
  const std::string command = CommandOf(pid);
  return command.empty() ? text : text + " (" + command + ")";
}

uint64_t RunningPidOfName(std::string_view name) {
  const NamedProcess process = FindProcess(name);
  return process.runs ? process.pid : 0;
}

bool IsNameOfEndedProcess(std::string_view name) {
  const NamedProcess process = FindProcess(name);
  return process.pid != 0 && !process.runs;
}

bool HasProcessEnded(int pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  return HasEnded(StateOf(static_cast<uint64_t>(pid)));
}

}  // namespace varve
