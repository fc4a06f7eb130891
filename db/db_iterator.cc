// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/db_iterator.h"

#include <optional>
#include <string>

#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "util/short_copy.h"

namespace varve {

namespace {

// After so many hidden versions of one key, seek over the rest of them.
constexpr int kSkipsBeforeSeek = 8;

// A copy of a key; short ones need no allocation.
class KeyBuffer {
 public:
  KeyBuffer() = default;
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;

  void Assign(const Slice& key) {
    if (key.size() > capacity_) [[unlikely]] {
      capacity_ = 2 * key.size();
      heap_ = std::make_unique<char[]>(capacity_);
      data_ = heap_.get();
    }
    ShortCopy(data_, key.data(), key.size());
    size_ = key.size();
  }
  Slice slice() const { return Slice(data_, size_); }

 private:
  char inline_[64];
  char* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = sizeof(inline_);
  std::unique_ptr<char[]> heap_;
};

class DbIterator final : public Iterator {
 public:
  DbIterator(DbIteratorParts parts, const ReadOptions& options)
      : parts_(std::move(parts)),
        it_(parts_.internal.get()),
        bytewise_(parts_.comparator->bytewise()) {
    if (options.iterate_lower_bound != nullptr) {
      lower_ = *options.iterate_lower_bound;
    }
    if (options.iterate_upper_bound != nullptr) {
      upper_ = *options.iterate_upper_bound;
    }
  }
  ~DbIterator() override {
    CountMoves();
    parts_.internal.reset();
    parts_.cleanup();
  }

  Status status() const override { return it_->status(); }

  void SeekToFirst() override {
    if (lower_) {
      Seek(*lower_);
      return;
    }
    const SeekScope scope(this);
    forward_ = true;
    it_->SeekToFirst();
    FindNextUserEntry(false);
  }

  void SeekToLast() override {
    const SeekScope scope(this);
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
    const SeekScope scope(this);
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
    const SeekScope scope(this);
    forward_ = false;
    // The trailer that sorts behind every version of the key.
    it_->SeekForPrev(MakeInternalKey(target, 0));
    FindPrevUserEntry();
  }

  void Next() override {
    ++moves_.nexts;
    if (forward_) {
      saved_key_.Assign(key_);
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
    moves_.nexts_found += valid_;
    CountEntry();
  }

  void Prev() override {
    ++moves_.prevs;
    if (forward_) {
      // To before all versions of the current key.
      saved_key_.Assign(key_);
      do {
        it_->Prev();
      } while (it_->Valid() && IsSaved(ExtractUserKey(it_->key())));
      forward_ = false;
    }
    FindPrevUserEntry();
    moves_.prevs_found += valid_;
    CountEntry();
  }

 private:
  int Compare(const Slice& a, const Slice& b) const {
    return parts_.comparator->CompareUser(a, b);
  }
  bool IsSaved(const Slice& user_key) const {
    const Slice saved = saved_key_.slice();
    if (!bytewise_) return Compare(user_key, saved) == 0;
    return user_key.size() == saved.size() &&
           ShortEqual(user_key.data(), saved.data(), saved.size());
  }

  // What is done entry by entry is counted here, and handed over now and then.
  struct Moves {
    uint64_t nexts = 0;
    uint64_t nexts_found = 0;
    uint64_t prevs = 0;
    uint64_t prevs_found = 0;
    uint64_t bytes = 0;
    uint64_t skips = 0;
    uint64_t reseeks = 0;
  };

  void CountEntry() {
    if (valid_) moves_.bytes += key_.size() + value_.size();
  }

  void CountMoves() {
    if (PerfCounts()) [[unlikely]] {
      GetPerfContext()->iter_read_bytes += moves_.bytes;
      GetPerfContext()->internal_key_skipped_count += moves_.skips;
    }
    const std::pair<Ticker, uint64_t> ticks[] = {
        {Ticker::kNumberDbNext, moves_.nexts},
        {Ticker::kNumberDbNextFound, moves_.nexts_found},
        {Ticker::kNumberDbPrev, moves_.prevs},
        {Ticker::kNumberDbPrevFound, moves_.prevs_found},
        {Ticker::kIterBytesRead, moves_.bytes},
        {Ticker::kNumberIterSkip, moves_.skips},
        {Ticker::kNumberReseeks, moves_.reseeks}};
    for (const auto& [ticker, count] : ticks) {
      if (count != 0) RecordTick(parts_.statistics, ticker, count);
    }
    moves_ = Moves();
  }

  // Around a seek: traces, counts and perhaps times it.
  class SeekScope {
   public:
    explicit SeekScope(DbIterator* iterator) : iterator_(iterator) {
      const DbIteratorParts& parts = iterator->parts_;
      iterator->CountMoves();
      RecordTick(parts.statistics, Ticker::kNumberDbSeek);
      if (IsOperationMeasured()) [[unlikely]] {
        operation_.emplace(parts.statistics, HistogramType::kDbSeek, parts.env);
      }
    }
    SeekScope(const SeekScope&) = delete;
    SeekScope& operator=(const SeekScope&) = delete;
    ~SeekScope() {
      if (!iterator_->valid_) return;
      RecordTick(iterator_->parts_.statistics, Ticker::kNumberDbSeekFound);
      iterator_->CountEntry();
    }

   private:
    const RequestSpan span_{"Iterator::Seek"};
    DbIterator* const iterator_;
    std::optional<MeasuredOperation> operation_;
  };

  void SeekInternal(const Slice& user_key, uint64_t trailer) {
    target_.clear();
    AppendInternalKey(&target_, user_key, trailer);
    it_->Seek(target_);
  }

  // To the first visible entry from here on; with `skipping`, over the
  // versions of saved_key_, on the first of which it stands if there are any.
  void FindNextUserEntry(bool skipping) {
    valid_ = false;
    int skips = 0;
    while (it_->Valid()) {
      const Slice internal_key = it_->key();
      const Slice user_key = ExtractUserKey(internal_key);
      if (upper_ && Compare(user_key, *upper_) >= 0) return;
      const uint64_t trailer = ExtractTrailer(internal_key);
      if (skipping && IsSaved(user_key)) {
        ++moves_.skips;
        if (++skips > kSkipsBeforeSeek) {
          skips = 0;
          ++moves_.reseeks;
          SeekInternal(saved_key_.slice(), 0);
          // An entry with that very trailer would be found again.
          if (it_->Valid() && IsSaved(ExtractUserKey(it_->key()))) {
            it_->Next();
          }
          continue;
        }
      } else if (trailer >> 8 <= parts_.sequence) {
        if (static_cast<ValueType>(trailer & 0xFF) == ValueType::kValue) {
          valid_ = true;
          key_ = user_key;
          value_ = it_->value();
          return;
        }
        saved_key_.Assign(user_key);
        skipping = true;
        skips = 0;
      } else if (++moves_.skips, ++skips > kSkipsBeforeSeek) {
        // Versions newer than the iterator: to the newest that it sees.
        skips = 0;
        ++moves_.reseeks;
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
      if (found && !IsSaved(user_key)) break;
      if (trailer >> 8 <= parts_.sequence) {
        // Versions come oldest first: the last one seen counts.
        found = static_cast<ValueType>(trailer & 0xFF) == ValueType::kValue;
        if (found) {
          saved_key_.Assign(user_key);
          const Slice value = it_->value();
          saved_value_.assign(value.data(), value.size());
        }
      }
      it_->Prev();
    }
    if (!it_->status().ok()) return;
    if (!found) {
      saved_key_.Assign(Slice());
      saved_value_.clear();
      return;
    }
    valid_ = true;
    key_ = saved_key_.slice();
    value_ = saved_value_;
  }

  DbIteratorParts parts_;
  InternalIterator* const it_;
  const bool bytewise_;
  std::optional<Slice> lower_;
  std::optional<Slice> upper_;
  // Forward: it_ stands on the current entry. Backward: it_ stands before all
  // versions of the current key, which is in saved_key_ and saved_value_.
  bool forward_ = true;
  KeyBuffer saved_key_;
  std::string saved_value_;
  std::string target_;
  Moves moves_;
};

class ErrorIterator final : public Iterator {
 public:
  explicit ErrorIterator(Status status) : status_(std::move(status)) {}
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice& /*target*/) override {}
  void SeekForPrev(const Slice& /*target*/) override {}
  void Next() override {}
  void Prev() override {}
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
