// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Replaces io_ring.cc in a build without liburing.
#include "env/io_ring.h"

namespace varve {

bool IoRingUsable() { return false; }

std::string IoRingPath() { return "pread (io_uring: not built in)"; }

void ReadInRing(RingRead* /*reads*/, size_t /*count*/,
                const std::function<void(size_t)>& /*done*/) {}

RingSubmit TEST_SetRingSubmit(RingSubmit /*submit*/) { return nullptr; }

}  // namespace varve
