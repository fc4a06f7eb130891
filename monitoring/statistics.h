// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the engine needs to count its events: see varve/statistics.h.

#include <cstdint>

#include "varve/statistics.h"

namespace varve {

inline constexpr uint32_t kTickerCount = static_cast<uint32_t>(Ticker::kCount);

// Such as "varve.block.cache.hit". REQUIRES: ticker < Ticker::kCount.
const char* TickerName(Ticker ticker);

// Counts, if there is something to count with.
inline void RecordTick(Statistics* statistics, Ticker ticker,
                       uint64_t count = 1) {
  if (statistics != nullptr) statistics->recordTick(ticker, count);
}

}  // namespace varve
