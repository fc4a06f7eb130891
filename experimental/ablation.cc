// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "experimental/ablation.h"

#include <string_view>

namespace varve {

namespace {

// One switch: a name, its values' names (production first), and its field.
struct Switch {
  const char* name;
  const char* values[3];  // The third may be null.
  uint8_t (*get)(const AblationOptions&);
  void (*set)(AblationOptions*, uint8_t);

  // Returns null if the field has a value from a cast.
  const char* NameOf(const AblationOptions& options) const {
    const uint8_t value = get(options);
    return value < 3 ? values[value] : nullptr;
  }
};

template <auto kField>
constexpr Switch MakeSwitch(const char* name, const char* production,
                            const char* other, const char* third = nullptr) {
  return {name,
          {production, other, third},
          [](const AblationOptions& options) {
            return static_cast<uint8_t>(options.*kField);
          },
          [](AblationOptions* options, uint8_t value) {
            using Field = std::remove_reference_t<decltype(options->*kField)>;
            options->*kField = static_cast<Field>(value);
          }};
}

constexpr Switch kSwitches[] = {
    MakeSwitch<&AblationOptions::superversion>("superversion", "thread_local",
                                               "mutex"),
    MakeSwitch<&AblationOptions::block_index>("block_index", "prefixes",
                                              "binary_search"),
    MakeSwitch<&AblationOptions::block_cache>("block_cache", "swizzled",
                                              "hash"),
    MakeSwitch<&AblationOptions::memtable>("memtable", "blink_tree",
                                           "skiplist"),
    MakeSwitch<&AblationOptions::table_open>("table_open", "one_read",
                                             "uncached"),
    MakeSwitch<&AblationOptions::statistics>("statistics", "per_cpu", "global",
                                             "thread"),
    MakeSwitch<&AblationOptions::trace_clock>("trace_clock", "tsc", "steady",
                                              "coarse"),
    MakeSwitch<&AblationOptions::trace_collect>("trace_collect", "thread_local",
                                                "mutex", "channel"),
    MakeSwitch<&AblationOptions::snapshots>("snapshots", "per_thread", "mutex"),
    MakeSwitch<&AblationOptions::arena>("arena", "kept", "fresh"),
    MakeSwitch<&AblationOptions::memory_accounting>("memory_accounting",
                                                    "owner", "atomic"),
    MakeSwitch<&AblationOptions::key_case>("key_case", "ascii_first",
                                           "unicode"),
    MakeSwitch<&AblationOptions::catalog>("catalog", "name_cache", "folding"),
    MakeSwitch<&AblationOptions::waste>("waste", "mended", "ignored", "always"),
};

Status ParseOne(std::string_view item, AblationOptions* options) {
  const size_t equals = item.find('=');
  std::string_view name = item.substr(0, equals);
  if (name == "context") name = "arena";  // An earlier name.
  for (const Switch& s : kSwitches) {
    if (name != s.name) continue;
    if (equals != std::string_view::npos) {
      for (uint8_t i = 0; i < 3 && s.values[i] != nullptr; ++i) {
        if (item.substr(equals + 1) == s.values[i]) {
          s.set(options, i);
          return Status::OK();
        }
      }
    }
    std::string all = std::string(s.values[0]) + " or " + s.values[1];
    if (s.values[2] != nullptr) all += std::string(" or ") + s.values[2];
    return Status::InvalidArgument("ablation " + std::string(name) +
                                   " must be " + all);
  }
  return Status::InvalidArgument("there is no ablation named",
                                 std::string(name));
}

}  // namespace

Status AblationOptions::Parse(const Slice& text) {
  AblationOptions parsed = *this;
  std::string_view rest = text.ToStringView();
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    Status status = ParseOne(rest.substr(0, comma), &parsed);
    if (!status.ok()) return status;
    rest = comma == std::string_view::npos ? std::string_view()
                                           : rest.substr(comma + 1);
  }
  *this = parsed;
  return Status::OK();
}

const char* AblationOptions::ValueName(const Slice& field) const {
  for (const Switch& s : kSwitches) {
    if (field == Slice(s.name)) return s.NameOf(*this);
  }
  return nullptr;
}

std::string AblationOptions::ToString() const {
  std::string result;
  for (const Switch& s : kSwitches) {
    const char* const value = s.NameOf(*this);
    if (value == nullptr || value == s.values[0]) continue;
    if (!result.empty()) result += ',';
    result += std::string(s.name) + "=" + value;
  }
  return result;
}

}  // namespace varve
