// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/write_buffer_budget.h"

#include <algorithm>
#include <utility>

#include "env/stopwatch.h"
#include "util/base/check.h"

namespace varve {

namespace {

// A new memtable is not expected to be smaller than this.
constexpr size_t kMinExpectedBytes = size_t{64} << 10;

// If no writer was stopped for this time, a new stall begins. Writers that do
// not wait come back after a time of their own choice.
constexpr uint64_t kStallGapUs = WriteBufferBudget::kStallPatienceUs;

size_t ActiveLimit(size_t buffer_size) { return buffer_size / 8 * 7; }

size_t ToCacheSteps(size_t bytes) {
  constexpr size_t kStep = WriteBufferBudget::kCacheStepBytes;
  return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

WriteBufferBudget::WriteBufferBudget(size_t buffer_size,
                                     std::shared_ptr<Cache> cache,
                                     bool allow_stall, Env* clock)
    : clock_(clock),
      cache_(std::static_pointer_cast<BlockCache>(std::move(cache))),
      buffer_size_(buffer_size),
      allow_stall_(allow_stall) {}

WriteBufferBudget::~WriteBufferBudget() {
  const size_t charged = charged_to_cache();
  if (charged > 0) cache_->Unreserve(charged);
}

void WriteBufferBudget::InForkedChild() {
  is_broken_ = !MakeFree(&mutex_);
  MakeFree(&cache_mutex_);
  MakeFree(&stall_mutex_);
  MakeFree(&call_ended_);
  MakeFree(&freed_);
  running_ = nullptr;
  // relaxed, both: the child has one thread.
  waiters_.store(0, std::memory_order_relaxed);
  asks_.store(0, std::memory_order_relaxed);
}

void WriteBufferBudget::SetBufferSize(size_t buffer_size) {
  // relaxed: a setting. A writer that begins to wait just now may miss it, and
  // looks again after kSliceUs.
  buffer_size_.store(buffer_size, std::memory_order_relaxed);
  AskIfNeeded();
  WakeWaiters();
}

void WriteBufferBudget::SetAllowStall(bool allow_stall) {
  // relaxed: as in SetBufferSize.
  allow_stall_.store(allow_stall, std::memory_order_relaxed);
  WakeWaiters();
}

bool WriteBufferBudget::ShouldFlush() const {
  const size_t size = buffer_size();
  if (size == 0) return false;
  const size_t active_bytes = active();
  return active_bytes > ActiveLimit(size) ||
         (active_bytes >= size / 2 && usage() >= size);
}

// ---- Counting ---------------------------------------------------------------

void WriteBufferBudget::AddToState(ChargeState state, int64_t bytes) {
  if (state == ChargeState::kActive) {
    // seq_cst: F of the header.
    active_.fetch_add(bytes, std::memory_order_seq_cst);
  } else if (state == ChargeState::kImmutable) {
    // seq_cst: F of the header.
    immutable_.fetch_add(bytes, std::memory_order_seq_cst);
  }
}

void WriteBufferBudget::Add(ChargeState state, int64_t bytes) {
  AddToState(state, bytes);
  // seq_cst: F of the header.
  total_.fetch_add(bytes, std::memory_order_seq_cst);
  ChargeCache();
}

void WriteBufferBudget::NoteFreed() {
  // relaxed: a counter that is compared later.
  times_freed_.fetch_add(1, std::memory_order_relaxed);
  // relaxed, both: stalls may begin again somewhat later. The load spares the
  // store, which would take the cache line from those who count.
  if (suspended_.load(std::memory_order_relaxed)) {
    suspended_.store(false, std::memory_order_relaxed);
  }
  WakeWaiters();
}

void WriteBufferBudget::WakeWaiters() {
  // seq_cst: F of the header.
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(&stall_mutex_);
  if (usage() < buffer_size()) ++relief_;
  freed_.SignalAll();
}

void WriteBufferBudget::ChargeCache() {
  if (cache_ == nullptr) return;
  // Each change of the sums is followed by this, so that the last one to hold
  // the mutex charges all of them.
  MutexLock lock(&cache_mutex_);
  const size_t used = usage();
  const size_t charged = charged_to_cache();
  const size_t wanted = ToCacheSteps(used);
  if (used > charged) {
    cache_->Reserve(wanted - charged);
  } else if (used < charged / 4 * 3) {
    cache_->Unreserve(charged - wanted);
  } else {
    return;
  }
  // relaxed: others only report it.
  cache_bytes_.store(wanted, std::memory_order_relaxed);
}

// ---- Requests ---------------------------------------------------------------

void WriteBufferBudget::AskIfNeeded() {
  if (!ShouldFlush()) return;
  // acquire and release: B4 of the header.
  if (asks_.fetch_add(1, std::memory_order_acq_rel) > 0) return;
  const Status status = pool_.Schedule([this] { RunAsks(); });
  // Without a thread, the next growth tries again.
  // relaxed: there is no job.
  if (!status.ok()) asks_.store(0, std::memory_order_relaxed);
}

void WriteBufferBudget::RunAsks() {
  // acquire: B4 of the header.
  uint64_t seen = asks_.load(std::memory_order_acquire);
  while (seen > 0) {
    AskAll();
    // acquire and release: B4 of the header.
    seen = asks_.fetch_sub(seen, std::memory_order_acq_rel) - seen;
  }
  WakeWaiters();
}

void WriteBufferBudget::AskAll() {
  MutexLock lock(&mutex_);
  while (WriteBufferAccount* const account = PickLocked()) {
    WriteBufferClient* const client = account->client_;
    running_ = account;
    mutex_.Unlock();
    client->RequestSwitch();
    mutex_.Lock();
    running_ = nullptr;
    call_ended_.SignalAll();
  }
}

WriteBufferAccount* WriteBufferBudget::PickLocked() {
  using Request = WriteBufferAccount::Request;
  const size_t size = buffer_size();
  if (size == 0 || is_broken_) return nullptr;
  const uint64_t now_us = MonotonicMicros(clock_);
  size_t unasked_bytes = 0;
  size_t asked_bytes = 0;
  WriteBufferAccount* largest = nullptr;
  WriteBufferAccount* largest_late = nullptr;
  size_t largest_bytes = 0;
  size_t largest_late_bytes = 0;
  for (WriteBufferAccount* const account : accounts_) {
    const size_t bytes = account->ActiveBytes();
    // relaxed: a request that is answered at the same time is seen next time.
    Request request = account->request_.load(std::memory_order_relaxed);
    const uint64_t waited_us = now_us - account->asked_us_;
    if (request == Request::kAsked) {
      if (waited_us < kRequestPatienceUs) {
        asked_bytes += bytes;
        continue;
      }
      account->Answer(Request::kLate);
      continue;
    }
    if (request == Request::kLate) {
      if (waited_us >= kLateRetryUs && bytes > largest_late_bytes) {
        largest_late = account;
        largest_late_bytes = bytes;
      }
      continue;
    }
    unasked_bytes += bytes;
    if (bytes > largest_bytes) {
      largest = account;
      largest_bytes = bytes;
    }
  }
  if (largest == nullptr) {
    largest = largest_late;
    unasked_bytes = largest_late_bytes;
  }
  if (largest == nullptr) return nullptr;
  const size_t used = usage();
  const size_t being_freed = immutable() + asked_bytes;
  const bool suffices = used < size + being_freed;
  if (unasked_bytes <= ActiveLimit(size) &&
      (unasked_bytes < size / 2 || used < size || suffices)) {
    return nullptr;
  }
  largest->asked_us_ = now_us;
  // relaxed, both: T4, under mutex_. The client sees it by the call.
  requests_.fetch_add(1, std::memory_order_relaxed);
  largest->request_.store(Request::kAsked, std::memory_order_relaxed);
  return largest;
}

// ---- Stalls -----------------------------------------------------------------

bool WriteBufferBudget::IsStalled() const {
  const size_t size = buffer_size();
  if (size == 0 || usage() < size) return false;
  // relaxed: a hint that ends stalls.
  if (suspended_.load(std::memory_order_relaxed)) return false;
  // seq_cst: W of the header. relaxed: a job ends by itself.
  return immutable() > 0 || requests_.load(std::memory_order_seq_cst) > 0 ||
         asks_.load(std::memory_order_relaxed) > 0;
}

bool WriteBufferBudget::AwaitSpace(uint64_t timeout_us) {
  const Stopwatch stopwatch(clock_);
  // seq_cst: W of the header.
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool may_go_on = false;
  {
    MutexLock lock(&stall_mutex_);
    const uint64_t relief_before = relief_;
    for (;;) {
      may_go_on =
          relief_ != relief_before || !ShouldStall() || PatienceEndsLocked();
      if (may_go_on) break;
      // Also for a writer that does not wait: no other may come.
      AskIfNeeded();
      const uint64_t elapsed_us = stopwatch.ElapsedMicros();
      if (elapsed_us >= timeout_us) break;
      freed_.WaitFor(&stall_mutex_,
                     std::min(kSliceUs, timeout_us - elapsed_us));
    }
    if (may_go_on) stalled_since_us_ = 0;
  }
  // relaxed: a waker that still sees this waiter signals for nothing.
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return may_go_on;
}

bool WriteBufferBudget::PatienceEndsLocked() {
  const uint64_t now_us = MonotonicMicros(clock_);
  bool ends = false;
  // relaxed: a counter.
  const uint64_t times_freed = times_freed_.load(std::memory_order_relaxed);
  if (stalled_since_us_ == 0 || times_freed != stalled_times_freed_ ||
      now_us - last_wait_us_ > kStallGapUs) {
    stalled_since_us_ = now_us;
    stalled_times_freed_ = times_freed;
  } else if (now_us - stalled_since_us_ >= kStallPatienceUs) {
    ends = true;
    // relaxed: a hint that ends stalls. Waiters are signalled.
    suspended_.store(true, std::memory_order_relaxed);
    freed_.SignalAll();
  }
  last_wait_us_ = now_us;
  return ends;
}

// ---- WriteBufferAccount -----------------------------------------------------

std::shared_ptr<WriteBufferAccount> WriteBufferAccount::New(
    const std::shared_ptr<WriteBufferManager>& manager) {
  if (manager == nullptr) return nullptr;
  return std::make_shared<WriteBufferAccount>(
      WriteBufferBudget::Share(*manager));
}

WriteBufferAccount::~WriteBufferAccount() { VARVE_DCHECK(client_ == nullptr); }

void WriteBufferAccount::Register(WriteBufferClient* client) {
  WriteBufferBudget& budget = *budget_;
  MutexLock lock(&budget.mutex_);
  VARVE_DCHECK(client_ == nullptr);
  if (budget.is_broken_) return;
  client_ = client;
  index_ = budget.accounts_.size();
  budget.accounts_.push_back(this);
}

void WriteBufferAccount::Unregister() {
  WriteBufferBudget& budget = *budget_;
  {
    MutexLock lock(&budget.mutex_);
    if (client_ == nullptr) return;
    client_ = nullptr;
    if (budget.is_broken_) return;
    WriteBufferAccount* const last = budget.accounts_.back();
    budget.accounts_[index_] = last;
    last->index_ = index_;
    budget.accounts_.pop_back();
    while (budget.running_ == this) budget.call_ended_.Wait(&budget.mutex_);
  }
  Answer(Request::kNone);
}

void WriteBufferAccount::Decline() { Answer(Request::kLate); }

void WriteBufferAccount::Answer(Request answer) {
  // relaxed, both: a request orders no memory.
  Request before = request_.load(std::memory_order_relaxed);
  do {
    if (before == Request::kNone || before == answer) return;
    // relaxed: as above.
  } while (!request_.compare_exchange_weak(before, answer,
                                           std::memory_order_relaxed));
  if (before != Request::kAsked) return;
  // seq_cst: F of the header.
  budget_->requests_.fetch_sub(1, std::memory_order_seq_cst);
  budget_->WakeWaiters();
}

size_t WriteBufferAccount::ExpectedBytes(size_t write_buffer_size) const {
  const size_t size = budget_->buffer_size();
  if (size == 0) return write_buffer_size;
  const size_t share =
      ActiveLimit(size) / std::max<size_t>(budget_->client_count(), 1);
  // relaxed: an estimate.
  const size_t last_bytes = last_bytes_.load(std::memory_order_relaxed);
  return std::min(write_buffer_size,
                  std::max({share, last_bytes, kMinExpectedBytes}));
}

// ---- WriteBufferCharge ------------------------------------------------------

WriteBufferCharge::~WriteBufferCharge() {
  if (account_ == nullptr) return;
  // relaxed: no other thread uses the charge any more.
  const uint64_t word = word_.load(std::memory_order_relaxed);
  const auto bytes = static_cast<int64_t>(BytesOf(word));
  if (StateOf(word) == State::kActive) {
    // relaxed: a sum.
    account_->active_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  if (bytes == 0) return;
  account_->budget_->Add(StateOf(word), -bytes);
  account_->budget_->NoteFreed();
}

void WriteBufferCharge::Update(size_t bytes) {
  if (account_ == nullptr) return;
  // relaxed, all: T1. The word orders no other memory.
  uint64_t word = word_.load(std::memory_order_relaxed);
  do {
    if (bytes < BytesOf(word) + kStepBytes) return;
    // relaxed: as above.
  } while (!word_.compare_exchange_weak(word, Pack(bytes, StateOf(word)),
                                        std::memory_order_relaxed));
  const auto growth = static_cast<int64_t>(bytes - BytesOf(word));
  if (StateOf(word) == State::kActive) {
    // relaxed: a sum.
    account_->active_.fetch_add(growth, std::memory_order_relaxed);
  }
  account_->budget_->Add(StateOf(word), growth);
  account_->budget_->AskIfNeeded();
}

WriteBufferCharge::State WriteBufferCharge::Mark(State state) {
  // relaxed, all: T2. The word orders no other memory.
  uint64_t word = word_.load(std::memory_order_relaxed);
  while (!word_.compare_exchange_weak(word, Pack(BytesOf(word), state),
                                      std::memory_order_relaxed)) {
  }
  const State before = StateOf(word);
  if (before == state) return before;
  const auto bytes = static_cast<int64_t>(BytesOf(word));
  // In this order, a writer never sees neither.
  account_->budget_->AddToState(state, bytes);
  account_->budget_->AddToState(before, -bytes);
  if (before == State::kActive) {
    // relaxed, both: a sum, and an estimate.
    account_->active_.fetch_sub(bytes, std::memory_order_relaxed);
    account_->last_bytes_.store(BytesOf(word), std::memory_order_relaxed);
  }
  return before;
}

void WriteBufferCharge::MarkImmutable() {
  if (account_ == nullptr) return;
  Mark(State::kImmutable);
  account_->Answer(WriteBufferAccount::Request::kNone);
}

void WriteBufferCharge::MarkHeld() {
  if (account_ == nullptr) return;
  if (Mark(State::kHeld) == State::kImmutable) {
    account_->budget_->WakeWaiters();
  }
}

}  // namespace varve
