// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The body of an index block, in each form that properties give. All handles
// lie in the file, and the search by prefixes finds what the binary one does if
// the separators are in order.

#include <cstring>
#include <string>
#include <utility>

#include "table/block/internal_key.h"
#include "table/index/table_index.h"
#include "test/fuzz/fuzz.h"
#include "varve/comparator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  static const InternalKeyComparator comparator(BytewiseComparator());
  constexpr uint64_t kFileSize = 1 << 20;
  Choices choices(Bytes(data, size));
  const uint8_t flags = choices.Byte();
  PropertiesBlock properties;
  properties.index_key_is_user_key = (flags & 1) != 0;
  properties.index_value_is_delta_encoded = (flags & 2) != 0;
  properties.index_type = (flags & 4) != 0 ? 3 : 0;
  const Slice body = choices.rest();
  BlockContents contents;
  memcpy(contents.buffer.Reserve(body.size()), body.data(), body.size());
  contents.size = body.size();
  TableIndex index;
  if (!index
           .Decode(std::move(contents), properties, kFileSize, &comparator,
                   (flags & 8) != 0)
           .ok()) {
    return 0;
  }
  bool sorted = true;
  for (size_t i = 0; i < index.size(); ++i) {
    Require(index.handle(i).FitsIn(kFileSize), "the block lies in the file");
    if (i > 0 && BytewiseComparator()->Compare(index.SeparatorUserKey(i - 1),
                                               index.SeparatorUserKey(i)) > 0) {
      sorted = false;
    }
  }
  for (size_t i = 0; i < index.size(); ++i) {
    std::string target = index.SeparatorUserKey(i).ToString();
    target.append(kTrailerSize, '\1');
    const size_t found = index.Find(target);
    Require(found <= index.size(), "a place within the index");
    const size_t searched = index.Search(target);
    Require(searched <= index.size(), "a place within the index");
    if (sorted) Require(found == searched, "both searches agree");
  }
  return 0;
}
