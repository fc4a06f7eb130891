// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>

#include "varve/options.h"
#include "varve/status.h"

namespace varve {

template <typename T>
struct OptionBounds {
  T low;
  T high;
};

// Bounds that others move a value to instead of refusing it.
inline constexpr OptionBounds<uint64_t> kWriteBufferSizeBounds = {
    uint64_t{64} << 10, uint64_t{64} << 30};
inline constexpr OptionBounds<int> kMaxOpenFilesBounds = {-1, 4 << 20};
inline constexpr OptionBounds<uint64_t> kBlockSizeBounds = {1,
                                                            uint64_t{16} << 20};
inline constexpr OptionBounds<int> kBlockRestartIntervalBounds = {1, 1024};
inline constexpr OptionBounds<uint64_t> kTargetFileSizeBounds = {
    uint64_t{1} << 10, uint64_t{64} << 30};

// Takes what is too small to be of use as larger, where the options' comments
// say so.
void RaiseNumbers(Options* options);

// Level-0 tables, and bytes that wait for compaction (0: never), at which
// writers are slowed down and stopped: as the options say, but that what was
// left at its default gives way.
struct StallBounds {
  int level0_slowdown = 0;
  int level0_stop = 0;
  uint64_t pending_slowdown = 0;
  uint64_t pending_stop = 0;
};
StallBounds WriterBounds(const Options& options);

// How max_background_jobs is divided: a quarter of them for flushes, and the
// rest for compactions; at least one each.
int MaxFlushes(const Options& options);
int MaxCompactions(const Options& options);

// InvalidArgument naming the first option that is out of its bounds or
// contradicts another, after RaiseNumbers.
Status CheckOptions(const Options& options);

// Makes what databases may share, cache and statistics, where the options want
// it and name none.
void MakeSharedParts(Options* options);

}  // namespace varve
