// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/build/table_builder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "monitoring/statistics.h"
#include "table/block/block_builder.h"
#include "table/block/format.h"
#include "table/block/properties.h"
#include "table/block/public_properties.h"
#include "table/build/property_collectors.h"
#include "table/index/bloom_filter.h"
#include "table/index/index_builder.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"
#include "util/bytes/hash.h"

namespace varve {

namespace {

// Keeps a block's body, followed by the largest entry, and the offsets in it
// below 2^32.
constexpr size_t kMaxBlockSize = size_t{512} << 20;
static_assert(kMaxBlockSize + kMaxEntryBytes < UINT32_MAX);

// A block that is at least this full is closed before an entry that would make
// it too large.
constexpr size_t kNearlyFullPercent = 90;

int CompressorLevel(const TableBuilderOptions& options) {
  return options.compression_level == 0 ? kDefaultCompressionLevel
                                        : options.compression_level;
}

// The filter of a table, or of one partition after the other, for any policy.
class TableFilterBuilder {
 public:
  explicit TableFilterBuilder(const TableBuilderOptions& options)
      : policy_(options.filter_policy.get()),
        extractor_(options.prefix_extractor.get()),
        adds_whole_keys_(WholeKeyFiltering(options)) {
    if (policy_ == nullptr) return;
    const double bits_per_key = policy_->BuiltinBloomBitsPerKey();
    if (bits_per_key > 0) bloom_.emplace(bits_per_key);
  }

  // Without prefixes a filter always has the keys.
  static bool WholeKeyFiltering(const TableBuilderOptions& options) {
    return options.whole_key_filtering || options.prefix_extractor == nullptr;
  }

  void AddKey(const Slice& user_key) {
    if (extractor_ != nullptr && policy_ != nullptr) {
      if (!AddPrefix(user_key)) return;
    }
    if (bloom_) {
      bloom_->AddHash(PreviewXxh3(user_key));
    } else if (policy_ != nullptr) {
      AddCustomKey(user_key);
    }
  }

  // For the end of a partition: adds the prefix of the key after it. RocksDB
  // looks for a prefix in the partition of the target alone, and a target
  // between two partitions can have that prefix.
  void AddNextPrefix(const Slice& user_key) {
    if (extractor_ != nullptr) AddPrefixAlone(user_key);
  }

  // Returns whether the filter can be cut into partitions.
  bool MayBeCut() const { return bloom_.has_value(); }

  // Distinct keys; there is nothing to write if there are none.
  size_t KeyCount() const {
    return bloom_ ? bloom_->HashCount() : key_ends_.size();
  }
  std::string MetaindexName() const {
    return bloom_ ? kFullBloomBlockName
                  : std::string(kCustomFilterPrefix) + policy_->Name();
  }
  std::string PolicyName() const {
    return bloom_ ? "bloomfilter" : policy_->Name();
  }

  void Finish(std::string* body) {
    // A further filter has no key yet.
    has_last_key_ = false;
    has_last_prefix_ = false;
    if (bloom_) {
      bloom_->Finish(body);
      return;
    }
    std::vector<Slice> keys;
    keys.reserve(key_ends_.size());
    size_t begin = 0;
    for (const size_t end : key_ends_) {
      keys.emplace_back(keys_.data() + begin, end - begin);
      begin = end;
    }
    body->clear();
    policy_->CreateFilter(keys, body);
  }

 private:
  // Adds the key's prefix, before the key, so that both are in order. Returns
  // whether the key itself must be added too.
  bool AddPrefix(const Slice& user_key) {
    // A repeated key would else be between two prefixes, and not be found equal
    // to the one before.
    if (has_last_key_ && Slice(last_key_) == user_key) return false;
    has_last_key_ = true;
    last_key_.assign(user_key.data(), user_key.size());
    AddPrefixAlone(user_key);
    return adds_whole_keys_;
  }

  void AddPrefixAlone(const Slice& user_key) {
    if (!extractor_->InDomain(user_key)) return;
    const Slice prefix = extractor_->Transform(user_key);
    if (has_last_prefix_ && Slice(last_prefix_) == prefix) return;
    has_last_prefix_ = true;
    last_prefix_.assign(prefix.data(), prefix.size());
    if (bloom_) {
      bloom_->AddHash(PreviewXxh3(prefix));
    } else {
      AddCustomKey(prefix);
    }
  }

  void AddCustomKey(const Slice& user_key) {
    if (!key_ends_.empty() && Slice(keys_.data() + last_begin_,
                                    keys_.size() - last_begin_) == user_key) {
      return;
    }
    last_begin_ = keys_.size();
    keys_.append(user_key.data(), user_key.size());
    key_ends_.push_back(keys_.size());
  }

  const FilterPolicy* const policy_;
  const SliceTransform* const extractor_;
  const bool adds_whole_keys_;
  // Only with an extractor.
  std::string last_key_;
  std::string last_prefix_;
  bool has_last_key_ = false;
  bool has_last_prefix_ = false;
  std::optional<BloomFilterBuilder> bloom_;
  // A user's policy needs all keys at once.
  std::string keys_;
  std::vector<size_t> key_ends_;
  size_t last_begin_ = 0;
};

}  // namespace

struct TableBuilder::Rep {
  Rep(const TableBuilderOptions& builder_options, WritableFile* table_file)
      : options(builder_options),
        file(table_file),
        bytewise(options.comparator->bytewise()),
        block_size(std::min(options.block_size, kMaxBlockSize)),
        nearly_full_size((block_size * kNearlyFullPercent + 99) / 100),
        data_block(options.block_restart_interval),
        compressor(options.compression, CompressorLevel(options)),
        range_deletions(1),
        index(options.comparator),
        filter(options),
        partitions_filter(options.partitioned_index &&
                          options.partition_filters && filter.MayBeCut()),
        collectors(PropertyCollectors::Create(options)) {
    if (!CompressionSupported(options.compression)) {
      status = Status::NotSupported("compression type",
                                    CompressionName(options.compression));
    }
  }

  Slice LastKey() const {
    return data_block.empty() ? Slice(pending_last_key) : data_block.last_key();
  }
  // Returns whether the key, which shares `shared` bytes with the last one, is
  // after it.
  bool IsBehindLast(const Slice& internal_key, size_t shared) const;
  // Returns whether the key, which shares `shared` bytes with the last one, has
  // the user key of the last one.
  bool RepeatsUserKey(const Slice& internal_key, size_t shared) const;
  // Returns whether a newer version hides the entry that is to be added.
  // `repeats`: whether it has the user key of the last one.
  bool IsHidden(ValueType type, bool repeats);
  void Count(const Slice& internal_key, const Slice& value, bool hidden);
  // Returns the error of an entry that cannot be added.
  Status Refusal(const Slice& internal_key, const Slice& value) const;
  bool MustCloseBlock(const Slice& key, const Slice& value) const;
  void CloseDataBlock();
  // Adds a closed block that `next_key` follows to the index.
  void AddToIndex(const Slice& next_key);
  // Ends a partition of the index, and of the filter, with the block that was
  // added to the index last.
  void CutPartition();
  void WriteBlock(std::string* body, bool compress, BlockHandle* handle);
  void Append(const Slice& data);
  void WriteFilter();
  void WriteIndex();
  // Writes an index, and a filter, that were cut.
  void WritePartitions();
  void WriteRangeTombstones();
  void WriteProperties();
  std::string EncodeCollected();
  void WriteMetaindexAndFooter();

  const TableBuilderOptions options;
  WritableFile* const file;
  const bool bytewise;
  const size_t block_size;
  const size_t nearly_full_size;

  Status status;
  uint64_t offset = 0;

  BlockBuilder data_block;
  Compressor compressor;
  std::string compressed;
  // A closed block waits for the next key before it goes into the index.
  bool index_entry_pending = false;
  BlockHandle pending_handle;
  std::string pending_last_key;

  BlockBuilder range_deletions;
  IndexBuilder index;
  TableFilterBuilder filter;
  const bool partitions_filter;
  std::vector<std::string> filter_partitions;
  const std::unique_ptr<PropertyCollectors> collectors;  // May be null.
  PropertiesBlock properties;
  uint64_t dead_run = 0;  // Successive dead entries up to the last entry.
  // The last user key has a value or a deletion: more than merge operands.
  bool hides_older = false;
  std::vector<std::pair<std::string, BlockHandle>> meta_blocks;
  Footer footer;
};

bool TableBuilder::Rep::IsBehindLast(const Slice& internal_key,
                                     size_t shared) const {
  if (properties.num_entries == properties.num_range_deletions) return true;
  const Slice last_key = LastKey();
  // In bytewise order the first different byte decides, if it is not in a
  // trailer.
  if (shared + kTrailerSize < internal_key.size() &&
      shared + kTrailerSize < last_key.size() && bytewise) {
    return static_cast<unsigned char>(last_key[shared]) <
           static_cast<unsigned char>(internal_key[shared]);
  }
  return options.comparator->Compare(last_key, internal_key) < 0;
}

bool TableBuilder::Rep::RepeatsUserKey(const Slice& internal_key,
                                       size_t shared) const {
  if (properties.num_entries == properties.num_range_deletions) return false;
  const Slice last_key = LastKey();
  if (!bytewise) {
    return options.comparator->CompareUser(ExtractUserKey(last_key),
                                           ExtractUserKey(internal_key)) == 0;
  }
  if (last_key.size() != internal_key.size()) return false;
  // Nothing is shared with the last key of a closed block.
  return data_block.empty()
             ? ExtractUserKey(last_key) == ExtractUserKey(internal_key)
             : shared + kTrailerSize >= internal_key.size();
}

bool TableBuilder::Rep::IsHidden(ValueType type, bool repeats) {
  const bool hidden = repeats && hides_older;
  hides_older = hidden || type != ValueType::kMerge;
  return hidden;
}

void TableBuilder::Rep::Count(const Slice& internal_key, const Slice& value,
                              bool hidden) {
  ++properties.num_entries;
  properties.raw_key_size += internal_key.size();
  properties.raw_value_size += value.size();
  const ValueType type = ExtractValueType(internal_key);
  const bool deletes = IsDeletion(type);
  if (deletes) ++properties.num_deletions;
  if (type == ValueType::kMerge) ++properties.num_merge_operands;
  if (hidden) ++properties.num_hidden_entries;
  dead_run = deletes || hidden ? dead_run + 1 : 0;
  properties.longest_dead_run = std::max(properties.longest_dead_run, dead_run);
}

Status TableBuilder::Rep::Refusal(const Slice& internal_key,
                                  const Slice& value) const {
  if (internal_key.size() < kTrailerSize) {
    return Status::InvalidArgument("not an internal key",
                                   DescribeInternalKey(internal_key));
  }
  if (!EntryFits(internal_key.size() - kTrailerSize, value.size())) {
    return Status::InvalidArgument("entry of more than 3 GiB",
                                   std::to_string(value.size()));
  }
  // A table out of order would lose keys silently.
  return Status::InvalidArgument(
      "keys out of order: " + DescribeInternalKey(LastKey()) + " before " +
      DescribeInternalKey(internal_key));
}

bool TableBuilder::Rep::MustCloseBlock(const Slice& key,
                                       const Slice& value) const {
  if (data_block.empty()) return false;
  const size_t size = data_block.CurrentSize();
  if (size >= block_size) return true;
  if (data_block.KeyBytes() + key.size() > kMaxWrittenKeyBytes) return true;
  return size > nearly_full_size &&
         data_block.SizeAfter(key, value) > block_size;
}

void TableBuilder::Rep::CloseDataBlock() {
  const Slice last_key = data_block.last_key();
  pending_last_key.assign(last_key.data(), last_key.size());
  std::string* const body = data_block.Finish();
  if (collectors != nullptr) collectors->EndBlock(body->size());
  WriteBlock(body, /*compress=*/true, &pending_handle);
  data_block.Reset();
  index_entry_pending = true;
  ++properties.num_data_blocks;
  properties.data_size = offset;
}

void TableBuilder::Rep::AddToIndex(const Slice& next_key) {
  index.Add(pending_last_key, next_key, pending_handle);
  index_entry_pending = false;
  if (!options.partitioned_index) return;
  const bool filter_is_full =
      partitions_filter &&
      static_cast<double>(filter.KeyCount()) *
              options.filter_policy->BuiltinBloomBitsPerKey() / 8 >=
          static_cast<double>(options.metadata_block_size);
  if (filter_is_full || index.OpenBytes() >= options.metadata_block_size) {
    if (partitions_filter) filter.AddNextPrefix(ExtractUserKey(next_key));
    CutPartition();
  }
}

void TableBuilder::Rep::CutPartition() {
  index.Cut();
  if (!partitions_filter) return;
  properties.num_filter_entries += filter.KeyCount();
  // Versions of one user key may be in two partitions. Each then has the key.
  filter.Finish(&filter_partitions.emplace_back());
}

// Adds the trailer to *body, so that block and trailer go out as one.
void TableBuilder::Rep::WriteBlock(std::string* body, bool compress,
                                   BlockHandle* handle) {
  CompressionType type = CompressionType::kNone;
  std::string* stored = body;
  if (compress && options.compression != CompressionType::kNone &&
      compressor.Compress(*body, &compressed)) {
    type = options.compression;
    stored = &compressed;
  }
  if (compress && options.compression != CompressionType::kNone) {
    RecordTick(options.statistics, stored == &compressed
                                       ? Ticker::kBlocksCompressed
                                       : Ticker::kBlocksNotCompressed);
  }
  handle->offset = offset;
  handle->size = stored->size();
  stored->push_back(static_cast<char>(type));
  PutFixed32(stored,
             BlockChecksum(options.checksum, stored->data(), handle->size));
  Append(*stored);
}

void TableBuilder::Rep::Append(const Slice& data) {
  if (!status.ok()) return;
  status = file->Append(data);
  if (status.ok()) offset += data.size();
}

void TableBuilder::Rep::WriteFilter() {
  // Partitions are written with the index's.
  if (partitions_filter || filter.KeyCount() == 0) return;
  const size_t key_count = filter.KeyCount();
  std::string body;
  filter.Finish(&body);
  if (body.empty()) return;  // The policy adds no filter.
  properties.num_filter_entries = key_count;
  properties.filter_policy = filter.PolicyName();
  properties.filter_size = body.size();
  BlockHandle handle;
  WriteBlock(&body, /*compress=*/false, &handle);
  meta_blocks.emplace_back(filter.MetaindexName(), handle);
}

void TableBuilder::Rep::WriteIndex() {
  properties.index_key_is_user_key = index.keys_are_user_keys();
  properties.index_value_is_delta_encoded = true;
  // Without entries, there are none.
  if (index.partition_count() != 0) return WritePartitions();
  std::string body;
  index.Finish(&body);
  // Raw, so that opening a table need not decompress it.
  WriteBlock(&body, /*compress=*/false, &footer.index);
  properties.index_size = footer.index.size + kBlockTrailerSize;
}

// A partition of the filter is followed by that of the index for the same keys,
// so that one read gets both.
void TableBuilder::Rep::WritePartitions() {
  const size_t count = index.partition_count();
  properties.index_type = kTwoLevelIndexType;
  properties.index_partitions = count;
  std::vector<BlockHandle> filters(filter_partitions.size());
  std::vector<BlockHandle> partitions(count);
  std::string body;
  for (size_t i = 0; i < count; ++i) {
    if (partitions_filter) {
      properties.filter_size += filter_partitions[i].size();
      WriteBlock(&filter_partitions[i], /*compress=*/false, &filters[i]);
    }
    index.FinishPartition(i, &body);
    WriteBlock(&body, /*compress=*/false, &partitions[i]);
    properties.index_size += partitions[i].size;
  }
  if (partitions_filter) {
    properties.filter_policy = filter.PolicyName();
    BlockHandle handle;
    index.FinishNames(filters, &body);
    WriteBlock(&body, /*compress=*/false, &handle);
    meta_blocks.emplace_back(kPartitionedBloomBlockName, handle);
  }
  index.FinishNames(partitions, &body);
  WriteBlock(&body, /*compress=*/false, &footer.index);
  properties.top_level_index_size = footer.index.size;
  properties.index_size += footer.index.size + kBlockTrailerSize;
}

void TableBuilder::Rep::WriteRangeTombstones() {
  if (range_deletions.empty()) return;
  BlockHandle handle;
  WriteBlock(range_deletions.Finish(), /*compress=*/false, &handle);
  meta_blocks.emplace_back(kRangeTombstoneBlockName, handle);
}

void TableBuilder::Rep::WriteProperties() {
  const SliceTransform* const extractor = options.prefix_extractor.get();
  properties.whole_key_filtering =
      TableFilterBuilder::WholeKeyFiltering(options);
  properties.prefix_filtering = extractor != nullptr;
  // RocksDB's word for none.
  properties.prefix_extractor =
      extractor != nullptr ? extractor->Name() : "nullptr";
  properties.creation_time_s = options.creation_time_s;
  properties.file_creation_time_s = options.file_creation_time_s;
  properties.original_file_number = options.file_number;
  properties.column_family_id = options.column_family_id;
  properties.column_family_name = options.column_family_name;
  properties.comparator = options.comparator->user_comparator()->Name();
  // RocksDB does not decompress any block of a table that claims to have no
  // compressed block, so this must be true.
  properties.compression = CompressionName(options.compression);
  properties.db_identity = options.db_identity;
  properties.session_identity = options.session_identity;
  // The values that RocksDB writes for features that are not in use.
  properties.other = {{"rocksdb.fixed.key.length", std::string(1, '\0')},
                      {"rocksdb.merge.operator", options.merge_operator_name},
                      {"rocksdb.property.collectors", "[]"}};
  std::string body =
      collectors == nullptr ? EncodeProperties(properties) : EncodeCollected();
  BlockHandle handle;
  WriteBlock(&body, /*compress=*/false, &handle);
  meta_blocks.emplace_back(kPropertiesBlockName, handle);
}

// Returns the properties block with the collectors' properties, unless they
// would make it one that no reader accepts.
std::string TableBuilder::Rep::EncodeCollected() {
  auto own = properties.other;
  collectors->Finish(&properties);
  std::string body = EncodeProperties(properties);
  PropertiesBlock decoded;
  const Status decodes = DecodeProperties(body, "", &decoded);
  if (decodes.ok()) return body;
  Log(LogLevel::kError, options.info_log,
      "the properties of collectors are left out: %s",
      decodes.ToString().c_str());
  properties.other = std::move(own);
  return EncodeProperties(properties);
}

void TableBuilder::Rep::WriteMetaindexAndFooter() {
  std::sort(meta_blocks.begin(), meta_blocks.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  BlockBuilder metaindex(1);
  for (const auto& [name, handle] : meta_blocks) {
    std::string value;
    handle.EncodeTo(&value);
    metaindex.Add(name, value);
  }
  WriteBlock(metaindex.Finish(), /*compress=*/false, &footer.metaindex);
  footer.checksum = options.checksum;
  std::string encoded;
  footer.EncodeTo(&encoded);
  Append(encoded);
}

TableBuilder::TableBuilder(const TableBuilderOptions& options,
                           WritableFile* file)
    : rep_(std::make_unique<Rep>(options, file)) {}

TableBuilder::~TableBuilder() = default;

void TableBuilder::MakeExternal() {
  rep_->properties.external_version = kExternalTableVersion;
  rep_->properties.has_global_sequence = true;
}

bool TableBuilder::Add(const Slice& internal_key, const Slice& value) {
  Rep* r = rep_.get();
  if (!r->status.ok()) return false;
  // When a block is closed, its last key is moved out of its builder.
  const size_t shared =
      r->data_block.empty() ? 0 : r->data_block.SharedBytes(internal_key);
  if (internal_key.size() < kTrailerSize ||
      !EntryFits(internal_key.size() - kTrailerSize, value.size()) ||
      !r->IsBehindLast(internal_key, shared)) {
    r->status = r->Refusal(internal_key, value);
    return false;
  }
  const bool hidden = r->IsHidden(ExtractValueType(internal_key),
                                  r->RepeatsUserKey(internal_key, shared));

  const bool full = r->MustCloseBlock(internal_key, value);
  if (full) r->CloseDataBlock();
  if (r->index_entry_pending) r->AddToIndex(internal_key);
  r->filter.AddKey(ExtractUserKey(internal_key));
  r->data_block.AddSharing(internal_key, value, full ? 0 : shared);

  r->Count(internal_key, value, hidden);
  if (r->collectors != nullptr) [[unlikely]]
    r->collectors->Add(internal_key, value, r->offset);
  return r->status.ok();
}

void TableBuilder::AddRangeTombstone(const Slice& begin, const Slice& end,
                                     SequenceNumber sequence) {
  Rep* r = rep_.get();
  const std::string key =
      MakeInternalKey(begin, PackTrailer(sequence, ValueType::kRangeDeletion));
  r->range_deletions.Add(key, end);
  // RocksDB counts them among entries and deletions.
  ++r->properties.num_entries;
  ++r->properties.num_deletions;
  ++r->properties.num_range_deletions;
  r->properties.raw_key_size += key.size();
  r->properties.raw_value_size += end.size();
  if (r->collectors != nullptr) r->collectors->Add(key, end, r->offset);
}

Status TableBuilder::Finish() {
  Rep* r = rep_.get();
  if (!r->data_block.empty()) r->CloseDataBlock();
  if (r->index_entry_pending) {
    r->index.AddLast(r->pending_last_key, r->pending_handle);
    r->index_entry_pending = false;
    if (r->options.partitioned_index) r->CutPartition();
  }
  r->WriteFilter();
  r->WriteIndex();
  r->WriteRangeTombstones();
  r->WriteProperties();
  r->WriteMetaindexAndFooter();
  return r->status;
}

Slice TableBuilder::LastKey() const { return rep_->LastKey(); }

Status TableBuilder::status() const { return rep_->status; }

uint64_t TableBuilder::TEST_EntryCount() const {
  return rep_->properties.num_entries;
}

DeadEntries TableBuilder::Dead() const {
  return DeadEntriesOf(rep_->properties);
}

bool TableBuilder::NeedCompact() const {
  return rep_->collectors != nullptr && rep_->collectors->NeedCompact();
}

TableProperties TableBuilder::Properties() const {
  TableProperties result = ToTableProperties(rep_->properties);
  if (rep_->collectors != nullptr) {
    result.readable_properties = rep_->collectors->readable();
  }
  return result;
}

uint64_t TableBuilder::FileSize() const { return rep_->offset; }

uint64_t TableBuilder::EstimatedFileSize() const {
  return rep_->offset +
         (rep_->data_block.empty() ? 0 : rep_->data_block.CurrentSize());
}

uint64_t TableBuilder::TailSize() const {
  return rep_->offset - rep_->properties.data_size;
}

}  // namespace varve
