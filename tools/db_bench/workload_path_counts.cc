// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/workload_path_counts.h"

#include <algorithm>
#include <string_view>

namespace varve {

namespace {

// Returns the text after "FIELD=VALUE " in a line, or an empty string.
std::string_view CountOf(std::string_view text, std::string_view variant) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() > variant.size() && line.starts_with(variant) &&
        line[variant.size()] == ' ') {
      return line.substr(variant.size() + 1);
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

}  // namespace

std::string IdleAblations(const Slice& wanted, const Slice& before,
                          const Slice& after) {
  std::string idle;
  std::string_view rest = wanted.ToStringView();
  while (!rest.empty()) {
    const std::string_view variant = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(variant.size() + 1, rest.size()));
    if (CountOf(before.ToStringView(), variant) ==
        CountOf(after.ToStringView(), variant)) {
      idle.append(idle.empty() ? "" : ",").append(variant);
    }
  }
  return idle;
}

}  // namespace varve
