// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/db_iterator.h"

#include <optional>
#include <string>

#include "monitoring/statistics.h"

namespace varve {

namespace {

// After so many hidden versions of one key, seek over the rest of them.
constexpr int kSkipsBeforeSeek = 8;

class DbIterator final : public Iterator {
 public:
  DbIterator(DbIteratorParts parts, const ReadOptions& options)
      : parts_(std::move(parts)), it_(parts_.internal.get()) {
    if (options.iterate_lower_bound != nullptr) {
      lower_ = *options.iterate_lower_bound;
    }
    if (options.iterate_upper_bound != nullptr) {
      upper_ = *options.iterate_upper_bound;
    }
  }
  ~DbIterator() override {
    parts_.internal.reset();
    parts_.cleanup();
  }

  bool Valid() const override { return valid_; }
  Slice key() const override {
    return forward_ ? ExtractUserKey(it_->key()) : Slice(saved_key_);
  }
  Slice value() const override {
    return forward_ ? it_->value() : Slice(saved_value_);
  }
  Status status() const override { return it_->status(); }

  void SeekToFirst() override {
    if (lower_) {
      Seek(*lower_);
      return;
    }
    RecordTick(parts_.statistics, Ticker::kNumberDbSeek);
    forward_ = true;
    it_->SeekToFirst();
    FindNextUserEntry(false);
  }

  void SeekToLast() override {
    RecordTick(parts_.statistics, Ticker::kNumberDbSeek);
    forward_ = false;
    if (upper_) {
      it_->Seek(MakeInternalKey(*upper_, SeekTrailer(kMaxSequenceNumber)));
      if (it_->Valid()) {
        it_->Prev();
      } else if (it_->status().ok()) {
        it_->SeekToLast();
      }
    } else {
      it_->SeekToLast();
    }
    FindPrevUserEntry();
  }

  void Seek(const Slice& target) override {
    RecordTick(parts_.statistics, Ticker::kNumberDbSeek);
    forward_ = true;
    const Slice from =
        lower_ && Compare(target, *lower_) < 0 ? *lower_ : target;
    SeekInternal(from, SeekTrailer(parts_.sequence));
    FindNextUserEntry(false);
  }

  void SeekForPrev(const Slice& target) override {
    if (upper_ && Compare(target, *upper_) >= 0) {
      SeekToLast();
      return;
    }
    RecordTick(parts_.statistics, Ticker::kNumberDbSeek);
    forward_ = false;
    // The trailer that sorts behind every version of the key.
    it_->SeekForPrev(MakeInternalKey(target, 0));
    FindPrevUserEntry();
  }

  void Next() override {
    RecordTick(parts_.statistics, Ticker::kNumberDbNext);
    if (forward_) {
      const Slice key = ExtractUserKey(it_->key());
      saved_key_.assign(key.data(), key.size());
      it_->Next();
    } else {
      // It stands before the versions of saved_key_, or before the first
      // entry of all.
      forward_ = true;
      if (it_->Valid()) {
        it_->Next();
      } else {
        it_->SeekToFirst();
      }
      saved_value_.clear();
    }
    FindNextUserEntry(true);
  }

  void Prev() override {
    RecordTick(parts_.statistics, Ticker::kNumberDbPrev);
    if (forward_) {
      // To before all versions of the current key.
      const Slice key = ExtractUserKey(it_->key());
      saved_key_.assign(key.data(), key.size());
      do {
        it_->Prev();
      } while (it_->Valid() &&
               Compare(ExtractUserKey(it_->key()), saved_key_) == 0);
      forward_ = false;
    }
    FindPrevUserEntry();
  }

 private:
  int Compare(const Slice& a, const Slice& b) const {
    return parts_.comparator->CompareUser(a, b);
  }

  void SeekInternal(const Slice& user_key, uint64_t trailer) {
    target_.clear();
    AppendInternalKey(&target_, user_key, trailer);
    it_->Seek(target_);
  }

  // To the first visible entry from here on; with `skipping`, of a key
  // behind saved_key_.
  void FindNextUserEntry(bool skipping) {
    valid_ = false;
    int skips = 0;
    while (it_->Valid()) {
      const Slice internal_key = it_->key();
      const Slice user_key = ExtractUserKey(internal_key);
      if (upper_ && Compare(user_key, *upper_) >= 0) return;
      const uint64_t trailer = ExtractTrailer(internal_key);
      if (skipping && Compare(user_key, saved_key_) <= 0) {
        if (++skips > kSkipsBeforeSeek) {
          skips = 0;
          SeekInternal(saved_key_, 0);
          // An entry with that very trailer would be found again.
          if (it_->Valid() &&
              Compare(ExtractUserKey(it_->key()), saved_key_) == 0) {
            it_->Next();
          }
          continue;
        }
      } else if (trailer >> 8 <= parts_.sequence) {
        if (static_cast<ValueType>(trailer & 0xFF) == ValueType::kValue) {
          valid_ = true;
          return;
        }
        saved_key_.assign(user_key.data(), user_key.size());
        skipping = true;
        skips = 0;
      } else if (++skips > kSkipsBeforeSeek) {
        // Versions newer than the iterator: to the newest that it sees.
        skips = 0;
        const std::string key = user_key.ToString();
        SeekInternal(key, SeekTrailer(parts_.sequence));
        continue;
      }
      it_->Next();
    }
  }

  // To the last visible entry before here. On return it_ stands before all
  // versions of saved_key_.
  void FindPrevUserEntry() {
    valid_ = false;
    bool found = false;
    while (it_->Valid()) {
      const Slice internal_key = it_->key();
      const Slice user_key = ExtractUserKey(internal_key);
      const uint64_t trailer = ExtractTrailer(internal_key);
      if (lower_ && Compare(user_key, *lower_) < 0) break;
      if (found && Compare(user_key, saved_key_) < 0) break;
      if (trailer >> 8 <= parts_.sequence) {
        // Versions come oldest first: the last one seen counts.
        found = static_cast<ValueType>(trailer & 0xFF) == ValueType::kValue;
        if (found) {
          saved_key_.assign(user_key.data(), user_key.size());
          const Slice value = it_->value();
          saved_value_.assign(value.data(), value.size());
        }
      }
      it_->Prev();
    }
    if (!it_->status().ok()) return;
    if (!found) {
      saved_key_.clear();
      saved_value_.clear();
      return;
    }
    valid_ = true;
  }

  DbIteratorParts parts_;
  InternalIterator* const it_;
  std::optional<Slice> lower_;
  std::optional<Slice> upper_;
  bool valid_ = false;
  // Forward: it_ stands on the current entry. Backward: it_ stands before all
  // versions of the current key, which is in saved_key_ and saved_value_.
  bool forward_ = true;
  std::string saved_key_;
  std::string saved_value_;
  std::string target_;
};

class ErrorIterator final : public Iterator {
 public:
  explicit ErrorIterator(Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice& /*target*/) override {}
  void SeekForPrev(const Slice& /*target*/) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

std::unique_ptr<Iterator> NewDbIterator(DbIteratorParts parts,
                                        const ReadOptions& options) {
  return std::make_unique<DbIterator>(std::move(parts), options);
}

std::unique_ptr<Iterator> NewErrorIterator(Status status) {
  return std::make_unique<ErrorIterator>(std::move(status));
}

}  // namespace varve
