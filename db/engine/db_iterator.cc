// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/db_iterator.h"

#include <optional>
#include <string>

#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "table/block/dead_walk.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// After this many hidden versions of one key, seek past the rest.
constexpr int kSkipsBeforeSeek = 8;
// After each so many deletions, pass dead entries in bulk. A power of two.
constexpr uint64_t kDeletionsBeforeBulk = 4;

class DbIterator final : public Iterator {
 public:
  DbIterator(DbIteratorParts parts, const ReadOptions& options)
      : parts_(std::move(parts)),
        it_(parts_.state->tree()),
        bytewise_(parts_.comparator->bytewise()),
        given_lower_(options.iterate_lower_bound),
        given_upper_(options.iterate_upper_bound) {}
  ~DbIterator() override {
    CountMoves();
    parts_.state->ResetForReuse();
    parts_.cleanup();
  }
  // In its state's place, which it gives back.
  static void* operator new(size_t /*size*/, IteratorState* state) {
    return state->place();
  }
  static void operator delete(void* place) {
    IteratorState::OfPlace(place)->GiveBack();
  }

  Status status() const override {
    return error_.ok() ? it_->status() : error_;
  }

  void SeekToFirst() override {
    if (given_lower_ != nullptr) {
      Seek(*given_lower_);
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
      it_->Seek(BeforeAllOf(*upper_));
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
    it_->Seek(Target(from, SeekTrailer(parts_.sequence)));
    FindNextUserEntry(false);
  }

  void SeekForPrev(const Slice& target) override {
    if (given_upper_ != nullptr && Compare(target, *given_upper_) >= 0) {
      SeekToLast();
      return;
    }
    const SeekScope scope(this);
    forward_ = false;
    // The trailer that sorts after every version of the key.
    it_->SeekForPrev(Target(target, 0));
    FindPrevUserEntry();
  }

  void Next() override {
    ++moves_.nexts;
    if (forward_) {
      saved_key_.Assign(key_);
      it_->Next();
    } else {
      // it_ is before the versions of saved_key_, or before the first entry.
      forward_ = true;
      reseeked_ = false;
      if (it_->Valid()) {
        it_->Next();
      } else {
        it_->SeekToFirst();
      }
      saved_value_.Assign(Slice());
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
      int skips = 0;
      do {
        if (++skips == kSkipsBeforeSeek) {
          ++moves_.reseeks;
          it_->SeekForPrev(BeforeAllOf(saved_key_.slice()));
        } else {
          moves_.skips += skips > 1;
          it_->Prev();
        }
      } while (it_->Valid() && IsSaved(ExtractUserKey(it_->key())));
      forward_ = false;
      reseeked_ = false;
    }
    FindPrevUserEntry();
    moves_.prevs_found += valid_;
    CountEntry();
  }

 private:
  int Compare(const Slice& a, const Slice& b) const {
    return parts_.comparator->CompareUser(a, b);
  }
  // Inlined, because every Next calls it, and a call costs 15 instructions.
  [[gnu::always_inline]] bool IsSaved(const Slice& user_key) const {
    const Slice saved = saved_key_.slice();
    if (!bytewise_) return Compare(user_key, saved) == 0;
    return user_key.size() == saved.size() &&
           ShortEqual(user_key.data(), saved.data(), saved.size());
  }

  // The caller may have changed them since the last seek.
  void LookAtBounds() {
    if (given_lower_ != nullptr) lower_ = *given_lower_;
    if (given_upper_ != nullptr) upper_ = *given_upper_;
  }

  // Counts of work on single entries, which are handed over periodically.
  struct Moves {
    uint64_t nexts = 0;
    uint64_t nexts_found = 0;
    uint64_t prevs = 0;
    uint64_t prevs_found = 0;
    uint64_t bytes = 0;
    uint64_t skips = 0;
    uint64_t deletions = 0;  // Among the skips, as far as examined.
    uint64_t reseeks = 0;
  };

  void CountEntry() {
    if (valid_) moves_.bytes += key_.size() + value_.size();
  }

  void CountMoves() {
    if (PerfCounts()) [[unlikely]] {
      GetPerfContext()->iter_read_bytes += moves_.bytes;
      GetPerfContext()->internal_key_skipped_count += moves_.skips;
      GetPerfContext()->internal_delete_skipped_count += moves_.deletions;
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

  // Surrounds a seek: traces it, counts it and may time it.
  class SeekScope {
   public:
    explicit SeekScope(DbIterator* iterator) : iterator_(iterator) {
      const DbIteratorParts& parts = iterator->parts_;
      iterator->error_ = Status::OK();
      iterator->reseeked_ = false;
      iterator->LookAtBounds();
      iterator->CountMoves();
      RecordTick(parts.statistics, Ticker::kNumberDbSeek);
      if (IsOperationMeasured(parts.statistics)) [[unlikely]] {
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

  // An internal key to seek to, valid until the next one.
  Slice Target(const Slice& user_key, uint64_t trailer) {
    char* const key = target_.Reserve(user_key.size() + kTrailerSize);
    return WriteInternalKey(key, user_key, trailer);
  }

  Slice BeforeAllOf(const Slice& user_key) {
    return Target(user_key, SeekTrailer(kMaxSequenceNumber));
  }

  // Seeks past hidden versions. Each such seek has to go farther than the
  // previous one. In a crafted table, whose keys are out of order, seeks could
  // otherwise go back for ever.
  bool Reseek(const Slice& user_key, uint64_t trailer) {
    const Slice key = Target(user_key, trailer);
    if (reseeked_) {
      const int order = parts_.comparator->Compare(key, reseek_target_.slice());
      if (forward_ ? order <= 0 : order >= 0) {
        error_ = Status::Corruption("keys are not in order");
        return false;
      }
    }
    reseeked_ = true;
    reseek_target_.Assign(key);
    ++moves_.reseeks;
    it_->Seek(key);
    return true;
  }

  // Moves past the current entry, a visible deletion, and in bulk over dead
  // entries after it in the direction of iteration. Forward, saved_key_ is the
  // deletion's user key, and on return that of the last deletion passed.
  // Returns whether many versions of saved_key_ follow.
  [[gnu::noinline, gnu::cold]] bool SkipDead() {
    if (forward_) {
      it_->Next();
    } else {
      it_->Prev();
    }
    if (!it_->Valid()) return false;
    DeadWalk walk(parts_.comparator, parts_.sequence, &saved_key_);
    Slice bound;
    const std::optional<Slice>& end = forward_ ? upper_ : lower_;
    if (end) {
      bound = BeforeAllOf(*end);
      walk.SetBound(&bound);
    }
    if (forward_) {
      it_->SkipDeadForward(&walk);
    } else {
      it_->SkipDeadBackward(&walk);
    }
    moves_.skips += walk.passed();
    moves_.deletions += walk.deletions();
    return walk.in_many_versions();
  }

  // Moves forward past the current entry, a visible deletion, and perhaps past
  // other dead entries. Sets saved_key_ to the last deletion's user key.
  // Returns the number of skips of its versions that count so far.
  [[gnu::noinline]] int PassDeletion(const Slice& user_key) {
    saved_key_.Assign(user_key);
    ++moves_.skips;
    if (++moves_.deletions % kDeletionsBeforeBulk == 0) {
      return SkipDead() ? kSkipsBeforeSeek : 0;
    }
    it_->Next();
    return 0;
  }

  // Moves to the first visible entry from here on. With `skipping`, moves past
  // the versions of saved_key_; it_ is at the first of them, if there are any.
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
          if (!Reseek(saved_key_.slice(), 0)) return;
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
        skips = PassDeletion(user_key);
        skipping = true;
        continue;
      } else if (++moves_.skips, ++skips > kSkipsBeforeSeek) {
        // Versions newer than the iterator: to the newest that it sees.
        skips = 0;
        if (!Reseek(user_key, SeekTrailer(parts_.sequence))) return;
        continue;
      }
      it_->Next();
    }
  }

  // Saves the entry at it_, which has the saved user key. Versions of one key
  // may have different bytes if the comparator treats them as equal.
  void Save() {
    if (!bytewise_) saved_key_.Assign(ExtractUserKey(it_->key()));
    saved_value_.Assign(it_->value());
  }

  // Moves to the last visible entry before here. On return it_ is before all
  // versions of saved_key_.
  void FindPrevUserEntry() {
    valid_ = false;
    bool found = false;
    int versions = 0;  // Versions of saved_key_.
    while (it_->Valid()) {
      const Slice internal_key = it_->key();
      const Slice user_key = ExtractUserKey(internal_key);
      const uint64_t trailer = ExtractTrailer(internal_key);
      if (lower_ && Compare(user_key, *lower_) < 0) break;
      if (versions == 0 || !IsSaved(user_key)) {
        if (found) break;
        saved_key_.Assign(user_key);
        versions = 1;
      } else if (++versions > kSkipsBeforeSeek) {
        // To the newest that it sees, and from there before all of them.
        if (!Reseek(saved_key_.slice(), SeekTrailer(parts_.sequence))) return;
        found = it_->Valid() && IsSaved(ExtractUserKey(it_->key())) &&
                ExtractValueType(it_->key()) == ValueType::kValue;
        if (found) {
          Save();
          ++moves_.skips;  // Counted like a step; corrected below.
        }
        if (!it_->status().ok()) return;
        it_->SeekForPrev(BeforeAllOf(saved_key_.slice()));
        if (found) break;
        versions = 0;
        continue;
      }
      ++moves_.skips;
      if (trailer >> 8 <= parts_.sequence) {
        // Versions come oldest first: the last one seen counts.
        found = static_cast<ValueType>(trailer & 0xFF) == ValueType::kValue;
        if (found) {
          Save();
        } else if (++moves_.deletions % kDeletionsBeforeBulk == 0)
            [[unlikely]] {
          versions = SkipDead() ? kSkipsBeforeSeek : 0;
          continue;
        }
      }
      it_->Prev();
    }
    if (!it_->status().ok()) return;
    if (!found) {
      saved_key_.Assign(Slice());
      saved_value_.Assign(Slice());
      return;
    }
    valid_ = true;
    --moves_.skips;
    key_ = saved_key_.slice();
    value_ = saved_value_.slice();
  }

  DbIteratorParts parts_;
  InternalIterator* const it_;
  const bool bytewise_;
  // The caller's, and what they were at the last seek.
  const Slice* const given_lower_;
  const Slice* const given_upper_;
  std::optional<Slice> lower_;
  std::optional<Slice> upper_;
  // Forward: it_ is at the current entry. Backward: it_ is before all versions
  // of the current key, which is in saved_key_ and saved_value_.
  bool forward_ = true;
  KeyBuffer& saved_key_ = parts_.state->saved_key;
  KeyBuffer& saved_value_ = parts_.state->saved_value;
  KeyBuffer& target_ = parts_.state->target;
  KeyBuffer& reseek_target_ = parts_.state->reseek_target;
  bool reseeked_ = false;  // In this direction, since the user's seek.
  // An error of keys out of order.
  Status error_;
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

// Offset of the iterator after its state.
constexpr size_t kPlaceOffset =
    (sizeof(IteratorState) + ThreadArena::kAlignment - 1) &
    ~(ThreadArena::kAlignment - 1);
static_assert(alignof(DbIterator) <= ThreadArena::kAlignment);
constexpr size_t kStateBytes = kPlaceOffset + sizeof(DbIterator);

}  // namespace

IteratorState* IteratorState::Take(bool fresh, const IteratorTreeKey& key) {
  if (fresh) {
    CountPath(CurrentThreadRecord(), PathCounter::kFreshArena);
    return new (::operator new(kStateBytes)) IteratorState(nullptr, key);
  }
  ThreadArena* const memory =
      ThreadArena::Take(ArenaKind::kIterator, [&key](const void* root) {
        const auto* const kept = static_cast<const IteratorState*>(root);
        return kept == nullptr || kept->key_.db == key.db;
      });
  auto* const kept = static_cast<IteratorState*>(memory->root());
  if (kept != nullptr && kept->tree_ != nullptr && kept->key_ == key) {
    return kept;
  }
  memory->Reset();
  CountPath(CurrentThreadRecord(), PathCounter::kKeptArena);
  auto* const made =
      new (memory->Allocate(kStateBytes)) IteratorState(memory, key);
  memory->SetRoot(made, [](void* root) {
    static_cast<IteratorState*>(root)->~IteratorState();
  });
  return made;
}

void IteratorState::ResetForReuse() {
  if (memory_ == nullptr || !tree_->ResetForReuse()) {
    tree_.reset();
  } else {
    saved_key.Trim();
    saved_value.Trim();
    target.Trim();
    reseek_target.Trim();
  }
}

void IteratorState::GiveBack() {
  if (memory_ != nullptr) {
    memory_->GiveBack();
    return;
  }
  this->~IteratorState();
  ::operator delete(this);
}

void* IteratorState::place() {
  return reinterpret_cast<char*>(this) + kPlaceOffset;
}

IteratorState* IteratorState::OfPlace(void* place) {
  return reinterpret_cast<IteratorState*>(static_cast<char*>(place) -
                                          kPlaceOffset);
}

std::unique_ptr<Iterator> NewDbIterator(DbIteratorParts parts,
                                        const ReadOptions& options) {
  IteratorState* const state = parts.state;
  return std::unique_ptr<Iterator>(new (state)
                                       DbIterator(std::move(parts), options));
}

std::unique_ptr<Iterator> NewErrorIterator(Status status) {
  return std::make_unique<ErrorIterator>(std::move(status));
}

}  // namespace varve
