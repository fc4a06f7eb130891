// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options_update.h"

#include <charconv>
#include <limits>
#include <variant>

namespace varve {

namespace {

struct MutableOption {
  const char* name;
  std::variant<int Options::*, uint64_t Options::*, double Options::*,
               bool Options::*>
      field;
};

// Those that the engine reads with the DB mutex held.
static_assert(sizeof(size_t) == sizeof(uint64_t));
constexpr MutableOption kMutableOptions[] = {
    {"write_buffer_size", &Options::write_buffer_size},
    {"max_write_buffer_number", &Options::max_write_buffer_number},
    {"level0_file_num_compaction_trigger",
     &Options::level0_file_num_compaction_trigger},
    {"level0_slowdown_writes_trigger",
     &Options::level0_slowdown_writes_trigger},
    {"level0_stop_writes_trigger", &Options::level0_stop_writes_trigger},
    {"soft_pending_compaction_bytes_limit",
     &Options::soft_pending_compaction_bytes_limit},
    {"hard_pending_compaction_bytes_limit",
     &Options::hard_pending_compaction_bytes_limit},
    {"target_file_size_base", &Options::target_file_size_base},
    {"max_compaction_bytes", &Options::max_compaction_bytes},
    {"max_bytes_for_level_base", &Options::max_bytes_for_level_base},
    {"max_bytes_for_level_multiplier",
     &Options::max_bytes_for_level_multiplier},
    {"disable_auto_compactions", &Options::disable_auto_compactions},
};

// Decimal, with a unit behind it if it is an integer: 64M is 64 << 20.
template <typename Number>
bool Parse(const std::string& text, Number* value) {
  const char* const end = text.data() + text.size();
  Number number;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  if constexpr (std::numeric_limits<Number>::is_integer) {
    constexpr char kUnits[] = "kKmMgGtT";
    int shift = 0;
    if (end - rest == 1) {
      for (int i = 0; kUnits[i] != '\0'; ++i) {
        if (*rest == kUnits[i]) shift = 10 * (i / 2 + 1);
      }
    }
    if (rest + (shift > 0 ? 1 : 0) != end || number < 0) return false;
    if (shift >= std::numeric_limits<Number>::digits ||
        number > std::numeric_limits<Number>::max() >> shift) {
      return number == 0;
    }
    number = static_cast<Number>(number << shift);
  } else if (rest != end) {
    return false;
  }
  *value = number;
  return true;
}

bool Parse(const std::string& text, bool* value) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return false;
  }
  *value = text == "true" || text == "1";
  return true;
}

}  // namespace

Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     Options* options) {
  for (const auto& [name, text] : changes) {
    const MutableOption* option = nullptr;
    for (const MutableOption& known : kMutableOptions) {
      if (name == known.name) option = &known;
    }
    if (option == nullptr) {
      return Status::InvalidArgument(name, "is no option that can be changed");
    }
    const bool valid =
        std::visit([&](auto field) { return Parse(text, &(options->*field)); },
                   option->field);
    if (!valid) return Status::InvalidArgument(name, "cannot be " + text);
  }
  return Status::OK();
}

}  // namespace varve
