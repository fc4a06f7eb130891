// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/tables.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string_view>

namespace varve::rocksdb_c {
namespace {

// Removes the text before `end`, and `end` itself, from *text and returns the
// text before it. Returns all of it if it does not contain `end`.
std::string_view Take(std::string_view* text, std::string_view end) {
  const size_t length = std::min(text->find(end), text->size());
  const std::string_view taken = text->substr(0, length);
  text->remove_prefix(std::min(length + end.size(), text->size()));
  return taken;
}

int Digit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

// Returns the bytes of "'<hexadecimal user key>' seq:...".
std::string UserKey(std::string_view text) {
  Take(&text, "'");
  const std::string_view digits = Take(&text, "'");
  std::string key;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    key += static_cast<char>(Digit(digits[i]) * 16 + Digit(digits[i + 1]));
  }
  return key;
}

uint64_t Number(std::string_view text) {
  return strtoull(std::string(text).c_str(), nullptr, 10);
}

std::string FileName(uint64_t number) {
  char name[32];
  snprintf(name, sizeof(name), "%06" PRIu64 ".sst", number);
  return name;
}

}  // namespace

// The property has a line "--- level <number> ---" for each level, and a line
// "<number>: <size> bytes, <smallest key> to <largest key>" for each table.
std::vector<TableFile> TablesOf(DB* db, ColumnFamilyHandle* family,
                                const std::string& family_name) {
  constexpr std::string_view kLevel = "--- level ";
  std::string property;
  std::vector<TableFile> tables;
  if (!db->GetProperty(family, "varve.sstables", &property)) return tables;
  int level = 0;
  for (std::string_view rest = property; !rest.empty();) {
    std::string_view line = Take(&rest, "\n");
    if (line.starts_with(kLevel)) {
      level = static_cast<int>(Number(line.substr(kLevel.size())));
      continue;
    }
    TableFile table;
    table.family = family_name;
    table.level = level;
    table.name = FileName(Number(Take(&line, ": ")));
    table.bytes = Number(Take(&line, " bytes, "));
    table.smallest_key = UserKey(Take(&line, " to "));
    table.largest_key = UserKey(line);
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace varve::rocksdb_c
