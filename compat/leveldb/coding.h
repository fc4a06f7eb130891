// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Integers and lengths as LevelDB stores them in batches and tables.

#include <cstdint>
#include <cstring>
#include <string>

#include "compat/leveldb/abi.h"

namespace varve::compat {

inline void AppendFixed32(std::string* out, uint32_t value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline uint32_t DecodeFixed32(const char* bytes) {
  uint32_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

// Seven bits a byte, the lowest first. The highest bit of a byte says that
// another one follows.
inline void AppendVarint(std::string* out, uint64_t value) {
  char buffer[10];
  size_t count = 0;
  for (; value >= 0x80; value >>= 7) {
    buffer[count++] = static_cast<char>(value | 0x80);
  }
  buffer[count++] = static_cast<char>(value);
  out->append(buffer, count);
}

// Removes a varint from the front of *in. Returns false if there is none, or
// if it has more than 64 bits.
inline bool TakeVarint(leveldb::Slice* in, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < in->size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(in->data()[i]);
    if (i == 9 && byte > 1) return false;
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      *in = leveldb::Slice(in->data() + i + 1, in->size() - i - 1);
      return true;
    }
  }
  return false;
}

inline void AppendLengthPrefixed(std::string* out, const leveldb::Slice& data) {
  AppendVarint(out, data.size());
  out->append(data.data(), data.size());
}

// Removes a length and as many bytes from the front of *in. Returns false if
// they are not all there.
inline bool TakeLengthPrefixed(leveldb::Slice* in, leveldb::Slice* data) {
  uint64_t length = 0;
  if (!TakeVarint(in, &length) || length > in->size()) return false;
  *data = leveldb::Slice(in->data(), length);
  *in = leveldb::Slice(in->data() + length, in->size() - length);
  return true;
}

}  // namespace varve::compat
