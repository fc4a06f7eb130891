// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "util/base/random.h"

namespace varve::bench {

// The keys of an indexed batch, in the order of insertion and in another one.
struct IndexedBatchKeys {
  explicit IndexedBatchKeys(int64_t count) {
    Random random(42);
    for (int64_t i = 0; i < count; ++i) {
      std::string key = std::to_string(random.Next());
      key.resize(16, '0');
      inserted.push_back(std::move(key));
    }
    read = inserted;
    for (size_t i = read.size() - 1; i > 0; --i) {
      std::swap(read[i], read[random.Next() % (i + 1)]);
    }
  }

  std::vector<std::string> inserted;
  std::vector<std::string> read;
  std::string value = std::string(100, 'v');
};

// 10, 1,000 and 100,000 updates.
void ForIndexedBatchSizes(benchmark::internal::Benchmark* benchmark);

}  // namespace varve::bench
