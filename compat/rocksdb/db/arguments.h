// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Options and families as arguments of reads and writes.

#include <string>

#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/options.h"

namespace varve::rocksdb_c {

// Stores NotSupported in *errptr, and returns false.
[[gnu::cold, gnu::noinline]] inline bool RefuseFeature(char** errptr,
                                                       const char* feature) {
  ReplaceError(errptr, Missing(feature));
  return false;
}

// Returns whether options, which have `rep` and `refused`, need no missing
// feature.
template <typename Options>
[[gnu::always_inline]] inline bool Supported(char** errptr,
                                             const Options& options) {
  if (options.refused == nullptr) [[likely]]
    return true;
  return RefuseFeature(errptr, options.refused);
}

// Returns whether a call of the default family can use its arguments, among
// which are the options.
template <typename Options, typename... More>
[[gnu::always_inline]] inline bool Ready(char** errptr, const rocksdb_t* db,
                                         const Options* options,
                                         const More&... more) {
  return Usable(errptr, Open{db}, Given{options, "options"}, more...) &&
         Supported(errptr, *options);
}

// As Ready, for a call of another family.
template <typename Options, typename... More>
[[gnu::always_inline]] inline bool ReadyFamily(
    char** errptr, const rocksdb_t* db, const Options* options,
    const rocksdb_column_family_handle_t* family, const More&... more) {
  return Ready(errptr, db, options, FamilyOf{family, db}, more...);
}

// Returns InvalidArgument for the first argument that is not usable.
template <typename... Arguments>
Status Check(const Arguments&... arguments) {
  Status status;
  const auto check = [&status](const auto& argument) {
    if (argument.ok()) return true;
    status = Status::InvalidArgument(std::string(argument.name) + " " +
                                     argument.Problem());
    return false;
  };
  static_cast<void>((check(arguments) && ...));
  return status;
}

}  // namespace varve::rocksdb_c
