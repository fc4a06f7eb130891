// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Where the counters of a process are, for other processes that read its memory
// (`varve top`). A page lists them, and the kernel lists the page by its name
// in /proc/PID/maps. A reader copies the cells with process_vm_readv: the
// process that is read executes nothing for it.
//
// Cost: four system calls and a page of memory for the first Statistics of a
// process; for each one, a store when it is created and one when it is
// destroyed. Counting costs nothing more. If the system refuses the page, the
// counters cannot be read from outside, and all else works.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace varve {

// The end of the page's name in /proc/PID/maps is kPublishedName, and then
// " (deleted)".
inline constexpr char kPublishedName[] = "/memfd:varve.statistics";

struct PublishedStatistics {
  // Sets of cells as in monitoring/statistics_cells.h, one after the other.
  struct Entry {
    // 0: free. Stored last, and cleared first. The sizes are the same for all
    // Statistics of a process, so a copy of an entry that is reused meanwhile
    // has the right ones.
    std::atomic<uint64_t> address{0};
    uint64_t set_bytes = 0;
    uint64_t set_count = 0;
  };
  static constexpr uint64_t kMagic = 0x7661'7276'6573'7431;
  static constexpr size_t kEntries = 128;

  uint64_t magic = kMagic;
  // PublishedLayout() of the process.
  uint64_t layout = 0;
  Entry entries[kEntries];
};
static_assert(sizeof(PublishedStatistics) <= 4096);

// Returns a number that is the same in builds whose cells have the same
// meaning.
uint64_t PublishedLayout();
// Lists sets of cells. Returns the entry, or null if there is no place for it.
// Thread-safe.
PublishedStatistics::Entry* PublishStatistics(const void* sets,
                                              size_t set_bytes,
                                              size_t set_count);
// Frees an entry, or does nothing for null. Thread-safe.
void WithdrawStatistics(PublishedStatistics::Entry* entry);

}  // namespace varve
