// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The searches for sequence numbers, apart from the lookup of values: they are
// rare, and the compiler must not weigh them against it.
#include <algorithm>

#include "db/memtable/memtable.h"

namespace varve {

SequenceNumber MemTable::NewestSequence(const Slice& user_key,
                                        uint64_t hash) const {
  if (NeverAdded()) return 0;
  const SequenceNumber cover =
      tombstones_.MaxCovering(user_key, kMaxSequenceNumber);
  Slice key;
  if (!index_.Find(user_key, hash, &key)) [[unlikely]] {
    const char* const entry =
        LowerBound(LookupKey(user_key, kMaxSequenceNumber).internal_key());
    if (entry != nullptr) key = EntryKey(entry);
    if (entry != nullptr &&
        comparator_->CompareUser(ExtractUserKey(key), user_key) != 0) {
      key = Slice();
    }
  }
  return key.empty() ? cover : std::max(cover, ExtractSequence(key));
}

bool MemTable::Overlaps(const Slice* begin, const Slice* end,
                        bool end_is_exclusive, SequenceNumber oldest) const {
  const auto is_after_end = [&](const Slice& user_key) {
    if (end == nullptr) return false;
    const int r = comparator_->CompareUser(user_key, *end);
    return r > 0 || (r == 0 && end_is_exclusive);
  };
  const std::unique_ptr<InternalIterator> iterator = NewIterator();
  if (begin != nullptr) {
    iterator->Seek(LookupKey(*begin, kMaxSequenceNumber).internal_key());
  } else {
    iterator->SeekToFirst();
  }
  for (; iterator->Valid() && !is_after_end(ExtractUserKey(iterator->key()));
       iterator->Next()) {
    if (ExtractSequence(iterator->key()) >= oldest) return true;
  }
  for (const auto& set : tombstones_.Sets()) {
    if (set->ReachesInto(begin, end, end_is_exclusive, oldest)) return true;
  }
  return false;
}

}  // namespace varve
