// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table_opener.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "table/block/comparator_mismatch.h"
#include "table/block/compression_property.h"
#include "table/block/entry_scanner.h"
#include "table/index/slice_transform.h"
#include "table/reader/metaindex.h"
#include "table/reader/partition_run.h"
#include "table/reader/table_parts.h"
#include "util/bytes/compression.h"

namespace varve {

namespace {

// Size of the first read from the end of a file if the MANIFEST does not give
// the tail's length. It covers footer, metaindex, properties and, for tables of
// some megabytes, index and filter.
constexpr uint64_t kGuessedTailBytes = uint64_t{64} << 10;
// Size of the first read of a table whose index is loaded at first use. It
// covers footer, metaindex and properties.
constexpr uint64_t kDescriptionBytes = uint64_t{4} << 10;
// Longer tails are read block by block.
constexpr uint64_t kMaxTailBytes = PartitionRun::kMaxBytes;

// Since this version, ingested tables have a sequence number of their own.
constexpr uint32_t kFirstVersionWithGlobalSequence = 2;

// The locations of the metadata blocks.
struct MetaBlocks {
  std::optional<BlockHandle> index;
  std::optional<BlockHandle> properties;
  std::optional<BlockHandle> old_properties;
  std::optional<BlockHandle> dictionary;
  std::optional<BlockHandle> range_deletions;
  // The filter for the policy in the options.
  std::optional<BlockHandle> policy_filter;
  std::optional<BlockHandle> full_filter;
  std::optional<BlockHandle> partitioned_filter;
  std::optional<BlockHandle> leveldb_filter;
  // The begin of the first metadata block and the end of the last, without
  // properties.
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
};

// One opening of a table.
class TableOpener {
 public:
  explicit TableOpener(TableCore* core)
      : core_(*core),
        name_(core->options.file_name),
        tail_(core->file.get(), core->options.file_size, 0),
        run_(core->file.get(), core->options.file_size, &tail_) {}

  Status Run() {
    Status s = ReadFooter();
    if (s.ok()) s = FindMetaBlocks();
    if (s.ok()) s = ReadTableProperties();
    if (s.ok()) s = CheckProperties();
    if (s.ok()) s = FindGlobalSequence();
    if (!s.ok()) return s;
    FindFilter();
    if (MayDivide()) return Divide();
    if (MustDefer()) return Defer();
    s = ReadRestOfTail();
    if (s.ok()) s = ReadDictionary();
    if (s.ok()) s = ReadFilter();
    if (s.ok()) s = ReadRangeTombstones();
    if (s.ok()) s = ReadIndex();
    return s;
  }

  Status RunForProperties() {
    Status s = ReadFooter();
    if (s.ok()) s = FindMetaBlocks();
    return s.ok() ? ReadTableProperties() : s;
  }
  Status RunDeferred();
  Status RunOnDamaged(bool* index_is_whole);

 private:
  Status NotSupported(const std::string& feature) const {
    return Status::NotSupported(name_, feature);
  }

  // Null if each block is read separately. Large blocks are, because that
  // saves a copy.
  ReadaheadBuffer* tail() {
    return core_.options.separate_reads || core_.deferred != nullptr ? nullptr
                                                                     : &tail_;
  }
  // Returns the size of the first read.
  uint64_t FirstReadBytes() const;

  Status ReadFooter();
  Status FindMetaBlocks();
  void NoteMetaBlock(const Slice& name, const BlockHandle& handle);
  // Reads the remaining metadata blocks, if the first read did not include
  // them.
  Status ReadRestOfTail();
  bool HasPartitionedFilter() const {
    return filter_name_ == kPartitionedBloomBlockName;
  }
  // Returns the offset of the first partition of index and filter, as the
  // properties suggest it; UINT64_MAX if nothing is partitioned.
  uint64_t GuessPartitions() const;
  // Prepares for reading these partitions.
  Status ExpectPartitions(std::span<const BlockHandle> handles);
  // Returns the buffer that may serve the read of a partition, or null.
  ReadaheadBuffer* PartitionSource(const BlockHandle& handle) {
    return core_.options.separate_reads ? nullptr : run_.SourceOf(handle);
  }
  Status ReadTableProperties();
  Status CheckProperties() const;
  Status FindGlobalSequence();
  // Finds the filter to use, if the table has one.
  void FindFilter();
  // Returns the function whose prefixes the table's filter has, if it is known
  // and was named; otherwise null.
  std::shared_ptr<const SliceTransform> FindExtractor() const;
  // Lets the filter answer for what it has: whole keys, prefixes or both.
  void DivideFilter();
  bool MustDefer() const;
  // Returns whether partitions are to be loaded one by one.
  bool MayDivide() const;
  // Reads what such a table has beside its parts.
  Status Divide();
  Status ReadPartNames();
  // Reads what a table has beside the deferred blocks.
  Status Defer();
  Status ReadDictionary();
  Status ReadFilter();
  Status ReadPartitionedFilter(FileBody* body);
  void LogDamagedFilter(const char* part, const Status& damage) const;
  Status ReadRangeTombstones();
  Status DecodeRangeTombstones(const Slice& block_body);
  Status ReadIndex();
  // Reads the block that names the partitions of the index, and their handles.
  Status ListIndexPartitions(std::vector<BlockHandle>* handles);
  Status CheckIndex();
  bool LooksPartitioned();

  TableCore& core_;
  const std::string& name_;
  MetaBlocks blocks_;
  // The filter to use, and its name in the metaindex.
  std::optional<BlockHandle> filter_;
  std::string filter_name_;
  ReadaheadBuffer tail_;
  uint64_t tail_begin_ = 0;  // Offset of tail_, which extends to the end.
  PartitionRun run_;
};

uint64_t TableOpener::FirstReadBytes() const {
  const TableReaderOptions& options = core_.options;
  uint64_t bytes = kGuessedTailBytes;
  if (options.separate_reads) {
    bytes = Footer::kSize;
  } else if (options.tail_size != 0) {
    // Must include a footer even if the number is wrong.
    bytes =
        std::clamp<uint64_t>(options.tail_size, Footer::kSize, kMaxTailBytes);
    if ((options.index_loading != IndexLoading::kAtOpen ||
         options.part_cache != nullptr) &&
        bytes > options.min_deferred_bytes) {
      bytes = std::min(bytes, kDescriptionBytes);
    }
  }
  return std::min(bytes, options.file_size);
}

Status TableOpener::ReadFooter() {
  const uint64_t file_size = core_.options.file_size;
  const auto size = static_cast<size_t>(FirstReadBytes());
  tail_begin_ = file_size - size;
  // Another byte exists only if the file is too long.
  Status s = tail_.Fill(tail_begin_, size, size + 1);
  if (!s.ok()) return s;
  const Slice bytes = tail_.data();
  if (bytes.size() != size) {
    return Status::Corruption(
        name_, std::string("the file is ") +
                   (bytes.size() < size ? "shorter" : "longer") + " than the " +
                   std::to_string(file_size) + " bytes it should have");
  }
  s = core_.footer.DecodeFrom(bytes, name_, file_size);
  if (!s.ok()) return s;
  core_.loader = std::make_shared<BlockLoader>(core_.file.get(), name_,
                                               file_size, core_.footer);
  core_.loader->SetStatistics(core_.options.statistics);
  return s;
}

Status TableOpener::FindMetaBlocks() {
  if (!core_.footer.has_metaindex()) return Status();
  Status s = VisitMetaindex(
      *core_.loader, core_.footer.metaindex, core_.options.file_size, tail(),
      [this](const Slice& name, const BlockHandle& handle) {
        NoteMetaBlock(name, handle);
      });
  if (!s.ok() || core_.footer.has_index()) return s;
  if (!blocks_.index) {
    return Status::Corruption(core_.loader->Describe(core_.footer.metaindex),
                              "the metaindex does not name the index");
  }
  core_.footer.index = *blocks_.index;
  return s;
}

void TableOpener::NoteMetaBlock(const Slice& name, const BlockHandle& handle) {
  core_.names_meta_blocks = true;
  const std::pair<const char*, std::optional<BlockHandle>*> known[] = {
      {kIndexBlockName, &blocks_.index},
      {kPropertiesBlockName, &blocks_.properties},
      {kOldPropertiesBlockName, &blocks_.old_properties},
      {kCompressionDictionaryBlockName, &blocks_.dictionary},
      {kRangeTombstoneBlockName, &blocks_.range_deletions},
      {kFullBloomBlockName, &blocks_.full_filter},
      {kPartitionedBloomBlockName, &blocks_.partitioned_filter},
      {kLevelDbBloomBlockName, &blocks_.leveldb_filter},
  };
  for (const auto& [known_name, place] : known) {
    // If two have one name, the first counts.
    if (name == known_name && !place->has_value()) *place = handle;
  }
  const FilterPolicy* const policy = core_.options.filter_policy.get();
  if (policy != nullptr && name.starts_with(kCustomFilterPrefix) &&
      name.ToStringView().substr(strlen(kCustomFilterPrefix)) ==
          policy->Name()) {
    blocks_.policy_filter = handle;
  }
  if (name != kPropertiesBlockName) {
    blocks_.begin = std::min(blocks_.begin, handle.offset);
    blocks_.end =
        std::max(blocks_.end, handle.offset + handle.size + kBlockTrailerSize);
  }
}

Status TableOpener::ReadRestOfTail() {
  if (core_.options.separate_reads) return Status();
  uint64_t begin = blocks_.begin;
  uint64_t end = blocks_.end;
  const BlockHandle& index = core_.footer.index;
  // The reader of the block reports its errors.
  if (index.FitsIn(core_.options.file_size)) {
    begin = std::min(begin, index.offset);
    end = std::max(end, index.offset + index.size + kBlockTrailerSize);
  }
  const uint64_t partitions = GuessPartitions();
  if (partitions < begin && end - partitions <= kMaxTailBytes) {
    begin = partitions;
  }
  if (begin >= tail_begin_ || end <= begin || end - begin > kMaxTailBytes) {
    return Status();
  }
  return tail_.Fill(begin, static_cast<size_t>(end - begin));
}

uint64_t TableOpener::GuessPartitions() const {
  if (!TableIndex::IsPartitioned(core_.properties) && !HasPartitionedFilter()) {
    return UINT64_MAX;
  }
  // RocksDB writes them right after the data blocks.
  const uint64_t data_size = core_.properties.data_size;
  return data_size != 0 ? data_size : UINT64_MAX;
}

Status TableOpener::ExpectPartitions(std::span<const BlockHandle> handles) {
  return core_.options.separate_reads ? Status() : run_.Read(handles);
}

Status TableOpener::ReadTableProperties() {
  const auto& handle =
      blocks_.properties ? blocks_.properties : blocks_.old_properties;
  if (!handle) return Status();
  core_.loader->UseRocksDbCompression();
  return core_.loader->ReadProperties(
      *handle, tail(), core_.options.other_properties, &core_.properties);
}

Status TableOpener::CheckProperties() const {
  const PropertiesBlock& properties = core_.properties;
  const std::string& comparator = properties.comparator;
  const char* const expected =
      core_.options.comparator->user_comparator()->Name();
  if (!comparator.empty() && comparator != expected) {
    const std::string feature = FeatureOfComparator(comparator, expected);
    if (!feature.empty()) return NotSupported(feature);
    return NotSupported("the keys are ordered by '" + comparator +
                        "', not by '" + expected + "'");
  }
  const std::string manager = ForeignCompressionManager(properties.compression);
  if (!manager.empty()) {
    return NotSupported("blocks of the compression manager '" + manager + "'");
  }
  // Otherwise only the read of a compressed block would report it.
  for (const CompressionType type :
       {CompressionType::kSnappy, CompressionType::kZlib,
        CompressionType::kBZip2, CompressionType::kLZ4, CompressionType::kLZ4HC,
        CompressionType::kXpress, CompressionType::kZSTD}) {
    if (NamesCompression(properties.compression, type) &&
        !CompressionSupported(type)) {
      return NotSupported(NotBuiltInText(type));
    }
  }
  return Status();
}

Status TableOpener::FindGlobalSequence() {
  const PropertiesBlock& properties = core_.properties;
  if (properties.external_version < kFirstVersionWithGlobalSequence) {
    if (!properties.has_global_sequence) return Status();
    return Status::Corruption(
        name_,
        "a sequence number for the whole file in a table of external "
        "version " +
            std::to_string(properties.external_version));
  }
  const SequenceNumber own = properties.global_sequence;
  const SequenceNumber listed = core_.options.manifest_largest_sequence;
  if (own > kMaxSequenceNumber || (own != 0 && listed != 0 && own != listed)) {
    return Status::Corruption(
        name_, "the file's sequence number is " + std::to_string(own) +
                   ", the MANIFEST's " + std::to_string(listed));
  }
  core_.global_sequence = own != 0 ? own : listed;
  return Status();
}

Status TableOpener::ReadDictionary() {
  if (!blocks_.dictionary) return Status();
  FileBody body;
  Status s = core_.loader->ReadMetaBlock(BlockLoader::MetaKind::kOther,
                                         *blocks_.dictionary, tail(), &body);
  if (s.ok()) core_.loader->SetDictionary(body.contents.ToString());
  return s;
}

std::shared_ptr<const SliceTransform> TableOpener::FindExtractor() const {
  const std::string& name = core_.properties.prefix_extractor;
  const auto& given = core_.options.prefix_extractor;
  if (!core_.properties.prefix_filtering || name.empty()) return nullptr;
  return given != nullptr && name == given->Name() ? given
                                                   : NewTransformByName(name);
}

void TableOpener::DivideFilter() {
  core_.DivideFilter(FindExtractor(), core_.properties.whole_key_filtering);
}

void TableOpener::FindFilter() {
  if (!core_.properties.whole_key_filtering && FindExtractor() == nullptr) {
    return;
  }
  if (blocks_.policy_filter) {
    filter_name_ =
        std::string(kCustomFilterPrefix) + core_.options.filter_policy->Name();
    filter_ = blocks_.policy_filter;
  } else if (blocks_.full_filter) {
    filter_name_ = kFullBloomBlockName;
    filter_ = blocks_.full_filter;
  } else if (blocks_.partitioned_filter) {
    filter_name_ = kPartitionedBloomBlockName;
    filter_ = blocks_.partitioned_filter;
  } else {
    filter_name_ = kLevelDbBloomBlockName;
    filter_ = blocks_.leveldb_filter;
  }
}

bool TableOpener::MustDefer() const {
  if (core_.options.index_loading == IndexLoading::kAtOpen ||
      core_.options.separate_reads) {
    return false;
  }
  uint64_t bytes = 0;
  for (const auto& handle : {std::optional<BlockHandle>(core_.footer.index),
                             filter_, blocks_.dictionary}) {
    // A handle may be wrong.
    if (handle) bytes += std::min(handle->size, core_.options.file_size);
  }
  if (TableIndex::IsPartitioned(core_.properties)) {
    bytes += std::min(core_.properties.index_size, core_.options.file_size);
  }
  if (HasPartitionedFilter()) {
    bytes += std::min(core_.properties.filter_size, core_.options.file_size);
  }
  return bytes > core_.options.min_deferred_bytes;
}

Status TableOpener::Defer() {
  Status s = TableIndex::CheckSupported(core_.properties);
  if (!s.ok()) {
    return s.Annotate(core_.loader->Describe(core_.footer.index));
  }
  s = ReadRangeTombstones();
  if (s.ok()) s = core_.loader->CheckPlace(core_.footer.index);
  if (s.ok() &&
      core_.options.index_loading == IndexLoading::kVerifiedAtFirstUse) {
    s = CheckIndex();
  }
  if (!s.ok()) return s;
  core_.deferred = std::make_unique<DeferredBlocks>(
      DeferredBlocks{blocks_.dictionary, filter_, std::move(filter_name_)});
  return s;
}

bool TableOpener::MayDivide() const {
  return core_.options.part_cache != nullptr && !core_.options.separate_reads &&
         !core_.options.binary_search &&
         TableIndex::IsPartitioned(core_.properties);
}

Status TableOpener::Divide() {
  Status s = ReadDictionary();
  if (s.ok()) s = ReadRangeTombstones();
  if (s.ok()) s = core_.loader->CheckPlace(core_.footer.index);
  if (s.ok() &&
      core_.options.index_loading == IndexLoading::kVerifiedAtFirstUse) {
    s = CheckIndex();
  }
  if (s.ok()) s = ReadPartNames();
  // Parts have the filter's partitions.
  return s.ok() && filter_ ? ReadFilter() : s;
}

Status TableOpener::ReadPartNames() {
  const BlockHandle& index = core_.footer.index;
  std::vector<BlockHandle> names = {index};
  if (HasPartitionedFilter()) names.push_back(*filter_);
  FileBody body;
  Status s = ExpectPartitions(names);
  if (s.ok()) {
    s = core_.loader->ReadMetaBlock(BlockLoader::MetaKind::kIndex, index,
                                    PartitionSource(index), &body);
  }
  if (!s.ok()) return s;
  core_.parts = std::make_unique<TableParts>(&core_, core_.options.part_cache);
  s = core_.parts->Init(body.TakeContents());
  if (!s.ok()) return s.Annotate(core_.loader->Describe(index));
  if (!HasPartitionedFilter()) return s;
  s = core_.loader->ReadMetaBlock(BlockLoader::MetaKind::kOther, *filter_,
                                  PartitionSource(*filter_), &body);
  // Otherwise ReadFilter decides.
  if (s.ok() && core_.parts->SetFilters(body.TakeContents())) {
    filter_.reset();
    core_.prefix_extractor = FindExtractor();
  }
  return s.IsCorruption() || s.IsNotSupported() ? Status() : s;
}

Status TableOpener::CheckIndex() {
  if (!TableIndex::IsPartitioned(core_.properties)) {
    return core_.loader->CheckBlock(core_.footer.index, nullptr);
  }
  std::vector<BlockHandle> handles;
  Status s = ListIndexPartitions(&handles);
  if (s.ok()) s = ExpectPartitions(handles);
  for (size_t i = 0; s.ok() && i < handles.size(); ++i) {
    s = core_.loader->CheckBlock(handles[i], PartitionSource(handles[i]));
  }
  return s;
}

Status TableOpener::RunDeferred() {
  blocks_.dictionary = core_.deferred->dictionary;
  filter_ = core_.deferred->filter;
  filter_name_ = core_.deferred->filter_name;
  const BlockHandle& index = core_.footer.index;
  const uint64_t begin = GuessPartitions();
  const uint64_t end = index.offset + index.size + kBlockTrailerSize;
  Status s = run_.Read(begin, end);
  if (s.ok()) s = ReadDictionary();
  if (s.ok()) s = ReadFilter();
  if (s.ok()) s = ReadIndex();
  if (s.ok()) core_.deferred.reset();
  return s;
}

void TableOpener::LogDamagedFilter(const char* part,
                                   const Status& damage) const {
  Log(LogLevel::kWarn, core_.options.info_log,
      "reading without %s, which is damaged: %s", part,
      damage.ToString().c_str());
}

Status TableOpener::ReadFilter() {
  if (!filter_) return Status();
  FileBody body;
  Status s = core_.loader->ReadMetaBlock(
      BlockLoader::MetaKind::kOther, *filter_,
      HasPartitionedFilter() ? PartitionSource(*filter_) : tail(), &body);
  if (s.ok() && HasPartitionedFilter()) s = ReadPartitionedFilter(&body);
  if (s.IsCorruption() || s.IsNotSupported()) {
    LogDamagedFilter("the filter", s);
    return Status();
  }
  if (!s.ok()) return s;
  if (HasPartitionedFilter()) {
    DivideFilter();
    return s;
  }
  core_.filter_contents = body.TakeContents();
  core_.filter = FilterReader();
  core_.filter.Init(filter_name_, core_.filter_contents.AsSlice(),
                    core_.options.filter_policy.get());
  if (core_.filter.kind() == FilterReader::Kind::kAlwaysMaybe) {
    core_.filter_contents = BlockContents();
  }
  DivideFilter();
  return s;
}

Status TableOpener::ReadPartitionedFilter(FileBody* body) {
  auto filter = std::make_unique<PartitionedFilter>();
  Status s = filter->Init(body->TakeContents(), core_.properties,
                          core_.options.file_size, core_.options.comparator);
  if (!s.ok()) return s.Annotate(core_.loader->Describe(*filter_));
  std::vector<BlockHandle> handles(filter->size());
  for (size_t i = 0; i < handles.size(); ++i) handles[i] = filter->handle(i);
  s = ExpectPartitions(handles);
  if (!s.ok()) return s;
  Status damage;
  const auto partition = std::make_unique<FileBody>();
  for (const BlockHandle& handle : handles) {
    s = core_.loader->ReadMetaBlock(BlockLoader::MetaKind::kOther, handle,
                                    PartitionSource(handle), partition.get());
    if (s.ok()) {
      filter->Add(partition->contents);
    } else if (s.IsCorruption() || s.IsNotSupported()) {
      filter->AddDamaged();
      if (damage.ok()) damage = s;
    } else {
      return s;
    }
  }
  if (!damage.ok()) LogDamagedFilter("a partition of the filter", damage);
  core_.filter = FilterReader();
  core_.filter_partitions.reset();
  if (filter->CanExclude()) {
    core_.filter_partitions = std::move(filter);
    core_.filter.Init(core_.filter_partitions.get());
  }
  return Status();
}

Status TableOpener::ReadRangeTombstones() {
  const auto& handle = blocks_.range_deletions;
  if (!handle) {
    if (core_.properties.num_range_deletions == 0) return Status();
    // Without it, deleted keys would reappear.
    return Status::Corruption(name_, "the block of range deletions is missing");
  }
  FileBody body;
  Status s = core_.loader->ReadMetaBlock(BlockLoader::MetaKind::kOther, *handle,
                                         tail(), &body);
  if (!s.ok()) return s;
  s = DecodeRangeTombstones(body.contents);
  return s.ok()
             ? s
             : s.Annotate("range deletions " + core_.loader->Describe(*handle));
}

Status TableOpener::DecodeRangeTombstones(const Slice& block_body) {
  BlockTail block_tail;
  Status s = DecodeBlockTail(block_body, &block_tail);
  if (!s.ok()) return s;
  EntryScanner entry(Slice(block_body.data(), block_tail.entries_size));
  ByteBudget budget = KeyBudget(block_body.size());
  std::deque<std::string> keys;
  std::vector<RangeTombstone> list;
  while (entry.Next()) {
    if (!budget.Take(entry.key().size())) {
      return entry.EntryError("the keys take too much memory");
    }
    if (entry.key().size() < kTrailerSize ||
        ExtractValueType(entry.key()) != ValueType::kRangeDeletion) {
      return entry.EntryError("no range deletion: key " +
                              DescribeInternalKey(entry.key()));
    }
    const SequenceNumber sequence = core_.global_sequence != 0
                                        ? core_.global_sequence
                                        : ExtractSequence(entry.key());
    keys.push_back(ExtractUserKey(entry.key()).ToString());
    list.push_back({keys.back(), entry.value(), sequence});
  }
  s = entry.status();
  if (!s.ok()) return s;
  const uint64_t expected = core_.properties.num_range_deletions;
  if (expected != 0 && expected != list.size()) {
    return Status::Corruption("the block has " + std::to_string(list.size()) +
                              " entries, the properties say " +
                              std::to_string(expected));
  }
  core_.tombstones = RangeTombstoneSet::Build(core_.options.comparator, list);
  return s;
}

Status TableOpener::ReadIndex() {
  FileBody body;
  const bool partitioned = TableIndex::IsPartitioned(core_.properties);
  Status s = core_.loader->ReadMetaBlock(
      BlockLoader::MetaKind::kIndex, core_.footer.index,
      partitioned ? PartitionSource(core_.footer.index) : tail(), &body);
  if (!s.ok()) return s;
  // Reads of partitions may replace what the body points to.
  BlockContents contents = body.TakeContents();
  TableIndex::ReadPartition read_partition;
  std::unique_ptr<FileBody> partition;
  if (partitioned) {
    std::vector<BlockHandle> handles;
    s = TableIndex::ListHandles(contents.AsSlice(), core_.properties,
                                core_.options.file_size, &handles);
    if (s.ok()) s = ExpectPartitions(handles);
    partition = std::make_unique<FileBody>();
    read_partition = [this, &partition](const BlockHandle& handle,
                                        Slice* entries) {
      Status read = core_.loader->ReadMetaBlock(
          BlockLoader::MetaKind::kIndexPartition, handle,
          PartitionSource(handle), partition.get());
      *entries = partition->contents;
      return read;
    };
  }
  if (s.ok()) {
    s = core_.index.Decode(std::move(contents), core_.properties,
                           core_.options.file_size, core_.options.comparator,
                           core_.options.binary_search, read_partition);
  }
  return s.ok() ? s : s.Annotate(core_.loader->Describe(core_.footer.index));
}

Status TableOpener::ListIndexPartitions(std::vector<BlockHandle>* handles) {
  const BlockHandle& index = core_.footer.index;
  FileBody body;
  Status s = core_.loader->ReadMetaBlock(BlockLoader::MetaKind::kIndex, index,
                                         PartitionSource(index), &body);
  if (!s.ok()) return s;
  s = TableIndex::ListHandles(body.contents, core_.properties,
                              core_.options.file_size, handles);
  return s.ok() ? s : s.Annotate(core_.loader->Describe(index));
}

// Whether the index names blocks that name blocks, for a table without
// properties. A data block can look as if it named blocks, but the checksums of
// those do not match. Blocks may be damaged: the first whole partition and any
// block of it decide.
bool TableOpener::LooksPartitioned() {
  if (core_.footer.checksum == ChecksumType::kNone) return false;
  std::vector<BlockHandle> partitions;
  if (!ListIndexPartitions(&partitions).ok()) return false;
  const auto body = std::make_unique<FileBody>();
  for (const BlockHandle& partition : partitions) {
    if (!core_.loader
             ->ReadMetaBlock(BlockLoader::MetaKind::kIndexPartition, partition,
                             nullptr, body.get())
             .ok()) {
      continue;
    }
    std::vector<BlockHandle> blocks;
    return TableIndex::ListHandles(body->contents, core_.properties,
                                   core_.options.file_size, &blocks)
               .ok() &&
           std::any_of(blocks.begin(), blocks.end(),
                       [this](const BlockHandle& block) {
                         return core_.loader->CheckBlock(block, nullptr).ok();
                       });
  }
  return false;
}

Status TableOpener::RunOnDamaged(bool* index_is_whole) {
  Status footer = ReadFooter();
  if (footer.IsNotSupported() &&
      IsForeignTable(tail_.data(), core_.options.file_size)) {
    return footer;
  }
  if (!footer.ok()) return Status();
  const bool described = FindMetaBlocks().ok() && ReadTableProperties().ok();
  if (described) {
    Status s = CheckProperties();
    if (!s.ok()) return s;
    FindGlobalSequence().IgnoreError();  // Then keys keep their own.
  } else {
    // All tables of this version have it, except with rare options of RocksDB.
    core_.properties = PropertiesBlock();
    core_.properties.index_key_is_user_key = core_.footer.format_version >= 3;
    core_.properties.index_value_is_delta_encoded =
        core_.footer.format_version >= 4;
    if (LooksPartitioned()) core_.properties.index_type = kTwoLevelIndexType;
  }
  // Without the dictionary, no block that needs it can be read, and only range
  // deletions remain.
  ReadDictionary().IgnoreError();
  ReadRangeTombstones().IgnoreError();
  const Status s = ReadIndex();
  *index_is_whole = s.ok();
  return described && s.IsNotSupported() ? s : Status();
}

}  // namespace

Status OpenDamagedTable(const TableReaderOptions& options,
                        std::unique_ptr<RandomAccessFile> file, TableCore* core,
                        bool* index_is_whole) {
  core->options = options;
  core->file = std::move(file);
  return TableOpener(core).RunOnDamaged(index_is_whole);
}

Status OpenTable(const TableReaderOptions& options,
                 std::unique_ptr<RandomAccessFile> file, TableCore* core) {
  core->options = options;
  core->file = std::move(file);
  Status s = TableOpener(core).Run();
  if (s.ok()) core->AccountMemory();
  if (s.ok() && options.block_cache != nullptr) {
    core->cache_id = options.block_cache->NewTableId();
  }
  return s;
}

Status ReadPropertiesOf(const TableReaderOptions& options,
                        std::unique_ptr<RandomAccessFile> file,
                        PropertiesBlock* properties) {
  TableCore core;
  core.options.file_name = options.file_name;
  core.options.file_size = options.file_size;
  core.options.index_loading = IndexLoading::kAtFirstUse;
  core.options.other_properties = OtherProperties::kKept;
  core.file = std::move(file);
  Status s = TableOpener(&core).RunForProperties();
  if (s.ok()) *properties = std::move(core.properties);
  return s;
}

Status LoadDeferred(TableCore* core) {
  Status s = TableOpener(core).RunDeferred();
  if (s.ok()) core->AccountMemory();
  return s;
}

}  // namespace varve
