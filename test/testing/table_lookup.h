// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A lookup in one table, inside a read section of its own.

#include "table/table.h"
#include "util/hash.h"
#include "util/read_section.h"

namespace varve::test {

// Into a PinnableSlice or a std::string.
template <typename Value>
Status GetAt(const Table& table, const Slice& user_key, SequenceNumber sequence,
             LookupState* state, Value* value,
             const ReadOptions& options = ReadOptions()) {
  const ReadSection section;
  ReadTarget target(value);
  const TableLookup lookup{user_key, PreviewXxh3(user_key), sequence};
  return table.Get(options, lookup, state, &target);
}

// The newest entry at or behind the internal key, of the same user key.
template <typename Value>
Status Get(const Table& table, const Slice& internal_key, LookupState* state,
           Value* value, const ReadOptions& options = ReadOptions()) {
  return GetAt(table, ExtractUserKey(internal_key),
               ExtractSequence(internal_key), state, value, options);
}

}  // namespace varve::test
