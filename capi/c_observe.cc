// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of statistics and traces.

#include <set>
#include <tuple>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "monitoring/span.h"
#include "monitoring/trace_collector.h"
#include "util/base/mutex.h"
#include "util/base/process_wide.h"
#include "varve/trace.h"

using varve::Status;
using varve::capi::CopyBytes;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::Usable;
namespace trace = varve::trace;

struct varve_traceoptions_t {
  trace::TraceOptions rep;
};

struct varve_tracespan_t {
  trace::LocalSpan rep;
};

struct varve_trace_t {
  trace::Span root;
  trace::Collector collector;
  // Below it is what the thread does.
  std::unique_ptr<trace::LocalParent> here;
};

namespace {

varve::StatsLevel ToLevel(int level) {
  constexpr int kLast = static_cast<int>(varve::StatsLevel::kAll);
  return static_cast<varve::StatsLevel>(level < 0       ? 0
                                        : level > kLast ? kLast
                                                        : level);
}

// Returns a text that lives as long as the process.
const char* KeptName(const char* name) {
  // Never destroyed: others may still use it.
  static constinit varve::ProcessWide<varve::Mutex> mutex;
  static constinit varve::ProcessWide<std::set<std::string>> names;
  varve::MutexLock lock(&mutex.Get());
  return names.Get().insert(name).first->c_str();
}

void AppendField(const char* name, uint64_t value, std::string* out) {
  out->append(",\"").append(name).append("\":").append(std::to_string(value));
}

void AppendRecord(const trace::Record& record, std::string* out) {
  out->append("{\"trace\":").append(std::to_string(record.trace_id));
  AppendField("span", record.span_id, out);
  AppendField("parent", record.parent_id, out);
  out->append(",\"name\":\"");
  for (const char* p = record.name; *p != '\0'; ++p) {
    if (*p == '"' || *p == '\\') out->push_back('\\');
    // Names from the caller may contain any bytes.
    out->push_back(static_cast<unsigned char>(*p) < ' ' ? ' ' : *p);
  }
  out->push_back('"');
  AppendField("begin_ns", record.begin_ns, out);
  AppendField("end_ns", record.end_ns, out);
  AppendField("thread", record.thread, out);
  AppendField("done_by", record.done_by, out);
  out->push_back('}');
}

}  // namespace

extern "C" {

// ---- Statistics -------------------------------------------------------------

varve_statistics_t* varve_statistics_create(int level) {
  varve::StatisticsOptions options;
  options.level = ToLevel(level);
  return new varve_statistics_t{varve::CreateDBStatistics(options)};
}

void varve_statistics_destroy(varve_statistics_t* statistics) {
  delete statistics;
}

void varve_statistics_set_level(varve_statistics_t* statistics, int level) {
  if (statistics != nullptr) statistics->rep->set_stats_level(ToLevel(level));
}

char* varve_statistics_get_string(const varve_statistics_t* statistics) {
  if (statistics == nullptr) return nullptr;
  return CopyBytes(statistics->rep->ToString());
}

char* varve_statistics_get_prometheus(const varve_statistics_t* statistics) {
  if (statistics == nullptr) return nullptr;
  return CopyBytes(statistics->rep->ToPrometheus());
}

uint64_t varve_statistics_get_ticker(const varve_statistics_t* statistics,
                                     const char* name, char** errptr) {
  uint64_t count = 0;
  if (!Usable(errptr, Given{statistics, "statistics"}, Given{name, "name"})) {
    return count;
  }
  SaveError(errptr, statistics->rep->GetTickerByName(name, &count));
  return count;
}

void varve_statistics_get_histogram(const varve_statistics_t* statistics,
                                    const char* name,
                                    varve_histogram_data_t* data,
                                    char** errptr) {
  varve::HistogramData found;
  if (!Usable(errptr, Given{statistics, "statistics"}, Given{name, "name"},
              Given{data, "data"})) {
    return;
  }
  SaveError(errptr, statistics->rep->GetHistogramByName(name, &found));
  data->count = found.count;
  data->sum = found.sum;
  data->min = found.min;
  data->max = found.max;
  data->average = found.average;
  data->median = found.median;
  data->percentile95 = found.percentile95;
  data->percentile99 = found.percentile99;
  data->percentile999 = found.percentile999;
}

void varve_statistics_reset(varve_statistics_t* statistics) {
  if (statistics != nullptr) statistics->rep->Reset();
}

// ---- Traces -----------------------------------------------------------------

varve_trace_t* varve_trace_begin(const char* name) {
  if (name == nullptr) return nullptr;
  auto* const request = new varve_trace_t;
  std::tie(request->root, request->collector) = trace::Root(KeptName(name));
  request->here.reset(new trace::LocalParent(request->root.SetLocalParent()));
  return request;
}

char* varve_trace_end(varve_trace_t* request) {
  if (request == nullptr) return nullptr;
  request->here.reset();
  request->root.End();
  std::string json = "[";
  for (const trace::Record& record : request->collector.Collect()) {
    if (json.size() > 1) json.append(",\n");
    AppendRecord(record, &json);
  }
  json.append("]\n");
  delete request;
  return CopyBytes(json);
}

varve_tracespan_t* varve_tracespan_begin(const char* name) {
  if (name == nullptr) return nullptr;
  return new varve_tracespan_t{trace::LocalSpan(KeptName(name))};
}

void varve_tracespan_end(varve_tracespan_t* span) { delete span; }

varve_traceoptions_t* varve_traceoptions_create(void) {
  return new varve_traceoptions_t;
}

void varve_traceoptions_destroy(varve_traceoptions_t* options) {
  delete options;
}

void varve_traceoptions_set_sampling(varve_traceoptions_t* options,
                                     double part) {
  Set(options, &trace::TraceOptions::sampling, part);
}

void varve_traceoptions_set_slower_than_us(varve_traceoptions_t* options,
                                           uint64_t duration_us) {
  Set(options, &trace::TraceOptions::slower_than_us, duration_us);
}

void varve_traceoptions_set_short_steps(varve_traceoptions_t* options,
                                        uint8_t value) {
  Set(options, &trace::TraceOptions::detail,
      value != 0 ? trace::Detail::kSteps : trace::Detail::kWork);
}

void varve_trace_start(const varve_traceoptions_t* options, int format,
                       const char* path, char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{path, "path"})) return;
  // Creating a sink truncates its file.
  // relaxed: only an early check.
  if (varve::trace_epoch.load(std::memory_order_relaxed) != 0) {
    SaveError(errptr, Status::Busy("tracing was started already"));
    return;
  }
  trace::TraceOptions with_sink = options->rep;
  Status status = varve::CheckTraceOptions(with_sink);
  if (status.ok()) {
    status = format == varve_trace_chrome ? NewChromeSink(path, &with_sink.sink)
             : format == varve_trace_otlp
                 ? NewOtlpSink(path, &with_sink.sink)
                 : Status::InvalidArgument("no format of traces has the number",
                                           std::to_string(format));
  }
  if (status.ok()) status = trace::Start(with_sink);
  SaveError(errptr, status);
}

void varve_trace_flush(char** errptr) { SaveError(errptr, trace::Flush()); }

void varve_trace_stop(char** errptr) { SaveError(errptr, trace::Stop()); }

}  // extern "C"
