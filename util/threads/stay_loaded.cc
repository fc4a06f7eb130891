// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/threads/stay_loaded.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <bit>
#include <cstdint>

// Weak: a statically linked program has none, and needs none.
#pragma weak dlopen

namespace varve {

namespace {

struct Search {
  uintptr_t address;
  const char* name = nullptr;
};

// For dl_iterate_phdr: stops at the object that holds search->address.
int IsHolder(dl_phdr_info* info, size_t /*info_bytes*/, void* argument) {
  auto* const search = static_cast<Search*>(argument);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type == PT_LOAD &&
        search->address - (info->dlpi_addr + part.p_vaddr) < part.p_memsz) {
      search->name = info->dlpi_name;
      return 1;
    }
  }
  return 0;
}

}  // namespace

void StayLoaded() {
  static constinit std::atomic<bool> asked{false};
  // relaxed, both: whether the library stays loaded orders nothing. It does not
  // wait for the first caller, which may wait for the dynamic linker's lock: a
  // caller inside a library's constructor holds that.
  if (asked.load(std::memory_order_relaxed)) return;
  if (asked.exchange(true, std::memory_order_relaxed)) return;
  Search search = {.address = std::bit_cast<uintptr_t>(&asked)};
  dl_iterate_phdr(&IsHolder, &search);
  // The program itself has the empty name.
  if (search.name == nullptr || search.name[0] == '\0') return;
  if (dlopen == nullptr) return;
  // The handle is kept too: it also keeps the object loaded.
  (void)dlopen(search.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace varve
