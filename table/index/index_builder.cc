// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/index/index_builder.h"

#include <utility>

#include "table/block/block_builder.h"

namespace varve {

namespace {

// A trailer that sorts a shortened separator before all entries of its user
// key. RocksDB 7.8 writes this type, the highest that it knows.
constexpr uint64_t kSeparatorTrailer =
    PackTrailer(kMaxSequenceNumber, ValueType::kWideColumnEntity);

// About the bytes of an entry beside its separator: sizes, handle and restart
// point.
constexpr size_t kEntryOverhead = 12;

// Writes the entries of an index block.
class EntryWriter {
 public:
  void Add(const Slice& separator, const BlockHandle& handle) {
    handle_.clear();
    handle.EncodeTo(&handle_);
    block_.Add(separator, handle_);
  }
  std::string Finish() { return std::move(*block_.Finish()); }

 private:
  BlockBuilder block_{1, BlockBuilder::ValueLength::kLeftOut};
  std::string handle_;
};

}  // namespace

void IndexBuilder::Add(const Slice& last_key, const Slice& next_first_key,
                       const BlockHandle& handle) {
  const Slice last_user_key = ExtractUserKey(last_key);
  const Slice next_user_key = ExtractUserKey(next_first_key);
  if (comparator_->CompareUser(last_user_key, next_user_key) == 0) {
    keys_are_user_keys_ = false;
    AddLast(last_key, handle);
    return;
  }
  separator_.assign(last_user_key.data(), last_user_key.size());
  comparator_->user_comparator()->FindShortestSeparator(&separator_,
                                                        next_user_key);
  // A longer separator is useless. An equal one must keep its trailer, since
  // the highest trailer would put it before the block's last key.
  if (separator_.size() > last_user_key.size() ||
      comparator_->CompareUser(last_user_key, separator_) >= 0) {
    AddLast(last_key, handle);
    return;
  }
  AppendInternalKey(&keys_, separator_, kSeparatorTrailer);
  entries_.push_back({keys_.size(), handle});
}

void IndexBuilder::AddLast(const Slice& last_key, const BlockHandle& handle) {
  keys_.append(last_key.data(), last_key.size());
  entries_.push_back({keys_.size(), handle});
}

Slice IndexBuilder::Separator(size_t i) const {
  const size_t begin = KeyBegin(i);
  const Slice key(keys_.data() + begin, entries_[i].key_end - begin);
  return keys_are_user_keys_ ? ExtractUserKey(key) : key;
}

void IndexBuilder::FinishEntries(size_t begin, size_t end,
                                 std::string* body) const {
  EntryWriter block;
  for (size_t i = begin; i < end; ++i) {
    block.Add(Separator(i), entries_[i].handle);
  }
  *body = block.Finish();
}

void IndexBuilder::Finish(std::string* body) const {
  FinishEntries(0, entries_.size(), body);
}

size_t IndexBuilder::OpenBytes() const {
  const size_t first = partition_ends_.empty() ? 0 : partition_ends_.back();
  return keys_.size() - KeyBegin(first) +
         (entries_.size() - first) * kEntryOverhead;
}

void IndexBuilder::FinishPartition(size_t i, std::string* body) const {
  FinishEntries(i == 0 ? 0 : partition_ends_[i - 1], partition_ends_[i], body);
}

void IndexBuilder::FinishNames(const std::vector<BlockHandle>& handles,
                               std::string* body) const {
  EntryWriter block;
  for (size_t i = 0; i < handles.size(); ++i) {
    block.Add(Separator(partition_ends_[i] - 1), handles[i]);
  }
  *body = block.Finish();
}

}  // namespace varve
