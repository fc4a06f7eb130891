// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Where a process's accounts of memory are, for other processes that read its
// memory (`varve top`), as monitoring/published_statistics.h says of its
// counters. It costs nothing but two words of that page.

#include <cstdint>

#include "monitoring/published_statistics.h"
#include "util/threads/memory_account_list.h"

namespace varve {

// The addresses are of objects that are never freed, and so are the accounts
// of the list.
struct PublishedMemory {
  uint64_t shared_account = reinterpret_cast<uintptr_t>(&shared_memory_account);
  uint64_t first_account = reinterpret_cast<uintptr_t>(&first_memory_account);
};

// The page. PublishedLayout() is of both parts.
struct PublishedPage {
  PublishedStatistics statistics;
  PublishedMemory memory;
};
static_assert(sizeof(PublishedPage) <= 4096);

}  // namespace varve
