// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstring>

#include "varve/slice_transform.h"

namespace varve::test {

// The bytes up to the first colon, with it. Its prefixes have any length, and
// keys without a colon have none.
class ToColonTransform : public SliceTransform {
 public:
  const char* Name() const override { return "test.ToColon"; }
  Slice Transform(const Slice& key) const override {
    const void* const colon = memchr(key.data(), ':', key.size());
    return Slice(
        key.data(),
        static_cast<size_t>(static_cast<const char*>(colon) - key.data() + 1));
  }
  bool InDomain(const Slice& key) const override {
    return !key.empty() && memchr(key.data(), ':', key.size()) != nullptr;
  }
};

}  // namespace varve::test
