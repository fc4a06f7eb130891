// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The workload of family_bench that runs on two engines.

#include <cstdint>
#include <functional>
#include <string>

namespace varve::bench {

constexpr int kIdleFamilies = 16;

// Writes batches of 20 updates with values of 1,000 bytes until `total_bytes`
// are written: put(family, key, value) adds an update of families 0 to 14 to
// the batch, and write() writes the batch. Returns the largest size of the log
// files in `directory`, in bytes.
uint64_t WriteBesideIdleFamily(
    const std::string& directory, uint64_t total_bytes,
    const std::function<void(int, const std::string&, const std::string&)>& put,
    const std::function<void()>& write);

// The same on RocksDB, with its default options. Ends the process after an
// error.
uint64_t RocksDbBesideIdleFamily(const std::string& directory,
                                 uint64_t total_bytes);

}  // namespace varve::bench
