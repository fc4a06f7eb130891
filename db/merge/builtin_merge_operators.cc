// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The built-in merge operators. Each applies all operands in one pass, so that
// its time grows with the bytes of the operands and the result.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/option_files/options_document.h"
#include "util/bytes/coding.h"
#include "varve/merge_operator.h"
#include "varve/slice.h"

namespace varve {

namespace {

// An operator whose operands combine to an operand in the same way as they
// apply to a key without a value.
class BuiltinOperator : public MergeOperator {
 public:
  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const final {
    Apply(input.existing_value, input.operands.data(), input.operands.size(),
          new_value);
    return true;
  }
  bool PartialMerge(const Slice& /*key*/, const Slice& left, const Slice& right,
                    std::string* new_value) const final {
    const Slice operands[] = {left, right};
    Apply(nullptr, operands, 2, new_value);
    return true;
  }
  bool PartialMergeMulti(const Slice& /*key*/,
                         const std::vector<Slice>& operands,
                         std::string* new_value) const final {
    Apply(nullptr, operands.data(), operands.size(), new_value);
    return true;
  }

 private:
  // Stores the result of `count` operands in *result, which is empty before.
  // `existing` is null if there is no value.
  virtual void Apply(const Slice* existing, const Slice* operands, size_t count,
                     std::string* result) const = 0;
};

class UInt64AddOperator final : public BuiltinOperator {
 public:
  const char* Name() const override { return "UInt64AddOperator"; }

 private:
  static uint64_t Number(const Slice& bytes) {
    return bytes.size() == sizeof(uint64_t) ? DecodeFixed64(bytes.data()) : 0;
  }

  void Apply(const Slice* existing, const Slice* operands, size_t count,
             std::string* result) const override {
    uint64_t sum = existing != nullptr ? Number(*existing) : 0;
    for (size_t i = 0; i < count; ++i) sum += Number(operands[i]);
    result->resize(sizeof(sum));
    EncodeFixed64(result->data(), sum);
  }
};

class StringAppendOperator final : public BuiltinOperator {
 public:
  explicit StringAppendOperator(std::string delimiter)
      : delimiter_(std::move(delimiter)) {}

  const char* Name() const override { return "StringAppendOperator"; }
  std::string OptionsText() const override {
    // RocksDB has no text for them either.
    if (delimiter_.find_first_of("{}") != std::string::npos) return Name();
    std::string value = EscapeOption(delimiter_);
    if (value.find(';') != std::string::npos) value = "{" + value + "}";
    return std::string("{id=") + Name() + ";delimiter=" + value + ";}";
  }

 private:
  void Apply(const Slice* existing, const Slice* operands, size_t count,
             std::string* result) const override {
    size_t size = count * delimiter_.size();
    if (existing != nullptr) size += existing->size();
    for (size_t i = 0; i < count; ++i) size += operands[i].size();
    result->reserve(size);
    if (existing != nullptr) result->append(existing->data(), existing->size());
    for (size_t i = 0; i < count; ++i) {
      // An existing value without bytes is a value.
      if (i > 0 || existing != nullptr) result->append(delimiter_);
      result->append(operands[i].data(), operands[i].size());
    }
  }

  const std::string delimiter_;
};

class MaxOperator final : public BuiltinOperator {
 public:
  const char* Name() const override { return "MaxOperator"; }

 private:
  void Apply(const Slice* existing, const Slice* operands, size_t count,
             std::string* result) const override {
    Slice largest = existing != nullptr ? *existing : Slice();
    for (size_t i = 0; i < count; ++i) {
      if (operands[i].compare(largest) > 0) largest = operands[i];
    }
    result->assign(largest.data(), largest.size());
  }
};

// Combines bytes at the same place, as if shorter operands ended with zeros.
template <typename Combine>
class BytesOperator final : public BuiltinOperator {
 public:
  const char* Name() const override { return Combine::kName; }

 private:
  static void Add(const Slice& operand, std::string* result) {
    char* const bytes = result->data();
    for (size_t i = 0; i < operand.size(); ++i) {
      bytes[i] = Combine::Combined(bytes[i], operand[i]);
    }
  }

  void Apply(const Slice* existing, const Slice* operands, size_t count,
             std::string* result) const override {
    size_t size = existing != nullptr ? existing->size() : 0;
    for (size_t i = 0; i < count; ++i) {
      size = std::max(size, operands[i].size());
    }
    result->resize(size);
    if (existing != nullptr) Add(*existing, result);
    for (size_t i = 0; i < count; ++i) Add(operands[i], result);
  }
};

struct Or {
  static constexpr const char* kName = "BytesOR";
  static char Combined(char a, char b) { return static_cast<char>(a | b); }
};

struct Xor {
  static constexpr const char* kName = "BytesXOR";
  static char Combined(char a, char b) { return static_cast<char>(a ^ b); }
};

}  // namespace

std::shared_ptr<MergeOperator> NewUInt64AddOperator() {
  return std::make_shared<UInt64AddOperator>();
}

std::shared_ptr<MergeOperator> NewStringAppendOperator(
    const std::string& delimiter) {
  return std::make_shared<StringAppendOperator>(delimiter);
}

std::shared_ptr<MergeOperator> NewMaxOperator() {
  return std::make_shared<MaxOperator>();
}

std::shared_ptr<MergeOperator> NewBytesOrOperator() {
  return std::make_shared<BytesOperator<Or>>();
}

std::shared_ptr<MergeOperator> NewBytesXorOperator() {
  return std::make_shared<BytesOperator<Xor>>();
}

std::shared_ptr<MergeOperator> FindMergeOperator(const std::string& name) {
  if (name == "UInt64AddOperator" || name == "uint64add") {
    return NewUInt64AddOperator();
  }
  if (name == "StringAppendOperator" || name == "stringappend") {
    return NewStringAppendOperator();
  }
  if (name == "MaxOperator" || name == "max") return NewMaxOperator();
  if (name == "BytesOR" || name == "bytesor") return NewBytesOrOperator();
  if (name == "BytesXOR" || name == "bytesxor") return NewBytesXorOperator();
  return nullptr;
}

}  // namespace varve
