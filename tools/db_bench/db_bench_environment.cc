// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/db_bench_environment.h"

#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VARVE_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VARVE_SANITIZED 1
#endif

namespace varve {

namespace {

// Returns the first line of a file, or an empty string.
std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the text after `key` and a colon in a file of such lines.
std::string ValueOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::vector<std::string> FindWarnings() {
  std::vector<std::string> warnings;
#ifndef NDEBUG
  warnings.push_back("Assertions are enabled; benchmarks unnecessarily slow");
#endif
#ifndef __OPTIMIZE__
  warnings.push_back("Optimization is disabled: benchmarks unnecessarily slow");
#endif
#ifdef VARVE_SANITIZED
  warnings.push_back("A sanitizer is enabled; benchmarks unnecessarily slow");
#endif
  const std::string governor =
      FirstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty() && governor != "performance") {
    warnings.push_back("The CPU frequency governor is '" + governor +
                       "'; figures vary with the clock rate");
  }
  return warnings;
}

}  // namespace

BenchEnvironment ReadEnvironment() {
  BenchEnvironment environment;
  const time_t now = time(nullptr);
  tm local = {};
  char text[64] = "";
  if (localtime_r(&now, &local) != nullptr) {
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  }
  environment.date = text;
  environment.cpu_model = ValueOf("/proc/cpuinfo", "model name");
  if (environment.cpu_model.empty()) environment.cpu_model = "unknown";
  environment.cores = static_cast<int>(std::thread::hardware_concurrency());
  environment.clock_source = FirstLine(
      "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (environment.clock_source.empty()) environment.clock_source = "unknown";
  utsname system = {};
  if (uname(&system) == 0) {
    environment.kernel = std::string(system.sysname) + " " + system.release +
                         " " + system.machine;
  }
#ifdef __clang__
  environment.compiler = "Clang " __clang_version__;
#else
  environment.compiler = "GCC " __VERSION__;
#endif
  environment.warnings = FindWarnings();
  return environment;
}

uint64_t PeakRssBytes() {
  const std::string value = ValueOf("/proc/self/status", "VmHWM");
  return value.empty() ? 0 : strtoull(value.c_str(), nullptr, 10) * 1024;
}

void ResetPeakRss() {
  // 5 sets the peak to what is held now; see proc(5).
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
}

}  // namespace varve
