// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/index/table_index.h"

#include <algorithm>
#include <optional>

#include "table/block/entry_scanner.h"
#include "util/bytes/coding.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// Index types of the properties. The binary index (0) and the hash index (1)
// have the same entries. The hash index has further blocks, which are not
// needed. The partitions of a two-level index (2), and the block that names
// them, have these entries as well.
constexpr uint32_t kBinarySearchWithFirstKey = 3;

// Keys that share many bytes with the key before grow when they are decoded.
// Valid indexes stay far below these bounds. Others must not use all memory.
constexpr size_t kMaxArenaGrowth = 256;
constexpr size_t kAlwaysAllowedArenaSize = size_t{16} << 20;

constexpr size_t kMaxArenaSlack = 512;

// Bounds an entry without its separator: the first byte, the size, and the
// handle.
constexpr size_t kMaxEntryOverhead =
    1 + kMaxVarint32Bytes + 2 * kMaxVarint64Bytes;

// Decodes a handle that may be relative to the one before.
bool DecodeHandle(bool relative, Slice* input, BlockHandle* handle) {
  if (!relative) return handle->DecodeFrom(input);
  uint64_t size_change;
  if (!GetVarint64(input, &size_change)) return false;
  handle->offset += handle->size + kBlockTrailerSize;
  // A sum that wraps around will not fit the file.
  handle->size += static_cast<uint64_t>(ZigZagDecode(size_change));
  return true;
}

// Returns the maximum size of separators that are copied from blocks with
// `entries_size` bytes of entries. A compressed index may be larger than the
// file once decompressed.
size_t MaxArenaSize(size_t entries_size, uint64_t file_size) {
  const size_t grown_size =
      kAlwaysAllowedArenaSize +
      kMaxArenaGrowth * std::min<size_t>(entries_size, file_size);
  return std::min<size_t>(UINT32_MAX, std::max(entries_size, grown_size));
}

}  // namespace

// Iterates over the entries of an index block of any form, and checks each.
class TableIndex::Scanner {
 public:
  // `blocks` is the budget for the blocks that the entries name. It must
  // outlive the scanner.
  Scanner(const Slice& entries, const PropertiesBlock& properties,
          uint64_t file_size, ByteBudget* blocks)
      : user_keys_(properties.index_key_is_user_key),
        delta_(properties.index_value_is_delta_encoded),
        with_first_key_(properties.index_type == kBinarySearchWithFirstKey),
        file_size_(file_size),
        blocks_(*blocks),
        entry_(entries, delta_ ? EntryScanner::ValueLength::kLeftOut
                               : EntryScanner::ValueLength::kStored) {}

  // Moves to the next entry. Returns false at the end and at damage; see
  // status().
  bool Next() {
    if (!entry_.Next()) {
      status_ = entry_.status();
      return false;
    }
    Slice value = entry_.value();
    Slice* const input = delta_ ? entry_.rest() : &value;
    // The handle is relative if the key shares bytes, even at a restart point.
    const bool relative = delta_ && entry_.shared() != 0;
    Slice first_key;
    if (!DecodeHandle(relative, input, &handle_) ||
        (with_first_key_ && !GetLengthPrefixedSlice(input, &first_key))) {
      return Fail("bad block handle");
    }
    if (!handle_.FitsIn(file_size_)) {
      const std::string place = std::to_string(handle_.offset) + " size " +
                                std::to_string(handle_.size);
      return Fail("block handle beyond the file: offset " + place);
    }
    if (!blocks_.Take(handle_)) {
      return Fail("more blocks than the file has space for");
    }
    if (!user_keys_ && separator().size() < kTrailerSize) {
      return Fail("the separator has no trailer");
    }
    return true;
  }

  // Valid until the next step.
  Slice separator() const { return entry_.key(); }
  const BlockHandle& handle() const { return handle_; }
  const Status& status() const { return status_; }
  // Sets a status that describes the current entry. Returns false.
  bool Fail(const Slice& problem) {
    status_ = entry_.EntryError(problem);
    return false;
  }

 private:
  const bool user_keys_;
  const bool delta_;
  const bool with_first_key_;
  const uint64_t file_size_;
  ByteBudget& blocks_;
  EntryScanner entry_;
  BlockHandle handle_;
  Status status_;
};

Status TableIndex::CheckSupported(const PropertiesBlock& properties) {
  if (properties.index_type > kBinarySearchWithFirstKey) {
    return Status::NotSupported("index type " +
                                std::to_string(properties.index_type));
  }
  return Status();
}

Status TableIndex::Decode(BlockContents body, const PropertiesBlock& properties,
                          uint64_t file_size,
                          const InternalKeyComparator* comparator,
                          bool binary_search,
                          const ReadPartition& read_partition) {
  comparator_ = comparator;
  user_keys_ = properties.index_key_is_user_key;
  Status s = CheckSupported(properties);
  if (!s.ok()) return s;
  BlockTail tail;
  s = DecodeBlockTail(body.AsSlice(), &tail);
  if (s.ok() && IsPartitioned(properties)) {
    s = CopyPartitions(body.AsSlice(), tail, properties, file_size,
                       read_partition);
  } else if (s.ok() && properties.index_value_is_delta_encoded &&
             properties.index_type != kBinarySearchWithFirstKey &&
             UseEntries(body.AsSlice(), tail, file_size)) {
    body_ = std::move(body);
  } else if (s.ok()) {
    s = CopyEntries(Slice(body.buffer.data(), tail.entries_size), properties,
                    file_size);
  }
  if (!s.ok()) {
    // An assignment would keep the memory.
    std::string().swap(arena_);
    std::vector<uint32_t>().swap(starts_);
    UseCopies();
    return s.Annotate("index");
  }
  MakeNodes(comparator->bytewise() && !binary_search && size() > 0);
  return Status();
}

void TableIndex::MakeNodes(bool with_prefixes) {
  node_count_ = (size() + IndexNode::kFanout - 1) / IndexNode::kFanout;
  nodes_ = std::make_unique<IndexNode[]>(node_count_);
  last_misses_ = std::make_unique<uint8_t[]>(size());
  has_prefixes_ = with_prefixes;
  if (!with_prefixes) return;
  const bool with_top_level = node_count_ > kTopFanout;
  const size_t group_count = (node_count_ + kTopFanout - 1) / kTopFanout;
  upper_level_.reserve(with_top_level ? group_count * kTopFanout : node_count_);
  if (with_top_level) top_level_.reserve(group_count);
  CountPath(PathCounter::kPrefixIndex);
  // The separators are ascending, so the common prefix of the first and the
  // last is a prefix of all. (An index that is out of order gives wrong
  // answers, not wrong accesses: prefixes ascend even then.)
  const Slice first = SeparatorUserKey(0);
  const Slice last = SeparatorUserKey(size() - 1);
  const size_t limit = std::min(first.size(), last.size());
  size_t common_size = 0;
  while (common_size < limit && first[common_size] == last[common_size]) {
    ++common_size;
  }
  common_ = Slice(first.data(), common_size);
  uint64_t previous = 0;
  for (size_t i = 0; i < node_count_ * IndexNode::kFanout; ++i) {
    uint64_t& prefix =
        nodes_[i / IndexNode::kFanout].prefixes[i % IndexNode::kFanout];
    if (i >= size()) {
      prefix = UINT64_MAX;
      continue;
    }
    const Slice key = SeparatorUserKey(i);
    if (key.size() >= common_size) previous = std::max(previous, PrefixOf(key));
    prefix = previous;
    if (i + 1 == size() || (i + 1) % IndexNode::kFanout == 0) {
      upper_level_.push_back(prefix);
      if (with_top_level &&
          (i + 1 == size() || upper_level_.size() % kTopFanout == 0)) {
        top_level_.push_back(prefix);
      }
    }
  }
  if (with_top_level) upper_level_.resize(group_count * kTopFanout, UINT64_MAX);
}

bool TableIndex::UseEntries(const Slice& body, const BlockTail& tail,
                            uint64_t file_size) {
  const char* const entries = body.data();
  const char* const limit = entries + tail.entries_size;
  const char* const offsets = limit;
  ByteBudget blocks(file_size);
  size_t count = 0;
  for (const char* p = entries; p != limit; ++count) {
    // A restart point at each entry, which shares nothing.
    if (count == tail.restart_count ||
        DecodeFixed32(offsets + count * sizeof(uint32_t)) !=
            static_cast<size_t>(p - entries) ||
        *p != 0) {
      return false;
    }
    uint32_t size = 0;
    p = GetVarint32Ptr(p + 1, limit, &size);
    if (p == nullptr || size > static_cast<size_t>(limit - p) ||
        (!user_keys_ && size < kTrailerSize)) {
      return false;
    }
    BlockHandle handle;
    p = GetVarint64Ptr(p + size, limit, &handle.offset);
    if (p != nullptr) p = GetVarint64Ptr(p, limit, &handle.size);
    if (p == nullptr || !handle.FitsIn(file_size) || !blocks.Take(handle)) {
      return false;
    }
  }
  if (count != tail.restart_count) return false;
  size_ = count;
  entries_ = entries;
  offsets_ = offsets;
  return true;
}

PropertiesBlock TableIndex::FormOfPartitionNames(
    const PropertiesBlock& properties) {
  PropertiesBlock form;
  form.index_key_is_user_key = properties.index_key_is_user_key;
  form.index_value_is_delta_encoded = properties.index_value_is_delta_encoded;
  return form;
}

Status TableIndex::ListHandles(const Slice& body,
                               const PropertiesBlock& properties,
                               uint64_t file_size,
                               std::vector<BlockHandle>* handles) {
  handles->clear();
  BlockTail tail;
  Status s = DecodeBlockTail(body, &tail);
  if (!s.ok()) return s.Annotate("index");
  ByteBudget blocks(file_size);
  Scanner entry(Slice(body.data(), tail.entries_size),
                FormOfPartitionNames(properties), file_size, &blocks);
  while (entry.Next()) handles->push_back(entry.handle());
  return entry.status().ok() ? Status() : entry.status().Annotate("index");
}

Status TableIndex::CopyEntries(const Slice& entries,
                               const PropertiesBlock& properties,
                               uint64_t file_size) {
  // Minimum sizes of entries and blocks, whatever the properties say.
  const size_t expected =
      std::min({static_cast<size_t>(properties.num_data_blocks),
                entries.size() / 3, file_size / kBlockTrailerSize});
  starts_.reserve(expected);
  arena_.reserve(entries.size());
  ByteBudget blocks(file_size);
  Scanner entry(entries, properties, file_size, &blocks);
  Status s = CopyFrom(&entry, MaxArenaSize(entries.size(), file_size));
  if (s.ok()) ShrinkCopies();
  return s;
}

Status TableIndex::CopyPartitions(const Slice& body, const BlockTail& tail,
                                  const PropertiesBlock& properties,
                                  uint64_t file_size,
                                  const ReadPartition& read_partition) {
  // Partitions and data blocks do not overlap, so they share a budget.
  ByteBudget blocks(file_size);
  size_t entries_size = 0;
  // The separator of the partition before.
  std::optional<std::string> previous;
  Scanner top(Slice(body.data(), tail.entries_size), properties, file_size,
              &blocks);
  while (top.Next()) {
    Slice partition;
    Status s = read_partition(top.handle(), &partition);
    if (!s.ok()) return s;
    BlockTail partition_tail;
    s = DecodeBlockTail(partition, &partition_tail);
    if (s.ok()) {
      entries_size += partition_tail.entries_size;
      Scanner entry(Slice(partition.data(), partition_tail.entries_size),
                    properties, file_size, &blocks);
      const size_t first = starts_.size();
      s = CopyFrom(&entry, MaxArenaSize(entries_size, file_size));
      // A partition without entries has nothing to compare.
      if (s.ok() && first < starts_.size()) {
        UseCopies();
        // Otherwise the partitions are not in the order of their keys, or are
        // the wrong ones.
        if ((previous && CompareSeparators(Separator(first), *previous) < 0) ||
            CompareSeparators(Separator(starts_.size() - 1), top.separator()) >
                0) {
          s = Status::Corruption("the keys are not inside the partition");
        }
      }
    }
    if (!s.ok()) {
      return s.Annotate("partition at offset " +
                        std::to_string(top.handle().offset) + " size " +
                        std::to_string(top.handle().size));
    }
    previous = top.separator().ToString();
  }
  if (top.status().ok()) ShrinkCopies();
  return top.status();
}

Status TableIndex::CopyFrom(Scanner* entry, size_t max_arena_size) {
  while (entry->Next()) {
    if (entry->separator().size() + kMaxEntryOverhead >
        max_arena_size - std::min(arena_.size(), max_arena_size)) {
      entry->Fail("the separators take too much memory");
      break;
    }
    starts_.push_back(static_cast<uint32_t>(arena_.size()));
    arena_.push_back('\0');
    PutLengthPrefixedSlice(&arena_, entry->separator());
    entry->handle().EncodeTo(&arena_);
  }
  return entry->status();
}

void TableIndex::ShrinkCopies() {
  // Shrinking by a few bytes saves less than the copy costs.
  if (arena_.capacity() - arena_.size() > kMaxArenaSlack) {
    arena_.shrink_to_fit();
  }
  starts_.shrink_to_fit();
  UseCopies();
}

void TableIndex::UseCopies() {
  size_ = starts_.size();
  entries_ = arena_.data();
  offsets_ = reinterpret_cast<const char*>(starts_.data());
}

bool TableIndex::IsPartOf(const TableIndex& names, size_t i) const {
  return size_ == 0 ||
         ((i == 0 ||
           CompareSeparators(Separator(0), names.Separator(i - 1)) >= 0) &&
          CompareSeparators(Separator(size_ - 1), names.Separator(i)) <= 0);
}

BlockHandle TableIndex::handle(size_t i) const {
  // Decode checked it.
  Slice bytes(Separator(i).end(), 2 * kMaxVarint64Bytes);
  BlockHandle handle;
  handle.DecodeFrom(&bytes);
  return handle;
}

size_t TableIndex::Find(const Slice& internal_key) const {
  if (!has_prefixes_) CountPath(PathCounter::kBinarySearch);
  size_t left = 0;
  size_t right = size_;
  while (left < right) {
    const size_t middle = left + (right - left) / 2;
    if (CompareToSeparator(internal_key, middle) > 0) {
      left = middle + 1;
    } else {
      right = middle;
    }
  }
  return left;
}

int TableIndex::CompareToSeparator(const Slice& internal_key, size_t i) const {
  return user_keys_ ? comparator_->CompareUser(ExtractUserKey(internal_key),
                                               Separator(i))
                    : comparator_->Compare(internal_key, Separator(i));
}

}  // namespace varve
