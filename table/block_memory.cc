// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <string>

// jemalloc's interface, null where the program is not linked with it.
extern "C" {
int mallctl(const char* name, void* old_value, size_t* old_size,
            void* new_value, size_t new_size) __attribute__((weak));
void* mallocx(size_t size, int flags) __attribute__((weak));
void sdallocx(void* memory, size_t size, int flags) __attribute__((weak));
}

namespace varve {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;

// jemalloc's flags, as its manual gives them.
constexpr int kAlignmentFlag = 6;  // The alignment's base-2 logarithm.
static_assert(size_t{1} << kAlignmentFlag == kAlignment);
constexpr int kNoThreadCache = 1 << 8;
constexpr int ArenaFlag(unsigned arena) {
  return static_cast<int>((arena + 1) << 20);
}

// The hooks of an arena, as jemalloc 5 lays them out; the first brings memory.
struct ExtentHooks {
  void* (*alloc)(ExtentHooks*, void*, size_t, size_t, bool*, bool*, unsigned);
  void* others[8];
};

ExtentHooks* default_hooks = nullptr;
ExtentHooks hooks;

void* AllocateExtent(ExtentHooks* /*hooks*/, void* address, size_t size,
                     size_t alignment, bool* zero, bool* commit,
                     unsigned arena) {
  if (size >= kHugePageBytes && alignment < kHugePageBytes) {
    alignment = kHugePageBytes;
  }
  void* memory = default_hooks->alloc(default_hooks, address, size, alignment,
                                      zero, commit, arena);
  if (memory != nullptr && size >= kHugePageBytes) {
    madvise(memory, size, MADV_HUGEPAGE);  // A wish: failure changes nothing.
  }
  return memory;
}

// The flags for mallocx, or 0 if there is no arena to be had.
int MakeArena() {
  if (mallctl == nullptr || mallocx == nullptr || sdallocx == nullptr) {
    return 0;
  }
  unsigned arena = 0;
  size_t size = sizeof(arena);
  if (mallctl("arenas.create", &arena, &size, nullptr, 0) != 0) return 0;
  const std::string name = "arena." + std::to_string(arena) + ".extent_hooks";
  size = sizeof(default_hooks);
  if (mallctl(name.c_str(), &default_hooks, &size, nullptr, 0) != 0) return 0;
  hooks = *default_hooks;
  hooks.alloc = &AllocateExtent;
  ExtentHooks* new_hooks = &hooks;
  if (mallctl(name.c_str(), nullptr, nullptr, &new_hooks, sizeof(new_hooks)) !=
      0) {
    return 0;
  }
  return ArenaFlag(arena) | kNoThreadCache | kAlignmentFlag;
}

int ArenaFlags() {
  static const int flags = MakeArena();
  return flags;
}

}  // namespace

bool HugePagesForBlocks() { return ArenaFlags() != 0; }

void* AllocateBlockMemory(size_t size, bool huge_pages) {
  if (huge_pages && ArenaFlags() != 0) {
    void* const memory = mallocx(size, ArenaFlags());
    if (memory == nullptr) std::abort();  // As operator new without exceptions.
    return memory;
  }
  return ::operator new(size, std::align_val_t{kAlignment});
}

void FreeBlockMemory(void* memory, size_t size, bool huge_pages) {
  if (huge_pages && ArenaFlags() != 0) {
    sdallocx(memory, size, ArenaFlags());
  } else {
    ::operator delete(memory, std::align_val_t{kAlignment});
  }
}

}  // namespace varve
