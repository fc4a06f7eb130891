// Varve: a key-value storage engine. MIT licence, see LICENSE.

package storage

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// Large blocks go back to the system when they are freed, and small ones come from
// few arenas: blocks of megabytes otherwise leave gaps in an arena for each thread.
static void bound_malloc(void) {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}
*/
import "C"

// BoundMalloc has the memory of engines that is freed be used again, or given back,
// which costs some time. It is called before an engine is opened.
func BoundMalloc() { C.bound_malloc() }
