// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A plugin with the static library in it, all of whose symbols are hidden but
// these. See plugin_host.cc.

#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/perf_context.h"
#include "varve/statistics.h"
#include "varve/trace.h"

namespace {

class NoSink final : public varve::trace::Sink {
 public:
  void Add(const varve::trace::Record* /*records*/, size_t /*count*/) override {
  }
  varve::Status Flush() override { return varve::Status::OK(); }
};

varve::DB* open_db = nullptr;

}  // namespace

#define PLUGIN_EXPORT extern "C" [[gnu::visibility("default")]]

// Each returns 0 for success.

PLUGIN_EXPORT int PluginOpen(const char* path) {
  varve::Options options;
  options.create_if_missing = true;
  options.statistics = varve::CreateDBStatistics();
  std::unique_ptr<varve::DB> db;
  if (!varve::DB::Open(options, path, &db).ok()) return 1;
  open_db = db.release();
  varve::WriteBatch batch;
  batch.Put("key", "value");
  return open_db->Write({}, &batch).ok() ? 0 : 1;
}

// Reads from memory, which leaves little in the calling thread: no thread-local
// object with a destructor, which would forbid unloading as long as it lives.
PLUGIN_EXPORT int PluginGet() {
  std::string value;
  return open_db->Get({}, "key", &value).ok() ? 0 : 1;
}

// Leaves in the calling thread, and in the background, all there is.
PLUGIN_EXPORT int PluginUse() {
  varve::trace::TraceOptions trace_options;
  trace_options.sink = std::make_shared<NoSink>();
  trace_options.sampling = 1;
  // One thread starts it.
  (void)varve::trace::Start(trace_options);
  for (int i = 0; i < 2000; ++i) {
    const std::string key = std::to_string(i);
    std::string value;
    if (!open_db->Put({}, key, std::string(100, 'v')).ok()) return 1;
    if (!open_db->Get({}, key, &value).ok()) return 1;
  }
  int count = 0;
  const auto it = open_db->NewIterator({});
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++count;
  if (!it->status().ok() || count != 2001) return 1;
  return open_db->CompactRange({}, nullptr, nullptr).ok() ? 0 : 1;
}

PLUGIN_EXPORT int PluginClose() {
  const bool is_flushed = open_db->Flush({}).ok();
  const bool is_closed = open_db->Close().ok();
  delete open_db;
  open_db = nullptr;
  return varve::trace::Stop().ok() && is_flushed && is_closed ? 0 : 1;
}
