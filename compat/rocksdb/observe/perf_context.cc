// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The perf context. Every call is about the calling thread's context, whichever
// thread created the handle, because a thread's context ends with it.
#include "varve/perf_context.h"

#include <rocksdb/c.h>

#include <string>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/observe/perf_counters.h"

using varve::GetPerfContext;
using varve::PerfLevel;
using varve::rocksdb_c::kPerfCounters;
using varve::rocksdb_c::PerfCounter;

struct rocksdb_perfcontext_t {};

extern "C" {

// Programs use the numbers of rocksdb/c.h or of RocksDB's C++ interface, which
// has more levels and ends with 6. Above 3 both mean that times are measured;
// here the times of mutexes are then among them.
void rocksdb_set_perf_level(int level) {
  if (level >= rocksdb_enable_time) {
    varve::SetPerfLevel(PerfLevel::kEnableTime);
  } else if (level == rocksdb_enable_time_except_for_mutex) {
    varve::SetPerfLevel(PerfLevel::kEnableTimeExceptForMutex);
  } else if (level == rocksdb_enable_count) {
    varve::SetPerfLevel(PerfLevel::kEnableCount);
  } else {
    varve::SetPerfLevel(PerfLevel::kDisable);
  }
}

rocksdb_perfcontext_t* rocksdb_perfcontext_create(void) {
  return new rocksdb_perfcontext_t;
}

void rocksdb_perfcontext_destroy(rocksdb_perfcontext_t* context) {
  delete context;
}

void rocksdb_perfcontext_reset(rocksdb_perfcontext_t* context) {
  if (context != nullptr) GetPerfContext()->Reset();
}

char* rocksdb_perfcontext_report(rocksdb_perfcontext_t* context,
                                 unsigned char exclude_zero_counters) {
  if (context == nullptr) return nullptr;
  std::string report;
  for (const PerfCounter& counter : kPerfCounters) {
    const uint64_t value = counter.Get(*GetPerfContext());
    if (value == 0 && exclude_zero_counters != 0) continue;
    if (!report.empty()) report += ", ";
    report.append(counter.name).append(" = ").append(std::to_string(value));
  }
  return varve::rocksdb_c::CopyBytes(report);
}

uint64_t rocksdb_perfcontext_metric(rocksdb_perfcontext_t* context,
                                    int metric) {
  if (context == nullptr || metric < 0) return 0;
  for (const PerfCounter& counter : kPerfCounters) {
    if (counter.metric == metric) return counter.Get(*GetPerfContext());
  }
  return 0;
}

}  // extern "C"
