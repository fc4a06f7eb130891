// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A data block's body. The form in memory and the walk through the file's form
// must both refuse it, or find the same entries; a seek finds what a walk does.

#include <string>
#include <utility>
#include <vector>

#include "table/block/block.h"
#include "table/block/internal_key.h"
#include "table/reader/file_block_iterator.h"
#include "test/fuzz/fuzz.h"
#include "varve/comparator.h"

namespace varve::fuzz {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

bool Walk(const Slice& body, const InternalKeyComparator& comparator,
          SequenceNumber global, Entries* entries) {
  IteratorPosition position;
  FileBlockIterator walk(&position);
  walk.Reset(body, &comparator, global);
  if (!walk.status().ok()) return false;
  for (walk.SeekToFirst(); position.valid; walk.Next()) {
    entries->emplace_back(position.key.ToString(), position.value.ToString());
  }
  return walk.status().ok();
}

void SeekInFile(const Slice& body, const InternalKeyComparator& comparator,
                const Slice& target) {
  IteratorPosition position;
  FileBlockIterator walk(&position);
  walk.Reset(body, &comparator, 0);
  if (!walk.status().ok()) return;
  walk.Seek(target);
  for (int i = 0; i < 3 && position.valid; ++i) walk.Next();
}

void Look(const Block& block, const InternalKeyComparator& comparator,
          const Entries& walked) {
  Require(block.EntryCount() == walked.size(), "as many entries");
  for (uint32_t i = 0; i < block.EntryCount(); ++i) {
    const Block::Entry entry = block.EntryAt(i);
    std::string key = block.Prefix().ToString() + entry.rest.ToString();
    char trailer[kTrailerSize];
    EncodeFixed64(trailer, entry.trailer);
    key.append(trailer, kTrailerSize);
    Require(key == walked[i].first, "the same key");
    Require(entry.value == walked[i].second, "the same value");
    const Slice user_key = ExtractUserKey(key);
    const uint32_t found =
        block.LowerBound(comparator, user_key, entry.trailer);
    Require(found <= block.EntryCount(), "a place within the block");
    if (block.has_fingerprints()) {
      static_cast<void>(block.FindCandidate(uint64_t{i} << 56, 0));
    }
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
  BlockBuildOptions options;
  options.fingerprints = (flags & 1) != 0;
  options.global_sequence = (flags & 2) != 0 ? 77 : 0;
  const Slice body = choices.rest();
  Entries walked;
  const bool walks = Walk(body, comparator, options.global_sequence, &walked);
  SeekInFile(body, comparator,
             walked.empty() ? Slice("12345678x") : Slice(walked.back().first));
  Block* block = nullptr;
  if (Block::Create(body, options, &block).ok()) {
    Require(walks, "what is taken can be walked");
    Look(*block, comparator, walked);
    Block::Unpin(block);
  }
  return 0;
}
