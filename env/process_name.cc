// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/process_name.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>

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

struct ProcessState {
  char state = 0;      // See proc(5). 0 if /proc has none.
  uint64_t start = 0;  // In clock ticks since boot.
};

ProcessState StateOf(uint64_t pid) {
  ProcessState result;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int descriptor =
      OpenDescriptor([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (descriptor < 0) return result;
  char bytes[1024];
  const ssize_t size = read(descriptor, bytes, sizeof(bytes));
  close(descriptor);
  std::string_view text(bytes, size > 0 ? static_cast<size_t>(size) : 0);
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

}  // namespace

std::string NameThisProcess() {
  const auto pid = static_cast<uint64_t>(getpid());
  return std::to_string(pid) + " " + std::to_string(StateOf(pid).start) + "\n";
}

std::string DescribeProcess(std::string_view name) {
  const uint64_t pid = TakeNumber(&name);
  if (pid == 0 || !name.starts_with(' ')) return "another process";
  name.remove_prefix(1);
  const uint64_t start = TakeNumber(&name);
  std::string text = "process " + std::to_string(pid);
  const ProcessState state = StateOf(pid);
  if (state.start != start || HasEnded(state)) {
    return text +
           ", which has ended or is not seen from here, or by a child of "
           "it";
  }
  return pid == static_cast<uint64_t>(getpid()) ? text + ", this one" : text;
}

bool HasProcessEnded(int pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  return HasEnded(StateOf(static_cast<uint64_t>(pid)));
}

}  // namespace varve
