// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The engine's side of WriteBufferManager: counts the memory of memtables,
// chooses the one to switch when the budget is exceeded, and makes writers
// wait.
//
// *How a database uses it.* All calls accept a manager that is null, or an
// account that is null, where the comment says so.
//
//   1. At Open, before the first memtable:
//        account_ = WriteBufferAccount::New(options.write_buffer_manager);
//      One account for each column family. It is null without a manager.
//   2. For each memtable, pass `account_` to the constructor of MemTable. It
//      counts its memory from then on until it is deleted. Memtables of
//      recovery and of Repair may have an account too; without a registered
//      client they are counted but not chosen.
//   3. Once the database can switch memtables:
//        if (account_ != nullptr) account_->Register(client);
//   4. When a memtable is switched, before or after the new one is installed:
//        memtable->MarkImmutable();
//      When its flush is installed, or failed, or will not run at once because
//      the database has an error or begins no more jobs:
//        memtable->MarkHeld();
//      and when a failed flush is tried again: memtable->MarkImmutable().
//   5. In RequestSwitch, schedule background work that leads the write queue.
//      As the leader it does
//        if (account_->IsSwitchRequested()) { switch the memtable; flush; }
//      since writers may have switched it in between, which answers the
//      request. If it cannot switch (read-only, no space, a background error,
//      an empty memtable): account_->Decline().
//   6. For each write, beside the check of the stall state:
//        if (account_ != nullptr && account_->ShouldStall()) { step 7 }
//   7. The leader leaves the queue, as for other stalls. Then, with no mutex
//      held:
//        while (!account_->AwaitSpace(100000)) { return if the database is
//            closing or has a background error }
//      and then tries the write again without step 6. A write waits at most
//      once. With no_slowdown it calls AwaitSpace(0) once, and returns
//      Incomplete if the result is false.
//   8. In Close, before the state that RequestSwitch uses is destroyed, and
//      with no lock held that RequestSwitch takes:
//        account_->Unregister();
//      It waits for a running RequestSwitch. Work that it scheduled is the
//      database's own to await. Memtables may be deleted later, by any thread,
//      also after the manager is destroyed.
//
// *Why a stall ends.* A waiting writer has left the queue and holds no mutex.
// Switches lead the queue and flushes run in the background, so neither waits
// for it. It waits only while something is in progress that frees memory (a
// request, a memtable in kImmutable, or a job that chooses whom to ask). Each
// of these ends:
//
// - A request is answered by a switch, by Decline, by Unregister, or after
//   kRequestPatienceUs, when it no longer counts.
// - A flush ends by the deletion of the memtable or by MarkHeld. Memory that
//   iterators keep after the flush is kHeld, so no writer waits for iterators.
// - If a flush hangs, nothing is freed. After kStallPatienceUs of that, stalls
//   are suspended for all writers until memory is freed.
//
// The last two need a writer that looks. A writer that is refused is one, too.
//
// A writer is not starved by others that take the space first: AwaitSpace
// returns true if usage was below the budget at any moment of the wait
// (`relief_`). It returns after its timeout in any case, so that the database
// can check its own state.
//
// *Words and states.* `total_`, `active_` and `immutable_` are sums of the
// charges of memtables, by state; kHeld charges are in `total_` only. They are
// signed, since their parts may be applied out of order. A charge is one word:
// its bytes and its state. `requests_` is the number of accounts in kAsked. An
// account's request is kNone, kAsked or kLate. `asks_` counts the growths since
// the job of `pool_` began to look at the sums; it is 0 if there is no job.
// *Transitions.*
// T1 grow: a compare-and-swap raises the bytes of the charge's word. Then the
//    difference is added to the sums of the state that the word had.
// T2 mark: a compare-and-swap changes the state. Then the bytes that the word
//    had move between the sums.
// T3 release: the charge is destroyed, and the bytes of its word leave the
//    sums.
// T4 ask: under mutex_, kNone or kLate becomes kAsked and requests_ rises.
// T5 answer: a compare-and-swap from kAsked. The thread that succeeds
//    decrements requests_.
// *Invariants.*
// I1 When no T1 to T3 runs, each sum is that of the charges' bytes. Each
//    compare-and-swap decides which bytes its thread moves.
// I2 requests_ is never below the number of accounts in kAsked, and equals it
//    while no T4 or T5 runs.
// *Why each order is needed.* Sums and words order no other memory, so they are
// relaxed, but for the pair that follows and for asks_ (B4). A writer adds to
// waiters_, then reads the sums (W). A thread that frees changes a sum or
// requests_, then reads waiters_ (F). Both pairs are seq_cst: either W sees the
// freed memory, or F sees the waiter and signals it with stall_mutex_ held.
// *Bad interleavings prevented.*
// B1 A memtable grows while it is marked. T1 adds its bytes to a state that
//    the charge has left. The sums of both states are then wrong until T2
//    subtracts what its word had, which includes the bytes of T1.
// B2 A memtable is switched for another reason between T4 and RequestSwitch.
//    The client would switch the new, small memtable. IsSwitchRequested is
//    false, because MarkImmutable answers the request.
// B3 A client is destroyed while RequestSwitch runs in it. Unregister removes
//    the account under mutex_ and waits until running_ is another one.
// B4 A growth finds a job, which has looked at the sums for the last time, and
//    its request is lost. The job subtracts from asks_ only what it saw before
//    it looked, and looks again unless the result is 0. asks_ is acq_rel, so
//    that the job sees the sums of the growths that it subtracts.
// *Freshness and progress.* Growth takes no mutex of this class without a
// cache. With one, it takes cache_mutex_. RequestSwitch runs on the manager's
// own thread, which is started when the budget is exceeded for the first time.
// *Reclamation.* Charges own their account, and accounts own the budget.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/cache/block_cache.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_pool.h"
#include "varve/env.h"
#include "varve/write_buffer_manager.h"

namespace varve {

class WriteBufferAccount;

// Implemented by a column family or its database.
class WriteBufferClient {
 public:
  // Asks to switch the active memtable and to flush it. Called on the manager's
  // thread with no mutex held, never by two threads at once for one account.
  // It may take the database's mutexes for a short time. While it runs, no
  // other client is asked, so it must not wait for a flush.
  virtual void RequestSwitch() = 0;

 protected:
  ~WriteBufferClient() = default;
};

// Thread-safety: thread-safe.
class WriteBufferBudget final : private ForkWatch {
 public:
  // The memory charged to the cache is a multiple of it.
  static constexpr size_t kCacheStepBytes = size_t{256} << 10;
  // A client that does not answer for this time is not counted on.
  static constexpr uint64_t kRequestPatienceUs = 1000000;
  // Such a client is asked again after this time, if there is no other.
  static constexpr uint64_t kLateRetryUs = 10000000;
  // Stalls are suspended if no memory was freed for this time.
  static constexpr uint64_t kStallPatienceUs = 10000000;
  // A writer that waits looks for clients to ask at least this often.
  static constexpr uint64_t kSliceUs = 100000;

  WriteBufferBudget(size_t buffer_size, std::shared_ptr<Cache> cache,
                    bool allow_stall, Env* clock);
  ~WriteBufferBudget();

  // Returns the manager's budget.
  static std::shared_ptr<WriteBufferBudget> Share(
      const WriteBufferManager& manager) {
    return manager.budget_;
  }

  size_t buffer_size() const {
    // relaxed: a setting.
    return buffer_size_.load(std::memory_order_relaxed);
  }
  size_t usage() const { return Value(total_); }
  size_t active() const { return Value(active_); }
  // Returns the bytes whose flush is expected to free them.
  size_t immutable() const { return Value(immutable_); }
  size_t charged_to_cache() const {
    // relaxed: a statistic.
    return cache_bytes_.load(std::memory_order_relaxed);
  }
  bool has_cache() const { return cache_ != nullptr; }
  size_t client_count() const VARVE_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return accounts_.size();
  }

  void SetBufferSize(size_t buffer_size);
  void SetAllowStall(bool allow_stall);

  // See WriteBufferManager.
  bool ShouldFlush() const;
  bool ShouldStall() const {
    // relaxed: a setting, and most often false.
    if (!allow_stall_.load(std::memory_order_relaxed)) return false;
    return IsStalled();
  }
  // See WriteBufferAccount.
  bool AwaitSpace(uint64_t timeout_us) VARVE_EXCLUDES(stall_mutex_);

  // Returns once no client is being asked.
  void TEST_WaitForRequests() { pool_.WaitForIdle(); }
  // Returns the time at which a waiting writer last looked, or 0.
  uint64_t TEST_LastWaitUs() VARVE_EXCLUDES(stall_mutex_) {
    MutexLock lock(&stall_mutex_);
    return last_wait_us_;
  }

 private:
  friend class WriteBufferAccount;
  friend class WriteBufferCharge;

  enum class ChargeState : uint8_t { kActive, kImmutable, kHeld };
  using Sum = std::atomic<int64_t>;

  static size_t Value(const Sum& sum) {
    // seq_cst: W of the header, if a waiter calls it.
    const int64_t value = sum.load(std::memory_order_seq_cst);
    return value > 0 ? static_cast<size_t>(value) : 0;
  }
  void InForkedChild() override;

  // Adds to the sums of a state. `bytes` may be negative.
  void Add(ChargeState state, int64_t bytes);
  void AddToState(ChargeState state, int64_t bytes);
  // After memory was freed.
  void NoteFreed() VARVE_EXCLUDES(stall_mutex_);
  // Lets writers that wait look again.
  void WakeWaiters() VARVE_EXCLUDES(stall_mutex_);
  void ChargeCache() VARVE_EXCLUDES(cache_mutex_);

  bool IsStalled() const;
  // For a writer that is stopped. Suspends stalls if nothing was freed for too
  // long, and returns whether it did.
  bool PatienceEndsLocked() VARVE_REQUIRES(stall_mutex_);
  // Starts the job that asks clients, if a memtable should be flushed.
  void AskIfNeeded();
  void RunAsks();
  void AskAll() VARVE_EXCLUDES(mutex_);
  // Returns the account to ask, or null.
  WriteBufferAccount* PickLocked() VARVE_REQUIRES(mutex_);

  // Immutable after construction.
  Env* const clock_;
  const std::shared_ptr<BlockCache> cache_;

  std::atomic<size_t> buffer_size_;
  std::atomic<bool> allow_stall_;

  // Written for each block of memory.
  alignas(64) Sum total_{0};
  Sum active_{0};
  Sum immutable_{0};
  std::atomic<int64_t> requests_{0};
  std::atomic<int> waiters_{0};
  std::atomic<uint64_t> asks_{0};
  std::atomic<uint64_t> times_freed_{0};
  // No stalls until memory is freed.
  std::atomic<bool> suspended_{false};
  std::atomic<size_t> cache_bytes_{0};

  Mutex cache_mutex_;  // Orders changes of the cache's reservation.

  mutable Mutex mutex_;
  CondVar call_ended_;  // running_ has changed.
  std::vector<WriteBufferAccount*> accounts_ VARVE_GUARDED_BY(mutex_);
  WriteBufferAccount* running_ VARVE_GUARDED_BY(mutex_) = nullptr;
  // In a forked child, if another thread held mutex_.
  bool is_broken_ VARVE_GUARDED_BY(mutex_) = false;

  Mutex stall_mutex_;
  CondVar freed_;
  // Times that usage was seen below the budget while a writer waited.
  uint64_t relief_ VARVE_GUARDED_BY(stall_mutex_) = 0;
  // The time of the last check of a writer that waits, the time since which
  // writers wait and nothing was freed, and times_freed_ then.
  uint64_t last_wait_us_ VARVE_GUARDED_BY(stall_mutex_) = 0;
  uint64_t stalled_since_us_ VARVE_GUARDED_BY(stall_mutex_) = 0;
  uint64_t stalled_times_freed_ VARVE_GUARDED_BY(stall_mutex_) = 0;

  // Destroyed before the rest, which its job uses.
  ThreadPool pool_{{.name = "varve:buffers"}};
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

// The memtables of one column family.
// Thread-safety: thread-safe.
class WriteBufferAccount final {
 public:
  // Returns null if the manager is null.
  static std::shared_ptr<WriteBufferAccount> New(
      const std::shared_ptr<WriteBufferManager>& manager);

  // For New.
  explicit WriteBufferAccount(std::shared_ptr<WriteBufferBudget> budget)
      : budget_(std::move(budget)) {}
  // REQUIRES: not registered.
  ~WriteBufferAccount();
  WriteBufferAccount(const WriteBufferAccount&) = delete;
  WriteBufferAccount& operator=(const WriteBufferAccount&) = delete;

  // From now on `client` can be asked.
  void Register(WriteBufferClient* client);
  // Waits for a running RequestSwitch. Afterwards the client is not called any
  // more. Does nothing if no client is registered. REQUIRES: not called by
  // RequestSwitch.
  void Unregister();

  // Returns whether the client was asked, and has neither switched a memtable
  // nor declined since.
  bool IsSwitchRequested() const {
    // relaxed: a request that is seen late is late.
    return request_.load(std::memory_order_relaxed) != Request::kNone;
  }
  // Answers a request that cannot be fulfilled. The client is asked again only
  // if no other client is left, or after it has switched a memtable.
  void Decline();

  // Returns whether writes wait. Cheap enough for each write.
  bool ShouldStall() const { return budget_->ShouldStall(); }
  // Waits at most `timeout_us`. Returns true if the write may go on: usage was
  // below the budget since the call, or nothing is about to be freed. Returns
  // false at the timeout. Looks for clients to ask, even with a timeout of 0.
  // REQUIRES: no mutex is held, nor the write queue led.
  bool AwaitSpace(uint64_t timeout_us) {
    return budget_->AwaitSpace(timeout_us);
  }

  // Returns the bytes of the client's active memtables.
  size_t ActiveBytes() const {
    // relaxed: a sum.
    const int64_t bytes = active_.load(std::memory_order_relaxed);
    return bytes > 0 ? static_cast<size_t>(bytes) : 0;
  }
  // Returns the size at which a new memtable will probably be switched: a
  // client's share of the budget, or the size of the last memtable if that is
  // larger. At most `write_buffer_size`.
  size_t ExpectedBytes(size_t write_buffer_size) const;

  const std::shared_ptr<WriteBufferBudget>& budget() const { return budget_; }

 private:
  friend class WriteBufferBudget;
  friend class WriteBufferCharge;

  enum class Request : uint8_t { kNone, kAsked, kLate };

  // T5. Sets the request, if there is one, to `answer`.
  void Answer(Request answer);

  const std::shared_ptr<WriteBufferBudget> budget_;
  std::atomic<int64_t> active_{0};
  std::atomic<size_t> last_bytes_{
      0};  // Of the last memtable that was switched.
  std::atomic<Request> request_{Request::kNone};

  // Guarded by the budget's mutex_.
  WriteBufferClient* client_ = nullptr;
  size_t index_ = 0;  // In accounts_.
  uint64_t asked_us_ = 0;
};

// The memory of one memtable. Does nothing if the account is null.
// Thread-safety: thread-safe, except the destructor.
class WriteBufferCharge final {
 public:
  explicit WriteBufferCharge(std::shared_ptr<WriteBufferAccount> account)
      : account_(std::move(account)) {}
  // Releases the memory.
  ~WriteBufferCharge();
  WriteBufferCharge(const WriteBufferCharge&) = delete;
  WriteBufferCharge& operator=(const WriteBufferCharge&) = delete;

  // Sets the memory that the memtable uses. Ignores less than before, and less
  // than kStepBytes more.
  void Update(size_t bytes);
  // Writes go to another memtable. Its flush will free this one.
  void MarkImmutable();
  // The memtable is no longer active, and no flush is about to free it.
  void MarkHeld();

 private:
  using State = WriteBufferBudget::ChargeState;

  static constexpr size_t kStepBytes = 4096;
  static constexpr int kStateBits = 2;

  static uint64_t Pack(size_t bytes, State state) {
    return uint64_t{bytes} << kStateBits | static_cast<uint64_t>(state);
  }
  static size_t BytesOf(uint64_t word) { return word >> kStateBits; }
  static State StateOf(uint64_t word) {
    return static_cast<State>(word & ((1 << kStateBits) - 1));
  }
  // T2. Returns the state before.
  State Mark(State state);

  const std::shared_ptr<WriteBufferAccount> account_;
  std::atomic<uint64_t> word_{0};  // Bytes and state.
};

}  // namespace varve
