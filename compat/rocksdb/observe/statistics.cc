// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Statistics, by RocksDB's numbers and names. Those that Varve does not have
// are 0.
#include "varve/statistics.h"

#include <rocksdb/c.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <string>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/observe/statistics_names.h"
#include "compat/rocksdb/options/options.h"

using varve::HistogramData;
using varve::Statistics;
using varve::rocksdb_c::kHistogramNames;
using varve::rocksdb_c::kTickerNames;

struct rocksdb_statistics_histogram_data_t {
  HistogramData rep;
};

namespace {

std::string VarveName(const char* name) { return std::string("varve.") + name; }

uint64_t TickerOf(const Statistics& statistics, const char* name) {
  uint64_t count = 0;
  // If Varve does not have the ticker, the count stays 0.
  statistics.GetTickerByName(VarveName(name), &count).IgnoreError();
  return count;
}

HistogramData HistogramOf(const Statistics& statistics, const char* name) {
  HistogramData data;
  statistics.GetHistogramByName(VarveName(name), &data).IgnoreError();
  return data;
}

// Returns Varve's level for one of RocksDB's, which have the same numbers. At
// RocksDB's default level each operation is measured; at Varve's some are.
varve::StatsLevel LevelOf(int level) {
  const auto varve_level = static_cast<varve::StatsLevel>(level);
  return varve_level == varve::StatsLevel::kExceptDetailedTimers
             ? varve::StatsLevel::kExceptTimeForMutex
             : varve_level;
}

const Statistics* StatisticsOf(const rocksdb_options_t* options) {
  return options == nullptr ? nullptr : options->statistics.get();
}

}  // namespace

extern "C" {

void rocksdb_options_enable_statistics(rocksdb_options_t* options) {
  if (options == nullptr) return;
  options->statistics_level = rocksdb_statistics_level_except_detailed_timers;
  options->statistics =
      varve::CreateDBStatistics({.level = LevelOf(options->statistics_level)});
}

void rocksdb_options_set_statistics_level(rocksdb_options_t* options,
                                          int level) {
  if (StatisticsOf(options) == nullptr) return;
  options->statistics_level =
      std::clamp<int>(level, rocksdb_statistics_level_disable_all,
                      rocksdb_statistics_level_all);
  options->statistics->set_stats_level(LevelOf(options->statistics_level));
}

int rocksdb_options_get_statistics_level(rocksdb_options_t* options) {
  return StatisticsOf(options) == nullptr ? rocksdb_statistics_level_disable_all
                                          : options->statistics_level;
}

char* rocksdb_options_statistics_get_string(rocksdb_options_t* options) {
  const Statistics* const statistics = StatisticsOf(options);
  if (statistics == nullptr) return nullptr;
  std::string text;
  char line[400];
  for (const char* const name : kTickerNames) {
    snprintf(line, sizeof(line), "rocksdb.%s COUNT : %" PRIu64 "\n", name,
             TickerOf(*statistics, name));
    text += line;
  }
  for (const char* const name : kHistogramNames) {
    const HistogramData data = HistogramOf(*statistics, name);
    snprintf(line, sizeof(line),
             "rocksdb.%s P50 : %f P95 : %f P99 : %f P100 : %f COUNT : %" PRIu64
             " SUM : %" PRIu64 "\n",
             name, data.median, data.percentile95, data.percentile99, data.max,
             data.count, static_cast<uint64_t>(data.sum));
    text += line;
  }
  return varve::rocksdb_c::CopyBytes(text);
}

uint64_t rocksdb_options_statistics_get_ticker_count(rocksdb_options_t* options,
                                                     uint32_t ticker_type) {
  const Statistics* const statistics = StatisticsOf(options);
  if (statistics == nullptr || ticker_type >= std::size(kTickerNames)) return 0;
  return TickerOf(*statistics, kTickerNames[ticker_type]);
}

void rocksdb_options_statistics_get_histogram_data(
    rocksdb_options_t* options, uint32_t type,
    rocksdb_statistics_histogram_data_t* const data) {
  if (data == nullptr) return;
  const Statistics* const statistics = StatisticsOf(options);
  data->rep = statistics == nullptr || type >= std::size(kHistogramNames)
                  ? HistogramData()
                  : HistogramOf(*statistics, kHistogramNames[type]);
}

// ---- The data of a histogram ----

rocksdb_statistics_histogram_data_t* rocksdb_statistics_histogram_data_create(
    void) {
  return new rocksdb_statistics_histogram_data_t;
}

void rocksdb_statistics_histogram_data_destroy(
    rocksdb_statistics_histogram_data_t* data) {
  delete data;
}

double rocksdb_statistics_histogram_data_get_median(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.median;
}

double rocksdb_statistics_histogram_data_get_p95(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.percentile95;
}

double rocksdb_statistics_histogram_data_get_p99(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.percentile99;
}

double rocksdb_statistics_histogram_data_get_average(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.average;
}

double rocksdb_statistics_histogram_data_get_max(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.max;
}

uint64_t rocksdb_statistics_histogram_data_get_count(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.count;
}

uint64_t rocksdb_statistics_histogram_data_get_sum(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : static_cast<uint64_t>(data->rep.sum);
}

double rocksdb_statistics_histogram_data_get_min(
    rocksdb_statistics_histogram_data_t* data) {
  return data == nullptr ? 0 : data->rep.min;
}

}  // extern "C"
