// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/descriptor_supply.h"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/threads/fork_watch.h"

namespace varve {

namespace {

constexpr uint64_t kMinReserve = 8;
// The number of descriptors that all owners together may keep when the reserve
// is refilled. A smaller pool would open a file for nearly each read, while the
// reserve may be unused.
constexpr size_t kReserveKeep = 16;
constexpr size_t kMaxRequest = 64;

constexpr uint64_t kPauseUs = 1000;
// Another thread of the program may be about to close a file.
constexpr uint64_t kTimeoutUs = 50 * 1000;
// Reads end sooner, unless the device has died.
constexpr uint64_t kLongTimeoutUs = 3 * 1000 * 1000;

// Never destroyed: databases may be read during process exit.
class Registry final : private ForkWatch {
 public:
  static Registry& Get() {
    static constinit ProcessWide<Registry> registry;
    return registry.Get();
  }

  void Add(DescriptorOwner* owner) VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    entries_.push_back(std::make_unique<Entry>(Entry{owner, 0}));
  }

  void Remove(const DescriptorOwner* owner) VARVE_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    const auto found = std::find_if(
        entries_.begin(), entries_.end(),
        [owner](const auto& entry) { return entry->owner == owner; });
    if (found == entries_.end()) return;
    const std::unique_ptr<Entry> entry = std::move(*found);
    entries_.erase(found);
    while (entry->calls > 0) called_.Wait(&mu_);
  }

  // Asks the owners until `count` are closed, those with the most first.
  DescriptorOwner::CloseResult Collect(size_t count, size_t keep_of_all)
      VARVE_EXCLUDES(mu_) {
    std::vector<Entry*> asked;
    {
      MutexLock lock(&mu_);
      for (const auto& entry : entries_) {
        ++entry->calls;
        entry->held = entry->owner->Held();
        asked.push_back(entry.get());
      }
      std::stable_sort(
          asked.begin(), asked.end(),
          [](const Entry* a, const Entry* b) { return a->held > b->held; });
    }
    const size_t keep = asked.empty() || keep_of_all == 0
                            ? 0
                            : std::max<size_t>(1, keep_of_all / asked.size());
    DescriptorOwner::CloseResult sum;
    for (Entry* entry : asked) {
      if (sum.closed >= count) break;
      const auto result = entry->owner->GiveBack(count - sum.closed, keep);
      sum.closed += result.closed;
      sum.more_soon |= result.more_soon;
    }
    MutexLock lock(&mu_);
    for (Entry* entry : asked) --entry->calls;
    called_.SignalAll();
    return sum;
  }

 private:
  // Calls under way belong to the parent's threads, and do not return.
  void InForkedChild() override {
    MakeFree(&called_);
    if (!MakeFree(&mu_)) return;
    for (const auto& entry : entries_) entry->calls = 0;
  }

  struct Entry {
    DescriptorOwner* owner;
    int calls;        // Under way.
    size_t held = 0;  // The number held, for sorting.
  };

  Mutex mu_;
  CondVar called_;  // Some calls have returned.
  std::vector<std::unique_ptr<Entry>> entries_ VARVE_GUARDED_BY(mu_);
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

std::atomic<uint64_t> shortages{0};

void CountShortage() {
  // relaxed: a hint, nothing else depends on it.
  shortages.fetch_add(1, std::memory_order_relaxed);
}

void Pause() {
  struct timespec left = {.tv_sec = 0,
                          .tv_nsec = static_cast<long>(kPauseUs) * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

// Closes owners' descriptors to free the program's reserve.
void LeaveReserve(int descriptor) {
  const int begin = CurrentReserveBegin();
  if (descriptor < begin) return;
  CountShortage();
  const auto count = static_cast<size_t>(descriptor - begin) + 1;
  Registry::Get().Collect(count, kReserveKeep);
}

// Repeats a call that has just failed for lack of a descriptor, as long as one
// may become free. Returns the call's result, with its errno.
int OpenInShortage(const std::function<int()>& call) {
  RefreshDescriptorLimit();
  uint64_t waited_us = 0;
  // Asks for more each time: the limit may be far below the number of open
  // files.
  for (size_t count = 1;; count = std::min(2 * count, kMaxRequest)) {
    CountShortage();
    const DescriptorOwner::CloseResult result =
        Registry::Get().Collect(count, 0);
    const bool last = waited_us >= (NoDescriptorWait::Active() ? 1
                                    : result.more_soon         ? kLongTimeoutUs
                                                               : kTimeoutUs);
    if (result.closed == 0 && !last) {
      Pause();
      waited_us += kPauseUs;
    }
    const int descriptor = call();
    if (descriptor >= 0 || (errno != EMFILE && errno != ENFILE)) {
      return descriptor;
    }
    if (result.closed == 0 && last) return descriptor;
  }
}

}  // namespace

namespace internal {

// 0: the first open reads the limit.
std::atomic<int> reserve_begin{0};

int SettleDescriptor(int descriptor, const std::function<int()>& call) {
  if (descriptor < 0) descriptor = OpenInShortage(call);
  if (descriptor >= 0) LeaveReserve(descriptor);
  return descriptor;
}

}  // namespace internal

constinit thread_local int NoDescriptorWait::depth_ = 0;

void AddDescriptorOwner(DescriptorOwner* owner) { Registry::Get().Add(owner); }

void RemoveDescriptorOwner(DescriptorOwner* owner) {
  Registry::Get().Remove(owner);
}

int DescriptorReserveBegin(uint64_t limit) {
  const uint64_t reserve = std::max(limit - limit / 2, kMinReserve);
  // Never 0, which means that it is unknown.
  if (limit <= reserve) return 1;
  return static_cast<int>(std::min<uint64_t>(limit - reserve, INT_MAX));
}

int CurrentReserveBegin() {
  // relaxed: a thread that sees the 0 late reads the limit once more.
  const int begin = internal::reserve_begin.load(std::memory_order_relaxed);
  if (begin != 0) [[likely]]
    return begin;
  RefreshDescriptorLimit();
  // relaxed: as above.
  return internal::reserve_begin.load(std::memory_order_relaxed);
}

void RefreshDescriptorLimit() {
  const int error_number = errno;
  rlimit limit{};
  int begin = INT_MAX;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY) {
    begin = DescriptorReserveBegin(limit.rlim_cur);
  }
  // relaxed: as in OpenDescriptor.
  internal::reserve_begin.store(begin, std::memory_order_relaxed);
  errno = error_number;
}

uint64_t DescriptorShortages() {
  // relaxed: see CountShortage.
  return shortages.load(std::memory_order_relaxed);
}

bool IsOutOfDescriptors(const Status& status) {
  if (!status.IsIOError()) return false;
  const std::string_view message = status.message().ToStringView();
  for (const int error_number : {EMFILE, ENFILE}) {
    const Status sample = Status::FromErrno("", error_number);
    if (message.ends_with(sample.message().ToStringView())) return true;
  }
  return false;
}

}  // namespace varve
