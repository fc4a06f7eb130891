// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options/option_text.h"

#include <charconv>
#include <type_traits>
#include <variant>

#include "varve/slice_transform.h"

namespace varve {

namespace {

using Text = std::optional<std::string>;

// A double gets the fewest digits from which it can be read again.
template <typename Number>
  requires std::is_arithmetic_v<Number>
Text ToText(Number value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

Text ToText(bool value) { return value ? "true" : "false"; }

template <NamedEnum Enum>
Text ToText(Enum value) {
  return OptionNames<Enum>::kAll[static_cast<int>(value)];
}

Text ToText(WalRecoveryMode value) {
  return kWalRecoveryNamesInFiles[static_cast<int>(value)];
}

Text ToText(CompressionType value) {
  for (const CompressionTypeName& one : kCompressionNames) {
    if (one.type == value) return one.in_files;
  }
  return std::nullopt;
}

Text ToText(const std::optional<CompressionType>& value) {
  return value ? ToText(*value) : kNoCompressionTypeInFiles;
}

Text ToText(const std::vector<CompressionType>& value) {
  Text result;
  for (const CompressionType type : value) {
    const Text one = ToText(type);
    if (!one) return std::nullopt;
    result = result ? *result + ":" + *one : *one;
  }
  return result;
}

Text ToText(const std::shared_ptr<const FilterPolicy>& value) {
  if (value == nullptr) return "nullptr";
  const double bits_per_key = value->BuiltinBloomBitsPerKey();
  if (bits_per_key == 0) return std::nullopt;
  return "bloomfilter:" + *ToText(bits_per_key) + ":false";
}

Text ToText(const std::shared_ptr<const SliceTransform>& value) {
  return value == nullptr ? "nullptr" : value->Name();
}

Text ToText(const std::shared_ptr<Cache>& /*value*/) { return std::nullopt; }

Text ToText(const std::shared_ptr<RateLimiter>& /*value*/) {
  return std::nullopt;
}

}  // namespace

std::optional<std::string> OptionText(const OptionRow& option,
                                      const Options& options) {
  return std::visit(
      [&](const auto& field) { return ToText(options.*field.member); },
      option.field);
}

}  // namespace varve
