// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/write/publication_watch.h"

#include <algorithm>

#include "util/base/futex.h"
#include "util/base/pause.h"

namespace varve {

namespace {

// After a wake-up, no waiter arms for this time.
constexpr uint64_t kRestUs = 400;

// How often a waiter looks for a moment between two writes, and the pauses
// after each look: some ten microseconds, of which a writer loses few.
constexpr int kTries = 64;
constexpr int kPauses = 4;

uint64_t NowUs() { return FutexClockNanos() / 1000; }

}  // namespace

bool PublicationWatch::Sleep(uint64_t deadline_us, uint64_t until_us) {
  const uint64_t now_us = NowUs();
  const uint64_t end_us = std::min(deadline_us, until_us);
  if (now_us < end_us) woken_.WaitFor(&mutex_, end_us - now_us);
  return NowUs() < deadline_us;
}

void PublicationWatch::Arm() {
  WriteQueue::Writer writer;
  for (int i = 0; i < kTries; ++i) {
    if (queue_->TryLead(&writer)) {
      gate_->RequestWake();
      return queue_->Leave(WriteQueue::Group(&writer), Status::OK());
    }
    for (int pause = 0; pause < kPauses; ++pause) PauseProcessor();
  }
  const WriteQueue::Exclusive leader(queue_);
  gate_->RequestWake();
}

PublicationWatch::Outcome PublicationWatch::Await(
    const std::atomic<SequenceNumber>& published, SequenceNumber sequence,
    uint64_t timeout_us) {
  const auto is_published = [&] {
    // acquire: pairs with the release of VersionSet::SetLastSequence, so that
    // the caller finds the update.
    return published.load(std::memory_order_acquire) >= sequence;
  };
  const uint64_t now_us = NowUs();
  const uint64_t deadline_us =
      timeout_us < UINT64_MAX - now_us ? now_us + timeout_us : UINT64_MAX;
  for (bool in_time = true; !is_published();) {
    uint64_t round = 0;
    {
      const MutexLock lock(&mutex_);
      const uint64_t begin_us = writes_come_ ? NowUs() : last_wake_us_;
      const uint64_t end_us = begin_us != 0 ? begin_us + kRestUs : 0;
      if (hook_ != nullptr && NowUs() < end_us) {
        hook_(hook_argument_, Step::kRest);
      }
      while (in_time && !ended_ && NowUs() < end_us) {
        in_time = Sleep(deadline_us, end_us);
      }
      if (ended_) return Outcome::kEnded;
      round = round_;
      writes_come_ = is_published();
      if (writes_come_) break;
    }
    if (!in_time || NowUs() >= deadline_us) return Outcome::kTimeout;
    Arm();
    if (hook_ != nullptr) hook_(hook_argument_, Step::kArmed);
    if (is_published()) break;
    const MutexLock lock(&mutex_);
    while (in_time && !ended_ && round_ == round) {
      in_time = Sleep(deadline_us, UINT64_MAX);
    }
  }
  return Outcome::kPublished;
}

void PublicationWatch::Wake() {
  const MutexLock lock(&mutex_);
  ++round_;
  last_wake_us_ = NowUs();
  woken_.SignalAll();
}

void PublicationWatch::End() {
  const MutexLock lock(&mutex_);
  ended_ = true;
  woken_.SignalAll();
}

}  // namespace varve
