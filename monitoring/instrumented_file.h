// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Files that count their reads and writes in Statistics and in the
// IOStatsContext of the calling thread.

#include <memory>

#include "monitoring/statistics.h"
#include "varve/env.h"

namespace varve {

// Wraps a table file. `statistics` may be null. Otherwise it must outlive the
// file, as must `env`, whose clock is read.
std::unique_ptr<RandomAccessFile> NewInstrumentedFile(
    std::unique_ptr<RandomAccessFile> file, StatisticsImpl* statistics,
    Env* env);

// Wraps a table file or log.
std::unique_ptr<WritableFile> NewInstrumentedFile(
    std::unique_ptr<WritableFile> file, Env* env);

}  // namespace varve
