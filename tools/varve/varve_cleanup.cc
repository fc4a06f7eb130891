// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_cleanup.h"

#include <signal.h>

#include <set>
#include <thread>

namespace varve {

namespace {

struct Registry {
  Mutex mu;
  std::set<const std::function<void()>*> cleanups;  // Guarded by mu.
};

// Never destroyed: a signal may arrive while the process exits.
Registry* TheRegistry() {
  static Registry* const registry = new Registry;
  return registry;
}

void WaitForSignal(const sigset_t& signals) {
  int number = 0;
  if (sigwait(&signals, &number) != 0) return;
  // Held to the end, so that no further file is created.
  MutexLock guard(&TheRegistry()->mu);
  for (const std::function<void()>* cleanup : TheRegistry()->cleanups) {
    (*cleanup)();
  }
  signal(number, SIG_DFL);
  sigset_t this_one;
  sigemptyset(&this_one);
  sigaddset(&this_one, number);
  pthread_sigmask(SIG_UNBLOCK, &this_one, nullptr);
  raise(number);
}

}  // namespace

void StartSignalCleanup() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) == 0 &&
        action.sa_handler != SIG_IGN) {
      sigaddset(&signals, number);
    }
  }
  TheRegistry();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] { WaitForSignal(signals); }).detach();
}

SignalCleanup::SignalCleanup(std::function<void()> cleanup)
    : cleanup_(std::move(cleanup)) {
  MutexLock guard(mutex());
  TheRegistry()->cleanups.insert(&cleanup_);
}

SignalCleanup::~SignalCleanup() {
  MutexLock guard(mutex());
  TheRegistry()->cleanups.erase(&cleanup_);
}

Mutex* SignalCleanup::mutex() { return &TheRegistry()->mu; }

}  // namespace varve
