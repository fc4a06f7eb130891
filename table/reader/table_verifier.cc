// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table_verifier.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table/cache/readahead_buffer.h"
#include "table/reader/metaindex.h"
#include "table/reader/table_parts.h"

namespace varve {

namespace {

class TableVerifier {
 public:
  explicit TableVerifier(const TableCore& core)
      : core_(core),
        readahead_(core.file.get(), core.options.file_size,
                   ReadaheadBuffer::kMaxReadaheadBytes) {}

  Status Run() {
    Status s = core_.parts == nullptr ? VerifyDataBlocks() : VerifyParts();
    if (s.ok()) s = VerifyEntryCount();
    if (s.ok()) s = VerifyMetaBlocks();
    return s;
  }

 private:
  Status VerifyDataBlocks();
  Status VerifyParts();
  Status VerifyDataBlock(size_t i);
  Status VerifyEntry(const Slice& key, size_t block_index);
  // Returns whether lookups of an entry's key and sequence number pass the
  // block.
  bool IsAfterSeparator(const Slice& key, size_t block_index) const;
  Status VerifyEntryCount() const;
  Status VerifyMetaBlocks();
  // Verifies a block that names partitions, and them. Sets their number.
  Status VerifyPartitions(BlockLoader::MetaKind kind, const BlockHandle& handle,
                          uint64_t* count);
  Status VerifyIndex();

  const TableCore& core_;
  // The table's, or the current part's.
  const TableIndex* index_ = &core_.index;
  ReadaheadBuffer readahead_;
  std::string last_key_;  // Empty before the first.
  uint64_t entry_count_ = 0;
};

Status TableVerifier::VerifyDataBlocks() {
  Status s;
  for (size_t i = 0; s.ok() && i < index_->size(); ++i) s = VerifyDataBlock(i);
  return s;
}

Status TableVerifier::VerifyParts() {
  Status s;
  for (size_t i = 0; s.ok() && i < core_.parts->size(); ++i) {
    std::shared_ptr<TablePart> part;
    s = core_.parts->Load(i, &part);
    if (!s.ok()) break;
    index_ = &part->table().core().index;
    s = VerifyDataBlocks();
    index_ = &core_.index;
  }
  return s;
}

Status TableVerifier::VerifyDataBlock(size_t i) {
  const BlockHandle& handle = index_->handle(i);
  BlockRef block;
  BlockBuildOptions build_options;
  build_options.global_sequence = core_.global_sequence;
  build_options.bytewise = core_.options.comparator->bytewise();
  build_options.fingerprints = false;
  Status s = core_.loader->ReadDataBlock(handle, true, build_options,
                                         &readahead_, &block);
  if (!s.ok()) return s;
  BlockIterator entry;
  entry.Reset(block.get(), core_.options.comparator);
  for (entry.SeekToFirst(); entry.Valid(); entry.Next()) {
    s = VerifyEntry(entry.key(), i);
    if (!s.ok()) return s.Annotate(core_.loader->Describe(handle));
  }
  return s;
}

Status TableVerifier::VerifyEntry(const Slice& key, size_t block_index) {
  const InternalKeyComparator& comparator = *core_.options.comparator;
  if (!last_key_.empty() && comparator.Compare(last_key_, key) >= 0) {
    return Status::Corruption(
        "keys out of order: " + DescribeInternalKey(last_key_) + " before " +
        DescribeInternalKey(key));
  }
  if (IsAfterSeparator(key, block_index) ||
      (block_index > 0 &&
       index_->CompareToSeparator(key, block_index - 1) <= 0)) {
    return Status::Corruption("the index leads elsewhere for key " +
                              DescribeInternalKey(key));
  }
  last_key_.assign(key.data(), key.size());
  ++entry_count_;
  return Status();
}

bool TableVerifier::IsAfterSeparator(const Slice& key,
                                     size_t block_index) const {
  if (index_->CompareToSeparator(key, block_index) <= 0) return false;
  // A separator may be the key with another type (rusty-leveldb). Lookups
  // search for the sequence number with the highest type.
  std::string sought = key.ToString();
  EncodeFixed64(sought.data() + sought.size() - kTrailerSize,
                SeekTrailer(ExtractSequence(key)));
  return index_->CompareToSeparator(sought, block_index) > 0;
}

Status TableVerifier::VerifyEntryCount() const {
  const uint64_t expected = core_.properties.num_entries;
  const uint64_t found = entry_count_ + core_.properties.num_range_deletions;
  // Not all writers record the number of entries.
  if (expected == 0 || expected == found) return Status();
  return Status::Corruption(core_.loader->file_name(),
                            "the table has " + std::to_string(found) +
                                " entries, its properties say " +
                                std::to_string(expected));
}

Status TableVerifier::VerifyMetaBlocks() {
  const BlockLoader& loader = *core_.loader;
  std::vector<std::pair<std::string, BlockHandle>> blocks;
  Status s;
  if (core_.footer.has_metaindex()) {
    s = ReadMetaindex(loader, core_.footer.metaindex, core_.options.file_size,
                      &readahead_, &blocks);
  }
  if (!s.ok()) return s;
  for (const auto& block : blocks) {
    const Slice name(block.first);
    if (name == Slice(kPropertiesBlockName) ||
        name == Slice(kOldPropertiesBlockName)) {
      PropertiesBlock properties;
      s = loader.ReadProperties(block.second, &readahead_,
                                OtherProperties::kLeftOut, &properties);
    } else if (name.starts_with(kPartitionedFilterPrefix)) {
      uint64_t count = 0;
      s = VerifyPartitions(BlockLoader::MetaKind::kOther, block.second, &count);
    } else {
      s = loader.CheckBlock(block.second, &readahead_);
    }
    if (!s.ok()) return s;
  }
  return VerifyIndex();
}

Status TableVerifier::VerifyPartitions(BlockLoader::MetaKind kind,
                                       const BlockHandle& handle,
                                       uint64_t* count) {
  const BlockLoader& loader = *core_.loader;
  FileBody body;
  Status s = loader.ReadMetaBlock(kind, handle, &readahead_, &body);
  if (!s.ok()) return s;
  std::vector<BlockHandle> partitions;
  s = TableIndex::ListHandles(body.contents, core_.properties,
                              core_.options.file_size, &partitions);
  if (!s.ok()) return s.Annotate(loader.Describe(handle));
  for (size_t i = 0; s.ok() && i < partitions.size(); ++i) {
    s = loader.CheckBlock(partitions[i], &readahead_);
  }
  *count = partitions.size();
  return s;
}

Status TableVerifier::VerifyIndex() {
  const BlockHandle& index = core_.footer.index;
  if (!TableIndex::IsPartitioned(core_.properties)) {
    return core_.loader->CheckBlock(index, &readahead_);
  }
  uint64_t found = 0;
  Status s = VerifyPartitions(BlockLoader::MetaKind::kIndex, index, &found);
  if (!s.ok()) return s;
  const uint64_t expected = core_.properties.index_partitions;
  // Not all writers record the number.
  if (expected == 0 || expected == found) return s;
  return Status::Corruption(core_.loader->Describe(index),
                            "the index has " + std::to_string(found) +
                                " partitions, the properties say " +
                                std::to_string(expected));
}

}  // namespace

Status VerifyTable(const TableCore& core) { return TableVerifier(core).Run(); }

}  // namespace varve
