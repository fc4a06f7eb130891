// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The values of a database with a time to live: the user's value, and after it
// the time of its write, four bytes, in seconds since 1970, lowest first.
// RocksDB's DBWithTTL has this format.

#include <cstdint>
#include <string>

#include "util/bytes/coding.h"
#include "varve/env.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

inline constexpr size_t kTtlTimeBytes = 4;
// When RocksDB's first version of the format was released. An earlier time
// shows that the value was written without one.
inline constexpr uint32_t kMinTtlTime = 1368146402;

// Returns the time of a write that happens now. Later than 2106 it is 2106.
inline uint32_t TtlTimeNow(Env* env) {
  // The date of the write.
  const uint64_t now_s = env->NowMicros() / 1000000;
  return now_s > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(now_s);
}

inline void AppendTtlTime(uint32_t time_s, std::string* value) {
  char bytes[kTtlTimeBytes];
  EncodeFixed32(bytes, time_s);
  value->append(bytes, sizeof(bytes));
}

// Returns whether the value is long enough to have a time.
inline bool HasTtlTime(const Slice& value) {
  return value.size() >= kTtlTimeBytes;
}
// REQUIRES for both: HasTtlTime(value).
inline uint32_t TtlTimeOf(const Slice& value) {
  return DecodeFixed32(value.data() + value.size() - kTtlTimeBytes);
}
inline Slice WithoutTtlTime(const Slice& value) {
  return Slice(value.data(), value.size() - kTtlTimeBytes);
}

// Removes the time from a value that was read. Returns Corruption if it has
// none.
inline Status RemoveTtlTime(const Slice& key, Slice* value) {
  if (!HasTtlTime(*value) || TtlTimeOf(*value) < kMinTtlTime) [[unlikely]] {
    return Status::Corruption("the value of a database with a time to live",
                              "has no time: key " + key.ToString(true));
  }
  *value = WithoutTtlTime(*value);
  return Status::OK();
}

}  // namespace varve
