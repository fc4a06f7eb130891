// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/snapshot/snapshot_registry.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>

namespace varve {

namespace {

constexpr size_t kFirstChunk = 7;  // With the first node, eight.

// Returns the calling thread's id. Each thread makes one system call for it.
uint32_t ThreadId() {
  static constinit thread_local uint32_t id = 0;
  if (id == 0) id = static_cast<uint32_t>(gettid());
  return id;
}

}  // namespace

SnapshotRegistry::SnapshotRegistry(bool lists_snapshots, Mutex* mutex,
                                   SuperVersionDisposer* disposer)
    : lists_snapshots_(lists_snapshots), db_mutex_(mutex), disposer_(disposer) {
  list_home_.registry = this;
  slot_id_ = RegisterSlotOwner(this);
}

SnapshotRegistry::~SnapshotRegistry() {
  threads_.ForEach([](SnapshotThread* thread) { delete thread; });
}

// ---- A thread's nodes -------------------------------------------------------

SnapshotThread* SnapshotRegistry::MakeFree(ThreadRecord* record) {
  if (ThreadOf(record) == nullptr) GiveNodes(record);
  SnapshotThread* const mine = ThreadOf(record);
  if (4 * CollectFree(mine) > mine->more.size()) return mine;
  MutexLock lock(&mutex_);
  Grow(mine);
  return mine;
}

void SnapshotRegistry::GiveNodes(ThreadRecord* record) {
  ThreadSlot* const slot = SlotOf(record, slot_id_);
  MutexLock lock(&mutex_);
  SnapshotThread* mine;
  if (without_thread_.empty()) {
    mine = new SnapshotThread;
    mine->registry = this;
    mine->first.home_ = mine;
    threads_.Append(mine);
  } else {
    mine = without_thread_.back();
    without_thread_.pop_back();
    mine->free = nullptr;
    mine->stamp = SnapshotStamp();
  }
  mine->thread_id = ThreadId();
  pthread_getname_np(pthread_self(), mine->name, sizeof(mine->name));
  mine->has_thread = true;
  // relaxed: a statistic.
  path_count_.fetch_add(1, std::memory_order_relaxed);
  // The slot was empty, and this registry's number never changes. So nothing is
  // released, and the slot may be filled in a nested read-side critical
  // section.
  static_cast<void>(FillSlot(slot, mine, slot_number_));
}

size_t SnapshotRegistry::CollectFree(SnapshotThread* mine) {
  size_t count = 0;
  mine->ForEach([mine, &count](SnapshotImpl* node) {
    if (RealHandshake::Sequence(node->words_) != kNoSnapshot) return;
    // relaxed: for a report.
    node->thread_id_.store(mine->thread_id, std::memory_order_relaxed);
    node->next_free_ = mine->free;
    mine->free = node;
    ++count;
  });
  return count;
}

void SnapshotRegistry::Grow(SnapshotThread* mine) {
  const size_t count = std::max(kFirstChunk, mine->more.size() + 1);
  mine->chunks.emplace_back(new SnapshotImpl[count]);
  SnapshotImpl* const chunk = mine->chunks.back().get();
  for (size_t i = count; i-- > 0;) {
    chunk[i].home_ = mine;
    // relaxed: for a report.
    chunk[i].thread_id_.store(mine->thread_id, std::memory_order_relaxed);
    chunk[i].next_free_ = mine->free;
    mine->free = &chunk[i];
  }
  for (size_t i = 0; i < count; ++i) mine->more.Append(&chunk[i]);
}

void SnapshotRegistry::ReleaseSlotPointer(ThreadRecord* /*record*/,
                                          void* pointer) {
  if (is_abandoned_) return;
  auto* const mine = static_cast<SnapshotThread*>(pointer);
  MutexLock lock(&mutex_);
  mine->has_thread = false;
  without_thread_.push_back(mine);
  bool idle = true;
  mine->ForEach([&idle](SnapshotImpl* node) {
    if (RealHandshake::Sequence(node->words_) != kNoSnapshot) idle = false;
  });
  if (!idle) return;
  // Scans may still read the nodes, so retire them.
  mine->more.Clear();
  for (auto& chunk : mine->chunks) {
    Retire(chunk.release(),
           [](void* nodes) { delete[] static_cast<SnapshotImpl*>(nodes); });
  }
  mine->chunks.clear();
}

// ---- Pins -------------------------------------------------------------------

void SnapshotRegistry::UnrefLocked(SuperVersion* super_version) {
  if (super_version == nullptr || !super_version->refs.Unref()) return;
  disposer_->DisposeLocked(super_version);
  disposer_->FreeLaterLocked();
}

void SnapshotRegistry::Repin(ThreadRecord* record, SnapshotImpl* node) {
  MutexLock lock(db_mutex());
  UnrefLocked(handshake_.RepinLocked(&node->words_, *last_sequence_,
                                     [record] { LightBarrier(record); }));
}

bool SnapshotRegistry::ReleaseStalePin(SnapshotImpl* node, SuperVersion* pin) {
  if (is_closed()) {
    ReleaseOrphan();
    return false;
  }
  MutexLock lock(db_mutex());
  UnrefLocked(handshake_.UncountLocked(&node->words_, pin));
  return true;
}

void SnapshotRegistry::CountPinsLocked(SuperVersion* old) {
  if (lists_snapshots_ || old == nullptr) return;
  MutexLock lock(&mutex_);
  ForEachNode([this, old](SnapshotThread*, SnapshotImpl* node) {
    if (handshake_.CountLocked(&node->words_, old)) old->refs.Ref();
  });
}

// ---- The end ----------------------------------------------------------------

void SnapshotRegistry::Abandon() {
  is_abandoned_ = true;
  UnregisterSlotOwner(slot_id_);
}

void SnapshotRegistry::Close() {
  UnregisterSlotOwner(slot_id_);
  {
    MutexLock lock(db_mutex());
    MutexLock nodes_lock(&mutex_);
    // relaxed: see is_closed().
    is_closed_.store(true, std::memory_order_relaxed);
    handshake_.PublishLocked(nullptr);
    ForEachNode([&](SnapshotThread*, SnapshotImpl* node) {
      db_mutex()->AssertHeld();
      SuperVersion* const pin = node->pin();
      if (pin == nullptr) return;
      ++orphans_;
      UnrefLocked(handshake_.UncountLocked(&node->words_, pin));
    });
    for (ListedSnapshot& listed : list_) {
      if (listed.pin() == nullptr) continue;
      ++orphans_;
      UnrefLocked(listed.pin());
    }
    if (orphans_ > 0) return;
  }
  delete this;
}

void SnapshotRegistry::ReleaseOrphan() {
  {
    MutexLock lock(&mutex_);
    if (--orphans_ > 0) return;
  }
  delete this;
}

// ---- Scans ------------------------------------------------------------------

std::vector<SequenceNumber> SnapshotRegistry::Scan() {
  std::vector<SequenceNumber> result;
  const auto add = [&result](SnapshotImpl* node) {
    const SequenceNumber sequence = RealHandshake::Sequence(node->words_);
    if (sequence != kNoSnapshot) result.push_back(sequence);
  };
  if (!lists_snapshots_) {
    handshake_.RaiseLowWatermark(*last_sequence_);
    const EpochGuard section;
    ForEachNode([&add](SnapshotThread*, SnapshotImpl* node) { add(node); });
  } else {
    MutexLock lock(db_mutex());
    for (ListedSnapshot& listed : list_) add(&listed);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

SequenceNumber SnapshotRegistry::ScanOldest() {
  if (lists_snapshots_) {
    MutexLock lock(db_mutex());
    return list_.empty() ? kNoSnapshot : list_.front().GetSequenceNumber();
  }
  SequenceNumber oldest = kNoSnapshot;
  handshake_.RaiseLowWatermark(*last_sequence_);
  const EpochGuard section;
  ForEachNode([&oldest](SnapshotThread*, SnapshotImpl* node) {
    oldest = std::min(oldest, RealHandshake::Sequence(node->words_));
  });
  return oldest;
}

size_t SnapshotRegistry::CountLocked() {
  if (lists_snapshots_) return list_.size();
  size_t count = 0;
  MutexLock lock(&mutex_);
  ForEachNode([&count](SnapshotThread*, SnapshotImpl* node) {
    if (RealHandshake::Sequence(node->words_) != kNoSnapshot) ++count;
  });
  return count;
}

SuperVersion* SnapshotRegistry::PinToReportLocked(const SnapshotImpl& node) {
  SuperVersion* const pin = node.pin();
  // A slow thread may have stored a SuperVersion that was replaced and freed
  // since (B24), and may not have checked again yet.
  // relaxed: guarded by the mutex.
  const bool is_held = lists_snapshots_ || pin == handshake_.CurrentLocked() ||
                       node.words_.counted.load(std::memory_order_relaxed);
  return is_held ? pin : nullptr;
}

SnapshotRegistry::Oldest SnapshotRegistry::FindOldestLocked() {
  Oldest oldest;
  const uint64_t now_ns = SnapshotStamp::Now();
  const auto look = [&](SnapshotThread* thread, SnapshotImpl* node) {
    db_mutex()->AssertHeld();
    const SequenceNumber sequence = RealHandshake::Sequence(node->words_);
    if (sequence >= oldest.sequence) return;
    oldest.sequence = sequence;
    // relaxed, both: for a report; the node may be taken again concurrently.
    const uint64_t start_ns = node->start_ns_.load(std::memory_order_relaxed);
    oldest.age_ns = now_ns > start_ns ? now_ns - start_ns : 0;
    oldest.thread_id = node->thread_id_.load(std::memory_order_relaxed);
    oldest.thread_name =
        thread->has_thread && thread->thread_id == oldest.thread_id
            ? thread->name
            : "";
    oldest.pin = PinToReportLocked(*node);
  };
  if (!lists_snapshots_) {
    MutexLock lock(&mutex_);
    ForEachNode(look);
  } else {
    for (ListedSnapshot& listed : list_) look(&list_home_, &listed);
    oldest.thread_name = "?";
  }
  return oldest;
}

// ---- snapshots=mutex --------------------------------------------------------

SnapshotImpl* SnapshotRegistry::TakeListed(bool pinned) {
  std::list<ListedSnapshot> taken(1);
  ListedSnapshot& node = taken.front();
  node.position = taken.begin();
  node.home_ = &list_home_;
  // relaxed: for a report.
  node.thread_id_.store(ThreadId(), std::memory_order_relaxed);
  MutexLock lock(db_mutex());
  // relaxed: a statistic.
  path_count_.fetch_add(1, std::memory_order_relaxed);
  if (pinned) {
    SuperVersion* const current = handshake_.CurrentLocked();
    current->refs.Ref();
    // relaxed: guarded by the mutex.
    node.words_.pin.store(current, std::memory_order_relaxed);
  }
  // acquire: pairs with the writers' release store.
  const SequenceNumber sequence =
      last_sequence_->load(std::memory_order_acquire);
  // relaxed, both: guarded by the mutex; for a report.
  node.words_.sequence.store(sequence, std::memory_order_relaxed);
  node.start_ns_.store(list_home_.stamp.Of(sequence),
                       std::memory_order_relaxed);
  list_.splice(list_.end(), taken);
  return &node;
}

void SnapshotRegistry::ReleaseListed(SnapshotImpl* node) {
  if (is_closed()) {
    ReleaseOrphan();
    return;
  }
  SuperVersion* const pin = node->pin();
  std::list<ListedSnapshot> released;  // Freed after the mutex is released.
  MutexLock lock(db_mutex());
  released.splice(released.end(), list_,
                  static_cast<ListedSnapshot*>(node)->position);
  UnrefLocked(pin);
}

}  // namespace varve
