// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>
#include <vector>

#include "varve/filter_policy.h"

namespace varve::test {

// A policy that RocksDB knows nothing of: its filter is the keys it was given.
class ListPolicy : public FilterPolicy {
 public:
  const char* Name() const override { return "list"; }
  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    for (const Slice& key : keys) *filter += key.ToString() + ",";
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return filter.ToString().find(key.ToString() + ",") != std::string::npos;
  }
};

}  // namespace varve::test
