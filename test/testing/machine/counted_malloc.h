// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Replaces a program's malloc by one that counts. Included by one source of a
// program.

#include <malloc.h>

#include <cstddef>
#include <cstdint>

namespace {

// Of the calling thread.
thread_local constinit uint64_t allocations = 0;
[[maybe_unused]] thread_local constinit uint64_t allocated_bytes = 0;

void* Counted(void* memory) {
  ++allocations;
  allocated_bytes += malloc_usable_size(memory);
  return memory;
}

}  // namespace

// The C library's own, which its public names lead to; operator new calls one
// of these names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return Counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) {
  return Counted(__libc_calloc(count, size));
}
void* realloc(void* memory, size_t size) {
  return Counted(__libc_realloc(memory, size));
}
void* aligned_alloc(size_t alignment, size_t size) {
  return Counted(__libc_memalign(alignment, size));
}
}
