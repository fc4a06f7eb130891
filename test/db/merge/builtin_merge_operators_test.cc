// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the built-in merge operators give the documented results, and the same
// ones however operands are grouped. Method: examples; random values and
// operands, applied at once, in two steps, and after partial merges.

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

using Strings = std::vector<std::string>;
using Value = std::optional<std::string>;

std::vector<Slice> ToSlices(const Strings& strings) {
  return {strings.begin(), strings.end()};
}

std::string Full(const MergeOperator& merge, const Value& existing,
                 const Strings& operands) {
  const Slice key("key");
  const std::string kept = existing.value_or("");
  const Slice kept_value(kept);
  const std::vector<Slice> slices = ToSlices(operands);
  std::string result;
  EXPECT_TRUE(merge.FullMerge({key, existing ? &kept_value : nullptr, slices},
                              &result));
  return result;
}

std::string Partial(const MergeOperator& merge, const Strings& operands) {
  std::string result;
  EXPECT_TRUE(merge.PartialMergeMulti("key", ToSlices(operands), &result));
  return result;
}

std::string Number(uint64_t number) {
  std::string bytes(sizeof(number), '\0');
  EncodeFixed64(bytes.data(), number);
  return bytes;
}

TEST(BuiltinMergeOperatorsTest, AddsNumbers) {
  const auto add = NewUInt64AddOperator();
  EXPECT_EQ(Full(*add, {}, {Number(1)}), Number(1));
  EXPECT_EQ(Full(*add, Number(40), {Number(1), Number(1)}), Number(42));
  EXPECT_EQ(Full(*add, Number(UINT64_MAX), {Number(2)}), Number(1));
  EXPECT_EQ(Full(*add, "seven b", {Number(2)}), Number(2));
  EXPECT_EQ(Full(*add, Number(2), {"nine bytes", ""}), Number(2));
  EXPECT_EQ(Full(*add, {}, {"x"}), Number(0));
  EXPECT_EQ(Partial(*add, {Number(1), "x", Number(2)}), Number(3));
}

TEST(BuiltinMergeOperatorsTest, JoinsWithADelimiter) {
  const auto append = NewStringAppendOperator();
  EXPECT_EQ(Full(*append, {}, {"a"}), "a");
  EXPECT_EQ(Full(*append, {}, {"a", "b"}), "a,b");
  EXPECT_EQ(Full(*append, "v", {"a", "b"}), "v,a,b");
  // A value without bytes is a value, and so is an operand without bytes.
  EXPECT_EQ(Full(*append, "", {"a"}), ",a");
  EXPECT_EQ(Full(*append, {}, {"", "a", ""}), ",a,");
  EXPECT_EQ(Partial(*append, {"a", "", "b"}), "a,,b");
  EXPECT_EQ(Full(*NewStringAppendOperator(""), "v", {"a", "b"}), "vab");
  EXPECT_EQ(Full(*NewStringAppendOperator("--"), "v", {"a", "b"}), "v--a--b");
}

TEST(BuiltinMergeOperatorsTest, KeepsTheLargest) {
  const auto max = NewMaxOperator();
  EXPECT_EQ(Full(*max, {}, {"a"}), "a");
  EXPECT_EQ(Full(*max, "b", {"a", "ab"}), "b");
  EXPECT_EQ(Full(*max, "a", {"ab", "a"}), "ab");
  EXPECT_EQ(Full(*max, "\x7f", {"\x80"}), "\x80");  // As unsigned bytes.
  EXPECT_EQ(Full(*max, {}, {""}), "");
  EXPECT_EQ(Partial(*max, {"a", "c", "b"}), "c");
}

TEST(BuiltinMergeOperatorsTest, CombinesBits) {
  const auto bits_or = NewBytesOrOperator();
  EXPECT_EQ(Full(*bits_or, {}, {"\x01"}), "\x01");
  EXPECT_EQ(Full(*bits_or, "\x01\x40", {"\x02", "\x04\x01z"}), "\x07\x41z");
  EXPECT_EQ(Full(*bits_or, "longer", {""}), "longer");
  EXPECT_EQ(Partial(*bits_or, {"\x01", "\x02z"}), "\x03z");
  const auto bits_xor = NewBytesXorOperator();
  EXPECT_EQ(Full(*bits_xor, "\x07z", {"\x02"}), "\x05z");
  EXPECT_EQ(Full(*bits_xor, "z", {"z"}), std::string(1, '\0'));
}

TEST(BuiltinMergeOperatorsTest, AreFoundByName) {
  const std::map<std::string, std::string> names = {
      {"uint64add", "UInt64AddOperator"},
      {"stringappend", "StringAppendOperator"},
      {"max", "MaxOperator"},
      {"bytesor", "BytesOR"},
      {"bytesxor", "BytesXOR"}};
  for (const auto& [short_name, name] : names) {
    for (const std::string& given : {short_name, name}) {
      const auto merge = FindMergeOperator(given);
      ASSERT_NE(merge, nullptr) << given;
      EXPECT_EQ(merge->Name(), name);
    }
  }
  EXPECT_EQ(Full(*FindMergeOperator("stringappend"), "a", {"b"}), "a,b");
  EXPECT_EQ(FindMergeOperator(""), nullptr);
  EXPECT_EQ(FindMergeOperator("UINT64ADD"), nullptr);
  EXPECT_EQ(FindMergeOperator("uint64add "), nullptr);
}

std::string RandomBytes(Rng* rng) {
  if (rng->OneIn(2)) return Number(rng->Next() >> rng->Below(64));
  std::string bytes(rng->Below(12), '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng->Next());
  return bytes;
}

// FullMerge(v, {a..., b...}) equals FullMerge(FullMerge(v, {a...}), {b...}),
// and FullMerge of operands of which some in a row were combined to one.
TEST(BuiltinMergeOperatorsTest, GroupingChangesNothing) {
  Rng rng(TestSeed());
  for (const char* name :
       {"uint64add", "stringappend", "max", "bytesor", "bytesxor"}) {
    const auto merge = FindMergeOperator(name);
    ASSERT_NE(merge, nullptr);
    for (int round = 0; round < 2000; ++round) {
      Value existing;
      if (rng.OneIn(2)) existing = RandomBytes(&rng);
      Strings operands(2 + rng.Below(8));
      for (std::string& operand : operands) operand = RandomBytes(&rng);
      const std::string at_once = Full(*merge, existing, operands);

      const auto cut =
          operands.begin() +
          static_cast<ptrdiff_t>(1 + rng.Below(operands.size() - 1));
      const std::string first =
          Full(*merge, existing, Strings(operands.begin(), cut));
      ASSERT_EQ(Full(*merge, first, Strings(cut, operands.end())), at_once)
          << name;

      const size_t begin = rng.Below(operands.size() - 1);
      const size_t count = 2 + rng.Below(operands.size() - begin - 1);
      const auto from = operands.begin() + static_cast<ptrdiff_t>(begin);
      const auto to = from + static_cast<ptrdiff_t>(count);
      Strings fewer(operands.begin(), from);
      fewer.push_back(Partial(*merge, Strings(from, to)));
      fewer.insert(fewer.end(), to, operands.end());
      ASSERT_EQ(Full(*merge, existing, fewer), at_once) << name;

      std::string pair;
      ASSERT_TRUE(merge->PartialMerge("key", operands[0], operands[1], &pair));
      ASSERT_EQ(pair, Partial(*merge, {operands[0], operands[1]})) << name;
    }
  }
}

// An operator that copied the value for each operand would copy 2 TB here.
TEST(BuiltinMergeOperatorsTest, LongListsTakeLinearTime) {
  const Strings operands(200'000, std::string(100, 'x'));
  for (const char* name :
       {"uint64add", "stringappend", "max", "bytesor", "bytesxor"}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(Full(*FindMergeOperator(name), {}, operands).empty());
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(20))
        << name;
  }
}

}  // namespace
}  // namespace varve::test
