// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "test/testing/db_helpers.h"

namespace varve::test {

// Draws one of AllCompressions. The two that take many times as long as the
// others to read, zlib and bzip2, come rarely, so that a test does more else.
template <typename Random>
CompressionType DrawCompression(Random* random) {
  const auto& all = AllCompressions();
  const CompressionType drawn = all[random->Below(all.size())].second;
  const bool is_slow =
      drawn == CompressionType::kZlib || drawn == CompressionType::kBZip2;
  return is_slow && !random->OneIn(5) ? CompressionType::kNone : drawn;
}

}  // namespace varve::test
