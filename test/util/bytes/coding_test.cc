// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: every encoding comes back as it went in, has the documented bytes, and
// broken input is refused without reading past its end. Method: round trips at
// the edges of each length, known bytes, every truncation, overflows.
#include "util/bytes/coding.h"

#include "test/testing/test_headers.h"
#include "util/base/random.h"

namespace varve {
namespace {

// Values around every power of two.
std::vector<uint64_t> EdgeValues() {
  std::vector<uint64_t> values = {0};
  for (unsigned bit = 0; bit < 64; bit++) {
    const uint64_t power = uint64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  values.push_back(UINT64_MAX);
  return values;
}

TEST(CodingTest, StoresFixedIntegersLittleEndian) {
  std::string s;
  PutFixed32(&s, 0x04030201);
  PutFixed64(&s, 0x0c0b0a0908070605);
  EXPECT_EQ(s, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c");
  EXPECT_EQ(DecodeFixed16(s.data()), 0x0201);
  EXPECT_EQ(DecodeFixed32(s.data()), 0x04030201u);
  EXPECT_EQ(DecodeFixed64(s.data() + 4), 0x0c0b0a0908070605u);

  Slice input = s;
  uint32_t small;
  uint64_t large;
  ASSERT_TRUE(GetFixed32(&input, &small));
  ASSERT_TRUE(GetFixed64(&input, &large));
  EXPECT_EQ(small, 0x04030201u);
  EXPECT_EQ(large, 0x0c0b0a0908070605u);
  EXPECT_TRUE(input.empty());
}

TEST(CodingTest, RefusesFixedIntegerWhenCutOff) {
  const std::string s(7, 'x');
  Slice input(s.data(), 3);
  uint32_t small = 1;
  EXPECT_FALSE(GetFixed32(&input, &small));
  input = s;
  uint64_t large = 2;
  EXPECT_FALSE(GetFixed64(&input, &large));
  EXPECT_EQ(input.size(), 7u);
  EXPECT_EQ(small, 1u);
  EXPECT_EQ(large, 2u);
}

TEST(CodingTest, ReturnsVarintsAsStored) {
  std::string s;
  for (const uint64_t value : EdgeValues()) {
    const size_t before = s.size();
    PutVarint64(&s, value);
    EXPECT_EQ(s.size() - before, VarintLength(value)) << value;
    PutVarint32(&s, static_cast<uint32_t>(value));
  }
  Slice input = s;
  for (const uint64_t value : EdgeValues()) {
    uint64_t large;
    uint32_t small;
    ASSERT_TRUE(GetVarint64(&input, &large));
    EXPECT_EQ(large, value);
    ASSERT_TRUE(GetVarint32(&input, &small));
    EXPECT_EQ(small, static_cast<uint32_t>(value));
  }
  EXPECT_TRUE(input.empty());
}

TEST(CodingTest, WritesKnownVarintBytes) {
  std::string s;
  PutVarint32(&s, 300);
  EXPECT_EQ(s, "\xac\x02");
  char buffer[kMaxVarint64Bytes];
  EXPECT_EQ(EncodeVarint32(buffer, UINT32_MAX), buffer + kMaxVarint32Bytes);
  EXPECT_EQ(EncodeVarint64(buffer, UINT64_MAX), buffer + kMaxVarint64Bytes);
  EXPECT_EQ(VarintLength(0), 1u);
  EXPECT_EQ(VarintLength(127), 1u);
  EXPECT_EQ(VarintLength(128), 2u);
  EXPECT_EQ(VarintLength(UINT64_MAX), 10u);
}

TEST(CodingTest, RefusesVarintWhenCutOff) {
  for (const uint64_t value : EdgeValues()) {
    std::string s;
    PutVarint64(&s, value);
    for (size_t size = 0; size < s.size(); size++) {
      // An exact copy, so that an over-read is one the sanitizer sees.
      const std::unique_ptr<char[]> exact(new char[size]);
      memcpy(exact.get(), s.data(), size);
      Slice input(exact.get(), size);
      uint64_t large = 7;
      uint32_t small = 7;
      EXPECT_FALSE(GetVarint64(&input, &large));
      EXPECT_FALSE(GetVarint32(&input, &small));
      EXPECT_EQ(input.size(), size);
      EXPECT_EQ(large, 7u);
      EXPECT_EQ(small, 7u);
    }
  }
}

TEST(CodingTest, RefusesVarintWhenItOverflows) {
  const auto refuses32 = [](Slice input) {
    uint32_t value;
    return !GetVarint32(&input, &value);
  };
  const auto refuses64 = [](Slice input) {
    uint64_t value;
    return !GetVarint64(&input, &value);
  };
  EXPECT_FALSE(refuses32("\xff\xff\xff\xff\x0f"));
  EXPECT_TRUE(refuses32("\xff\xff\xff\xff\x10"));
  EXPECT_TRUE(refuses32("\xff\xff\xff\xff\x7f"));
  EXPECT_TRUE(refuses32("\x80\x80\x80\x80\x80\x01"));
  EXPECT_TRUE(refuses32("\xff\xff\xff\xff\xff\xff\xff"));
  const std::string nine(9, '\xff');
  EXPECT_FALSE(refuses64(nine + '\x01'));
  EXPECT_TRUE(refuses64(nine + '\x02'));
  EXPECT_TRUE(refuses64(nine + '\x7f'));
  EXPECT_TRUE(refuses64(nine + "\x81\x01"));
}

TEST(CodingTest, DecodesZigZag) {
  EXPECT_EQ(ZigZagDecode(0), 0);
  EXPECT_EQ(ZigZagDecode(1), -1);
  EXPECT_EQ(ZigZagDecode(2), 1);
  EXPECT_EQ(ZigZagDecode(3), -2);
  EXPECT_EQ(ZigZagDecode(UINT64_MAX - 1), INT64_MAX);
  EXPECT_EQ(ZigZagDecode(UINT64_MAX), INT64_MIN);
}

TEST(CodingTest, ReturnsLengthPrefixedSlicesAsStored) {
  const std::vector<std::string> values = {"", "a", std::string(127, 'b'),
                                           std::string(70000, 'c')};
  std::string s;
  for (const std::string& value : values) PutLengthPrefixedSlice(&s, value);
  Slice input = s;
  for (const std::string& value : values) {
    Slice result;
    ASSERT_TRUE(GetLengthPrefixedSlice(&input, &result));
    EXPECT_EQ(result.ToString(), value);
  }
  EXPECT_TRUE(input.empty());
}

TEST(CodingTest, RefusesLengthPrefixedSliceWhenCutOff) {
  std::string s;
  PutLengthPrefixedSlice(&s, std::string(300, 'x'));
  for (size_t size = 0; size < s.size(); size++) {
    Slice input(s.data(), size);
    Slice result("unchanged");
    EXPECT_FALSE(GetLengthPrefixedSlice(&input, &result));
    EXPECT_EQ(input.size(), size);
    EXPECT_EQ(result, Slice("unchanged"));
  }
}

TEST(CodingTest, NeverReadsPastRandomBytes) {
  constexpr uint64_t kSeed = 301;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (int round = 0; round < 20000; round++) {
    const size_t size = random.Uniform(12);
    const std::unique_ptr<char[]> bytes(new char[size]);
    for (size_t i = 0; i < size; i++) {
      bytes[i] = static_cast<char>(random.Next() | (random.OneIn(4) ? 0 : 128));
    }
    const char* limit = bytes.get() + size;
    uint32_t small;
    const char* next = GetVarint32Ptr(bytes.get(), limit, &small);
    EXPECT_TRUE(next == nullptr || (next > bytes.get() && next <= limit));
    uint64_t large;
    next = GetVarint64Ptr(bytes.get(), limit, &large);
    EXPECT_TRUE(next == nullptr || (next > bytes.get() && next <= limit));
  }
}

}  // namespace
}  // namespace varve
