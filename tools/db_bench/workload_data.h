// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The keys and values of db_bench. They equal the ones of RocksDB's db_bench,
// so that either tool can read the other's database.

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "util/base/random.h"
#include "varve/slice.h"

namespace varve {

// Writes key number `number`: its lowest bytes, up to eight, highest first,
// then '0' up to `key_bytes`.
inline void WriteKey(uint64_t number, size_t key_bytes, char* key) {
  char digits[8];
  const uint64_t swapped = __builtin_bswap64(number);
  memcpy(digits, &swapped, sizeof(digits));
  const size_t used = key_bytes < sizeof(digits) ? key_bytes : sizeof(digits);
  memcpy(key, digits + sizeof(digits) - used, used);
  memset(key + used, '0', key_bytes - used);
}

// The prefix of keys, if `count` is not zero: the number of one of `count`
// prefixes, in the form of a key of `bytes` bytes.
struct KeyPrefix {
  size_t bytes = 0;
  uint64_t count = 0;
};

// Writes the prefix of the key, and then the key. `key_bytes` includes both.
// REQUIRES: prefix.bytes <= key_bytes if there is a prefix.
inline void WriteKey(const KeyPrefix& prefix, uint64_t number, size_t key_bytes,
                     char* key) {
  if (prefix.count > 0) {
    WriteKey(number % prefix.count, prefix.bytes, key);
    key += prefix.bytes;
    key_bytes -= prefix.bytes;
  }
  WriteKey(number, key_bytes, key);
}

// Writes key number `number` as text: its lowest hexadecimal digits, up to
// sixteen, in capital letters, highest first, then '0' up to `key_bytes`.
inline void WriteTextKey(uint64_t number, size_t key_bytes, char* key) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const size_t used = key_bytes < 16 ? key_bytes : 16;
  for (size_t i = used; i > 0; --i) {
    key[i - 1] = kDigits[number & 15];
    number >>= 4;
  }
  memset(key + used, '0', key_bytes - used);
}

// Returns printable bytes. Compression reduces runs of 100 of them to about
// `ratio` of their size. REQUIRES: 0 < ratio <= 1.
std::string CompressibleBytes(uint64_t seed, double ratio, size_t bytes);

// The sizes of values: `bytes` if kFixed, else random ones in [min, max], which
// with kNormal are mostly near the middle.
struct ValueSizes {
  enum Kind : uint8_t { kFixed, kUniform, kNormal };

  Kind kind = kFixed;
  size_t bytes = 0;
  size_t min = 0;
  size_t max = 0;

  size_t Choose(Random* random) const {
    const uint64_t range = max - min + 1;
    // The sum of twelve has a deviation of a twelfth of its range.
    const int parts = kind == kNormal ? 12 : 1;
    uint64_t sum = 0;
    for (int i = 0; i < parts; ++i) sum += random->Uniform(range);
    return min + sum / static_cast<uint64_t>(parts);
  }
};

// Returns the numbers between the commas of a list of getmergeoperands. They
// are ascending.
inline std::vector<int> SortedNumbers(const Slice& list) {
  std::vector<int> numbers;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int number = 0;
    at = std::from_chars(at, end, number).ptr;
    numbers.push_back(number);
    while (at < end && *at++ != ',') {
    }
  }
  return numbers;
}

// Returns values, as consecutive pieces of the bytes.
class ValueSource {
 public:
  // REQUIRES: sizes.bytes <= bytes.size(). `bytes` must outlive this.
  // Of 100 values, `same_percent` are the first bytes.
  ValueSource(const Slice& bytes, const ValueSizes& sizes, uint64_t seed,
              uint64_t same_percent = 0)
      : bytes_(bytes),
        sizes_(sizes),
        random_(seed),
        same_percent_(same_percent) {}
  ValueSource(const Slice& bytes, size_t value_bytes)
      : ValueSource(bytes, ValueSizes{.bytes = value_bytes}, 0) {}

  Slice Next() {
    return Next(sizes_.kind == ValueSizes::kFixed ? sizes_.bytes
                                                  : sizes_.Choose(&random_));
  }
  // At most bytes.size() of them.
  Slice Next(size_t bytes) {
    if (bytes > bytes_.size()) bytes = bytes_.size();
    if (same_percent_ > 0 && random_.Uniform(100) < same_percent_) {
      return Slice(bytes_.data(), bytes);
    }
    if (position_ + bytes > bytes_.size()) position_ = 0;
    const Slice value(bytes_.data() + position_, bytes);
    position_ += bytes;
    return value;
  }

 private:
  Slice bytes_;
  ValueSizes sizes_;
  Random random_;
  uint64_t same_percent_;
  size_t position_ = 0;
};

// The numbers [0, size) in random order, each once, without storing them. A
// Feistel network permutes the next power of four. Numbers outside are permuted
// again until they are inside. REQUIRES: 0 < size < 2^62.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed) : size_(size) {
    while ((uint64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
    Random random(seed);
    for (uint64_t& key : keys_) key = random.Next();
  }

  // REQUIRES: index < size.
  uint64_t At(uint64_t index) const {
    do {
      index = Permute(index);
    } while (index >= size_);
    return index;
  }

 private:
  uint64_t Permute(uint64_t number) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = number >> half_bits_;
    uint64_t right = number & mask;
    for (const uint64_t key : keys_) {
      uint64_t mixed = (right ^ key) * 0x9E3779B97F4A7C15;
      mixed ^= mixed >> 32;
      const uint64_t next = left ^ (mixed * 0xD6E8FEB86659FD93 >> 32 & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_;
  int half_bits_ = 1;
  uint64_t keys_[4];
};

}  // namespace varve
