// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The integer encodings of every file: little-endian fixed-width integers,
// varints (seven bits a byte, low group first, the high bit says that more
// follow), zigzag for signed varints, and strings behind their length.
//
// Encoders take a buffer that is large enough. Decoders come in two kinds:
// Decode* trust their caller about the length; Get* check it, since their
// input comes from disk: they return false (or null) at a value that is cut
// off or does not fit, and leave their arguments as they were.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "varve/slice.h"

namespace varve {

static_assert(std::endian::native == std::endian::little,
              "the encoders store integers as they lie in memory");

inline constexpr size_t kMaxVarint32Bytes = 5;
inline constexpr size_t kMaxVarint64Bytes = 10;

inline void EncodeFixed32(char* dst, uint32_t value) {
  memcpy(dst, &value, sizeof(value));
}
inline void EncodeFixed64(char* dst, uint64_t value) {
  memcpy(dst, &value, sizeof(value));
}

inline uint16_t DecodeFixed16(const char* src) {
  uint16_t value;
  memcpy(&value, src, sizeof(value));
  return value;
}
inline uint32_t DecodeFixed32(const char* src) {
  uint32_t value;
  memcpy(&value, src, sizeof(value));
  return value;
}
inline uint64_t DecodeFixed64(const char* src) {
  uint64_t value;
  memcpy(&value, src, sizeof(value));
  return value;
}

// Writes 1 to 10 bytes at `dst` and returns the byte after the last.
inline char* EncodeVarint64(char* dst, uint64_t value) {
  while (value >= 0x80) {
    *dst++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *dst++ = static_cast<char>(value);
  return dst;
}
// The same for at most 5 bytes.
inline char* EncodeVarint32(char* dst, uint32_t value) {
  return EncodeVarint64(dst, value);
}

// How many bytes the varint of `value` takes: 1 to 10.
constexpr size_t VarintLength(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// Decodes zigzag: 0, 1, 2, 3, ... become 0, -1, 1, -2, ...
constexpr int64_t ZigZagDecode(uint64_t value) {
  return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
}

inline void PutFixed32(std::string* dst, uint32_t value) {
  char buffer[sizeof(value)];
  EncodeFixed32(buffer, value);
  dst->append(buffer, sizeof(buffer));
}
inline void PutFixed64(std::string* dst, uint64_t value) {
  char buffer[sizeof(value)];
  EncodeFixed64(buffer, value);
  dst->append(buffer, sizeof(buffer));
}
inline void PutVarint64(std::string* dst, uint64_t value) {
  char buffer[kMaxVarint64Bytes];
  const char* end = EncodeVarint64(buffer, value);
  dst->append(buffer, static_cast<size_t>(end - buffer));
}
inline void PutVarint32(std::string* dst, uint32_t value) {
  PutVarint64(dst, value);
}
// Appends a varint32 of the length, then the bytes.
// REQUIRES: value.size() < 2^32.
inline void PutLengthPrefixedSlice(std::string* dst, const Slice& value) {
  PutVarint32(dst, static_cast<uint32_t>(value.size()));
  dst->append(value.data(), value.size());
}

// The decoders of varints that need more than one byte; see below.
const char* GetVarint32PtrSlow(const char* p, const char* limit,
                               uint32_t* value);
const char* GetVarint64PtrSlow(const char* p, const char* limit,
                               uint64_t* value);

// Decodes a varint that lies in [p, limit). Returns the byte after it, or null
// if it runs past `limit` or into bits that the type does not have.
inline const char* GetVarint32Ptr(const char* p, const char* limit,
                                  uint32_t* value) {
  // Nearly all lengths inside a block fit seven bits.
  if (p < limit && static_cast<signed char>(*p) >= 0) {
    *value = static_cast<unsigned char>(*p);
    return p + 1;
  }
  return GetVarint32PtrSlow(p, limit, value);
}
inline const char* GetVarint64Ptr(const char* p, const char* limit,
                                  uint64_t* value) {
  if (p < limit && static_cast<signed char>(*p) >= 0) {
    *value = static_cast<unsigned char>(*p);
    return p + 1;
  }
  return GetVarint64PtrSlow(p, limit, value);
}

// Each takes its value off the front of *input.
inline bool GetFixed32(Slice* input, uint32_t* value) {
  if (input->size() < sizeof(*value)) return false;
  *value = DecodeFixed32(input->data());
  input->remove_prefix(sizeof(*value));
  return true;
}
inline bool GetFixed64(Slice* input, uint64_t* value) {
  if (input->size() < sizeof(*value)) return false;
  *value = DecodeFixed64(input->data());
  input->remove_prefix(sizeof(*value));
  return true;
}
inline bool GetVarint32(Slice* input, uint32_t* value) {
  const char* next = GetVarint32Ptr(input->begin(), input->end(), value);
  if (next == nullptr) return false;
  *input = Slice(next, static_cast<size_t>(input->end() - next));
  return true;
}
inline bool GetVarint64(Slice* input, uint64_t* value) {
  const char* next = GetVarint64Ptr(input->begin(), input->end(), value);
  if (next == nullptr) return false;
  *input = Slice(next, static_cast<size_t>(input->end() - next));
  return true;
}
// *result points into the bytes of *input.
inline bool GetLengthPrefixedSlice(Slice* input, Slice* result) {
  uint32_t length;
  const char* data = GetVarint32Ptr(input->begin(), input->end(), &length);
  if (data == nullptr) return false;
  const auto rest = static_cast<size_t>(input->end() - data);
  if (rest < length) return false;
  *result = Slice(data, length);
  *input = Slice(data + length, rest - length);
  return true;
}

}  // namespace varve
