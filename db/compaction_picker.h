// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Decides what to compact. Pure functions of a version, the options, and the
// compactions that are running; the DB mutex is held, since the files' marks
// are read.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/compaction.h"
#include "db/version.h"
#include "varve/options.h"

namespace varve {

struct CompactionPickerContext {
  const Options* options = nullptr;
  Version* version = nullptr;
  // Key behind which to go on, level by level; empty to begin at the front.
  const std::string* cursors = nullptr;  // [kNumLevels]
  const std::vector<const Compaction*>* running = nullptr;
};

// The bytes that a level may have before it is compacted into the next.
uint64_t MaxBytesForLevel(const Options& options, int level);

// How urgent a level is; 1 and above are due. Files that are being compacted
// do not count.
double CompactionScore(const Options& options, const Version& version,
                       int level);

// Bytes that compactions will have to rewrite until no level is due, about.
uint64_t EstimatePendingCompactionBytes(const Options& options,
                                        const Version& version);

// The most urgent compaction that can start now, or null.
std::unique_ptr<Compaction> PickCompaction(
    const CompactionPickerContext& context);

// All files of a level in the range into `output_level`, or null if there
// are none. REQUIRES: no compaction is running.
std::unique_ptr<Compaction> PickManualCompaction(
    const CompactionPickerContext& context, int level, int output_level,
    const UserKeyRange& range);

}  // namespace varve
