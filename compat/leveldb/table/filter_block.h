// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The filter block of LevelDB's tables: a filter for the keys of the data
// blocks that begin in each 2 KiB of the file, then the offsets of the filters
// (fixed 32 bits), the offset of the first of these, and a byte with the binary
// logarithm of 2 KiB.

#include <cstdint>
#include <string>
#include <vector>

#include "compat/leveldb/abi.h"

namespace varve::compat {

class FilterBlockBuilder {
 public:
  // `policy` may be null. Nothing is collected then.
  explicit FilterBlockBuilder(const leveldb::FilterPolicy* policy)
      : policy_(policy) {}
  const leveldb::FilterPolicy* policy() const { return policy_; }
  // Says that a data block begins at that offset of the file.
  void StartBlock(uint64_t offset);
  void AddKey(const leveldb::Slice& key);
  // Returns the block, which is valid as long as this object.
  leveldb::Slice Finish();

 private:
  void AddFilter();

  const leveldb::FilterPolicy* const policy_;
  std::string keys_;  // Without a filter yet, one after the other.
  std::vector<size_t> key_ends_;
  std::string result_;
  std::vector<uint32_t> filter_offsets_;
};

}  // namespace varve::compat
