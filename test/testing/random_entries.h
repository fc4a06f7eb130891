// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// User keys and values for blocks. The keys share prefixes of all lengths, and
// some are long.

#include <map>
#include <string>

#include "test/testing/seed.h"

namespace varve::test {

struct RandomEntries {
  explicit RandomEntries(Rng* random) {
    const int count =
        random->Pick({0, 1, 15, 16, 17, random->Between(18, 120)});
    common.assign(random->Pick({0, 0, 1, 20, 140}), 'c');
    for (int i = 0; i < count; ++i) {
      std::string user_key = common + std::string(random->Below(12), 'k');
      if (random->OneIn(20)) user_key.append(300, 'l');
      user_key += static_cast<char>(random->Below(4));
      user_key += static_cast<char>(random->Next());
      entries[user_key] = random->Bytes(random->Below(150));
    }
  }

  std::string common;  // The common prefix of all keys.
  std::map<std::string, std::string> entries;
};

}  // namespace varve::test
