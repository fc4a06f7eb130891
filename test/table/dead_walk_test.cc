// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a walk in bulk passes dead entries only, counts them, and leaves the
// iterator where steps find every other entry, in both directions. Method:
// random versions of random keys in one to four sources (blocks, sources that
// go by steps, sources that do nothing), compared with the rules applied to the
// sorted list of all entries; sources with keys out of order, where a walk must
// end.
#include "table/block/dead_walk.h"

#include "table/block/block.h"
#include "table/block/block_builder.h"
#include "table/block/merging_iterator.h"
#include "test/testing/comparators.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// A source over a vector, in the vector's order.
class VectorSource : public InternalIterator {
 public:
  VectorSource(const InternalKeyComparator* comparator, Entries entries,
               bool steps)
      : InternalIterator(&position_),
        comparator_(*comparator),
        entries_(std::move(entries)),
        steps_(steps) {}

  void SeekToFirst() override { MoveTo(0); }
  void SeekToLast() override { MoveTo(entries_.size() - 1); }
  void Seek(const Slice& key) override { MoveTo(LowerBound(key)); }
  void SeekForPrev(const Slice& key) override {
    const size_t i = LowerBound(key);
    const bool equal = i < entries_.size() && entries_[i].first == key;
    MoveTo(equal ? i : i - 1);
  }
  void Next() override { MoveTo(place_ + 1); }
  void Prev() override { MoveTo(place_ - 1); }
  void SkipDeadForward(DeadWalk* walk) override {
    if (steps_) SkipDeadBySteps(this, walk);
  }
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override {
    if (steps_) SkipHiddenBySteps(this, deletions, walk);
  }
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    for (size_t i = place_; i < entries_.size() && !deletions->full(); ++i) {
      const Slice key = entries_[i].first;
      if (steps_ && walk.IsVisibleDeletion(ExtractTrailer(key))) {
        deletions->Add(key);
      }
    }
  }
  Status status() const override { return Status::OK(); }

 private:
  size_t LowerBound(const Slice& key) const {
    size_t i = 0;
    while (i < entries_.size() &&
           comparator_.Compare(entries_[i].first, key) < 0) {
      ++i;
    }
    return i;
  }
  void MoveTo(size_t place) {
    place_ = place;
    position_.valid = place_ < entries_.size();
    if (!position_.valid) return;
    // Like a block's, the key at hand moves in memory.
    key_ = entries_[place_].first;
    position_.key = key_;
    position_.value = entries_[place_].second;
  }

  const InternalKeyComparator& comparator_;
  const Entries entries_;
  const bool steps_;
  size_t place_ = SIZE_MAX;
  std::string key_;
  IteratorPosition position_;
};

// A block with its iterator as a source.
class BlockSource : public InternalIterator {
 public:
  BlockSource(const InternalKeyComparator* comparator, const Entries& entries) {
    Show(it_.position());
    BlockBuilder builder(16);
    for (const auto& [key, value] : entries) builder.Add(key, value);
    BlockBuildOptions options;
    options.bytewise = options.fingerprints = comparator->bytewise();
    Block* block = nullptr;
    EXPECT_TRUE(Ok(Block::Create(*builder.Finish(), options, &block)));
    block_ = BlockRef(block);
    it_.Reset(block, comparator);
  }

  void SeekToFirst() override { it_.SeekToFirst(); }
  void SeekToLast() override { it_.SeekToLast(); }
  void Seek(const Slice& key) override { it_.Seek(key); }
  void SeekForPrev(const Slice& key) override { it_.SeekForPrev(key); }
  void Next() override { it_.Next(); }
  void Prev() override { it_.Prev(); }
  void SkipDeadForward(DeadWalk* walk) override { it_.SkipDeadForward(walk); }
  void SkipDeadBackward(DeadWalk* walk) override { it_.SkipDeadBackward(walk); }
  void SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) override {
    it_.SkipHidden(deletions, walk);
  }
  void CollectDeletions(const DeadWalk& walk,
                        DeletionBatch* deletions) const override {
    it_.CollectDeletions(walk, deletions);
  }
  Status status() const override { return Status::OK(); }

 private:
  BlockRef block_;
  BlockIterator it_;
};

class DeadWalkTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr SequenceNumber kMaxVersions = 40;

  bool Before(const std::string& a, const std::string& b) const {
    return comparator_.Compare(a, b) < 0;
  }
  void Sort(Entries* entries) const {
    std::sort(
        entries->begin(), entries->end(),
        [&](const auto& a, const auto& b) { return Before(a.first, b.first); });
  }

  // Fills all_, in order, and one list for each source.
  std::vector<Entries> MakeEntries(test::Rng* rng) {
    all_.clear();
    std::vector<Entries> sources(rng->Between(1, 4));
    const int keys = rng->Pick({1, 5, 60, 200});
    const std::string common(rng->Pick({0, 3, 12, 130}), 'c');
    const uint64_t live_one_in = rng->Pick({2, 10, 100});
    const bool layered = rng->OneIn(2);
    for (int i = 0; i < keys; ++i) {
      std::string user_key = common + std::to_string(1000 + i);
      if (rng->OneIn(50)) user_key.append(300, 'l');
      const int versions =
          rng->OneIn(20) ? rng->Between(9, 30) : rng->Pick({1, 1, 2, 2, 2, 3});
      SequenceNumber sequence = 0;
      for (int v = 0; v < versions; ++v) {
        sequence += 1 + rng->Below(kMaxVersions / 30);
        // Mostly a deletion on top of values.
        const bool deletion =
            v == versions - 1 ? !rng->OneIn(live_one_in) : rng->OneIn(6);
        const ValueType type =
            deletion ? rng->Pick({ValueType::kDeletion, ValueType::kDeletion,
                                  ValueType::kSingleDeletion})
                     : ValueType::kValue;
        std::string key =
            MakeInternalKey(user_key, PackTrailer(sequence, type));
        const std::string value = deletion ? "" : rng->Bytes(rng->Below(200));
        all_.emplace_back(key, value);
        // Deletions above, values below, or as it comes.
        const size_t source = layered ? (deletion ? 0 : sources.size() - 1)
                                      : rng->Below(sources.size());
        sources[source].emplace_back(std::move(key), value);
      }
    }
    Sort(&all_);
    for (Entries& source : sources) Sort(&source);
    return sources;
  }

  std::unique_ptr<InternalIterator> MakeIterator(
      test::Rng* rng, const std::vector<Entries>& sources) {
    std::vector<std::unique_ptr<InternalIterator>> children;
    for (const Entries& source : sources) {
      const int kind = rng->Between(0, 5);
      if (kind > 1 && !source.empty()) {
        children.push_back(std::make_unique<BlockSource>(&comparator_, source));
      } else {
        children.push_back(
            std::make_unique<VectorSource>(&comparator_, source, kind == 1));
      }
    }
    return NewMergingIterator(&comparator_, std::move(children));
  }

  bool IsDeletion(const std::string& key, SequenceNumber sequence) const {
    return ExtractSequence(key) <= sequence &&
           ExtractValueType(key) != ValueType::kValue;
  }
  // Whether a reader at the sequence number sees nothing of entry i.
  bool IsDead(size_t i, SequenceNumber sequence) const {
    for (size_t j = i + 1; j-- > 0;) {
      if (comparator_.CompareUser(ExtractUserKey(all_[j].first),
                                  ExtractUserKey(all_[i].first)) != 0) {
        return false;
      }
      if (IsDeletion(all_[j].first, sequence)) return true;
    }
    return false;
  }
  size_t PlaceOf(const InternalIterator& it) const {
    if (!it.Valid()) return all_.size();
    const auto found =
        std::lower_bound(all_.begin(), all_.end(), it.key().ToString(),
                         [&](const auto& a, const std::string& b) {
                           return Before(a.first, b);
                         });
    EXPECT_TRUE(found != all_.end() && it.key() == Slice(found->first) &&
                it.value() == Slice(found->second));
    return static_cast<size_t>(found - all_.begin());
  }

  // Walks in bulk from the entry `from`, and then by steps to the end.
  void CheckForward(InternalIterator* it, size_t from, SequenceNumber sequence,
                    const std::string* bound) {
    // As a caller does, which has passed a deletion, perhaps one of this key.
    size_t hiding = from;
    while (hiding > 0 && !IsDeletion(all_[hiding - 1].first, sequence)) {
      --hiding;
    }
    KeyBuffer hidden(nullptr);
    hidden.Assign(hiding == 0 ? Slice("none")
                              : ExtractUserKey(all_[hiding - 1].first));
    DeadWalk walk(&comparator_, sequence, &hidden);
    const Slice bound_key = bound == nullptr ? Slice() : Slice(*bound);
    if (bound != nullptr) walk.SetBound(&bound_key);
    it->Seek(all_[from].first);
    ASSERT_EQ(PlaceOf(*it), from);
    it->SkipDeadForward(&walk);
    ASSERT_EQ(walk.bound() == nullptr, bound == nullptr);
    ASSERT_LE(walk.deletions(), walk.passed());
    const size_t stopped = PlaceOf(*it);
    ASSERT_GE(stopped, from);
    // A hidden entry must not seem visible to the caller.
    if (stopped < all_.size() && IsDead(stopped, sequence) &&
        !IsDeletion(all_[stopped].first, sequence)) {
      ASSERT_TRUE(
          walk.IsSameKey(hidden.slice(), ExtractUserKey(all_[stopped].first)));
    }
    size_t missing = 0;
    size_t expected = from;
    for (; it->Valid(); it->Next()) {
      const size_t place = PlaceOf(*it);
      ASSERT_GE(place, expected);
      for (; expected < place; ++expected, ++missing) {
        ASSERT_TRUE(IsDead(expected, sequence)) << expected;
      }
      ++expected;
    }
    for (; expected < all_.size(); ++expected, ++missing) {
      ASSERT_TRUE(IsDead(expected, sequence)) << expected;
    }
    ASSERT_EQ(walk.passed(), missing);
    if (bound != nullptr) {
      for (size_t i = from; i < stopped; ++i) {
        if (!IsDeletion(all_[i].first, sequence)) continue;
        // Another deletion may hide it.
        if (i > 0 && IsDead(i - 1, sequence) &&
            walk.IsSameKey(ExtractUserKey(all_[i - 1].first),
                           ExtractUserKey(all_[i].first))) {
          continue;
        }
        ASSERT_LT(comparator_.Compare(all_[i].first, *bound), 0);
      }
    }
  }

  void CheckBackward(InternalIterator* it, size_t from, SequenceNumber sequence,
                     const std::string* bound) {
    KeyBuffer hidden(nullptr);
    DeadWalk walk(&comparator_, sequence, &hidden);
    const Slice bound_key = bound == nullptr ? Slice() : Slice(*bound);
    if (bound != nullptr) walk.SetBound(&bound_key);
    it->SeekForPrev(all_[from].first);
    ASSERT_EQ(PlaceOf(*it), from);
    it->SkipDeadBackward(&walk);
    ASSERT_LE(walk.deletions(), walk.passed());
    const size_t stopped = it->Valid() ? PlaceOf(*it) + 1 : 0;
    ASSERT_EQ(walk.passed(), from + 1 - stopped);
    for (size_t i = stopped; i <= from; ++i) {
      ASSERT_TRUE(IsDead(i, sequence)) << i;
      if (bound != nullptr) {
        ASSERT_GT(comparator_.Compare(all_[i].first, *bound), 0);
      }
    }
    for (size_t i = stopped; i-- > 0; it->Prev()) ASSERT_EQ(PlaceOf(*it), i);
    ASSERT_FALSE(it->Valid());
  }

  const test::ReverseComparator reverse_;
  const InternalKeyComparator comparator_{GetParam() ? BytewiseComparator()
                                                     : &reverse_};
  Entries all_;
};

TEST_P(DeadWalkTest, PassesOnlyTheDead) {
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 400; ++round) {
    const std::vector<Entries> sources = MakeEntries(&rng);
    const auto it = MakeIterator(&rng, sources);
    for (int i = 0; i < 20; ++i) {
      const size_t from = rng.Below(all_.size());
      const SequenceNumber sequence =
          rng.OneIn(3) ? rng.Below(kMaxVersions) : kMaxSequenceNumber;
      std::string bound = all_[rng.Below(all_.size())].first;
      if (rng.OneIn(2)) {
        bound = MakeInternalKey(ExtractUserKey(bound),
                                SeekTrailer(kMaxSequenceNumber));
      }
      const std::string* const given = rng.OneIn(2) ? &bound : nullptr;
      if (rng.OneIn(2)) {
        ASSERT_NO_FATAL_FAILURE(CheckForward(it.get(), from, sequence, given));
      } else {
        ASSERT_NO_FATAL_FAILURE(CheckBackward(it.get(), from, sequence, given));
      }
    }
  }
}

// Deletions in one source over values in another, and deletions alone: one call
// passes all of them.
TEST_P(DeadWalkTest, PassesLongRunsInOneCall) {
  test::Rng rng(test::TestSeed());
  for (const bool values : {false, true}) {
    for (const bool split : {false, true}) {
      if (split && !values) continue;
      std::vector<Entries> sources(split ? 2 : 1);
      all_.clear();
      for (int i = 0; i < 1000; ++i) {
        const std::string user_key = "key" + std::to_string(1000 + i);
        const std::string deletion =
            MakeInternalKey(user_key, PackTrailer(9, ValueType::kDeletion));
        all_.emplace_back(deletion, "");
        sources[0].emplace_back(deletion, "");
        if (!values) continue;
        const std::string value =
            MakeInternalKey(user_key, PackTrailer(5, ValueType::kValue));
        all_.emplace_back(value, "v");
        sources.back().emplace_back(value, "v");
      }
      Sort(&all_);
      std::vector<std::unique_ptr<InternalIterator>> children;
      for (Entries& source : sources) {
        Sort(&source);
        children.push_back(std::make_unique<BlockSource>(&comparator_, source));
      }
      const auto it = NewMergingIterator(&comparator_, std::move(children));
      KeyBuffer hidden(nullptr);
      DeadWalk forward(&comparator_, 10, &hidden);
      it->SeekToFirst();
      it->SkipDeadForward(&forward);
      EXPECT_FALSE(it->Valid());
      EXPECT_EQ(forward.passed(), all_.size());
      EXPECT_EQ(forward.deletions(), 1000u);
      DeadWalk backward(&comparator_, 10, &hidden);
      it->SeekToLast();
      it->SkipDeadBackward(&backward);
      EXPECT_FALSE(it->Valid());
      EXPECT_EQ(backward.passed(), all_.size());
      EXPECT_EQ(backward.deletions(), 1000u);
    }
  }
}

// Answers may be wrong, but every walk ends, and passes no entry twice.
TEST_P(DeadWalkTest, EndsWhenKeysAreOutOfOrder) {
  test::Rng rng(test::TestSeed());
  for (int round = 0; round < 300; ++round) {
    std::vector<Entries> sources = MakeEntries(&rng);
    for (Entries& source : sources) {
      for (size_t i = source.size(); i > 1; --i) {
        if (rng.OneIn(3)) std::swap(source[i - 1], source[rng.Below(i)]);
      }
    }
    const auto it = MakeIterator(&rng, sources);
    KeyBuffer hidden(nullptr);
    DeadWalk walk(&comparator_, kMaxSequenceNumber, &hidden);
    size_t steps = 0;
    if (rng.OneIn(2)) {
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++steps) {
        it->SkipDeadForward(&walk);
        if (!it->Valid()) break;
      }
    } else {
      for (it->SeekToLast(); it->Valid(); it->Prev(), ++steps) {
        it->SkipDeadBackward(&walk);
        if (!it->Valid()) break;
      }
    }
    EXPECT_EQ(walk.passed() + steps, all_.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Comparators, DeadWalkTest, ::testing::Bool(),
                         [](const auto& given) {
                           return given.param ? "Bytewise" : "Reverse";
                         });

}  // namespace
}  // namespace varve
