// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The accounts of memory_account.h, for programs that read the memory of this
// process: a list that they can follow without its help, since accounts are
// never freed. This process itself uses VisitMemoryAccounts.

#include <atomic>

#include "util/threads/memory_account.h"

namespace varve {

// An account that NewMemoryAccount has made. shared_memory_account is not in
// the list.
struct ListedMemoryAccount {
  MemoryAccount account;
  // Null: the last one. Never changes.
  ListedMemoryAccount* next = nullptr;
};

// The newest one, or null. The list only grows, at this end.
extern constinit std::atomic<ListedMemoryAccount*> first_memory_account;

}  // namespace varve
