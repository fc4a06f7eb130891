// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/memory_account.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "util/base/thread_annotations.h"
#include "util/threads/fork_watch.h"
#include "util/threads/memory_account_list.h"
#include "util/threads/thread_exit.h"

namespace varve {

constinit thread_local MemoryAccount* current_memory_account = nullptr;
constinit MemoryAccount shared_memory_account;
constinit std::atomic<bool> memory_accounting_is_atomic{false};
constinit std::atomic<ListedMemoryAccount*> first_memory_account{nullptr};

namespace {

// The number of accounts that a new thread examines for one to take over.
constexpr size_t kMaxTakeSteps = 64;

struct Accounts final : private ForkWatch {
  void InForkedChild() override {
    if (MakeFree(&mutex)) return;
    // A thread of the parent may have been changing it. The child does not
    // report the accounts that the parent had.
    new (&all) std::vector<MemoryAccount*>;
    hand = 0;
    ended_count = 0;
  }

  // Taken last: a thread that allocates may hold any other mutex.
  Mutex mutex;
  std::vector<MemoryAccount*> all VARVE_GUARDED_BY(mutex);
  size_t hand VARVE_GUARDED_BY(mutex) = 0;  // Where the next look begins.
  size_t ended_count VARVE_GUARDED_BY(mutex) = 0;
  uint64_t past[kMemoryKinds] VARVE_GUARDED_BY(mutex) = {};
  Registration fork_watch{this};  // Last: see ForkWatch.
};

// Never destroyed: memory may be freed after everything else.
Accounts& AllAccounts() {
  static constinit ProcessWide<Accounts> accounts;
  return accounts.Get();
}

bool HasBalance(const MemoryAccount& account) {
  for (int k = 0; k < kMemoryKinds; ++k) {
    if (ReadMemoryAccount(account, static_cast<MemoryKind>(k)).live() != 0) {
      return true;
    }
  }
  return false;
}

// T5, of an account without balance.
void Forget(MemoryAccount* account, uint64_t* past) {
  for (int k = 0; k < kMemoryKinds; ++k) {
    MemoryAccount::Own& own = account->own[k];
    // relaxed, all: no other thread has the account (B2).
    past[k] += own.allocated.load(std::memory_order_relaxed);
    own.allocated.store(0, std::memory_order_relaxed);
    own.freed.store(0, std::memory_order_relaxed);
    // relaxed: as above.
    account->freed_by_others[k].store(0, std::memory_order_relaxed);
  }
}

// T4, at the end of the thread.
void EndAccount(void* ending) {
  auto* const account = static_cast<MemoryAccount*>(ending);
  current_memory_account = nullptr;
  Accounts& accounts = AllAccounts();
  MutexLock lock(&accounts.mutex);
  // The thread may have got its name late.
  (void)pthread_getname_np(pthread_self(), account->name,
                           sizeof(account->name));
  account->ended = true;
  ++accounts.ended_count;
}

MemoryAccount* TakeEnded(Accounts* accounts) VARVE_REQUIRES(accounts->mutex) {
  for (size_t i = std::min(kMaxTakeSteps, accounts->all.size()); i > 0; --i) {
    if (accounts->hand >= accounts->all.size()) accounts->hand = 0;
    MemoryAccount* const account = accounts->all[accounts->hand++];
    if (!account->ended || HasBalance(*account)) continue;
    Forget(account, accounts->past);
    account->ended = false;
    --accounts->ended_count;
    return account;
  }
  return nullptr;
}

}  // namespace

MemoryAccount* NewMemoryAccount() {
  Accounts& accounts = AllAccounts();
  MemoryAccount* account = nullptr;
  {
    MutexLock lock(&accounts.mutex);
    if (accounts.ended_count > 0) account = TakeEnded(&accounts);
    if (account == nullptr) {
      auto* const listed = new ListedMemoryAccount;
      account = &listed->account;
      accounts.all.push_back(account);
      // relaxed: it changes under the mutex only.
      listed->next = first_memory_account.load(std::memory_order_relaxed);
      // release: another process that sees the account sees its words, too. It
      // pairs with the copying by that process.
      first_memory_account.store(listed, std::memory_order_release);
    }
    account->thread_id = gettid();
    (void)pthread_getname_np(pthread_self(), account->name,
                             sizeof(account->name));
  }
  current_memory_account = account;
  CallAtThreadExit(&EndAccount, account);
  return account;
}

void VisitMemoryAccounts(void (*visit)(void*, const MemoryAccount&),
                         void* argument, uint64_t* past) {
  Accounts& accounts = AllAccounts();
  MutexLock lock(&accounts.mutex);
  visit(argument, shared_memory_account);
  for (MemoryAccount* account : accounts.all) {
    if (account->ended && !HasBalance(*account)) {
      Forget(account, accounts.past);
      continue;
    }
    visit(argument, *account);
  }
  memcpy(past, accounts.past, sizeof(accounts.past));
}

}  // namespace varve
