// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "db/options/option_table.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// Returns the option's row, or null.
const OptionRow* FindOption(std::string_view name);

// Sets the option from text, in the syntax of SetOption or of RocksDB's files.
// Returns InvalidArgument, and changes nothing, for a value of the wrong type.
Status ParseOption(const OptionRow& option, std::string_view text,
                   Options* options);

// Sets options by name, for DB::SetOptions and DB::SetDBOptions. Returns
// InvalidArgument with the name of the first option that is unknown, may not be
// changed, or has a value of the wrong type. Some of *options may then be
// changed.
enum class OptionScope : uint8_t { kDatabase, kFamily };
Status UpdateOptions(const std::map<std::string, std::string>& changes,
                     OptionScope scope, Options* options);

// Copies the options that can be changed. Other fields of *to are not written.
// Numbers are stored atomically, for ReadChangeable.
void CopyChangeable(OptionScope scope, const Options& from, Options* to);

// Reads a number of open options without the DB mutex.
inline uint64_t ReadChangeable(const uint64_t& number) {
  // relaxed: nothing depends on when a change is seen. An atomic_ref cannot
  // refer to a const number.
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(number))
      .load(std::memory_order_relaxed);
}

}  // namespace varve
