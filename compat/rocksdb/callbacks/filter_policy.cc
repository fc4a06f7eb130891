// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/callbacks/filter_policy.h"

#include <rocksdb/c.h>

#include <algorithm>

namespace {

// Too few bits are no filter, as with RocksDB.
rocksdb_filterpolicy_t* NewBloom(double bits_per_key, bool is_ribbon) {
  auto* const policy = new rocksdb_filterpolicy_t;
  policy->is_ribbon = is_ribbon;
  if (bits_per_key < 0.5) return policy;
  policy->rep = varve::NewBloomFilterPolicy(
      bits_per_key < 100 ? std::max(bits_per_key, 1.0) : 100);
  return policy;
}

}  // namespace

extern "C" {

rocksdb_filterpolicy_t* rocksdb_filterpolicy_create_bloom(double bits_per_key) {
  return NewBloom(bits_per_key, false);
}

rocksdb_filterpolicy_t* rocksdb_filterpolicy_create_bloom_full(
    double bits_per_key) {
  return NewBloom(bits_per_key, false);
}

rocksdb_filterpolicy_t* rocksdb_filterpolicy_create_ribbon(
    double bloom_equivalent_bits_per_key) {
  return NewBloom(bloom_equivalent_bits_per_key, true);
}

rocksdb_filterpolicy_t* rocksdb_filterpolicy_create_ribbon_hybrid(
    double bloom_equivalent_bits_per_key, int /*bloom_before_level*/) {
  return NewBloom(bloom_equivalent_bits_per_key, true);
}

void rocksdb_filterpolicy_destroy(rocksdb_filterpolicy_t* policy) {
  delete policy;
}

}  // extern "C"
