// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Why a compaction can be interrupted where it appends to a table: it holds no
// lock there, and needs nothing from the thread but its stack. A flush may
// therefore run in that place as in any other call of the environment. Other
// files are not interrupted, since the engine may hold a lock while it writes
// them.
#include "compat/leveldb/env/shared_env.h"

#include <unistd.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

namespace varve::compat {
namespace {

// True while the thread runs a compaction, and no flush within it.
thread_local bool runs_compaction = false;

class ProcessEnv final : public EnvWrapper {
 public:
  ProcessEnv() : EnvWrapper(Env::Default()) {}

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override;

  Status Schedule(std::function<void()> work, Priority priority) override {
    // Held until the pool has taken the call: if it does not, the last job is
    // still this one.
    const std::lock_guard<std::mutex> lock(mutex_);
    ForgetParentLocked();
    Jobs& jobs = priority == Priority::kHigh ? flushes_ : compactions_;
    jobs.push_back(std::move(work));
    // One call of RunOne for each job, in a pool that has one thread unless
    // somebody asks for more. This class asks for none.
    Status status =
        target()->Schedule([this] { RunOne(); }, Env::Priority::kHigh);
    if (!status.ok()) jobs.pop_back();
    // relaxed: the interrupted compaction takes the job under the mutex.
    waiting_flushes_.store(flushes_.size(), std::memory_order_relaxed);
    return status;
  }
  void RaiseBackgroundThreads(int /*count*/, Priority /*priority*/) override {}

  // Runs the flushes that wait. Called by a compaction where it holds no lock.
  void Interrupt() {
    // relaxed: a flush that is missed here is seen at the next block.
    if (waiting_flushes_.load(std::memory_order_relaxed) == 0 ||
        !runs_compaction) [[likely]] {
      return;
    }
    runs_compaction = false;
    while (std::function<void()> flush = TakeFlush()) flush();
    runs_compaction = true;
  }

 private:
  using Jobs = std::deque<std::function<void()>>;

  // A forked child has the parent's jobs, but not its thread.
  void ForgetParentLocked() {
    if (process_ == getpid()) return;
    process_ = getpid();
    flushes_.clear();
    compactions_.clear();
  }

  std::function<void()> TakeFlush() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return TakeFlushLocked();
  }
  std::function<void()> TakeFlushLocked() {
    if (flushes_.empty()) return nullptr;
    std::function<void()> flush = std::move(flushes_.front());
    flushes_.pop_front();
    // relaxed: see Schedule.
    waiting_flushes_.store(flushes_.size(), std::memory_order_relaxed);
    return flush;
  }

  void RunOne() {
    std::function<void()> job;
    bool is_compaction = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      job = TakeFlushLocked();
      if (job == nullptr && !compactions_.empty()) {
        is_compaction = true;
        job = std::move(compactions_.front());
        compactions_.pop_front();
      }
    }
    if (job == nullptr) return;  // It ran within a compaction.
    runs_compaction = is_compaction;
    job();
    runs_compaction = false;
  }

  std::mutex mutex_;
  // Guarded by mutex_.
  Jobs flushes_;
  Jobs compactions_;
  pid_t process_ = getpid();
  std::atomic<size_t> waiting_flushes_{0};
};

// A table that a compaction writes.
class InterruptibleFile final : public WritableFile {
 public:
  InterruptibleFile(ProcessEnv* env, std::unique_ptr<WritableFile> target)
      : env_(env), target_(std::move(target)) {}
  Status Append(const Slice& data) override {
    env_->Interrupt();
    return target_->Append(data);
  }
  bool TryStore(const Slice* parts, size_t count) override {
    return target_->TryStore(parts, count);
  }
  Status AppendParts(const Slice* parts, size_t count, bool flush) override {
    env_->Interrupt();
    return target_->AppendParts(parts, count, flush);
  }
  Status Flush() override { return target_->Flush(); }
  Status Sync() override { return target_->Sync(); }
  Status Close() override { return target_->Close(); }
  void Allocate(uint64_t offset, uint64_t length) override {
    target_->Allocate(offset, length);
  }
  Status Reserve(uint64_t offset, uint64_t length) override {
    return target_->Reserve(offset, length);
  }
  void Release() override { target_->Release(); }
  void RangeSync(uint64_t offset, uint64_t length) override {
    target_->RangeSync(offset, length);
  }
  uint64_t Size() const override { return target_->Size(); }
  std::string WritePath() const override { return target_->WritePath(); }

 private:
  ProcessEnv* const env_;
  const std::unique_ptr<WritableFile> target_;
};

Status ProcessEnv::NewWritableFile(const std::string& path,
                                   const FileOptions& options,
                                   std::unique_ptr<WritableFile>* file) {
  Status status = target()->NewWritableFile(path, options, file);
  if (status.ok() && runs_compaction && path.ends_with(".sst")) {
    *file = std::make_unique<InterruptibleFile>(this, std::move(*file));
  }
  return status;
}

}  // namespace

Env* SharedEnv() {
  static auto* const env = new ProcessEnv;
  return env;
}

}  // namespace varve::compat
