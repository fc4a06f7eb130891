// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The body of a filter block, of each form. Any question has an answer.

#include <string>

#include "table/block/format.h"
#include "table/index/bloom_filter.h"
#include "test/fuzz/fuzz.h"
#include "util/bytes/hash.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  Choices choices(Bytes(data, size));
  const bool leveldb = (choices.Byte() & 1) != 0;
  const std::string key = choices.Take(choices.Below(20)).ToString();
  const std::string body = choices.rest().ToString();
  FilterReader filter;
  filter.Init(leveldb ? kLevelDbBloomBlockName : kFullBloomBlockName, body,
              nullptr);
  for (const char* more : {"", "a", "another key that is longer"}) {
    const std::string asked = key + more;
    filter.Prefetch(PreviewXxh3(asked));
    static_cast<void>(filter.MayMatch(PreviewXxh3(asked), asked));
    for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}, UINT64_MAX}) {
      static_cast<void>(filter.MayMatchInBlock(asked, offset));
    }
  }
  return 0;
}
