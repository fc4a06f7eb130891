// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Arguments and results that C functions with and without a column family
// share.

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"

namespace varve::capi {

// The arguments of varve_multi_get.
struct ManyReads {
  Given source;  // The database or the transaction.
  const varve_readoptions_t* options;
  size_t count;
  const char* const* keys;
  const size_t* key_sizes;
  char** values;
  size_t* value_sizes;
  char** errs;

  // Sets *slices to the keys, and all results to nothing. An invalid key gets
  // its error, and is then the empty key, whose result Finish does not use.
  // Returns false if nothing can be read; then each key has the error.
  bool Prepare(std::vector<Slice>* slices) const {
    // No array is that long. Without an array for errors there is no way to
    // return one.
    if (count > kMaxEntries<PinnableSlice> || errs == nullptr) return false;
    slices->resize(count);
    for (size_t i = 0; i < count; ++i) {
      errs[i] = nullptr;
      if (values != nullptr) values[i] = nullptr;
      if (value_sizes != nullptr) value_sizes[i] = 0;
    }
    bool usable = true;
    for (size_t i = 0; i < count; ++i) {
      usable =
          Usable(&errs[i], source, Given{options, "options"},
                 Given{keys, "keys_list"}, Given{key_sizes, "keys_list_sizes"},
                 Given{values, "values_list"},
                 Given{value_sizes, "values_list_sizes"}) &&
          usable;
      if (usable && Usable(&errs[i], Bytes{keys[i], key_sizes[i], "key"})) {
        (*slices)[i] = ToSlice(keys[i], key_sizes[i]);
      }
    }
    return usable;
  }

  // Stores the results of keys that have no error yet.
  void Finish(const std::vector<PinnableSlice>& found,
              const std::vector<Status>& statuses) const {
    for (size_t i = 0; i < count; ++i) {
      if (errs[i] != nullptr) continue;
      values[i] = TakeValue(statuses[i], found[i], &value_sizes[i], &errs[i]);
    }
  }
};

// The buffer of varve_get_into_buffer.
struct Target {
  char* buffer;
  size_t size;
  size_t* value_size;
  uint8_t* found;

  void SetNothing() const {
    if (value_size != nullptr) *value_size = 0;
    if (found != nullptr) *found = 0;
  }

  // Returns 1 if the value is in the buffer.
  uint8_t Store(const Status& status, const Slice& value, char** errptr) const {
    *found = status.ok() ? 1 : 0;
    *value_size = status.ok() ? value.size() : 0;
    if (!status.ok()) {
      if (!status.IsNotFound()) SaveError(errptr, status);
      return 0;
    }
    if (value.size() > size) return 0;
    if (!value.empty()) memcpy(buffer, value.data(), value.size());
    return 1;
  }
};

// Sets *read to the options, with bounds that are copied to *bounds.
inline Status KeepBounds(const varve_readoptions_t& options, KeptBounds* bounds,
                         ReadOptions* read) {
  if (!options.lower.is_usable || !options.upper.is_usable) {
    return BadArgument("the key of a bound", "has a length of no memory");
  }
  *read = options.rep;
  if (options.lower.is_set) {
    bounds->lower = options.lower.key;
    bounds->lower_slice = bounds->lower;
    read->iterate_lower_bound = &bounds->lower_slice;
  }
  if (options.upper.is_set) {
    bounds->upper = options.upper.key;
    bounds->upper_slice = bounds->upper;
    read->iterate_upper_bound = &bounds->upper_slice;
  }
  return Status::OK();
}

// Sets *changes from the arrays of varve_set_options.
inline Status ToChanges(int count, const char* const keys[],
                        const char* const values[],
                        std::map<std::string, std::string>* changes) {
  for (int i = 0; i < count; ++i) {
    Status status = Check(Given{keys, "keys"}, Given{values, "values"});
    if (status.ok()) {
      status = Check(Given{keys[i], "a key"}, Given{values[i], "a value"});
    }
    if (!status.ok()) return status;
    (*changes)[keys[i]] = values[i];
  }
  return Status::OK();
}

}  // namespace varve::capi
