// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <rocksdb/c.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "compat/rocksdb/callbacks/callback_state.h"
#include "varve/compaction_filter.h"

// A compaction filter of the program. In options it belongs to the program; a
// factory's belongs to the job that it was created for.
struct rocksdb_compactionfilter_t final : varve::CompactionFilter {
  // The new value belongs to the program.
  using FilterFunction = unsigned char (*)(
      void*, int level, const char* key, size_t key_length,
      const char* existing_value, size_t value_length, char** new_value,
      size_t* new_value_length, unsigned char* value_changed);

  rocksdb_compactionfilter_t(varve::rocksdb_c::CallbackState callback_state,
                             FilterFunction function)
      : state(std::move(callback_state)), filter(function) {}

  bool Filter(int level, const varve::Slice& key,
              const varve::Slice& existing_value, std::string* new_value,
              bool* value_changed) const override;
  const char* Name() const override { return state.Name(); }

  const varve::rocksdb_c::CallbackState state;
  const FilterFunction filter;
};

struct rocksdb_compactionfiltercontext_t {
  varve::CompactionFilter::Context rep;
};

// Options that get it take it over.
struct rocksdb_compactionfilterfactory_t final
    : varve::CompactionFilterFactory {
  using CreateFunction =
      rocksdb_compactionfilter_t* (*)(void*,
                                      rocksdb_compactionfiltercontext_t*);

  rocksdb_compactionfilterfactory_t(
      varve::rocksdb_c::CallbackState callback_state, CreateFunction function)
      : state(std::move(callback_state)), create(function) {}

  std::unique_ptr<varve::CompactionFilter> CreateCompactionFilter(
      const varve::CompactionFilter::Context& context) override;
  const char* Name() const override { return state.Name(); }

  const varve::rocksdb_c::CallbackState state;
  const CreateFunction create;
};
