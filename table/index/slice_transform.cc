// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/index/slice_transform.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace varve {

namespace {

constexpr std::string_view kFixedName = "rocksdb.FixedPrefix.";
constexpr std::string_view kCappedName = "rocksdb.CappedPrefix.";
constexpr std::string_view kNoopName = "rocksdb.Noop";

class FixedPrefixTransform final : public SliceTransform {
 public:
  explicit FixedPrefixTransform(size_t length)
      : length_(length),
        name_(std::string(kFixedName) + std::to_string(length)) {}

  const char* Name() const override { return name_.c_str(); }
  Slice Transform(const Slice& key) const override {
    return Slice(key.data(), length_);
  }
  bool InDomain(const Slice& key) const override {
    return key.size() >= length_;
  }
  bool FullLengthEnabled(size_t* length) const override {
    *length = length_;
    return true;
  }
  bool SameResultWhenAppended(const Slice& prefix) const override {
    return InDomain(prefix);
  }

 private:
  const size_t length_;
  const std::string name_;
};

class CappedPrefixTransform final : public SliceTransform {
 public:
  explicit CappedPrefixTransform(size_t length)
      : length_(length),
        name_(std::string(kCappedName) + std::to_string(length)) {}

  const char* Name() const override { return name_.c_str(); }
  Slice Transform(const Slice& key) const override {
    return Slice(key.data(), std::min(length_, key.size()));
  }
  bool InDomain(const Slice& /*key*/) const override { return true; }
  bool FullLengthEnabled(size_t* length) const override {
    *length = length_;
    return true;
  }
  bool SameResultWhenAppended(const Slice& prefix) const override {
    return prefix.size() >= length_;
  }

 private:
  const size_t length_;
  const std::string name_;
};

class NoopTransform final : public SliceTransform {
 public:
  const char* Name() const override { return kNoopName.data(); }
  Slice Transform(const Slice& key) const override { return key; }
  bool InDomain(const Slice& /*key*/) const override { return true; }
};

// Sets *length if the text is `prefix` and a decimal number.
bool ParseLength(std::string_view text, std::string_view prefix,
                 size_t* length) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *length);
  return error == std::errc() && rest == end;
}

}  // namespace

std::shared_ptr<const SliceTransform> NewFixedPrefixTransform(
    size_t prefix_len) {
  return std::make_shared<FixedPrefixTransform>(prefix_len);
}

std::shared_ptr<const SliceTransform> NewCappedPrefixTransform(size_t cap_len) {
  return std::make_shared<CappedPrefixTransform>(cap_len);
}

std::shared_ptr<const SliceTransform> NewNoopTransform() {
  return std::make_shared<NoopTransform>();
}

std::shared_ptr<const SliceTransform> NewTransformByName(
    std::string_view name) {
  size_t length = 0;
  if (ParseLength(name, kFixedName, &length)) {
    return NewFixedPrefixTransform(length);
  }
  if (ParseLength(name, kCappedName, &length)) {
    return NewCappedPrefixTransform(length);
  }
  return name == kNoopName ? NewNoopTransform() : nullptr;
}

std::shared_ptr<const SliceTransform> NewTransformByText(
    std::string_view text) {
  size_t length = 0;
  if (ParseLength(text, "fixed:", &length)) {
    return NewFixedPrefixTransform(length);
  }
  if (ParseLength(text, "capped:", &length)) {
    return NewCappedPrefixTransform(length);
  }
  return NewTransformByName(text);
}

}  // namespace varve
