// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/epoch.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <list>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"

namespace varve {

namespace {

// ---- The barrier ------------------------------------------------------------

constinit std::atomic<uint64_t> barrier_count{0};

int Membarrier(int command) {
  return static_cast<int>(syscall(SYS_membarrier, command, 0, 0));
}

// Returns true if the kernel has the barrier, and registers the process for it.
bool HasMembarrier() {
  static constinit ProcessWide<const bool> has;
  return has.Get([] {
    const int commands = Membarrier(MEMBARRIER_CMD_QUERY);
    return std::make_unique<const bool>(
        commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 &&
        Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0);
  });
}

void BarrierOfAllThreads() {
  if (Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  // It cannot fail after registration, unless a filter forbids it later. To
  // continue would free objects that readers use.
  fprintf(stderr, "varve: the kernel takes membarrier back\n");
  abort();
}

// T3 with two read-modify-writes of one word in place of two fences.
void BarrierBySequences() {
  // acq_rel: pairs with the exchange in TakeRecord, either way round.
  ThreadRecord* record = thread_records.fetch_add(0, std::memory_order_acq_rel);
  for (; record != nullptr; record = record->next_record) {
    // acq_rel: pairs with the exchange in Step, either way round.
    record->sequence.fetch_add(0, std::memory_order_acq_rel);
  }
}

// ---- The limbo list ---------------------------------------------------------

struct Retired {
  void* object;
  void (*deleter)(void*);
};

// A section that was open at a batch's barrier.
struct Blocker {
  const ThreadRecord* record;
  uint64_t sequence;
};

enum class BatchState { kArming, kWaiting, kRunning };

struct Batch {
  uint64_t number = 0;
  BatchState state = BatchState::kArming;
  std::vector<Retired> objects;
  std::vector<Blocker> blockers;
};

constexpr size_t kBatchObjects = 64;
// Batches that one call on the path of a read frees at most. Two, so that the
// backlog of a slow reader shrinks.
constexpr size_t kBatchesPerCall = 2;

// Whether the calling thread is running deleters (B7).
constinit thread_local bool is_freeing = false;

class Limbo final : private ForkWatch {
 public:
  void Retire(const Retired& retired) VARVE_EXCLUDES(mu_);
  // Closes the open batch, and frees at most `max_batches` batches.
  void FreeWhatCanBe(size_t max_batches) VARVE_EXCLUDES(mu_);
  void Drain() VARVE_EXCLUDES(mu_);
  size_t Count() VARVE_EXCLUDES(mu_);

 private:
  // Closes the open batch.
  Batch* CloseLocked() VARVE_REQUIRES(mu_);
  // Runs the barrier of a closed batch.
  void Arm(Batch* batch) VARVE_EXCLUDES(mu_);
  // Frees objects that no reader can know any more, of at most `max_batches`
  // batches and up to the batch of this number.
  void FreeReady(uint64_t last_number, size_t max_batches = SIZE_MAX)
      VARVE_EXCLUDES(mu_);
  // Returns null if there is none.
  Batch* TakeReady(uint64_t last_number) VARVE_EXCLUDES(mu_);
  void Finish(Batch* batch) VARVE_EXCLUDES(mu_);
  void InForkedChild() override;

  Mutex mu_;
  std::vector<Retired> open_ VARVE_GUARDED_BY(mu_);
  // Closed, by number. The thread that arms or runs a batch owns its contents.
  std::list<Batch> batches_ VARVE_GUARDED_BY(mu_);
  uint64_t last_number_ VARVE_GUARDED_BY(mu_) = 0;
  size_t count_ VARVE_GUARDED_BY(mu_) = 0;
  const Registration fork_watch_{this};  // Last: see ForkWatch.
};

void Limbo::InForkedChild() {
  if (MakeFree(&mu_)) return;
  // A thread of the parent was changing the lists. Their objects are lost.
  new (&open_) std::vector<Retired>;
  new (&batches_) std::list<Batch>;
  count_ = 0;
}

void Limbo::Retire(const Retired& retired) {
  Batch* batch = nullptr;
  uint64_t last_number = 0;
  {
    MutexLock lock(&mu_);
    open_.push_back(retired);
    count_++;
    if (open_.size() >= kBatchObjects) batch = CloseLocked();
    if (batches_.empty()) return;
    last_number = last_number_;
  }
  if (batch != nullptr) Arm(batch);
  if (!is_freeing) FreeReady(last_number, kBatchesPerCall);
}

void Limbo::FreeWhatCanBe(size_t max_batches) {
  Batch* batch = nullptr;
  uint64_t last_number = 0;
  {
    MutexLock lock(&mu_);
    if (!open_.empty()) batch = CloseLocked();
    if (batches_.empty()) return;
    last_number = last_number_;
  }
  if (batch != nullptr) Arm(batch);
  if (!is_freeing) FreeReady(last_number, max_batches);
}

Batch* Limbo::CloseLocked() {
  Batch* batch = &batches_.emplace_back();
  batch->number = ++last_number_;
  batch->objects.swap(open_);
  return batch;
}

void Limbo::Arm(Batch* batch) {
  HeavyBarrier();
  ForEachThreadRecord([batch](const ThreadRecord* record) {
    // acquire: pairs with the release of T2, for sections that are left.
    const uint64_t sequence = record->sequence.load(std::memory_order_acquire);
    if (sequence % 2 != 0) batch->blockers.push_back({record, sequence});
  });
  MutexLock lock(&mu_);
  batch->state = BatchState::kWaiting;
}

void Limbo::FreeReady(uint64_t last_number, size_t max_batches) {
  is_freeing = true;
  for (size_t i = 0; i < max_batches; ++i) {
    Batch* const batch = TakeReady(last_number);
    if (batch == nullptr) break;
    for (const Retired& retired : batch->objects) {
      retired.deleter(retired.object);
    }
    Finish(batch);
  }
  is_freeing = false;
}

Batch* Limbo::TakeReady(uint64_t last_number) {
  MutexLock lock(&mu_);
  for (Batch& batch : batches_) {
    if (batch.number > last_number) break;
    if (batch.state != BatchState::kWaiting) continue;
    while (!batch.blockers.empty()) {
      const Blocker& blocker = batch.blockers.back();
      // acquire: pairs with the release of T2, or of a later T1.
      if (blocker.record->sequence.load(std::memory_order_acquire) ==
          blocker.sequence) {
        // Later batches wait for the same section.
        return nullptr;
      }
      batch.blockers.pop_back();
    }
    batch.state = BatchState::kRunning;
    return &batch;
  }
  return nullptr;
}

void Limbo::Finish(Batch* batch) {
  std::list<Batch> finished;  // Freed after the mutex is released.
  MutexLock lock(&mu_);
  count_ -= batch->objects.size();
  auto it = batches_.begin();
  while (&*it != batch) ++it;
  finished.splice(finished.end(), batches_, it);
}

void Limbo::Drain() {
  VARVE_DCHECK(!is_freeing);
  VARVE_DCHECK(current_thread_record == nullptr ||
               current_thread_record->depth == 0);
  Batch* batch = nullptr;
  uint64_t last_number = 0;
  {
    MutexLock lock(&mu_);
    if (!open_.empty()) batch = CloseLocked();
    last_number = last_number_;
  }
  if (batch != nullptr) Arm(batch);
  while (true) {
    FreeReady(last_number);
    {
      MutexLock lock(&mu_);
      if (batches_.empty() || batches_.front().number > last_number) return;
    }
    std::this_thread::yield();
  }
}

size_t Limbo::Count() {
  MutexLock lock(&mu_);
  return count_;
}

// Never destroyed: threads may retire until process exit.
Limbo& TheLimbo() {
  static constinit ProcessWide<Limbo> limbo;
  return limbo.Get();
}

}  // namespace

void HeavyBarrier() {
  // relaxed: a count.
  barrier_count.fetch_add(1, std::memory_order_relaxed);
  if (kThreadSanitizer) {
    BarrierBySequences();
    return;
  }
  if (!EpochFenced()) {
    BarrierOfAllThreads();
    return;
  }
  if constexpr (!kThreadSanitizer) {
    // seq_cst: earlier stores come before later loads.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

bool EpochFenced() { return kThreadSanitizer || !HasMembarrier(); }

void Retire(void* object, void (*deleter)(void*)) {
  TheLimbo().Retire({object, deleter});
}

void FreeRetired() { TheLimbo().FreeWhatCanBe(SIZE_MAX); }

void FreeSomeRetired() { TheLimbo().FreeWhatCanBe(kBatchesPerCall); }

size_t TEST_RetiredCount() { return TheLimbo().Count(); }

void TEST_DrainRetired() { TheLimbo().Drain(); }

uint64_t TEST_HeavyBarrierCount() {
  // relaxed: a count.
  return barrier_count.load(std::memory_order_relaxed);
}

}  // namespace varve
