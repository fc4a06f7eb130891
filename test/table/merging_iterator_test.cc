// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the merge is the sorted union of its children in every walk, and stops
// at a child's error. Method: random children and random moves, compared step
// by step with a sorted vector; children that fail at a chosen move.
#include "table/block/merging_iterator.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

const InternalKeyComparator* Comparator() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

std::string Key(const Slice& user_key, SequenceNumber sequence) {
  return MakeInternalKey(user_key, PackTrailer(sequence, ValueType::kValue));
}

// Over a sorted vector. Fails for good after `moves_until_error` moves, and
// once in the step of a seek that FailInStep names.
class VectorIterator : public InternalIterator {
 public:
  explicit VectorIterator(Entries entries, int moves_until_error = -1)
      : InternalIterator(&position_),
        entries_(std::move(entries)),
        moves_left_(moves_until_error) {}

  void SeekToFirst() override { MoveTo(0); }
  void SeekToLast() override { MoveTo(entries_.size() - 1); }
  void Seek(const Slice& key) override { MoveTo(LowerBound(key)); }
  bool PrepareSeek(const Slice& key, int step) override {
    if (step == 0) sought_ = key.ToString();
    EXPECT_EQ(step, step == 0 ? 0 : last_step_ + 1);
    EXPECT_EQ(key, sought_);
    last_step_ = step;
    ++steps_;
    if (step != failing_step_) return true;
    status_ = Status::IOError("step");
    failing_step_ = -1;
    position_.valid = false;
    return false;
  }
  void FailInStep(int step) { failing_step_ = step; }
  int steps() const { return steps_; }
  void FinishSeek(const Slice& key) override {
    EXPECT_EQ(last_step_, kSeekSteps - 1);
    EXPECT_EQ(key, sought_);
    last_step_ = -1;
    Seek(key);
  }
  void SeekForPrev(const Slice& key) override {
    const size_t i = LowerBound(key);
    const bool equal = i < entries_.size() && entries_[i].first == key;
    MoveTo(equal ? i : i - 1);
  }
  void Next() override { MoveTo(place_ + 1); }
  void Prev() override { MoveTo(place_ - 1); }
  Status status() const override { return status_; }

 private:
  size_t LowerBound(const Slice& key) const {
    size_t i = 0;
    while (i < entries_.size() &&
           Comparator()->Compare(entries_[i].first, key) < 0) {
      ++i;
    }
    return i;
  }
  void MoveTo(size_t place) {
    place_ = place;
    status_ = Status();
    if (moves_left_ >= 0 && moves_left_-- == 0) {
      status_ = Status::Corruption("child");
      moves_left_ = 0;
      place_ = entries_.size();
    }
    position_.valid = place_ < entries_.size();
    if (!position_.valid) return;
    // Like a block's, the key at hand moves in memory.
    key_ = entries_[place_].first;
    position_.key = key_;
    position_.value = entries_[place_].second;
  }

  const Entries entries_;
  int moves_left_;
  size_t place_ = SIZE_MAX;
  std::string sought_;
  int last_step_ = -1;
  int failing_step_ = -1;
  int steps_ = 0;
  std::string key_;
  IteratorPosition position_;
  Status status_;
};

std::unique_ptr<InternalIterator> Merge(const std::vector<Entries>& children) {
  std::vector<std::unique_ptr<InternalIterator>> iterators;
  for (const Entries& child : children) {
    iterators.push_back(std::make_unique<VectorIterator>(child));
  }
  return NewMergingIterator(Comparator(), std::move(iterators));
}

// The sorted union; of equal keys, the earlier child's first.
Entries Union(const std::vector<Entries>& children) {
  Entries all;
  for (const Entries& child : children) {
    all.insert(all.end(), child.begin(), child.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return Comparator()->Compare(a.first, b.first) < 0;
  });
  return all;
}

TEST(MergingIteratorTest, WalksBothWays) {
  const std::vector<Entries> children = {
      {{Key("a", 5), "0"}, {Key("c", 1), "0"}},
      {},
      {{Key("a", 7), "2"}, {Key("a", 5), "2"}, {Key("b", 9), "2"}},
  };
  const auto it = Merge(children);
  std::string forward;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    forward += ExtractUserKey(it->key()).ToString() + it->value().ToString();
  }
  EXPECT_EQ(forward, "a2a0a2b2c0");
  std::string backward;
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    backward += ExtractUserKey(it->key()).ToString() + it->value().ToString();
  }
  EXPECT_EQ(backward, "c0b2a2a0a2");
  EXPECT_TRUE(it->status().ok());
}

TEST(MergingIteratorTest, HandsBackOneChildAsItIs) {
  std::vector<std::unique_ptr<InternalIterator>> one;
  one.push_back(std::make_unique<VectorIterator>(Entries{}));
  const InternalIterator* child = one[0].get();
  EXPECT_EQ(NewMergingIterator(Comparator(), std::move(one)).get(), child);
}

TEST(MergingIteratorTest, NoChildrenMakeAnEmptyIterator) {
  const auto it = NewMergingIterator(Comparator(), {});
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  const auto failed = NewEmptyIterator(Status::Corruption("why"));
  failed->Seek(Key("a", 1));
  EXPECT_FALSE(failed->Valid());
  EXPECT_EQ(failed->status().ToString(), "Corruption: why");
}

// Compares `moves` random moves with the sorted union.
void CheckRandomMoves(test::Rng* random, const std::vector<Entries>& children,
                      int moves) {
  const Entries expected = Union(children);
  const auto it = Merge(children);
  const size_t end = expected.size();
  size_t place = end;
  const auto lower_bound = [&expected](const std::string& key) {
    return static_cast<size_t>(
        std::partition_point(expected.begin(), expected.end(),
                             [&key](const auto& entry) {
                               return Comparator()->Compare(entry.first, key) <
                                      0;
                             }) -
        expected.begin());
  };
  for (int i = 0; i < moves; ++i) {
    const std::string target =
        Key(std::to_string(random->Below(40)), random->Below(10));
    const uint64_t move = random->Below(place == end ? 4 : 20);
    if (move == 0) {
      it->SeekToFirst();
      place = 0;
    } else if (move == 1) {
      it->SeekToLast();
      place = end == 0 ? end : end - 1;
    } else if (move == 2) {
      it->Seek(target);
      place = lower_bound(target);
    } else if (move == 3) {
      it->SeekForPrev(target);
      place = lower_bound(target);
      while (place < end && expected[place].first == target) ++place;
      place = place == 0 ? end : place - 1;
    } else if (move < 12) {
      it->Next();
      ++place;
    } else {
      it->Prev();
      place = place == 0 ? end : place - 1;
    }
    ASSERT_EQ(it->Valid(), place < end) << "move " << move;
    if (place < end) {
      ASSERT_EQ(it->key(), expected[place].first) << "move " << move;
      ASSERT_EQ(it->value(), expected[place].second) << "move " << move;
    }
    ASSERT_TRUE(it->status().ok());
  }
}

TEST(MergingIteratorTest, IsTheSortedUnionInRandomMoves) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 300; ++round) {
    std::vector<Entries> children(1 + random.Below(9));
    for (size_t c = 0; c < children.size(); ++c) {
      Entries& child = children[c];
      const uint64_t count = random.Below(30);
      for (uint64_t i = 0; i < count; ++i) {
        child.emplace_back(
            Key(std::to_string(random.Below(40)), random.Below(10)),
            std::to_string(c));
      }
      std::sort(child.begin(), child.end(), [](const auto& a, const auto& b) {
        return Comparator()->Compare(a.first, b.first) < 0;
      });
      child.erase(std::unique(child.begin(), child.end()), child.end());
    }
    ASSERT_NO_FATAL_FAILURE(CheckRandomMoves(&random, children, 200));
  }
}

TEST(MergingIteratorTest, StopsAtTheErrorOfAChild) {
  const Entries good = {{Key("a", 1), ""}, {Key("c", 1), ""}};
  const Entries bad = {{Key("b", 1), ""}, {Key("d", 1), ""}};
  // The bad child fails at its first, second, ... move.
  for (int moves = 0; moves < 3; ++moves) {
    std::vector<std::unique_ptr<InternalIterator>> children;
    children.push_back(std::make_unique<VectorIterator>(good));
    children.push_back(std::make_unique<VectorIterator>(bad, moves));
    const auto it = NewMergingIterator(Comparator(), std::move(children));
    int seen = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++seen;
    EXPECT_EQ(seen, 2 * moves);
    EXPECT_TRUE(it->status().IsCorruption());
    it->SeekToLast();
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(it->status().IsCorruption());
  }
  // At the turn.
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<VectorIterator>(good));
  children.push_back(std::make_unique<VectorIterator>(bad, 1));
  const auto it = NewMergingIterator(Comparator(), std::move(children));
  it->SeekToFirst();
  it->Prev();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsCorruption());
}

TEST(MergingIteratorTest, ASeekEndsAtTheStepThatFails) {
  const Entries entries[] = {{{Key("a", 1), "0"}, {Key("d", 1), "0"}},
                             {{Key("b", 1), "1"}},
                             {{Key("c", 1), "2"}, {Key("e", 1), "2"}}};
  const auto spell = [](InternalIterator* it) {
    std::string all;
    for (; it->Valid(); it->Next()) all += it->value().ToString();
    return all;
  };
  for (int step = 0; step < InternalIterator::kSeekSteps; ++step) {
    for (int failing = 0; failing < 3; ++failing) {
      // What follows the seek that failed.
      for (int next = 0; next < 4; ++next) {
        std::vector<std::unique_ptr<InternalIterator>> iterators;
        VectorIterator* children[3];
        for (int c = 0; c < 3; ++c) {
          auto child = std::make_unique<VectorIterator>(entries[c]);
          children[c] = child.get();
          iterators.push_back(std::move(child));
        }
        const auto it = NewMergingIterator(Comparator(), std::move(iterators));
        it->SeekToFirst();
        children[failing]->FailInStep(step);
        it->Seek(Key("b", 1));
        EXPECT_FALSE(it->Valid());
        EXPECT_TRUE(it->status().IsIOError());
        for (int c = 0; c < 3; ++c) {
          EXPECT_EQ(children[c]->steps(), step + (c <= failing ? 1 : 0));
        }
        if (next == 0) {
          it->Seek(Key("b", 1));
          EXPECT_EQ(spell(it.get()), "1202");
        } else if (next == 1) {
          it->SeekToFirst();
          EXPECT_EQ(spell(it.get()), "01202");
        } else if (next == 2) {
          it->SeekForPrev(Key("c", 1));
          EXPECT_EQ(spell(it.get()), "202");
        } else {
          it->SeekToLast();
          EXPECT_EQ(spell(it.get()), "2");
        }
        EXPECT_TRUE(it->status().ok());
      }
    }
  }
}

}  // namespace
}  // namespace varve
