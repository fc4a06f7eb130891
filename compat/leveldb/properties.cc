// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/properties.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace varve::compat {
namespace {

constexpr double kMegabyte = 1 << 20;

double Mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / kMegabyte;
}

// Removes the first line from *text and returns it. Returns false at the end.
bool TakeLine(std::string_view* text, std::string_view* line) {
  if (text->empty()) return false;
  const size_t end = std::min(text->find('\n'), text->size());
  *line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return true;
}

// One line for each level that has tables or received some, from the engine's
// varve.levelstats and from our counters.
std::string Statistics(const Database& database) {
  std::string levels;
  database.db()->GetProperty("varve.levelstats", &levels);
  const auto counters = database.counters().Get();
  std::string out =
      "                               Compactions\n"
      "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n"
      "--------------------------------------------------\n";
  std::string_view rest = levels;
  std::string_view line;
  while (TakeLine(&rest, &line)) {
    int level;
    int files;
    double megabytes;
    const std::string text(line);
    if (sscanf(text.c_str(), "%d %d %lf", &level, &files, &megabytes) != 3 ||
        level < 0 || level >= LevelCounters::kLevels) {
      continue;  // The title.
    }
    const LevelCounters::Level& work = counters[static_cast<size_t>(level)];
    if (files == 0 && work.micros == 0) continue;
    char buffer[128];
    snprintf(buffer, sizeof(buffer), "%3d %8d %8.0f %9.0f %8.0f %9.0f\n", level,
             files, megabytes, static_cast<double>(work.micros) / 1e6,
             Mebibytes(work.bytes_read), Mebibytes(work.bytes_written));
    out += buffer;
  }
  return out;
}

// Returns "'<hexadecimal key>' seq:<number>, type:<number>" as LevelDB writes
// it: the key as text with its unprintable bytes escaped, '@', the number, ':'
// and the type. Returns other text unchanged.
std::string DescribeKey(std::string_view text) {
  constexpr std::string_view kSequence = "' seq:";
  constexpr std::string_view kType = ", type:";
  const size_t key_end = text.find(kSequence);
  const size_t type = text.find(kType);
  if (!text.starts_with("'") || key_end == text.npos || type == text.npos) {
    return std::string(text);
  }
  const std::string_view digits = text.substr(1, key_end - 1);
  std::string out = "'";
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto byte = static_cast<int>(
        strtoul(std::string(digits.substr(i, 2)).c_str(), nullptr, 16));
    if (byte >= ' ' && byte <= '~') {
      out += static_cast<char>(byte);
    } else {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
      out += escaped;
    }
  }
  const size_t number = key_end + kSequence.size();
  out.append("' @ ").append(text.substr(number, type - number));
  return out.append(" : ").append(text.substr(type + kType.size()));
}

// The engine's varve.sstables has lines "<number>: <size> bytes, <first key> to
// <last key>".
std::string Tables(const Database& database) {
  std::string tables;
  database.db()->GetProperty("varve.sstables", &tables);
  std::string out;
  std::string_view rest = tables;
  std::string_view line;
  while (TakeLine(&rest, &line)) {
    constexpr std::string_view kBytes = " bytes, ";
    constexpr std::string_view kTo = " to ";
    const size_t number_end = line.find(": ");
    const size_t size_end = line.find(kBytes);
    if (number_end == line.npos || size_end == line.npos) {
      out.append(line).append("\n");  // The title of a level.
      continue;
    }
    const std::string_view keys = line.substr(size_end + kBytes.size());
    const size_t middle = keys.find(kTo);
    out.append(" ").append(line.substr(0, number_end)).append(":");
    out.append(line.substr(number_end + 2, size_end - number_end - 2));
    out.append("[").append(DescribeKey(keys.substr(0, middle)));
    if (middle != keys.npos) {
      out.append(" .. ");
      out.append(DescribeKey(keys.substr(middle + kTo.size())));
    }
    out.append("]\n");
  }
  return out;
}

}  // namespace

bool GetLevelDbProperty(const Database& database, const Slice& name,
                        std::string* value) {
  value->clear();
  constexpr std::string_view kPrefix = "leveldb.";
  constexpr std::string_view kFiles = "num-files-at-level";
  std::string_view rest = name.ToStringView();
  if (rest.starts_with("varve.")) {
    return database.db()->GetProperty(name, value);
  }
  if (!rest.starts_with(kPrefix)) return false;
  rest.remove_prefix(kPrefix.size());
  if (rest.starts_with(kFiles) || rest == "approximate-memory-usage") {
    return database.db()->GetProperty(name, value);
  }
  if (rest == "stats") {
    *value = Statistics(database);
    return true;
  }
  if (rest == "sstables") {
    *value = Tables(database);
    return true;
  }
  return false;
}

}  // namespace varve::compat
