// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/memory_accounting.h"

#include <cinttypes>

#include "util/base/append_format.h"

namespace varve {

namespace {

struct Listing {
  std::vector<ThreadMemory> threads;
  uint64_t past[kMemoryKinds];
};

void AddTo(void* argument, const MemoryAccount& account) {
  ThreadMemory thread;
  thread.name = &account == &shared_memory_account ? "(all)" : account.name;
  thread.id = account.thread_id;
  thread.ended = account.ended;
  for (int k = 0; k < kMemoryKinds; ++k) {
    thread.kinds[k] = ReadMemoryAccount(account, static_cast<MemoryKind>(k));
  }
  static_cast<std::vector<ThreadMemory>*>(argument)->push_back(
      std::move(thread));
}

Listing ListMemory() {
  Listing listing;
  VisitMemoryAccounts(AddTo, &listing.threads, listing.past);
  return listing;
}

void Add(const MemoryCounts& counts, MemoryCounts* sum) {
  sum->allocated += counts.allocated;
  sum->freed += counts.freed;
  sum->freed_by_others += counts.freed_by_others;
}

}  // namespace

const char* MemoryKindName(MemoryKind kind) {
  constexpr const char* kNames[kMemoryKinds] = {
      "memtable", "block", "index and filter", "iterator", "write batch"};
  return kNames[static_cast<int>(kind)];
}

uint64_t ThreadMemory::live() const {
  uint64_t sum = 0;
  for (const MemoryCounts& counts : kinds) sum += counts.live();
  return sum;
}

std::vector<ThreadMemory> MemoryByThread() { return ListMemory().threads; }

void MemoryByKind(MemoryCounts* kinds) {
  const Listing listing = ListMemory();
  for (int k = 0; k < kMemoryKinds; ++k) {
    kinds[k] = MemoryCounts();
    kinds[k].allocated = kinds[k].freed = listing.past[k];
    for (const ThreadMemory& thread : listing.threads) {
      Add(thread.kinds[k], &kinds[k]);
    }
  }
}

std::string DescribeMemory() {
  MemoryCounts kinds[kMemoryKinds];
  MemoryByKind(kinds);
  std::string out =
      "kind                    live bytes        allocated   freed by owner  "
      "freed by others\n";
  const auto add = [&out](const char* name, const MemoryCounts& counts) {
    AppendFormat(
        &out, "%-17s %16" PRIu64 " %16" PRIu64 " %16" PRIu64 " %16" PRIu64 "\n",
        name, counts.live(), counts.allocated, counts.freed,
        counts.freed_by_others);
  };
  MemoryCounts all;
  for (int k = 0; k < kMemoryKinds; ++k) {
    add(MemoryKindName(static_cast<MemoryKind>(k)), kinds[k]);
    Add(kinds[k], &all);
  }
  add("all", all);
  return out;
}

std::string DescribeMemoryByThread() {
  std::string out = "thread           id         live bytes";
  for (int k = 0; k < kMemoryKinds; ++k) {
    AppendFormat(&out, " %16s", MemoryKindName(static_cast<MemoryKind>(k)));
  }
  out += "        allocated  freed by others\n";
  for (const ThreadMemory& thread : MemoryByThread()) {
    MemoryCounts all;
    for (const MemoryCounts& counts : thread.kinds) Add(counts, &all);
    if (thread.id == 0 && all.allocated == 0) continue;
    AppendFormat(&out, "%-16s %-8" PRId64 "%s%12" PRIu64, thread.name.c_str(),
                 thread.id, thread.ended ? "*" : " ", all.live());
    for (const MemoryCounts& counts : thread.kinds) {
      AppendFormat(&out, " %16" PRIu64, counts.live());
    }
    AppendFormat(&out, " %16" PRIu64 " %16" PRIu64 "\n", all.allocated,
                 all.freed_by_others);
  }
  return out + "* has ended\n";
}

uint64_t AccountedBytes(bool atomically) {
  const Listing listing = ListMemory();
  uint64_t sum = 0;
  for (size_t i = 0; i < listing.threads.size(); ++i) {
    if ((i == 0) != atomically) continue;  // The shared account is the first.
    for (const MemoryCounts& counts : listing.threads[i].kinds) {
      sum += counts.allocated;
    }
  }
  if (!atomically) {
    for (const uint64_t bytes : listing.past) sum += bytes;
  }
  return sum;
}

}  // namespace varve
