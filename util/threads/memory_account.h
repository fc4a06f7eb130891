// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Distributed allocation counters: each thread counts the memory that it
// allocated for the engine and how much of that was freed, by itself or by
// other threads. NoteAllocated returns an account. The allocating code keeps it
// beside the memory (in a block's control line, an arena block's header) and
// passes it to NoteFreed, on any thread. monitoring/memory_accounting.h makes
// reports from the accounts.
//
// Words and states
//   One MemoryAccount per thread that has allocated. `own` is written by its
//   thread alone. Any other thread adds to `freed_by_others`. The shared
//   account belongs to no thread: all additions to its words are atomic. An
//   account is live, or ended: its thread has ended, but its memory may live
//   on.
// Transitions
//   T1 allocate: own.allocated + n, by the thread.
//   T2 free by the thread: own.freed + n.
//   T3 free by another thread: freed_by_others + n.
//   T4 end, with the accounts' mutex held.
//   T5 take over, with the mutex held: an ended account without live memory
//      gets a new thread. Its counts are added to the sums of past threads.
// Invariants
//   I1 allocated - freed - freed_by_others is the live memory, once all calls
//      that free have returned.
//   I2 memory is freed to the account that allocated it, so no account with
//      live memory is taken over.
// Why each order is needed
//   T1 and T2 are relaxed loads and release stores of words that no other
//      thread writes. T3 is a release too. A reader that sees a free by
//      acquire, in T2's or T3's word, then sees the allocation, which happened
//      before it. The sum, read in that order, never falls below the live
//      memory.
// Bad interleavings prevented
//   B1 a piece is allocated and freed between a reader's two loads: it reads
//      the frees first.
//   B2 a thread frees memory that an ended thread left while a new thread takes
//      the account over: as long as the piece lives there is a balance (I2),
//      and afterwards no thread has the account's address.
//   B3 the ablation is switched while memory lives: the piece's account
//      determines where its free is counted.
// Freshness and progress
//   Only T4, T5 and reports wait, for each other.
// Reclamation
//   Accounts are never freed. There is one per live thread, and one per ended
//   thread that left memory.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace varve {

enum class MemoryKind : uint8_t {
  kMemTable,
  kBlock,
  kIndexAndFilter,
  kIterator,
  kWriteBatch,
};
inline constexpr int kMemoryKinds =
    static_cast<int>(MemoryKind::kWriteBatch) + 1;

struct MemoryAccount {
  struct Own {
    std::atomic<uint64_t> allocated{0};
    std::atomic<uint64_t> freed{0};
  };

  alignas(64) Own own[kMemoryKinds];
  alignas(64) std::atomic<uint64_t> freed_by_others[kMemoryKinds] = {};

  // The rest: see memory_account.cc. Guarded by the accounts' mutex.
  alignas(64) bool ended = false;
  int64_t thread_id = 0;
  char name[16] = {};
};

// Null before the thread's first allocation.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local MemoryAccount*
    current_memory_account;

// The shared account, and whether all allocations are counted there. They are
// with the ablation memory_accounting=atomic. Process-wide.
extern constinit MemoryAccount shared_memory_account;
extern constinit std::atomic<bool> memory_accounting_is_atomic;

// The slow path of NoteAllocated: an account for the calling thread.
[[gnu::noinline, gnu::cold]] MemoryAccount* NewMemoryAccount();

// Adds to a word that this thread alone writes.
inline void AddToOwn(std::atomic<uint64_t>* word, uint64_t bytes) {
  // relaxed: this thread stored it.
  const uint64_t sum = word->load(std::memory_order_relaxed) + bytes;
  // release: pairs with the acquire in ReadMemoryAccount.
  word->store(sum, std::memory_order_release);
}

// T1. Takes no mutex, except the accounts' mutex at the thread's first call.
inline MemoryAccount* NoteAllocated(MemoryKind kind, size_t bytes) {
  const int k = static_cast<int>(kind);
  // relaxed: B3.
  if (memory_accounting_is_atomic.load(std::memory_order_relaxed))
      [[unlikely]] {
    // relaxed: seen before its free is, by what hands the memory on.
    shared_memory_account.own[k].allocated.fetch_add(bytes,
                                                     std::memory_order_relaxed);
    return &shared_memory_account;
  }
  MemoryAccount* account = current_memory_account;
  if (account == nullptr) [[unlikely]]
    account = NewMemoryAccount();
  AddToOwn(&account->own[k].allocated, bytes);
  return account;
}

// T2, T3. REQUIRES: NoteAllocated returned `account` for that kind, and for
// `bytes` bytes that are not freed yet.
inline void NoteFreed(MemoryAccount* account, MemoryKind kind, size_t bytes) {
  const int k = static_cast<int>(kind);
  if (account == current_memory_account) [[likely]] {
    AddToOwn(&account->own[k].freed, bytes);
  } else {
    // release: pairs with the acquire in ReadMemoryAccount.
    account->freed_by_others[k].fetch_add(bytes, std::memory_order_release);
  }
}

struct MemoryCounts {
  uint64_t allocated = 0;
  uint64_t freed = 0;  // By the thread itself.
  uint64_t freed_by_others = 0;

  uint64_t live() const { return allocated - freed - freed_by_others; }
};

inline MemoryCounts ReadMemoryAccount(const MemoryAccount& account,
                                      MemoryKind kind) {
  const int k = static_cast<int>(kind);
  MemoryCounts counts;
  // acquire, both: B1. pairs with the releases above.
  counts.freed_by_others =
      account.freed_by_others[k].load(std::memory_order_acquire);
  counts.freed = account.own[k].freed.load(std::memory_order_acquire);
  // relaxed: after those.
  counts.allocated = account.own[k].allocated.load(std::memory_order_relaxed);
  return counts;
}

// Calls visit(argument, account) for each account in use, the shared one first,
// with the accounts' mutex held. Fills *past, an array of kMemoryKinds, with
// the counts of threads whose accounts were taken over. All of that memory is
// freed.
void VisitMemoryAccounts(void (*visit)(void*, const MemoryAccount&),
                         void* argument, uint64_t* past);

// Sets the accounting mode, for measurement. May be called at any time.
inline void SetMemoryAccountingAtomic(bool is_atomic) {
  // relaxed: B3.
  memory_accounting_is_atomic.store(is_atomic, std::memory_order_relaxed);
}

}  // namespace varve
