// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "util/threads/background_thread.h"

namespace varve {

ThreadPool::ThreadPool(ThreadPoolOptions options)
    : options_(std::move(options)) {}

ThreadPool::~ThreadPool() {
  std::vector<pthread_t> threads;
  {
    MutexLock lock(&mu_);
    DropInheritedJobs();
    stopping_ = true;  // From here on no thread is started.
    threads.swap(threads_);
    work_cv_.SignalAll();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

void ThreadPool::SetThreads(int count) {
  MutexLock lock(&mu_);
  DropInheritedJobs();
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

void ThreadPool::InForkedChild() VARVE_NO_THREAD_SAFETY_ANALYSIS {
  MakeFree(&mu_);
  MakeFree(&work_cv_);
  MakeFree(&idle_cv_);
  threads_.clear();
  running_jobs_ = 0;
  is_inherited_ = true;
}

void ThreadPool::DropInheritedJobs() {
  if (!is_inherited_) return;
  is_inherited_ = false;
  // Not cleared: it may be half changed, and its jobs belong to the parent.
  new (&queue_) std::deque<std::function<void()>>;
}

int ThreadPool::StartThread() {
  if (threads_.size() >= max_threads_) return EAGAIN;
  pthread_t thread;
  const int error = StartBackgroundThread(&thread, &ThreadMain, this);
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
  constexpr int kLowerPriorityNice = 10;
  const std::string number = std::to_string(thread_index);
  std::string name = options_.name.substr(0, kMaxNameBytes - number.size());
  name += number;
  // Name and priority are optional: a refusal has no effect that matters.
  (void)pthread_setname_np(pthread_self(), name.c_str());
  if (options_.lower_cpu_priority) {
    // On Linux a nice value belongs to a thread, not to the whole process.
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()),
                      kLowerPriorityNice);
  }
}

void ThreadPool::Run() {
  mu_.Lock();
  while (true) {
    while (queue_.empty() && !stopping_) work_cv_.Wait(&mu_);
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
  mu_.Unlock();
}

}  // namespace varve
