// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "compat/rocksdb/callbacks/callback_state.h"
#include "varve/comparator.h"

// A comparator of the program. It belongs to the program, and must outlive the
// databases that use it.
struct rocksdb_comparator_t final : varve::Comparator {
  using CompareFunction = int (*)(void*, const char*, size_t, const char*,
                                  size_t);

  rocksdb_comparator_t(varve::rocksdb_c::CallbackState callback_state,
                       CompareFunction function)
      : state(std::move(callback_state)), compare(function) {}

  int Compare(const varve::Slice& a, const varve::Slice& b) const override {
    return compare(state.get(), a.data(), a.size(), b.data(), b.size());
  }
  const char* Name() const override { return state.Name(); }
  // Keys are not shortened, because the interface has no callback for it.
  void FindShortestSeparator(std::string* /*start*/,
                             const varve::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

  const varve::rocksdb_c::CallbackState state;
  const CompareFunction compare;
};
