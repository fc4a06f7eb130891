// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Makes tables with partitioned indexes and filters in every form that the
// format allows. Varve reads all of them, and writes one. A test may change the
// handles and separators before the blocks that name partitions are written.

#include "table/block/block_builder.h"
#include "table/block/internal_key.h"
#include "table/index/bloom_filter.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"
#include "util/bytes/hash.h"
#include "varve/comparator.h"

namespace varve::testing {

struct PartitionedForm {
  enum class Layout : uint8_t {
    kAfterData,   // As RocksDB writes them: filter partitions, then index.
    kReversed,    // After the data, the last partition first.
    kAmongBlocks  // Each right after the blocks that it is for.
  };

  bool user_keys = true;
  bool delta = true;
  int restart_interval = 1;  // More than 1 only with kAfterData.
  uint32_t format_version = 5;
  ChecksumType checksum = ChecksumType::kXxh3;
  CompressionType compression = CompressionType::kNone;
  Layout layout = Layout::kAfterData;
  size_t block_entries = 3;
  size_t partition_blocks = 4;
  size_t filter_blocks = 3;  // For one filter partition. 0: no filter.
  bool whole_key_filtering = true;
  bool partitioned_index = true;
  bool tells_data_size = true;
};

class PartitionedTable {
 public:
  // `entries` are internal keys and values in order.
  PartitionedTable(const PartitionedForm& form, const KeysAndValues& entries)
      : form_(form) {
    footer_.checksum = form.checksum;
    footer_.format_version = form.format_version;
    for (size_t i = 0; i < entries.size();) i = AddDataBlock(entries, i);
    FinishPartitions(true);
    properties.data_size = data_end_;
    if (form.layout == PartitionedForm::Layout::kReversed) {
      std::reverse(waiting_.begin(), waiting_.end());
    } else if (form.layout == PartitionedForm::Layout::kAfterData) {
      std::stable_sort(waiting_.begin(), waiting_.end(),
                       [](const Waiting& a, const Waiting& b) {
                         return a.is_filter && !b.is_filter;
                       });
    }
    for (const Waiting& partition : waiting_) Write(partition);
    // By key again.
    const auto by_key = [this](const IndexEntry& a, const IndexEntry& b) {
      return Compare(a.separator, b.separator) < 0;
    };
    std::sort(index_partitions.begin(), index_partitions.end(), by_key);
    std::sort(filter_partitions.begin(), filter_partitions.end(), by_key);
    properties.num_entries = entries.size();
    properties.num_data_blocks = blocks.size();
    properties.index_key_is_user_key = form.user_keys;
    properties.index_value_is_delta_encoded = form.delta;
    properties.whole_key_filtering = form.whole_key_filtering;
    properties.comparator = BytewiseComparator()->Name();
  }

  // Appends a block and returns its handle.
  BlockHandle Add(const std::string& body,
                  CompressionType type = CompressionType::kNone) {
    std::string stored;
    if (type == CompressionType::kNone ||
        !Compressor(type, kDefaultCompressionLevel).Compress(body, &stored)) {
      type = CompressionType::kNone;
      stored = body;
    }
    return AppendBlock(stored, type, form_.checksum, &bytes);
  }

  // The body of an index block of the table's form.
  std::string IndexBody(const std::vector<IndexEntry>& entries) const {
    BlockBuilder builder(form_.restart_interval,
                         form_.delta ? BlockBuilder::ValueLength::kLeftOut
                                     : BlockBuilder::ValueLength::kStored);
    BlockHandle last;
    int count = 0;
    for (const auto& [separator, handle] : entries) {
      std::string value;
      const bool restarts = count++ % form_.restart_interval == 0;
      if (form_.delta && !restarts && builder.SharedBytes(separator) > 0) {
        EXPECT_EQ(handle.offset, last.offset + last.size + kBlockTrailerSize);
        const auto change = static_cast<int64_t>(handle.size - last.size);
        PutVarint64(&value, (static_cast<uint64_t>(change) << 1) ^
                                static_cast<uint64_t>(change >> 63));
      } else {
        handle.EncodeTo(&value);
      }
      builder.Add(separator, value);
      last = handle;
    }
    return *builder.Finish();
  }

  // Writes what is left, and returns the whole file.
  std::string Finish() {
    std::map<std::string, BlockHandle> meta = other_meta;
    if (form_.filter_blocks > 0) {
      meta[kPartitionedBloomBlockName] = Add(IndexBody(filter_partitions));
    }
    const size_t index_begin = bytes.size();
    if (form_.partitioned_index) {
      footer_.index = Add(IndexBody(index_partitions), form_.compression);
    } else {
      footer_.index = Add(IndexBody(blocks), form_.compression);
    }
    properties.index_size = bytes.size() - index_begin + partition_bytes_;
    properties.filter_size = filter_bytes_;
    meta[kPropertiesBlockName] = Add(PropertiesBody());
    BlockBuilder metaindex(1);
    for (const auto& [name, handle] : meta) {
      std::string value;
      handle.EncodeTo(&value);
      metaindex.Add(name, value);
    }
    footer_.metaindex = Add(*metaindex.Finish());
    footer_.EncodeTo(&bytes);
    // Before the magic number.
    EncodeFixed32(&bytes[bytes.size() - 12], form_.format_version);
    return bytes;
  }

  const Footer& footer() const { return footer_; }
  bool user_keys() const { return form_.user_keys; }

  // The file so far, and what its blocks are.
  std::string bytes;
  std::vector<IndexEntry> blocks;
  std::vector<IndexEntry> index_partitions;
  std::vector<IndexEntry> filter_partitions;
  std::map<std::string, BlockHandle> other_meta;
  PropertiesBlock properties;
  uint64_t partitions_told = 0;  // If not 0, instead of their number.

 private:
  struct Waiting {
    std::string separator;
    std::string body;
    bool is_filter;
  };

  int Compare(const Slice& a, const Slice& b) const {
    static const InternalKeyComparator comparator(BytewiseComparator());
    return form_.user_keys ? a.compare(b) : comparator.Compare(a, b);
  }

  size_t AddDataBlock(const KeysAndValues& entries, size_t i) {
    BlockBuilder builder(2);
    const auto user_key = [&entries](size_t place) {
      return ExtractUserKey(entries[place].first);
    };
    const size_t begin = i;
    // Where separators are user keys, no user key is in two blocks.
    while (i < entries.size() &&
           (i - begin < form_.block_entries ||
            (form_.user_keys && user_key(i) == user_key(i - 1)))) {
      builder.Add(entries[i].first, entries[i].second);
      if (hashed_.empty() || user_key(i) != Slice(hashed_.back())) {
        hashed_.push_back(user_key(i).ToString());
      }
      ++i;
    }
    std::string separator = user_key(i - 1).ToString();
    bool shortened = false;
    if (i < entries.size() && user_key(i) != Slice(separator)) {
      const std::string before = separator;
      BytewiseComparator()->FindShortestSeparator(&separator, user_key(i));
      shortened = separator != before;
    }
    if (!form_.user_keys) {
      const uint64_t trailer = shortened ? SeekTrailer(kMaxSequenceNumber)
                                         : ExtractTrailer(entries[i - 1].first);
      separator = MakeInternalKey(separator, trailer);
    }
    blocks.push_back({separator, Add(*builder.Finish(), form_.compression)});
    data_end_ = bytes.size();
    FinishPartitions(false);
    return i;
  }

  // Makes the partitions that are complete, or all.
  void FinishPartitions(bool all) {
    const auto due = [all](size_t count, size_t limit) {
      return count > 0 && (all || count == limit);
    };
    const size_t in_index = blocks.size() - indexed_;
    if (form_.partitioned_index && due(in_index, form_.partition_blocks)) {
      const std::vector<IndexEntry> part(
          blocks.begin() + static_cast<std::ptrdiff_t>(indexed_), blocks.end());
      waiting_.push_back({part.back().separator, IndexBody(part), false});
      indexed_ = blocks.size();
    }
    const size_t in_filter = blocks.size() - filtered_;
    if (form_.filter_blocks > 0 && due(in_filter, form_.filter_blocks)) {
      BloomFilterBuilder builder(10);
      for (const std::string& key : hashed_) builder.AddHash(PreviewXxh3(key));
      hashed_.clear();
      std::string body;
      builder.Finish(&body);
      waiting_.push_back({blocks.back().separator, body, true});
      filtered_ = blocks.size();
    }
    if (form_.layout != PartitionedForm::Layout::kAmongBlocks) return;
    for (const Waiting& partition : waiting_) Write(partition);
    waiting_.clear();
  }

  void Write(const Waiting& partition) {
    if (partition.is_filter) {
      filter_partitions.push_back({partition.separator, Add(partition.body)});
      filter_bytes_ += partition.body.size();
    } else {
      index_partitions.push_back(
          {partition.separator, Add(partition.body, form_.compression)});
      partition_bytes_ += index_partitions.back().handle.size;
    }
  }

  std::string PropertiesBody() {
    if (!form_.tells_data_size) properties.data_size = 0;
    if (!form_.partitioned_index) return EncodeProperties(properties);
    properties.index_type = kTwoLevelIndexType;
    properties.index_partitions =
        partitions_told != 0 ? partitions_told : index_partitions.size();
    return EncodeProperties(properties);
  }

  const PartitionedForm form_;
  Footer footer_;
  size_t data_end_ = 0;
  size_t indexed_ = 0;   // Blocks that are in index partitions.
  size_t filtered_ = 0;  // Blocks whose keys are in filter partitions.
  std::vector<std::string> hashed_;
  std::vector<Waiting> waiting_;
  uint64_t partition_bytes_ = 0;
  uint64_t filter_bytes_ = 0;
};

}  // namespace varve::testing
