// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Batches of reads from files of the operating system. Reads from descriptors
// go through a ring in one submission (env/io_ring.h) if there are two or more.
// All others, and reads that the ring did not complete, go through the file's
// Read, so that Read reports ends of files and errors.
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
