// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options/options_update.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "db/options/option_table.h"
#include "table/index/slice_transform.h"
#include "util/bytes/parse_double.h"
#include "varve/rate_limiter.h"

namespace varve {

namespace {

using Compressions = std::vector<CompressionType>;
using MaybeCompression = std::optional<CompressionType>;

// Parses a decimal number. An integer may have a unit suffix: 64M is 64 << 20.
template <typename Number>
  requires std::is_arithmetic_v<Number>
bool Parse(std::string_view text, Number* value) {
  if constexpr (!std::numeric_limits<Number>::is_integer) {
    return ParseDouble(text, value);
  } else {
    const char* const end = text.data() + text.size();
    Number number;
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc()) return false;
    constexpr char kUnits[] = "kKmMgGtT";
    int shift = 0;
    if (end - rest == 1) {
      for (int i = 0; kUnits[i] != '\0'; ++i) {
        if (*rest == kUnits[i]) shift = 10 * (i / 2 + 1);
      }
    }
    if (rest + (shift > 0 ? 1 : 0) != end) return false;
    if (shift > 0 && number < 0) return false;
    if (shift >= std::numeric_limits<Number>::digits ||
        number > std::numeric_limits<Number>::max() >> shift) {
      if (number != 0) return false;
      shift = 0;
    }
    *value = static_cast<Number>(number << shift);
    return true;
  }
}

bool Parse(std::string_view text, bool* value) {
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return false;
  }
  *value = text == "true" || text == "1";
  return true;
}

template <typename Names, typename Enum>
bool ParseName(const Names& names, std::string_view text, Enum* value) {
  int number = 0;
  for (const char* name : names) {
    if (text == name) {
      *value = static_cast<Enum>(number);
      return true;
    }
    ++number;
  }
  return false;
}

template <NamedEnum Enum>
bool Parse(std::string_view text, Enum* value) {
  return ParseName(OptionNames<Enum>::kAll, text, value);
}

bool Parse(std::string_view text, WalRecoveryMode* value) {
  // It accepts only what both other modes do.
  if (text == "kTolerateCorruptedTailRecords") {
    *value = WalRecoveryMode::kPointInTime;
    return true;
  }
  return ParseName(OptionNames<WalRecoveryMode>::kAll, text, value) ||
         ParseName(kWalRecoveryNamesInFiles, text, value);
}

bool Parse(std::string_view text, CompressionType* value) {
  for (const CompressionTypeName& one : kCompressionNames) {
    if (text != one.name && text != one.in_files) continue;
    *value = one.type;
    return true;
  }
  return false;
}

bool Parse(std::string_view text, Compressions* value) {
  Compressions types;
  while (!text.empty()) {
    const size_t colon = std::min(text.find(':'), text.size());
    CompressionType type;
    if (!Parse(text.substr(0, colon), &type)) return false;
    types.push_back(type);
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  *value = std::move(types);
  return true;
}

bool Parse(std::string_view text, MaybeCompression* value) {
  CompressionType type = CompressionType::kNone;
  const bool is_set = !text.empty() && text != kNoCompressionTypeInFiles;
  if (is_set && !Parse(text, &type)) return false;
  *value = is_set ? type : MaybeCompression();
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<Cache>* value) {
  size_t bytes;
  if (!Parse(text, &bytes)) return false;
  *value = NewBlockCache(bytes);
  return true;
}

// Takes bloomfilter:<bits per key> or ribbonfilter:<bits per key>, and what
// RocksDB has after another colon. Each becomes a Bloom filter.
bool Parse(std::string_view text, std::shared_ptr<const FilterPolicy>* value) {
  if (text.empty() || text == "nullptr") {
    value->reset();
    return true;
  }
  constexpr std::string_view kFilter = "filter:";
  const size_t end = text.find(kFilter);
  if (end == std::string_view::npos ||
      (text.substr(0, end) != "bloom" && text.substr(0, end) != "ribbon")) {
    return false;
  }
  text.remove_prefix(end + kFilter.size());
  double bits_per_key;
  if (!Parse(text.substr(0, text.find(':')), &bits_per_key)) return false;
  *value = NewBloomFilterPolicy(bits_per_key);
  return true;
}

// Also RocksDB's form for objects with options, without its outer braces.
bool Parse(std::string_view text,
           std::shared_ptr<const SliceTransform>* value) {
  constexpr std::string_view kId = "id=";
  if (text.starts_with(kId)) {
    text = text.substr(kId.size(), text.find(';') - kId.size());
  }
  if (text.empty() || text == "nullptr") {
    value->reset();
    return true;
  }
  auto transform = NewTransformByText(text);
  if (transform == nullptr) return false;
  *value = std::move(transform);
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<RateLimiter>* value) {
  uint64_t bytes_per_second;
  if (!Parse(text, &bytes_per_second)) return false;
  *value =
      bytes_per_second == 0 ? nullptr : NewGenericRateLimiter(bytes_per_second);
  return true;
}

}  // namespace

const OptionRow* FindOption(std::string_view name) {
  for (const OptionRow& row : kOptionTable) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Status ParseOption(const OptionRow& option, std::string_view text,
                   Options* options) {
  const bool valid = std::visit(
      [&](const auto& field) { return Parse(text, &(options->*field.member)); },
      option.field);
  if (valid) return Status::OK();
  return Status::InvalidArgument(option.name, "cannot be " + std::string(text));
}

Status SetOption(const Slice& name, const Slice& value, Options* options) {
  const OptionRow* const option = FindOption(name.ToStringView());
  if (option == nullptr) {
    return Status::InvalidArgument(name,
                                   "is no option, or none that text can set");
  }
  return ParseOption(*option, value.ToStringView(), options);
}

Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     OptionScope scope, Options* options) {
  for (const auto& [name, text] : changes) {
    const OptionRow* const option = FindOption(name);
    if (option == nullptr || !option->may_change ||
        option->of_family != (scope == OptionScope::kFamily)) {
      return Status::InvalidArgument(
          name, option != nullptr && option->may_change
                    ? "is an option of the other call: SetOptions is for "
                      "families, SetDBOptions for databases"
                    : "is no option that can be changed");
    }
    Status status = ParseOption(*option, text, options);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

void CopyChangeable(OptionScope scope, const Options& from, Options* to) {
  for (const OptionRow& row : kOptionTable) {
    if (!row.may_change || row.of_family != (scope == OptionScope::kFamily)) {
      continue;
    }
    std::visit(
        [&]<typename T>(const OptionField<T>& field) {
          const T& source = from.*field.member;
          T& target = to->*field.member;
          if (target == source) return;
          if constexpr (std::is_arithmetic_v<T>) {
            // relaxed: see ReadChangeable.
            std::atomic_ref<T>(target).store(source, std::memory_order_relaxed);
          } else {
            target = source;
          }
        },
        row.field);
  }
}

}  // namespace varve
