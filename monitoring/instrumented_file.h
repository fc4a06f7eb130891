// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files that count what passes through them: to Statistics, and to the
// IOStatsContext of the calling thread.

#include <memory>

#include "monitoring/statistics.h"
#include "varve/env.h"

namespace varve {

// A table file. `statistics` may be null, and then must outlive it, as `env`
// must, whose clock it reads.
std::unique_ptr<RandomAccessFile> NewInstrumentedFile(
    std::unique_ptr<RandomAccessFile> file, StatisticsImpl* statistics,
    Env* env);

// A table file or log.
std::unique_ptr<WritableFile> NewInstrumentedFile(
    std::unique_ptr<WritableFile> file, Env* env);

}  // namespace varve
