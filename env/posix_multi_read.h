// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Batches of reads from files of the operating system. Those from descriptors
// go through a ring in one submission (env/io_ring.h) if there are two or
// more; all others, and what the ring did not do in full, by the file's Read,
// so that ends of files and errors are reported as Read reports them.
//
// Thread-safety: thread-safe.

#include <cstddef>

#include "varve/env.h"

namespace varve {

void PosixMultiRead(FileReadRequest* requests, size_t count,
                    const Env::ReadDone& done);
void PosixMultiRead(const RandomAccessFile& file, ReadRequest* requests,
                    size_t count);

}  // namespace varve
