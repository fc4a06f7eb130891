// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/merging_iterator.h"

#include <cstdint>
#include <utility>

#include "table/block/dead_walk.h"

namespace varve {

namespace {

// One input of the merge, with its current key.
struct Child {
  // Called whenever the iterator has moved.
  void Update() {
    valid = iterator->Valid();
    if (valid) key = iterator->key();
  }

  std::unique_ptr<InternalIterator> iterator;
  bool valid = false;
  Slice key;
};

// The valid children form a binary heap of their numbers. Its top is the next
// child in the direction of iteration. As long as one child stays on top, each
// step costs one comparison, with the second best. In runs of keys from one
// table this is the usual case.
class MergingIterator final : public InternalIterator {
 public:
  MergingIterator(const InternalKeyComparator* comparator,
                  std::span<std::unique_ptr<InternalIterator>> children,
                  ThreadArena* memory)
      : comparator_(*comparator),
        children_(children.size(), memory),
        heap_(memory) {
    for (size_t i = 0; i < children.size(); ++i) {
      children_[i].iterator = std::move(children[i]);
    }
    heap_.reserve(children_.size());
  }

  Status status() const override { return status_; }

  bool ResetForReuse() override {
    bool reusable = true;
    for (Child& child : children_)
      reusable = child.iterator->ResetForReuse() && reusable;
    heap_.clear();
    status_ = Status();
    ShowNothing();
    return reusable;
  }

  void SeekToFirst() override {
    MoveAll(Direction::kForward,
            [](InternalIterator* child) { child->SeekToFirst(); });
  }
  void SeekToLast() override {
    MoveAll(Direction::kBackward,
            [](InternalIterator* child) { child->SeekToLast(); });
  }
  void Seek(const Slice& internal_key) override {
    for (int step = 0; step < kSeekSteps; ++step) {
      for (Child& child : children_) {
        if (!child.iterator->PrepareSeek(internal_key, step)) {
          TakeStatus(child);
          return;
        }
      }
    }
    MoveAll(Direction::kForward, [&internal_key](InternalIterator* child) {
      child->FinishSeek(internal_key);
    });
  }
  void SeekForPrev(const Slice& internal_key) override {
    MoveAll(Direction::kBackward, [&internal_key](InternalIterator* child) {
      child->SeekForPrev(internal_key);
    });
  }
  void Next() override {
    if (direction_ != Direction::kForward && !TurnForward()) return;
    Top().iterator->Next();
    Reorder();
  }
  void Prev() override {
    if (direction_ != Direction::kBackward && !TurnBackward()) return;
    Top().iterator->Prev();
    Reorder();
  }
  void SkipDeadForward(DeadWalk* walk) override;
  void SkipDeadBackward(DeadWalk* walk) override;

 private:
  enum class Direction : uint8_t { kForward, kBackward };

  // A child that passes fewer dead entries at once does not justify a call.
  static constexpr size_t kFewPassed = 6;
  // No place in the heap: the second best is not known yet.
  static constexpr size_t kUnknown = 0;

  Child& Top() { return children_[heap_[0]]; }
  void ShowTop() {
    if (heap_.empty()) {
      ShowNothing();
    } else {
      Show(Top().iterator->position());
    }
  }

  // Returns whether child a comes before child b in the direction of iteration.
  // Equal keys are ordered by child.
  bool Before(uint32_t a, uint32_t b) const {
    const int r = comparator_.Compare(children_[a].key, children_[b].key);
    if (r == 0) return (direction_ == Direction::kForward) == (a < b);
    return (direction_ == Direction::kForward) == (r < 0);
  }

  template <typename Move>
  void MoveAll(Direction direction, Move move) {
    direction_ = direction;
    status_ = Status();
    for (Child& child : children_) {
      move(child.iterator.get());
      child.Update();
      if (!child.valid && !TakeStatus(child)) return;
    }
    BuildHeap();
  }

  // Returns false and ends the iteration if the child stopped at an error.
  bool TakeStatus(const Child& child) {
    status_ = child.iterator->status();
    if (status_.ok()) return true;
    heap_.clear();
    ShowNothing();
    return false;
  }

  // Move all children except the top to the other side of the top's key.
  bool TurnForward();
  bool TurnBackward();

  // Lets the second-best child move over the entries that the top's next
  // deletions hide. Returns false if an error ends the iteration.
  // REQUIRES: the second best is known.
  bool SkipHiddenBySecond(DeadWalk* walk);

  void BuildHeap();
  // Moves the entry at a place of the heap down to its position.
  void SiftDown(size_t place);
  // Restores the heap after its top has moved.
  void Reorder();
  size_t SecondBest() const {
    return heap_.size() > 2 && Before(heap_[2], heap_[1]) ? 2 : 1;
  }

  const InternalKeyComparator& comparator_;
  ArenaVector<Child> children_;
  ArenaVector<uint32_t> heap_;
  size_t second_best_ = kUnknown;  // A place of the heap, 1 or 2.
  Direction direction_ = Direction::kForward;
  Status status_;
};

bool MergingIterator::TurnForward() {
  const uint32_t top = heap_[0];
  const Slice key = children_[top].key;
  direction_ = Direction::kForward;
  for (uint32_t i = 0; i < children_.size(); ++i) {
    if (i == top) continue;
    Child& child = children_[i];
    child.iterator->Seek(key);
    child.Update();
    // An earlier child's equal key was already passed.
    while (i < top && child.valid && comparator_.Compare(child.key, key) == 0) {
      child.iterator->Next();
      child.Update();
    }
    if (!child.valid && !TakeStatus(child)) return false;
  }
  BuildHeap();
  return true;
}

bool MergingIterator::TurnBackward() {
  const uint32_t top = heap_[0];
  const Slice key = children_[top].key;
  direction_ = Direction::kBackward;
  for (uint32_t i = 0; i < children_.size(); ++i) {
    if (i == top) continue;
    Child& child = children_[i];
    child.iterator->SeekForPrev(key);
    child.Update();
    // A later child's equal key is still ahead.
    while (i > top && child.valid && comparator_.Compare(child.key, key) == 0) {
      child.iterator->Prev();
      child.Update();
    }
    if (!child.valid && !TakeStatus(child)) return false;
  }
  BuildHeap();
  return true;
}

void MergingIterator::BuildHeap() {
  heap_.clear();
  for (uint32_t i = 0; i < children_.size(); ++i) {
    if (children_[i].valid) heap_.push_back(i);
  }
  for (size_t place = heap_.size() / 2; place > 0; --place) {
    SiftDown(place - 1);
  }
  second_best_ = kUnknown;
  ShowTop();
}

void MergingIterator::SiftDown(size_t place) {
  const uint32_t sinking = heap_[place];
  for (size_t next = 2 * place + 1; next < heap_.size(); next = 2 * place + 1) {
    if (next + 1 < heap_.size() && Before(heap_[next + 1], heap_[next])) {
      ++next;
    }
    if (!Before(heap_[next], sinking)) break;
    heap_[place] = heap_[next];
    place = next;
  }
  heap_[place] = sinking;
}

void MergingIterator::Reorder() {
  Child& top = Top();
  top.Update();
  if (!top.valid) {
    if (!TakeStatus(top)) return;
    heap_[0] = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) SiftDown(0);
    second_best_ = kUnknown;
    ShowTop();
    return;
  }
  if (heap_.size() > 1) {
    if (second_best_ == kUnknown) second_best_ = SecondBest();
    if (!Before(heap_[0], heap_[second_best_])) {
      // The second best is the new top. The old top moves down from there.
      std::swap(heap_[0], heap_[second_best_]);
      SiftDown(second_best_);
      second_best_ = kUnknown;
    }
  }
  ShowTop();
}

void MergingIterator::SkipDeadForward(DeadWalk* walk) {
  if (direction_ != Direction::kForward) return;
  const Slice* const bound = walk->bound();
  bool alternates = false;
  while (!heap_.empty()) {
    const uint64_t passed = walk->passed();
    if (heap_.size() > 1) {
      if (second_best_ == kUnknown) second_best_ = SecondBest();
      if (alternates && !SkipHiddenBySecond(walk)) return;
    }
    if (heap_.size() > 1) {
      if (second_best_ == kUnknown) second_best_ = SecondBest();
      const Slice& second = children_[heap_[second_best_]].key;
      if (walk->IsBeforeBound(second)) walk->SetBound(&second);
    }
    Top().iterator->SkipDeadForward(walk);
    walk->SetBound(bound);
    if (walk->passed() == passed && Top().iterator->Valid()) return;
    alternates = walk->passed() < passed + kFewPassed;
    Reorder();
    if (walk->in_many_versions()) return;
  }
}

bool MergingIterator::SkipHiddenBySecond(DeadWalk* walk) {
  DeletionBatch deletions;
  Top().iterator->CollectDeletions(*walk, &deletions);
  if (deletions.size() <= 1) return true;
  const uint64_t passed = walk->passed();
  Child& second = children_[heap_[second_best_]];
  second.iterator->SkipHidden(deletions, walk);
  if (walk->passed() == passed) return true;
  second.Update();
  if (!second.valid) {
    if (!TakeStatus(second)) return false;
    BuildHeap();
  } else {
    SiftDown(second_best_);
    second_best_ = kUnknown;
  }
  return true;
}

void MergingIterator::SkipDeadBackward(DeadWalk* walk) {
  if (direction_ != Direction::kBackward) return;
  const Slice* const bound = walk->bound();
  size_t streak = 0;  // Entries passed of one child.
  while (!heap_.empty()) {
    const uint32_t top = heap_[0];
    const Slice key = Top().key;
    const Slice* second = nullptr;
    if (heap_.size() > 1) {
      if (second_best_ == kUnknown) second_best_ = SecondBest();
      second = &children_[heap_[second_best_]].key;
    }
    if (streak >= kFewPassed) {
      const uint64_t passed = walk->passed();
      if (second != nullptr && walk->IsAfterBound(*second)) {
        walk->SetBound(second);
      }
      Top().iterator->SkipDeadBackward(walk);
      walk->SetBound(bound);
      if (walk->passed() == passed && Top().iterator->Valid()) return;
      Reorder();
      if (walk->in_many_versions()) return;
      streak = 0;
      continue;
    }
    const bool deletion = walk->IsVisibleDeletion(ExtractTrailer(key));
    // The next child's deletion may hide the entry.
    const bool hidden =
        !deletion && second != nullptr &&
        walk->IsVisibleDeletion(ExtractTrailer(*second)) &&
        walk->IsSameKey(ExtractUserKey(*second), ExtractUserKey(key));
    if (!deletion && !hidden) {
      streak = kFewPassed;
      continue;
    }
    if (!walk->IsAfterBound(key)) return;
    Top().iterator->Prev();
    walk->CountPassed(1, deletion);
    Reorder();
    streak = !heap_.empty() && heap_[0] == top ? streak + 1 : 0;
  }
}

class EmptyIterator final : public InternalIterator {
 public:
  explicit EmptyIterator(Status status) : status_(std::move(status)) {}

  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void SeekForPrev(const Slice&) override {}
  void Next() override {}
  void Prev() override {}
  bool ResetForReuse() override { return status_.ok(); }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyComparator* comparator,
    std::span<std::unique_ptr<InternalIterator>> children,
    ThreadArena* memory) {
  if (children.empty()) return NewEmptyIterator(Status(), memory);
  if (children.size() == 1) return std::move(children[0]);
  return std::unique_ptr<InternalIterator>(
      new (memory) MergingIterator(comparator, children, memory));
}

std::unique_ptr<InternalIterator> NewEmptyIterator(Status status,
                                                   ThreadArena* memory) {
  return std::unique_ptr<InternalIterator>(
      new (memory) EmptyIterator(std::move(status)));
}

}  // namespace varve
