// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A block that names partitions, and bytes to read them from. As an index, it
// is refused or all handles lie in the file; as a filter, any question has an
// answer.

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "table/block/internal_key.h"
#include "table/index/partitioned_filter.h"
#include "table/index/table_index.h"
#include "test/fuzz/fuzz.h"
#include "util/bytes/hash.h"
#include "varve/comparator.h"

namespace varve::fuzz {
namespace {

constexpr uint64_t kFileSize = 1 << 20;

BlockContents Contents(const Slice& body) {
  BlockContents contents;
  memcpy(contents.buffer.Reserve(body.size()), body.data(), body.size());
  contents.size = body.size();
  return contents;
}

void UseIndex(const Slice& top, const Slice& file, bool binary_search,
              const PropertiesBlock& properties,
              const InternalKeyComparator* comparator) {
  TableIndex index;
  const auto read = [&file](const BlockHandle& handle, Slice* body) {
    if (!handle.FitsIn(file.size())) return Status::Corruption("no partition");
    *body = Slice(file.data() + handle.offset, handle.size);
    return Status();
  };
  if (!index
           .Decode(Contents(top), properties, kFileSize, comparator,
                   binary_search, read)
           .ok()) {
    Require(index.size() == 0, "nothing is left of an index that is refused");
    return;
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    const BlockHandle handle = index.handle(i);
    Require(handle.FitsIn(kFileSize), "the block lies in the file");
    bytes += handle.size + kBlockTrailerSize;
    std::string target = index.SeparatorUserKey(i).ToString();
    target.append(kTrailerSize, '\1');
    Require(index.Search(target) <= index.size(), "a place within the index");
  }
  Require(bytes <= kFileSize, "all blocks together lie in the file");
}

void UseFilter(const Slice& top, const Slice& file,
               const PropertiesBlock& properties,
               const InternalKeyComparator* comparator) {
  PartitionedFilter filter;
  if (!filter.Init(Contents(top), properties, kFileSize, comparator).ok()) {
    return;
  }
  for (size_t i = 0; i < filter.size(); ++i) {
    const BlockHandle handle = filter.handle(i);
    if (handle.FitsIn(file.size())) {
      filter.Add(Slice(file.data() + handle.offset, handle.size));
    } else {
      filter.AddDamaged();
    }
  }
  const bool excludes = filter.CanExclude();
  FilterReader reader;
  reader.Init(&filter);
  for (const char* key : {"", "a", "user00000100", "\xFF\xFF\xFF\xFF\xFF"}) {
    reader.Prefetch(PreviewXxh3(key));
    const bool may_match = reader.MayMatch(PreviewXxh3(key), key);
    Require(may_match || excludes, "a damaged filter excludes nothing");
  }
}

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  static const InternalKeyComparator comparator(BytewiseComparator());
  Choices choices(Bytes(data, size));
  const uint8_t flags = choices.Byte();
  const size_t top_size = choices.Byte() | size_t{choices.Byte()} << 8;
  PropertiesBlock properties;
  properties.index_key_is_user_key = (flags & 1) != 0;
  properties.index_value_is_delta_encoded = (flags & 2) != 0;
  properties.index_type = kTwoLevelIndexType;
  const Slice top = choices.Take(top_size);
  const Slice file = choices.rest();
  if ((flags & 4) != 0) {
    UseFilter(top, file, properties, &comparator);
  } else {
    UseIndex(top, file, (flags & 8) != 0, properties, &comparator);
  }
  return 0;
}
