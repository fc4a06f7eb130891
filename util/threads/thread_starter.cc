// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/thread_starter.h"

#include <sys/resource.h>

#include "util/base/process_wide.h"
#include "util/threads/background_thread.h"

namespace varve {

ThreadStarter& ThreadStarter::Get() {
  // Never destroyed: its thread waits until the process ends.
  static constinit ProcessWide<ThreadStarter> starter;
  return starter.Get();
}

void ThreadStarter::InheritFromThisThread() {
  // On Linux a nice value belongs to a thread, not to the whole process.
  const int own_nice = getpriority(PRIO_PROCESS, 0);
  MutexLock lock(&mu_);
  if (generation_ != 0 && nice_ <= own_nice) return;
  // The thread waits for the mutex and finds its generation.
  pthread_t thread;
  if (StartBackgroundThread(&thread, &ThreadMain, this) != 0) return;
  pthread_detach(thread);
  ++generation_;
  nice_ = own_nice;
  request_cv_.SignalAll();
}

int ThreadStarter::Start(pthread_t* thread, void* (*run)(void*),
                         void* argument) {
  MutexLock lock(&mu_);
  while (request_ != nullptr) done_cv_.Wait(&mu_);
  if (generation_ == 0) return StartBackgroundThread(thread, run, argument);
  Request request{thread, run, argument};
  request_ = &request;
  request_cv_.SignalAll();
  while (!request.is_done) done_cv_.Wait(&mu_);
  return request.error;
}

uint64_t ThreadStarter::Generation() {
  MutexLock lock(&mu_);
  return generation_;
}

void* ThreadStarter::ThreadMain(void* starter) {
  (void)pthread_setname_np(pthread_self(), "varve:start");
  static_cast<ThreadStarter*>(starter)->Run();
  return nullptr;
}

void ThreadStarter::Run() {
  MutexLock lock(&mu_);
  const uint64_t generation = generation_;
  while (generation == generation_) {
    if (request_ == nullptr) {
      request_cv_.Wait(&mu_);
      continue;
    }
    request_->error = StartBackgroundThread(request_->thread, request_->run,
                                            request_->argument);
    request_->is_done = true;
    request_ = nullptr;
    done_cv_.SignalAll();
  }
}

void ThreadStarter::InForkedChild() {
  MakeFree(&mu_);
  MakeFree(&request_cv_);
  MakeFree(&done_cv_);
  request_ = nullptr;
  generation_ = 0;
}

}  // namespace varve
