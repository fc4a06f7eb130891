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
inline constexpr OptionBounds<uint64_t> kBlockSizeBounds = {256,
                                                            uint64_t{16} << 20};
inline constexpr OptionBounds<int> kBlockRestartIntervalBounds = {1, 1024};
inline constexpr OptionBounds<uint64_t> kTargetFileSizeBounds = {
    uint64_t{64} << 10, uint64_t{64} << 30};

// InvalidArgument naming the first option that is out of its bounds or
// contradicts another.
Status CheckOptions(const Options& options);

// Makes what databases may share, cache and statistics, where the options want
// it and name none.
void MakeSharedParts(Options* options);

}  // namespace varve
