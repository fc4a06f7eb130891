// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/db_iterator.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "db/dead_entries/dead_walks.h"
#include "db/merge/merge_all.h"
#include "db/reads/skip_limit.h"
#include "monitoring/measured_operation.h"
#include "monitoring/span.h"
#include "monitoring/statistics.h"
#include "table/block/dead_walk.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/key_buffer.h"
#include "table/reader/merge_operands.h"
#include "varve/perf_context.h"

namespace varve {

namespace {

// After this many hidden versions of one key, seek past the rest.
constexpr int kSkipsBeforeSeek = 8;
// After each so many deletions, a long walk begins. A power of two.
constexpr uint64_t kDeletionsBeforeWalk = 4;

// Counts of an iterator's work on single entries, which it hands over from time
// to time. Thread-safety: owned by one thread.
struct IteratorMoves {
  uint64_t nexts = 0;
  uint64_t nexts_found = 0;
  uint64_t prevs = 0;
  uint64_t prevs_found = 0;
  uint64_t bytes = 0;
  uint64_t skips = 0;
  uint64_t deletions = 0;  // Among the skips, as far as examined.
  uint64_t reseeks = 0;

  // Adds the counts to the statistics, which may be null, and to the thread's
  // PerfContext.
  void Report(StatisticsImpl* statistics) const {
    if (PerfCounts()) [[unlikely]] {
      GetPerfContext()->iter_read_bytes += bytes;
      GetPerfContext()->internal_key_skipped_count += skips;
      GetPerfContext()->internal_delete_skipped_count += deletions;
    }
    const std::pair<Ticker, uint64_t> ticks[] = {
        {Ticker::kNumberDbNext, nexts},
        {Ticker::kNumberDbNextFound, nexts_found},
        {Ticker::kNumberDbPrev, prevs},
        {Ticker::kNumberDbPrevFound, prevs_found},
        {Ticker::kIterBytesRead, bytes},
        {Ticker::kNumberIterSkip, skips},
        {Ticker::kNumberReseeks, reseeks}};
    for (const auto& [ticker, count] : ticks) {
      if (count != 0) RecordTick(statistics, ticker, count);
    }
  }
};

// The merge operands of an iterator's current key. Takes memory at the first
// operand only. Thread-safety: owned by one thread.
class IteratorOperands {
 public:
  bool empty() const { return count_ == 0; }
  void Clear() { count_ = 0; }

  // `it` is at the newest visible version of a key, an operand. Copies the
  // operands and the value below them. On return, `it` is at that value, at
  // another older version, or after all versions. has_key(user_key) tells the
  // versions of the key.
  template <typename HasKey>
  [[gnu::noinline]] void Collect(InternalIterator* it, HasKey has_key) {
    MergeOperands& operands = Renew();
    while (it->Valid() && has_key(ExtractUserKey(it->key())) &&
           operands.Add(ExtractTrailer(it->key()), it->value())) {
      it->Next();
    }
    count_ = operands.size();
  }

  // Adds an operand that is newer than all others. `base` is the value below
  // the first one, or null if there is none.
  [[gnu::noinline]] void AddNewer(const Slice& operand, const Slice* base) {
    if (count_ == 0) {
      MergeOperands& operands = Renew();
      if (base != nullptr) operands.SetBase(*base);
    }
    operands_->AddNewer(operand);
    count_ = operands_->size();
  }

  // Sets *value to what the operands of the key result in. See MergeAll.
  [[gnu::noinline]] Status Merge(const MergeOperator* merge_operator,
                                 const Slice& key, StatisticsImpl* stats,
                                 KeyBuffer* value) const {
    std::string merged;
    Status status = MergeAll(merge_operator, key, *operands_, stats, &merged);
    if (status.ok()) value->Assign(merged);
    return status;
  }

 private:
  MergeOperands& Renew() {
    if (operands_ == nullptr) operands_ = std::make_unique<MergeOperands>();
    operands_->Clear();
    return *operands_;
  }

  std::unique_ptr<MergeOperands> operands_;  // Null before the first one.
  size_t count_ = 0;
};

class DbIterator final : public BoundedIterator {
 public:
  DbIterator(const DbIteratorParts& parts, const ReadOptions& options)
      : parts_(parts),
        tree_state_(parts_.state),
        it_(TreeOf(parts_)),
        bytewise_(parts_.comparator->bytewise()),
        given_lower_(options.iterate_lower_bound),
        given_upper_(options.iterate_upper_bound) {}
  ~DbIterator() override {
    CountMoves();
    parts_.state->ResetForReuse();
    if (tree_state_ != parts_.state) [[unlikely]]
      LeaveTree();
    parts_.owner->EndIterator(parts_);
  }
  // In its state's place, which it gives back.
  static void* operator new(size_t /*size*/, IteratorState* state) {
    return state->place();
  }
  static void operator delete(void* place) {
    IteratorState::OfPlace(place)->GiveBack();
  }

  void SetBounds(const Slice* lower, const Slice* upper) override {
    given_lower_ = lower;
    given_upper_ = upper;
    lower_.reset();
    upper_.reset();
  }
  PrefixSources* prefix_sources() const override {
    return tree_state_->prefix_sources();
  }

  Status status() const override {
    if (at_end_) return Status();
    return error_.ok() ? it_->status() : error_;
  }

  // The tree of the new state replaces the old one. This object, and the
  // buffers, stay in the memory of the first state, whose tree can be used
  // again by a later iterator.
  Status Refresh(const Snapshot* snapshot) override {
    valid_ = false;
    DbIteratorParts next = parts_;
    ReadOptions options = OptionsOf(tree_state_->key());
    options.snapshot = snapshot;
    Status status =
        parts_.owner->BeginIterator(parts_.family, options, tree_state_, &next);
    if (!status.ok()) return status;
    CountMoves();
    error_ = Status::OK();
    at_end_ = false;
    direction_ = Direction::kForward;
    operands_.Clear();
    IteratorState* const state = next.state;
    if (state != tree_state_) {
      if (tree_state_ != parts_.state) {
        LeaveTree();
      } else {
        tree_state_->ResetForReuse();
      }
      tree_state_ = state;
    }
    parts_.owner->ReleaseSuperVersion(parts_);
    it_ = TreeOf(next);
    next.state = parts_.state;
    parts_ = next;
    return status;
  }

  void SeekToFirst() override {
    if (given_lower_ != nullptr) {
      Seek(*given_lower_);
      return;
    }
    const SeekScope scope(this);
    direction_ = Direction::kForward;
    if (KnowsDeadRanges()) [[unlikely]]
      return SeekFrom(nullptr);
    it_->SeekToFirst();
    FindNextUserEntry(false, &kNoKey);
  }

  void SeekToLast() override {
    const SeekScope scope(this);
    direction_ = Direction::kBackward;
    const Slice* from = &kNoKey;
    if (upper_) {
      from = &*upper_;
      it_->Seek(BeforeAllOf(*upper_));
      if (it_->Valid()) {
        it_->Prev();
      } else if (it_->status().ok()) {
        it_->SeekToLast();
      }
    } else if (KnowsDeadRanges()) [[unlikely]] {
      return SeekFrom(nullptr);
    } else {
      it_->SeekToLast();
    }
    FindPrevUserEntry(from);
  }

  void Seek(const Slice& target) override {
    const SeekScope scope(this);
    direction_ = Direction::kForward;
    const Slice from =
        lower_ && Compare(target, *lower_) < 0 ? *lower_ : target;
    if (KnowsDeadRanges()) [[unlikely]]
      return SeekFrom(&from);
    const Slice key = Target(from, SeekTrailer(parts_.sequence));
    it_->Seek(key);
    // The copy: the caller's may be the entry that it_ has left.
    const Slice copy = ExtractUserKey(key);
    FindNextUserEntry(false, &copy);
  }

  void SeekForPrev(const Slice& target) override {
    if (given_upper_ != nullptr && Compare(target, *given_upper_) >= 0) {
      SeekToLast();
      return;
    }
    const SeekScope scope(this);
    direction_ = Direction::kBackward;
    if (KnowsDeadRanges()) [[unlikely]]
      return SeekFrom(&target);
    // The trailer that sorts after every version of the key.
    const Slice key = Target(target, 0);
    it_->SeekForPrev(key);
    const Slice copy = ExtractUserKey(key);  // As in Seek.
    FindPrevUserEntry(&copy);
  }

  void Next() override {
    ++moves_.nexts;
    if (direction_ == Direction::kForward) [[likely]] {
      saved_key_.Assign(key_);
      it_->Next();
    } else if (direction_ == Direction::kPastMerged) {
      direction_ = Direction::kForward;
    } else {
      // it_ is before the versions of saved_key_, or before the first entry.
      direction_ = Direction::kForward;
      reseeked_ = false;
      if (it_->Valid()) {
        it_->Next();
      } else {
        it_->SeekToFirst();
      }
      saved_value_.Assign(Slice());
    }
    FindNextUserEntry(true, nullptr);
    moves_.nexts_found += valid_;
    CountEntry();
  }

  void Prev() override {
    ++moves_.prevs;
    if (direction_ == Direction::kPastMerged) {
      it_->SeekForPrev(BeforeAllOf(saved_key_.slice()));
      direction_ = Direction::kBackward;
      reseeked_ = false;
    } else if (direction_ == Direction::kForward) {
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
      direction_ = Direction::kBackward;
      reseeked_ = false;
    }
    FindPrevUserEntry(nullptr);
    moves_.prevs_found += valid_;
    CountEntry();
  }

 private:
  static InternalIterator* TreeOf(const DbIteratorParts& parts) {
    InternalIterator* const tree = parts.state->tree();
    if (parts.skip_limit == nullptr) [[likely]]
      return tree;
    return PutOver(parts.skip_limit, tree);
  }
  // Returns options that lead to a tree with this key.
  static ReadOptions OptionsOf(const IteratorTreeKey& key) {
    ReadOptions options;
    options.verify_checksums = key.verify_checksums;
    options.fill_cache = key.fill_cache;
    options.readahead_size = key.readahead_size;
    options.read_tier = key.read_tier;
    options.deadline = key.deadline;
    return options;
  }
  // REQUIRES: the tree is not in the first state.
  [[gnu::noinline]] void LeaveTree() {
    tree_state_->ResetForReuse();
    tree_state_->GiveBack();
  }

  int Compare(const Slice& a, const Slice& b) const {
    return parts_.comparator->CompareUser(a, b);
  }
  bool forward() const { return direction_ != Direction::kBackward; }
  // Inlined, because every Next calls it, and a call costs 15 instructions.
  [[gnu::always_inline]] bool IsSaved(const Slice& user_key) const {
    const Slice saved = saved_key_.slice();
    if (!bytewise_) return Compare(user_key, saved) == 0;
    return ShortEqual(user_key, saved);
  }

  // The caller may have changed them since the last seek.
  void LookAtBounds() {
    if (given_lower_ != nullptr) lower_ = *given_lower_;
    if (given_upper_ != nullptr) upper_ = *given_upper_;
  }

  void CountEntry() {
    if (valid_) moves_.bytes += key_.size() + value_.size();
  }

  void CountMoves() {
    moves_.Report(parts_.statistics);
    moves_ = IteratorMoves();
  }

  // Surrounds a seek: traces it, counts it and may time it.
  class SeekScope {
   public:
    explicit SeekScope(DbIterator* iterator) : iterator_(iterator) {
      const DbIteratorParts& parts = iterator->parts_;
      iterator->error_ = Status::OK();
      iterator->reseeked_ = false;
      iterator->at_end_ = false;
      iterator->LookAtBounds();
      iterator->CountMoves();
      if (IsOperationMeasured(parts.statistics)) [[unlikely]] {
        operation_.emplace(parts.statistics, HistogramType::kDbSeek, parts.env);
      }
    }
    SeekScope(const SeekScope&) = delete;
    SeekScope& operator=(const SeekScope&) = delete;
    ~SeekScope() {
      iterator_->CountEntry();
      StatisticsImpl* const statistics = iterator_->parts_.statistics;
      if (statistics == nullptr || !statistics->counts()) return;
      if (iterator_->valid_) [[likely]] {
        statistics->TickGroup(CounterGroup::kSeekFound);
      } else {
        statistics->TickCounted(Ticker::kNumberDbSeek, 1);
      }
    }

   private:
    const RequestSpan span_{"Iterator::Seek"};
    DbIterator* const iterator_;
    std::optional<MeasuredOperation> operation_;
  };

  // The internal key that the user seeks to, valid until the next one.
  Slice Target(const Slice& user_key, uint64_t trailer) {
    char* const key = target_.Reserve(user_key.size() + kTrailerSize);
    return WriteInternalKey(key, user_key, trailer);
  }
  // As Target, for other seeks.
  Slice InnerTarget(const Slice& user_key, uint64_t trailer) {
    char* const key = inner_target_.Reserve(user_key.size() + kTrailerSize);
    return WriteInternalKey(key, user_key, trailer);
  }
  Slice BeforeAllOf(const Slice& user_key) {
    return InnerTarget(user_key, SeekTrailer(kMaxSequenceNumber));
  }

  // Returns whether a seek that passes entries goes farther than the previous
  // one. In a crafted table, whose keys are out of order, seeks could otherwise
  // go back for ever.
  bool GoesFarther(const Slice& key) {
    if (reseeked_) {
      const int order = parts_.comparator->Compare(key, reseek_target_.slice());
      if (forward() ? order <= 0 : order >= 0) {
        error_ = Status::Corruption("keys are not in order");
        return false;
      }
    }
    reseeked_ = true;
    reseek_target_.Assign(key);
    return true;
  }

  // Seeks past hidden versions.
  bool Reseek(const Slice& user_key, uint64_t trailer) {
    const Slice key = InnerTarget(user_key, trailer);
    if (!GoesFarther(key)) return false;
    ++moves_.reseeks;
    it_->Seek(key);
    return true;
  }

  // Stands for the first key, or backward for the last one, where a walk
  // begins.
  static constexpr Slice kNoKey{};

  bool KnowsDeadRanges() const {
    return parts_.dead_walks != nullptr && !parts_.dead_walks->ranges().empty();
  }

  // Seeks in the current direction to the key, or to the first one from the
  // range on that is known to be dead there. Null: to the first or last key.
  [[gnu::noinline]] void SeekFrom(const Slice* key) {
    bool contains = false;
    bool has_stop = false;
    Slice stop;
    parts_.dead_walks->ranges().Find(
        key, parts_.sequence, forward(),
        [&](const DeadRange& range, bool is_inside) {
          contains = is_inside;
          has_stop = contains && EndOf(range, &stop);
        });
    const Slice* from = &kNoKey;
    Slice begin;
    if (contains) {
      RecordTick(parts_.statistics, Ticker::kDeadRangeSteps);
      if (!has_stop) {
        valid_ = false;
        at_end_ = true;
        if (!forward()) Forget();
        return;
      }
      stepped_ = true;
      walk_begin_.Assign(ExtractUserKey(stop));
      begin = walk_begin_.slice();
      from = &begin;
    } else if (key != nullptr) {
      stop = Target(*key, forward() ? SeekTrailer(parts_.sequence) : 0);
      begin = ExtractUserKey(stop);  // The copy, as in Seek.
      from = &begin;
    }
    if (forward()) {
      if (contains || key != nullptr) {
        it_->Seek(stop);
      } else {
        it_->SeekToFirst();
      }
      FindNextUserEntry(false, from);
    } else {
      if (contains || key != nullptr) {
        it_->SeekForPrev(stop);
      } else {
        it_->SeekToLast();
      }
      FindPrevUserEntry(from);
    }
    stepped_ = false;
  }

  // Sets *stop to the target of a seek to the end of the range in the current
  // direction. It is in inner_target_. Returns false if there is no end.
  bool EndOf(const DeadRange& range, Slice* stop) {
    const std::optional<std::string>& key = forward() ? range.end : range.begin;
    if (!key) return false;
    // Backward, past a dead key, but to the last version of one that is not in
    // the range.
    const bool to_last_version = !forward() && !range.includes_begin;
    *stop = InnerTarget(*key,
                        to_last_version ? 0 : SeekTrailer(kMaxSequenceNumber));
    return true;
  }

  // A walk over more than a few deletions, which looks for ranges to step over.
  // What it passes is remembered and reported.
  struct LongWalk {
    uint64_t deletions_before = 0;  // moves_.deletions when it began.
    bool has_begin = true;          // In walk_begin_.
    bool stepped = false;           // Over a range.
    bool to_end = false;            // A range leads to the end of the data.
    bool in_many_versions = false;  // Many versions of saved_key_ follow.
  };

  LongWalk BeginWalk(const Slice* from) {
    LongWalk walk;
    walk.deletions_before = moves_.deletions;
    walk.stepped = stepped_;
    walk.has_begin = from != &kNoKey;
    if (from == nullptr) {
      walk_begin_.Assign(saved_key_.slice());
    } else if (walk.has_begin && from->data() != walk_begin_.slice().data()) {
      walk_begin_.Assign(*from);
    }
    return walk;
  }

  // Return after a long walk as FindNextUserEntry and FindPrevUserEntry do.
  // it_ is at a visible deletion of saved_key_. All keys from `from` to that
  // one are dead. If `from` is null, only that one is known to be.
  [[gnu::noinline]] void WalkForward(const Slice* from) {
    LongWalk walk = BeginWalk(from);
    if (SkipDead(&walk)) FindNext<true>(true, nullptr, &walk);
    NoteWalk(walk);
  }
  [[gnu::noinline]] void WalkBackward(const Slice* from) {
    LongWalk walk = BeginWalk(from);
    if (SkipDead(&walk)) {
      FindPrev<true>(nullptr, &walk);
    } else {
      Forget();
    }
    NoteWalk(walk);
  }

  void NoteWalk(const LongWalk& walk) {
    if (parts_.dead_walks == nullptr || !error_.ok()) return;
    WalkedRange range;
    range.sequence = parts_.sequence;
    range.dead = moves_.deletions - walk.deletions_before;
    range.stepped = walk.stepped;
    Slice stop;
    bool has_stop = valid_;
    if (valid_) {
      stop = key_;
    } else if ((walk.to_end || !it_->Valid()) &&
               tree_state_->prefix_sources() == nullptr) {
      if (!it_->status().ok()) return;
    } else {  // At a bound. Sources that are left out may have keys beyond it.
      if (!it_->Valid() && !it_->status().ok()) return;
      const std::optional<Slice>& bound = forward() ? upper_ : lower_;
      if (!bound) return;
      stop = *bound;
      has_stop = true;
    }
    const Slice start = walk_begin_.slice();
    range.begin = forward() ? start : stop;
    range.has_begin = forward() ? walk.has_begin : has_stop;
    // Backward, the bound is dead, and the entry found is not.
    range.includes_begin = forward() || !valid_;
    range.end = forward() ? stop : start;
    range.has_end = forward() ? has_stop : walk.has_begin;
    if (range.has_begin && range.has_end &&
        Compare(range.begin, range.end) >= 0) {
      return;
    }
    parts_.dead_walks->Note(range, !parts_.is_own);
  }

  // Moves on from the current entry, a visible deletion: over a range that is
  // known to be dead, or else past this entry and in bulk over dead entries
  // after it in the direction of iteration. Returns false at the end of the
  // data, or at an error. Forward, saved_key_ is the deletion's user key, and
  // on return that of the last deletion passed.
  bool SkipDead(LongWalk* walk) {
    bool contains = false;
    bool has_stop = false;
    Slice stop;  // Where the range ends, or the next one begins.
    if (parts_.dead_walks != nullptr) {
      const Slice key = saved_key_.slice();
      parts_.dead_walks->ranges().Find(
          &key, parts_.sequence, forward(),
          [&](const DeadRange& range, bool is_inside) {
            contains = is_inside;
            if (contains) {
              has_stop = EndOf(range, &stop);
              return;
            }
            const std::optional<std::string>& next =
                forward() ? range.begin : range.end;
            has_stop = next.has_value();
            if (has_stop) stop = BeforeAllOf(*next);
          });
    }
    walk->in_many_versions = false;
    if (contains) {
      walk->stepped = true;
      RecordTick(parts_.statistics, Ticker::kDeadRangeSteps);
      if (!has_stop) {
        walk->to_end = true;
        return false;
      }
      if (!GoesFarther(stop)) return false;
      if (forward()) {
        it_->Seek(stop);
      } else {
        it_->SeekForPrev(stop);
      }
      return true;
    }
    if (forward()) {
      it_->Next();
    } else {
      it_->Prev();
    }
    if (!it_->Valid()) return true;
    DeadWalk dead(parts_.comparator, parts_.sequence, &saved_key_);
    const std::optional<Slice>& end = forward() ? upper_ : lower_;
    if (end && (!has_stop || IsBeyond(ExtractUserKey(stop), *end))) {
      stop = BeforeAllOf(*end);
      has_stop = true;
    }
    if (has_stop) dead.SetBound(&stop);
    if (forward()) {
      it_->SkipDeadForward(&dead);
    } else {
      it_->SkipDeadBackward(&dead);
    }
    moves_.skips += dead.passed();
    moves_.deletions += dead.deletions();
    walk->in_many_versions = dead.in_many_versions();
    return true;
  }

  // Returns whether the first key comes after the second in the direction of
  // iteration.
  bool IsBeyond(const Slice& a, const Slice& b) const {
    const int r = Compare(a, b);
    return forward() ? r > 0 : r < 0;
  }

  // Moves to the first visible entry from here on. With `skipping`, moves past
  // the versions of saved_key_; it_ is at the first of them, if there are any.
  // All keys from `from` to here are dead; null: nothing is known of them.
  void FindNextUserEntry(bool skipping, const Slice* from) {
    FindNext<false>(skipping, from, nullptr);
  }
  template <bool kLong>
  void FindNext(bool skipping, const Slice* from, LongWalk* walk) {
    valid_ = false;
    int skips = 0;
    if constexpr (kLong) {
      if (walk->in_many_versions) skips = kSkipsBeforeSeek;
    }
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
        const auto type = static_cast<ValueType>(trailer & 0xFF);
        if (type == ValueType::kValue) {
          valid_ = true;
          key_ = user_key;
          value_ = it_->value();
          return;
        }
        saved_key_.Assign(user_key);
        if (type == ValueType::kMerge) [[unlikely]]
          return MergeForward();
        skipping = true;
        skips = 0;
        ++moves_.skips;
        ++moves_.deletions;
        if constexpr (kLong) {
          if (!SkipDead(walk)) return;
          if (walk->in_many_versions) skips = kSkipsBeforeSeek;
          continue;
        } else if (moves_.deletions % kDeletionsBeforeWalk == 0) [[unlikely]] {
          return WalkForward(from);
        }
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
  // `from` is as in FindNextUserEntry.
  void FindPrevUserEntry(const Slice* from) { FindPrev<false>(from, nullptr); }
  template <bool kLong>
  void FindPrev(const Slice* from, LongWalk* walk) {
    valid_ = false;
    operands_.Clear();
    bool found = false;
    int versions = 0;  // Versions of saved_key_.
    if constexpr (kLong) {
      if (walk->in_many_versions) versions = kSkipsBeforeSeek;
    }
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
        const ValueType type =
            it_->Valid() && IsSaved(ExtractUserKey(it_->key()))
                ? ExtractValueType(it_->key())
                : ValueType::kDeletion;
        found = !IsDeletion(type);
        operands_.Clear();
        if (type == ValueType::kMerge) [[unlikely]] {
          CollectOperands();
        } else if (found) {
          Save();
        }
        if (found) ++moves_.skips;  // Counted like a step; corrected below.
        if (!it_->status().ok()) return;
        it_->SeekForPrev(BeforeAllOf(saved_key_.slice()));
        if (found) break;
        versions = 0;
        continue;
      }
      ++moves_.skips;
      if (trailer >> 8 <= parts_.sequence) {
        // Versions come oldest first: the last one seen counts.
        const auto type = static_cast<ValueType>(trailer & 0xFF);
        if (type == ValueType::kMerge) [[unlikely]] {
          // The version before is visible: a value in saved_value_, or another
          // operand.
          const Slice base = saved_value_.slice();
          operands_.AddNewer(it_->value(), found ? &base : nullptr);
          if (!bytewise_) saved_key_.Assign(user_key);
          found = true;
        } else if (type == ValueType::kValue) {
          found = true;
          operands_.Clear();
          Save();
        } else {
          found = false;
          operands_.Clear();
          ++moves_.deletions;
          if constexpr (kLong) {
            if (!SkipDead(walk)) return Forget();
            versions = walk->in_many_versions ? kSkipsBeforeSeek : 0;
            continue;
          } else if (moves_.deletions % kDeletionsBeforeWalk == 0)
              [[unlikely]] {
            return WalkBackward(from);
          }
        }
      }
      it_->Prev();
    }
    if (!it_->status().ok()) return;
    if (!found) return Forget();
    if (!operands_.empty() && !MergeSaved()) [[unlikely]]
      return;
    valid_ = true;
    --moves_.skips;
    key_ = saved_key_.slice();
    value_ = saved_value_.slice();
  }

  // Sets saved_value_ to what the operands of saved_key_ result in. Returns
  // false, and sets the error, if the operator fails.
  [[gnu::noinline]] bool MergeSaved() {
    error_ = operands_.Merge(parts_.merge_operator, saved_key_.slice(),
                             parts_.statistics, &saved_value_);
    return error_.ok();
  }

  void CollectOperands() {
    operands_.Collect(it_, [this](const Slice& key) { return IsSaved(key); });
  }

  // Makes saved_key_, at whose newest operand it_ is, the current entry.
  [[gnu::noinline]] void MergeForward() {
    CollectOperands();
    if (!it_->Valid() && !it_->status().ok()) return;
    if (!MergeSaved()) return;
    valid_ = true;
    direction_ = Direction::kPastMerged;
    key_ = saved_key_.slice();
    value_ = saved_value_.slice();
  }

  // Of a backward walk that found nothing.
  void Forget() {
    saved_key_.Assign(Slice());
    saved_value_.Assign(Slice());
  }

  DbIteratorParts parts_;
  IteratorState* tree_state_;  // parts_.state until the first Refresh.
  InternalIterator* it_;
  const bool bytewise_;
  // The caller's, and what they were at the last seek.
  const Slice* given_lower_;
  const Slice* given_upper_;
  std::optional<Slice> lower_;
  std::optional<Slice> upper_;
  enum class Direction : uint8_t {
    kForward,   // it_ is at the current entry.
    kBackward,  // it_ is before all versions of the current key, which is in
                // saved_key_ and saved_value_.
    // As kForward, but the current entry results from merge operands. it_ is at
    // an older version of the key or after all of them. The key is in
    // saved_key_ and the value in saved_value_.
    kPastMerged,
  };
  Direction direction_ = Direction::kForward;
  KeyBuffer& saved_key_ = parts_.state->saved_key;
  KeyBuffer& saved_value_ = parts_.state->saved_value;
  KeyBuffer& target_ = parts_.state->target;
  KeyBuffer& inner_target_ = parts_.state->inner_target;
  KeyBuffer& reseek_target_ = parts_.state->reseek_target;
  KeyBuffer& walk_begin_ = parts_.state->walk_begin;
  bool stepped_ = false;   // The current seek began at a range's end.
  bool at_end_ = false;    // The last seek ended without moving it_.
  bool reseeked_ = false;  // In this direction, since the user's seek.
  // An error of keys out of order, or of the merge operator.
  Status error_;
  IteratorOperands operands_;  // Of the current key.
  IteratorMoves moves_;
};

static_assert(alignof(DbIterator) <= ThreadArena::kAlignment);

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

size_t DbIteratorBytes() { return sizeof(DbIterator); }

std::unique_ptr<BoundedIterator> NewDbIterator(const DbIteratorParts& parts,
                                               const ReadOptions& options) {
  IteratorState* const state = parts.state;
  return std::unique_ptr<BoundedIterator>(new (state)
                                              DbIterator(parts, options));
}

Status Iterator::Refresh(const Snapshot* /*snapshot*/) {
  return Status::NotSupported("the iterator cannot be refreshed");
}

std::shared_ptr<const SliceTransform> Iterator::prefix_extractor() const {
  return nullptr;
}

std::unique_ptr<Iterator> NewErrorIterator(Status status) {
  return std::make_unique<ErrorIterator>(std::move(status));
}

}  // namespace varve
