// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/shared/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "compat/shared/library.h"
#include "varve/env.h"

namespace varve::compat {
namespace {

// Returns the name of a variable by its last part.
std::string NameOf(const char* part) {
  return std::string(kLibrary.variables) + part;
}

// Returns the variable's value, or an empty string.
std::string Variable(const char* part) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, in the first Open.
  const char* const value = getenv(NameOf(part).c_str());
  return value != nullptr ? value : "";
}

// Returns the variable with the process id in the place of "%p", since a
// program may start others that inherit the variable.
std::string PathVariable(const char* part) {
  std::string path = Variable(part);
  const size_t place = path.find("%p");
  if (place != std::string::npos) {
    path.replace(place, 2, std::to_string(getpid()));
  }
  return path;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Parses a number that is the whole text.
template <typename T>
bool ParseWhole(const std::string& text, T* number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

// Returns the number of a signal such as "USR2", "SIGUSR2" or "12"; 0 if there
// is none that a program can catch.
int SignalNumber(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int number = 1; number < NSIG; ++number) {
    if (number == SIGKILL || number == SIGSTOP) continue;
    const char* const known = sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
    if (name == std::to_string(number)) return number;
  }
  return 0;
}

}  // namespace

const Settings& Settings::Get() {
  static const auto* const settings = new Settings;
  return *settings;
}

int Settings::TraceSignal() { return SignalNumber(Variable("TRACE_SIGNAL")); }

Settings::Settings()
    : statistics_path(PathVariable("STATS")),
      trace_path(PathVariable("TRACE")),
      trace_signal(TraceSignal()) {
  if (const std::string text = Variable("STATS_SECONDS");
      !text.empty() &&
      !(ParseWhole(text, &statistics_seconds) && statistics_seconds >= 1 &&
        statistics_seconds <= 86400)) {
    problem_ = NameOf("STATS_SECONDS") + " is not in [1, 86400]: " + text;
  }
  if (const std::string text = Variable("TRACE_SAMPLING");
      !text.empty() && !(ParseWhole(text, &trace_sampling) &&
                         trace_sampling > 0 && trace_sampling <= 1)) {
    problem_ = NameOf("TRACE_SAMPLING") + " is not in (0, 1]: " + text;
  }
  if (const std::string text = Variable("TRACE_SIGNAL");
      !text.empty() && trace_signal == 0) {
    problem_ = NameOf("TRACE_SIGNAL") +
               " is not a signal that a program can catch: " + text;
  }
  if (const std::string path = Variable("OPTIONS");
      !path.empty() && problem_.empty()) {
    ReadOptions(path);
  }
}

void Settings::ReadOptions(const std::string& path) {
  std::string text;
  if (Status status = ReadFileToString(Env::Default(), path, &text);
      !status.ok()) {
    problem_ = NameOf("OPTIONS") + ": " + status.ToString();
    return;
  }
  int number = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    ++number;
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = Trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    const std::string name(Trim(line.substr(0, equals)));
    const std::string value(equals != line.npos ? Trim(line.substr(equals + 1))
                                                : line.substr(0, 0));
    Options scratch;
    Status status = equals == line.npos
                        ? Status::InvalidArgument("the line has no '='")
                        : SetOption(name, value, &scratch);
    if (!status.ok()) {
      problem_ =
          path + ", line " + std::to_string(number) + ": " + status.ToString();
      return;
    }
    if (name == "block_cache") {
      cache_ = scratch.block_cache;
    } else {
      options_.emplace_back(name, value);
    }
  }
}

Status Settings::Apply(Options* options) const {
  if (!problem_.empty()) return Status::InvalidArgument(problem_);
  if (!statistics_path.empty() && options->statistics == nullptr &&
      options->stats_level == StatsLevel::kDisableAll) {
    options->stats_level = DBOptions().stats_level;
  }
  for (const auto& [name, value] : options_) {
    Status status = SetOption(name, value, options);
    if (!status.ok()) return status;
  }
  if (cache_ != nullptr) options->block_cache = cache_;
  return Status::OK();
}

Status Settings::Apply(DBOptions* options,
                       std::vector<ColumnFamilyDescriptor>* families) const {
  for (ColumnFamilyDescriptor& family : *families) {
    if (Status status = Apply(&family.options); !status.ok()) return status;
  }
  Options all(*options, ColumnFamilyOptions());
  Status status = Apply(&all);
  *options = all;
  return status;
}

Status Settings::Apply(ColumnFamilyOptions* options) const {
  Options all(DBOptions(), *options);
  Status status = Apply(&all);
  *options = all;
  return status;
}

}  // namespace varve::compat
