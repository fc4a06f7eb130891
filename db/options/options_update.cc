// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/options/options_update.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "db/options/option_table.h"
#include "util/bytes/parse_double.h"
#include "varve/rate_limiter.h"

namespace varve {

namespace {

using Compressions = std::vector<CompressionType>;
using MaybeCompression = std::optional<CompressionType>;

const OptionRow* FindOption(std::string_view name) {
  for (const OptionRow& row : kOptionTable) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

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

template <NamedEnum Enum>
bool Parse(std::string_view text, Enum* value) {
  int number = 0;
  for (const char* name : OptionNames<Enum>::kAll) {
    if (text == name) {
      *value = static_cast<Enum>(number);
      return true;
    }
    ++number;
  }
  return false;
}

bool Parse(std::string_view text, CompressionType* value) {
  constexpr std::pair<const char*, CompressionType> kTypes[] = {
      {"none", CompressionType::kNone}, {"snappy", CompressionType::kSnappy},
      {"zlib", CompressionType::kZlib}, {"bzip2", CompressionType::kBZip2},
      {"lz4", CompressionType::kLZ4},   {"lz4hc", CompressionType::kLZ4HC},
      {"zstd", CompressionType::kZSTD},
  };
  for (const auto& [name, type] : kTypes) {
    if (text != name) continue;
    *value = type;
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
  if (!text.empty() && !Parse(text, &type)) return false;
  *value = text.empty() ? MaybeCompression() : type;
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<Cache>* value) {
  size_t bytes;
  if (!Parse(text, &bytes)) return false;
  *value = NewBlockCache(bytes);
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<const FilterPolicy>* value) {
  constexpr std::string_view kBloom = "bloomfilter:";
  double bits_per_key;
  if (text.empty()) {
    value->reset();
    return true;
  }
  if (!text.starts_with(kBloom) ||
      !Parse(text.substr(kBloom.size()), &bits_per_key)) {
    return false;
  }
  *value = NewBloomFilterPolicy(bits_per_key);
  return true;
}

bool Parse(std::string_view text, std::shared_ptr<RateLimiter>* value) {
  uint64_t bytes_per_second;
  if (!Parse(text, &bytes_per_second)) return false;
  *value =
      bytes_per_second == 0 ? nullptr : NewGenericRateLimiter(bytes_per_second);
  return true;
}

Status ParseInto(const OptionRow& option, const Slice& text, Options* options) {
  const bool valid = std::visit(
      [&](const auto& field) {
        return Parse(text.ToStringView(), &(options->*field.member));
      },
      option.field);
  if (valid) return Status::OK();
  return Status::InvalidArgument(option.name, "cannot be " + text.ToString());
}

}  // namespace

Status SetOption(const Slice& name, const Slice& value, Options* options) {
  const OptionRow* const option = FindOption(name.ToStringView());
  if (option == nullptr) {
    return Status::InvalidArgument(name,
                                   "is no option, or none that text can set");
  }
  return ParseInto(*option, value, options);
}

Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     Options* options) {
  for (const auto& [name, text] : changes) {
    const OptionRow* const option = FindOption(name);
    if (option == nullptr || !option->may_change) {
      return Status::InvalidArgument(name, "is no option that can be changed");
    }
    Status status = ParseInto(*option, text, options);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

}  // namespace varve
