// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/baseline/skiplist.h"

#include <bit>
#include <new>

#include "util/base/random.h"
#include "util/threads/path_counter.h"

namespace varve {

// The links of the levels above 0 are *before* the node, level 1 nearest. The
// entry's bytes are after it. So a node is one allocation, and its level-0 link
// is near the key.
struct SkipListNode {
  std::atomic<SkipListNode*> next0;

  // Returns the node whose entry it is.
  static SkipListNode* Of(char* entry) {
    return reinterpret_cast<SkipListNode*>(entry) - 1;
  }
  const char* entry() const { return reinterpret_cast<const char*>(this + 1); }
  std::atomic<SkipListNode*>& link(int level) { return (&next0)[-level]; }
  // T2. acquire pairs with the release of CompareAndSet.
  SkipListNode* Next(int level) const {
    return (&next0)[-level].load(std::memory_order_acquire);
  }
  // relaxed: the node is not linked yet; T1 publishes it.
  void InitNext(int level, SkipListNode* node) {
    link(level).store(node, std::memory_order_relaxed);
  }
  // T1. release pairs with the acquire of Next; nothing is read through a
  // failed exchange, so relaxed there.
  bool CompareAndSet(int level, SkipListNode* expected, SkipListNode* node) {
    return link(level).compare_exchange_strong(
        expected, node, std::memory_order_release, std::memory_order_relaxed);
  }
};

namespace {

// Counts the path of memtable=skiplist, 64 inserts ahead. A thread that only
// writes has no record to count in, and would share a cache line with others.
void CountInsert() {
  constexpr uint32_t kAhead = 64;
  thread_local constinit uint32_t inserts = 0;
  if (inserts++ % kAhead == 0) CountPath(PathCounter::kSkipList, kAhead);
}

// Returns a random height. A quarter of a level's nodes are on the next level.
int RandomHeight() {
  thread_local Random random(std::bit_cast<uintptr_t>(&random));
  const uint64_t bits = random.Next();
  const int height = 1 + std::countr_zero(bits | uint64_t{1} << 62) / 2;
  return height < SkipList::kMaxHeight ? height : SkipList::kMaxHeight;
}

}  // namespace

SkipList::SkipList(const InternalKeyComparator* comparator, Arena* arena)
    : comparator_(comparator),
      arena_(arena),
      head_(Node::Of(NewNode(0, kMaxHeight).data)) {
  for (int i = 0; i < kMaxHeight; ++i) head_->InitNext(i, nullptr);
}

ArenaPlace SkipList::NewNode(size_t entry_size, int height) {
  static_assert(sizeof(Node) == Arena::kUnit);
  const auto links = static_cast<size_t>(height);
  const ArenaPlace memory = arena_->Allocate(links * sizeof(Node) + entry_size);
  auto* const top = reinterpret_cast<Node*>(memory.data);
  for (size_t i = 0; i < links; ++i) new (top + i) std::atomic<Node*>(nullptr);
  // Until the node is linked, level 0 carries its height.
  top[links - 1].InitNext(
      0, reinterpret_cast<Node*>(static_cast<uintptr_t>(height)));
  return {memory.data + links * sizeof(Node),
          memory.position + static_cast<uint32_t>(links)};
}

ArenaPlace SkipList::AllocateEntry(size_t size) {
  return NewNode(size, RandomHeight());
}

void SkipList::FindOnLevel(const Slice& key, Node* before, int level,
                           Node** prev, Node** next) const {
  for (;;) {
    Node* node = before->Next(level);
    if (node == nullptr ||
        comparator_->Compare(EntryKey(node->entry()), key) >= 0) {
      *prev = before;
      *next = node;
      return;
    }
    before = node;
  }
}

void SkipList::Insert(const ArenaPlace& entry, const Slice& key) {
  CountInsert();
  Node* const node = Node::Of(entry.data);
  // relaxed: this thread wrote it in NewNode.
  const int height = static_cast<int>(
      reinterpret_cast<uintptr_t>(node->next0.load(std::memory_order_relaxed)));

  // relaxed: a height that is seen late costs a slower search only; the head
  // has links of every level.
  int max_height = max_height_.load(std::memory_order_relaxed);
  while (height > max_height &&
         !max_height_.compare_exchange_weak(max_height, height,
                                            std::memory_order_relaxed)) {
  }

  Node* prev[kMaxHeight];
  Node* next[kMaxHeight];
  Node* before = head_;
  const int top = height > max_height ? height : max_height;
  for (int level = top - 1; level >= 0; --level) {
    FindOnLevel(key, before, level, &prev[level], &next[level]);
    before = prev[level];
  }
  for (int level = 0; level < height; ++level) {
    for (;;) {
      node->InitNext(level, next[level]);
      if (prev[level]->CompareAndSet(level, next[level], node)) break;
      FindOnLevel(key, prev[level], level, &prev[level], &next[level]);  // B1
    }
  }
}

SkipList::Node* SkipList::FindGreaterOrEqual(const Slice& key) const {
  Node* before = head_;
  Node* next = nullptr;
  // relaxed: see Insert.
  for (int level = max_height_.load(std::memory_order_relaxed) - 1; level >= 0;
       --level) {
    FindOnLevel(key, before, level, &before, &next);
  }
  return next;
}

SkipList::Node* SkipList::FindLessThan(const Slice& key) const {
  Node* before = head_;
  Node* next = nullptr;
  // relaxed: see Insert.
  for (int level = max_height_.load(std::memory_order_relaxed) - 1; level >= 0;
       --level) {
    FindOnLevel(key, before, level, &before, &next);
  }
  return before == head_ ? nullptr : before;
}

const char* SkipList::Iterator::entry() const { return node_->entry(); }

void SkipList::Iterator::Next() { node_ = node_->Next(0); }

void SkipList::Iterator::Prev() {
  node_ = list_->FindLessThan(EntryKey(node_->entry()));
}

void SkipList::Iterator::Seek(const Slice& internal_key) {
  node_ = list_->FindGreaterOrEqual(internal_key);
}

void SkipList::Iterator::SeekToFirst() { node_ = list_->head_->Next(0); }

void SkipList::Iterator::SeekToLast() {
  const Node* node = list_->head_;
  // relaxed: see Insert.
  for (int level = list_->max_height_.load(std::memory_order_relaxed) - 1;
       level >= 0; --level) {
    while (const Node* next = node->Next(level)) node = next;
  }
  node_ = node == list_->head_ ? nullptr : node;
}

}  // namespace varve
