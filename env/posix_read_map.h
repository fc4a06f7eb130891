// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files for reading that are mapped into memory (FileOptions::use_mmap_reads).
//
// A file is mapped with its size at that time. A read beyond it returns fewer
// bytes, as it does at the end of any file. If the file is truncated later, or
// the device fails, an access raises SIGBUS. Long reads have their pages
// touched by the kernel first, which returns an error for such a range.
//
// Thread-safety: see RandomAccessFile.

#include <memory>
#include <string>

#include "varve/env.h"

namespace varve {

// Returns a file that is mapped, and closes the descriptor. Returns null, and
// leaves the descriptor open, if the file cannot be mapped: it is empty, its
// file system has no mappings, or the process has too many.
std::unique_ptr<RandomAccessFile> MapPosixFile(const std::string& path,
                                               int descriptor);

}  // namespace varve
