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

void IndexBuilder::Finish(std::string* body) const {
  BlockBuilder block(1, BlockBuilder::ValueLength::kLeftOut);
  std::string handle;
  size_t begin = 0;
  for (const Entry& entry : entries_) {
    const Slice key(keys_.data() + begin, entry.key_end - begin);
    handle.clear();
    entry.handle.EncodeTo(&handle);
    block.Add(keys_are_user_keys_ ? ExtractUserKey(key) : key, handle);
    begin = entry.key_end;
  }
  *body = std::move(*block.Finish());
}

}  // namespace varve
