// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/metaindex.h"

#include "table/block/entry_scanner.h"

namespace varve {

Status VisitMetaindex(
    const BlockLoader& loader, const BlockHandle& handle, uint64_t file_size,
    ReadaheadBuffer* readahead,
    const std::function<void(const Slice&, const BlockHandle&)>& visit) {
  FileBody body;
  Status s = loader.ReadMetaBlock(BlockLoader::MetaKind::kMetaindex, handle,
                                  readahead, &body);
  if (!s.ok()) return s;
  BlockTail tail;
  s = DecodeBlockTail(body.contents, &tail);
  if (!s.ok()) return s.Annotate("metaindex " + loader.Describe(handle));
  EntryScanner entry(Slice(body.contents.data(), tail.entries_size));
  ByteBudget names = KeyBudget(body.contents.size());
  ByteBudget blocks(file_size);
  while (s.ok() && entry.Next()) {
    Slice value = entry.value();
    BlockHandle block;
    if (!names.Take(entry.key().size())) {
      s = entry.EntryError("the names take too much memory");
    } else if (!block.DecodeFrom(&value) || !block.FitsIn(file_size)) {
      s = entry.EntryError("bad handle of block '" + entry.key().ToString() +
                           "'");
    } else if (!blocks.Take(block)) {
      s = entry.EntryError("more blocks than the file has space for");
    } else {
      visit(entry.key(), block);
    }
  }
  if (s.ok()) s = entry.status();
  return s.ok() ? s : s.Annotate("metaindex " + loader.Describe(handle));
}

Status ReadMetaindex(const BlockLoader& loader, const BlockHandle& handle,
                     uint64_t file_size, ReadaheadBuffer* readahead,
                     std::vector<std::pair<std::string, BlockHandle>>* blocks) {
  return VisitMetaindex(loader, handle, file_size, readahead,
                        [blocks](const Slice& name, const BlockHandle& block) {
                          blocks->emplace_back(name.ToString(), block);
                        });
}

}  // namespace varve
