// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/io_ring.h"

#include <liburing.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "env/descriptor_supply.h"
#include "util/base/errno_text.h"
#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

// Reads under way at once. The completion ring is twice as large, so it cannot
// overflow.
constexpr unsigned kDepth = 64;
// The number of completions to wait for while there is more to submit.
constexpr unsigned kRefill = 16;
// The number of reads submitted at once: the device works on them while the
// kernel prepares the next. The first submission is smaller, since the device
// may have to wake up.
constexpr unsigned kFirstSubmission = 4;
constexpr unsigned kSubmission = 8;
// The number of times that the kernel may report a lack of resources before
// plain system calls do the rest, and the pause in between.
constexpr int kMaxRetries = 8;
constexpr long kRetryPauseNs = 100000;
// A thread that got no ring makes this many calls before it asks again.
constexpr uint32_t kCallsWithoutRing = 1024;

std::atomic<RingSubmit> test_submit{nullptr};

// ThreadSanitizer does not see liburing's system calls. To it, a new ring in
// memory of another thread's old ring is a race. The mutex orders them.
struct SetupLock final : private ForkWatch {
  void InForkedChild() override { MakeFree(&mu); }

  Mutex mu;
  Registration fork_watch{this};  // Last: see ForkWatch.
};

Mutex& SetupMutex() {
  static constinit ProcessWide<SetupLock> lock;
  return lock.Get().mu;
}

// The number of rings. Threads keep their rings' descriptors, so their number
// is limited to a part of the descriptors that Varve may use.
std::atomic<int> ring_count{0};
constexpr int kRingPart = 4;

int SetUp(io_uring* ring, unsigned flags) {
  // relaxed, all: a bound that several threads pass at once is a little larger.
  if (ring_count.load(std::memory_order_relaxed) >=
      CurrentReserveBegin() / kRingPart) {
    return EMFILE;
  }
  // The thread has pinned the files that it is about to read, and can read them
  // without a ring.
  const NoDescriptorWait no_wait;
  int error = 0;
  OpenDescriptor([&] {
    MutexLock lock(&SetupMutex());
    error = -io_uring_queue_init(kDepth, ring, flags);
    errno = error;
    return error == 0 ? ring->ring_fd : -1;
  });
  // relaxed: as above.
  if (error == 0) ring_count.fetch_add(1, std::memory_order_relaxed);
  return error;
}

void TearDown(io_uring* ring) {
  MutexLock lock(&SetupMutex());
  io_uring_queue_exit(ring);
  // relaxed: see SetUp.
  ring_count.fetch_sub(1, std::memory_order_relaxed);
}

int SubmitAndWait(io_uring* ring, unsigned wait_count) {
  // relaxed: set before the rings that use it.
  const RingSubmit submit = test_submit.load(std::memory_order_relaxed);
  return submit != nullptr ? submit(ring, wait_count)
                           : io_uring_submit_and_wait(ring, wait_count);
}

void Pause() {
  const struct timespec pause = {.tv_sec = 0, .tv_nsec = kRetryPauseNs};
  nanosleep(&pause, nullptr);
}

// Returns true if the kernel lacks memory or descriptors only temporarily.
bool IsPassing(int error) {
  return error == EAGAIN || error == EBUSY || error == ENOMEM ||
         error == EMFILE || error == ENFILE;
}

// Returns the number of reads under way to wait for. If each has work to do, it
// is half of them, so that the work is done while the device does the other
// half. A batch of 64 then takes seven calls, and one read's work is left at
// the end.
unsigned WaitCount(unsigned queued, bool more, bool work) {
  if (more) return queued < kDepth ? 0 : kRefill;
  return work ? (queued + 1) / 2 : queued;
}

// The process-wide knowledge of rings.
class Policy final : private ForkWatch {
 public:
  static Policy& Get() {
    // Never destroyed: threads may still read during process exit.
    static constinit ProcessWide<Policy> policy;
    return policy.Get();
  }

  // Tests at the first call, and later again if the kernel lacked resources.
  bool usable() {
    // acquire: pairs with the release in TryLocked, so setup_flags_ is seen. A
    // thread that sees the refusal late is refused once more by the kernel.
    const State state = state_.load(std::memory_order_acquire);
    if (state == State::kUnknown) [[unlikely]]
      return TryToUse();
    return state == State::kUsable;
  }
  // REQUIRES: usable() returned true.
  unsigned setup_flags() const { return setup_flags_; }

  std::string Describe() VARVE_EXCLUDES(mu_) {
    if (usable()) return "io_uring";
    MutexLock lock(&mu_);
    return "pread (io_uring: " +
           (refusal_.empty() ? "no descriptor or memory so far" : refusal_) +
           ")";
  }

  // Disables rings for all threads from now on. The first reason is kept.
  void Refuse(int error) VARVE_EXCLUDES(mu_) {
    std::string reason = ErrnoText(error);
    MutexLock lock(&mu_);
    RefuseLocked(std::move(reason));
  }

 private:
  enum class State : uint8_t { kUnknown, kUsable, kRefused };

  void RefuseLocked(std::string reason) VARVE_REQUIRES(mu_) {
    if (refusal_.empty()) refusal_ = std::move(reason);
    // relaxed: see usable.
    state_.store(State::kRefused, std::memory_order_relaxed);
  }

  bool TryToUse() VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    // relaxed: it changes under the mutex.
    if (state_.load(std::memory_order_relaxed) == State::kUnknown) {
      if (calls_to_skip_ > 0) {
        --calls_to_skip_;
        return false;
      }
      calls_to_skip_ = kCallsWithoutRing;
      TryLocked();
    }
    // relaxed: as above.
    return state_.load(std::memory_order_relaxed) == State::kUsable;
  }

  void TryLocked() VARVE_REQUIRES(mu_) {
    io_uring ring;
    // The thread that waits runs the completions itself, all at once, instead
    // of being woken for each; kernels before 5.19 refuse the flag.
    setup_flags_ = IORING_SETUP_COOP_TASKRUN;
    int error = SetUp(&ring, setup_flags_);
    if (error == EINVAL) {
      setup_flags_ = 0;
      error = SetUp(&ring, setup_flags_);
    }
    if (error != 0) {
      if (!IsPassing(error)) RefuseLocked(ErrnoText(error));
      return;
    }
    std::string refusal = Enter(&ring);
    TearDown(&ring);
    if (!refusal.empty()) {
      RefuseLocked(std::move(refusal));
      return;
    }
    // release: pairs with the acquire in usable.
    state_.store(State::kUsable, std::memory_order_release);
  }

  void InForkedChild() override {
    if (MakeFree(&mu_)) return;
    // A thread of the parent may have been storing it.
    new (&refusal_) std::string;
  }

  // Returns the error of entering a ring, or an empty string.
  static std::string Enter(io_uring* ring) {
    io_uring_probe* const probe = io_uring_get_probe_ring(ring);
    const bool known =
        probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ);
    io_uring_free_probe(probe);
    if (!known) return "the kernel's has no reads";
    // A system call filter may allow only the setup.
    io_uring_prep_nop(io_uring_get_sqe(ring));
    int submitted;
    do {
      submitted = io_uring_submit(ring);
    } while (submitted == -EINTR);
    return submitted < 0 ? ErrnoText(-submitted) : "";
  }

  unsigned setup_flags_ = 0;  // Immutable in kUsable.
  std::atomic<State> state_{State::kUnknown};
  Mutex mu_;
  uint32_t calls_to_skip_ VARVE_GUARDED_BY(mu_) = 0;
  std::string refusal_ VARVE_GUARDED_BY(mu_);
  const Registration fork_watch_{this};  // Last: see ForkWatch.
};

// A thread's ring. It is on a page that the kernel clears in a child created by
// fork(). The child must not use the parent's ring: neither the shared memory
// nor the descriptor, which may be another file by then. So the child does not
// close it either; exec does.
class ThreadRing {
 public:
  using Done = std::function<void(size_t)>;

  ThreadRing() = default;
  ThreadRing(const ThreadRing&) = delete;
  ThreadRing& operator=(const ThreadRing&) = delete;
  ~ThreadRing() {
    if (state_ == nullptr) return;
    if (state_->ready) TearDown(&state_->ring);
    munmap(state_, sizeof(State));
  }

  // Sets up the ring if there is none.
  bool Prepare() {
    if (state_ != nullptr && state_->ready) return true;
    if (calls_to_skip_ > 0) {
      --calls_to_skip_;
      return false;
    }
    if (state_ == nullptr && !MakeState()) return false;
    const int error = SetUp(&state_->ring, Policy::Get().setup_flags());
    state_->ready = error == 0;
    if (error != 0) GiveUp(error);
    return state_->ready;
  }

  // REQUIRES: Prepare returned true.
  void Run(RingRead* reads, size_t count, const Done& done);

 private:
  struct State {
    bool ready;
    io_uring ring;
  };

  bool MakeState() {
    void* const page = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      GiveUp(errno);
      return false;
    }
    if (madvise(page, sizeof(State), MADV_WIPEONFORK) != 0) {
      GiveUp(errno);
      munmap(page, sizeof(State));
      return false;
    }
    state_ = static_cast<State*>(page);
    return true;
  }

  void GiveUp(int error) {
    if (IsPassing(error)) {
      calls_to_skip_ = kCallsWithoutRing;
    } else {
      Policy::Get().Refuse(error);
    }
  }

  // Takes the completed reads and returns their number.
  unsigned Reap(RingRead* reads, const Done& done);
  void Abandon(RingRead* reads, unsigned queued, const Done& done);

  State* state_ = nullptr;
  uint32_t calls_to_skip_ = 0;
};

unsigned ThreadRing::Reap(RingRead* reads, const Done& done) {
  io_uring_cqe* completions[kDepth];
  uint64_t indices[kDepth];
  const unsigned count =
      io_uring_peek_batch_cqe(&state_->ring, completions, kDepth);
  for (unsigned i = 0; i < count; ++i) {
    indices[i] = io_uring_cqe_get_data64(completions[i]);
    reads[indices[i]].result = completions[i]->res;
  }
  io_uring_cq_advance(&state_->ring, count);
  for (unsigned i = 0; done && i < count; ++i) done(indices[i]);
  return count;
}

void ThreadRing::Run(RingRead* reads, size_t count, const Done& done) {
  io_uring* const ring = &state_->ring;
  size_t next = 0;
  unsigned queued = 0;  // Without a completion so far.
  int retries = 0;
  while (next < count || queued > 0) {
    const unsigned depth =
        std::min(queued + (next == 0 ? kFirstSubmission : kSubmission), kDepth);
    for (; next < count && queued < depth; ++next, ++queued) {
      io_uring_sqe* const entry = io_uring_get_sqe(ring);
      if (entry == nullptr) break;
      const RingRead& read = reads[next];
      io_uring_prep_read(entry, read.descriptor, read.memory,
                         static_cast<unsigned>(read.length), read.offset);
      io_uring_sqe_set_data64(entry, next);
    }
    // May submit only a part, or be interrupted during the wait. The next turn
    // submits and waits for the rest.
    const int result =
        SubmitAndWait(ring, WaitCount(queued, next < count, done != nullptr));
    const unsigned completed = Reap(reads, done);
    queued -= completed;
    if (result >= 0 || completed > 0 || result == -EINTR) continue;
    if (IsPassing(-result) && ++retries <= kMaxRetries) {
      Pause();
      continue;
    }
    Abandon(reads, queued, done);
    GiveUp(-result);
    return;
  }
}

// The ring cannot be entered any more. The kernel still writes submitted reads
// to the caller's memory, so they must be waited for. Completions also arrive
// without entering, at any return from the kernel.
void ThreadRing::Abandon(RingRead* reads, unsigned queued, const Done& done) {
  io_uring* const ring = &state_->ring;
  queued -= io_uring_sq_ready(ring);
  while (queued > 0) {
    queued -= Reap(reads, done);
    if (queued > 0) Pause();
  }
  TearDown(ring);
  state_->ready = false;
}

}  // namespace

bool IoRingUsable() { return Policy::Get().usable(); }

std::string IoRingPath() { return Policy::Get().Describe(); }

void ReadInRing(RingRead* reads, size_t count,
                const std::function<void(size_t)>& done) {
  if (!IoRingUsable()) return;
  const ThreadScratch<ThreadRing, ThreadRing> ring;
  if (ring->Prepare()) ring->Run(reads, count, done);
}

RingSubmit TEST_SetRingSubmit(RingSubmit submit) {
  // relaxed: see SubmitAndWait.
  return test_submit.exchange(submit, std::memory_order_relaxed);
}

}  // namespace varve
