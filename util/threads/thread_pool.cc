// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "util/threads/thread_starter.h"

namespace varve {

ThreadPool::ThreadPool(ThreadPoolOptions options)
    : options_(std::move(options)) {}

ThreadPool::~ThreadPool() { EndThreads(); }

void ThreadPool::EndThreads() {
  std::vector<pthread_t> threads;
  {
    MutexLock lock(&mu_);
    DropInheritedJobs();
    stopping_ = true;    // From here on no thread is started.
    threads = threads_;  // They run jobs until the queue is empty.
    for (auto* more : {&replaced_threads_, &ended_threads_}) {
      threads.insert(threads.end(), more->begin(), more->end());
      more->clear();
    }
    work_cv_.SignalAll();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  MutexLock lock(&mu_);
  threads_.clear();
  stopping_ = false;
  // Jobs that were scheduled after the last thread had left.
  while (threads_.size() < queue_.size() && StartThread() == 0) {
  }
}

void ThreadPool::SetThreads(int count) {
  MutexLock lock(&mu_);
  DropInheritedJobs();
  RenewThreads();
  if (count <= 0 || static_cast<size_t>(count) <= max_threads_) return;
  max_threads_ = static_cast<size_t>(count);
  // Jobs that wait for a thread because of the old limit need not wait any
  // more. On failure the existing threads run them.
  const size_t wanted = queue_.size() + running_jobs_;
  while (threads_.size() < wanted && StartThread() == 0) {
  }
}

Status ThreadPool::Schedule(std::function<void()> job) {
  MutexLock lock(&mu_);
  DropInheritedJobs();
  RenewThreads();
  // Counts jobs, not sleeping threads: a thread that was signalled but has not
  // woken yet is not idle.
  const size_t wanted = queue_.size() + running_jobs_ + 1;
  if (threads_.size() < wanted && !stopping_) {
    const int error = StartThread();
    if (error != 0 && threads_.empty()) {
      return Status::FromErrno("cannot start a background thread", error);
    }
  }
  queue_.push_back(std::move(job));
  work_cv_.Signal();
  return Status::OK();
}

size_t ThreadPool::TEST_QueueLength() const {
  MutexLock lock(&mu_);
  return is_inherited_ ? 0 : queue_.size();
}

void ThreadPool::WaitForIdle() {
  MutexLock lock(&mu_);
  DropInheritedJobs();
  while (!queue_.empty() || running_jobs_ > 0) idle_cv_.Wait(&mu_);
}

void ThreadPool::InForkedChild() {
  MakeFree(&mu_);
  MakeFree(&work_cv_);
  MakeFree(&idle_cv_);
  threads_.clear();
  replaced_threads_.clear();
  ended_threads_.clear();
  running_jobs_ = 0;
  is_inherited_ = true;
}

void ThreadPool::DropInheritedJobs() {
  if (!is_inherited_) return;
  is_inherited_ = false;
  // Not cleared: it may be half changed, and its jobs belong to the parent.
  new (&queue_) std::deque<std::function<void()>>;
}

bool ThreadPool::IsOnNewThread() const {
  return std::any_of(threads_.begin(), threads_.end(), [](pthread_t thread) {
    return pthread_equal(thread, pthread_self()) != 0;
  });
}

void ThreadPool::RenewThreads() {
  const uint64_t generation = ThreadStarter::Get().Generation();
  if (generation == generation_ || stopping_) return;
  if (!threads_.empty()) {
    std::vector<pthread_t> before = std::exchange(threads_, {});
    if (StartThread() != 0) {
      threads_ = std::move(before);  // The next call tries again.
      return;
    }
    replaced_threads_.insert(replaced_threads_.end(), before.begin(),
                             before.end());
    work_cv_.SignalAll();
  }
  generation_ = generation;
  while (threads_.size() < queue_.size() && StartThread() == 0) {
  }
}

int ThreadPool::StartThread() {
  if (threads_.size() >= max_threads_) return EAGAIN;
  pthread_t thread;
  const int error = ThreadStarter::Get().Start(&thread, &ThreadMain, this);
  if (error == 0) threads_.push_back(thread);
  return error;
}

void* ThreadPool::ThreadMain(void* pool) {
  auto* self = static_cast<ThreadPool*>(pool);
  size_t thread_index;
  {
    MutexLock lock(&self->mu_);
    thread_index = self->entered_threads_++;
  }
  self->PrepareThread(thread_index);
  self->Run();
  return nullptr;
}

void ThreadPool::PrepareThread(size_t thread_index) const {
  constexpr size_t kMaxNameBytes = 15;
  constexpr int kAddedNice = 10;
  const std::string number = std::to_string(thread_index);
  std::string name = options_.name.substr(0, kMaxNameBytes - number.size());
  name += number;
  // Name and priority are optional: a refusal has no effect that matters.
  (void)pthread_setname_np(pthread_self(), name.c_str());
  if (options_.lower_cpu_priority) {
    // On Linux a nice value belongs to a thread, not to the whole process. A
    // value above 19 means 19.
    (void)setpriority(PRIO_PROCESS, 0,
                      getpriority(PRIO_PROCESS, 0) + kAddedNice);
  }
}

void ThreadPool::Run() {
  mu_.Lock();
  while (true) {
    while (queue_.empty() && ended_threads_.empty() && !stopping_ &&
           IsOnNewThread()) {
      work_cv_.Wait(&mu_);
    }
    if (!IsOnNewThread()) break;
    if (!ended_threads_.empty()) {
      JoinEndedThread();
      continue;
    }
    if (queue_.empty()) break;
    std::function<void()> job = std::move(queue_.front());
    queue_.pop_front();
    running_jobs_++;
    mu_.Unlock();
    job();
    // The job's captures are destroyed before the pool may report idle.
    job = nullptr;
    mu_.Lock();
    running_jobs_--;
    if (queue_.empty() && running_jobs_ == 0) idle_cv_.SignalAll();
  }
  // If it was replaced, a new thread joins it, unless EndThreads does.
  const auto self = std::find_if(
      replaced_threads_.begin(), replaced_threads_.end(), [](pthread_t thread) {
        return pthread_equal(thread, pthread_self()) != 0;
      });
  if (self != replaced_threads_.end()) {
    ended_threads_.push_back(*self);
    replaced_threads_.erase(self);
    work_cv_.Signal();
  }
  mu_.Unlock();
}

// Frees the stack of a thread that has left the pool.
void ThreadPool::JoinEndedThread() {
  const pthread_t thread = ended_threads_.back();
  ended_threads_.pop_back();
  mu_.Unlock();
  pthread_join(thread, nullptr);
  mu_.Lock();
}

}  // namespace varve
