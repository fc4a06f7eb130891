// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Files of traces: Chrome's trace format, and OTLP in JSON.

#include <algorithm>
#include <map>
#include <utility>

#include "tools/varve/varve_json.h"
#include "tools/varve/varve_text.h"
#include "tools/varve/varve_trace.h"

namespace varve {

namespace {

// Returns 0 if the text is no number.
uint64_t ToNumber(const std::string& text) {
  uint64_t number = 0;
  return ParseNumber(text, 10, &number) ? number : 0;
}

// ---- Chrome's trace format --------------------------------------------------

bool ReadEvent(JsonReader* json, TraceFile* file) {
  TraceSpan span;
  std::string phase;
  std::string given_name;
  const bool read = json->ReadObject([&](const std::string& key) {
    if (key == "name") return json->ReadString(&span.name);
    if (key == "ph") return json->ReadString(&phase);
    if (key == "ts") return json->ReadThousandths(&span.begin_ns);
    if (key == "dur") return json->ReadThousandths(&span.duration_ns);
    if (key == "tid") return json->ReadInteger(&span.thread);
    if (key != "args") return json->Skip();
    return json->ReadObject([&](const std::string& name) {
      if (name == "trace") return json->ReadInteger(&span.trace);
      if (name == "span") return json->ReadInteger(&span.id);
      if (name == "parent") return json->ReadInteger(&span.parent);
      if (name == "by") return json->ReadInteger(&span.done_by);
      if (name == "name") return json->ReadScalar(&given_name);
      return json->Skip();
    });
  });
  if (!read) return false;
  if (phase == "M" && span.name == "thread_name") {
    file->thread_names[span.thread] = std::move(given_name);
  }
  if (phase != "X") return true;
  if (span.trace == 0 || span.id == 0) {
    return json->Fail("a span without the numbers trace and span");
  }
  file->spans.push_back(std::move(span));
  return true;
}

// ---- OTLP -------------------------------------------------------------------

using TraceId = std::pair<uint64_t, uint64_t>;

class OtlpReader {
 public:
  OtlpReader(JsonReader* json, TraceFile* file) : json_(json), file_(file) {}

  // Reads the spans of one program.
  bool ReadResource() {
    const size_t first = file_->spans.size();
    Attributes resource;
    const bool read = json_->ReadObject([&](const std::string& key) {
      if (key == "resource") {
        return json_->ReadObject([&](const std::string& name) {
          return name == "attributes" ? ReadAttributes(&resource)
                                      : json_->Skip();
        });
      }
      // "instrumentationLibrarySpans" is the name before version 0.15 of the
      // protocol.
      if (key != "scopeSpans" && key != "instrumentationLibrarySpans") {
        return json_->Skip();
      }
      return json_->ReadArray([&] {
        return json_->ReadObject([&](const std::string& name) {
          if (name != "spans") return json_->Skip();
          return json_->ReadArray([&] { return ReadSpan(); });
        });
      });
    });
    for (size_t i = first; i < file_->spans.size(); ++i) {
      file_->spans[i].service = resource.service;
    }
    return read;
  }

 private:
  struct Attributes {
    std::string service;
    uint64_t thread = 0;
    std::string thread_name;
    uint64_t done_by = 0;
  };

  bool ReadAttributes(Attributes* attributes) {
    return json_->ReadArray([&] {
      std::string name;
      std::string value;
      const bool read = json_->ReadObject([&](const std::string& key) {
        if (key == "key") return json_->ReadString(&name);
        if (key != "value" || json_->Peek() != '{') return json_->Skip();
        return json_->ReadObject([&](const std::string& kind) {
          // An integer is a string; some programs write a number.
          return kind == "stringValue" || kind == "intValue"
                     ? json_->ReadScalar(&value)
                     : json_->Skip();
        });
      });
      if (name == "service.name") attributes->service = value;
      if (name == "thread.id") attributes->thread = ToNumber(value);
      if (name == "thread.name") attributes->thread_name = value;
      if (name == "varve.done_by") attributes->done_by = ToNumber(value);
      return read;
    });
  }

  bool ReadSpan() {
    TraceSpan span;
    std::string trace;
    std::string begin;
    std::string end;
    Attributes attributes;
    const bool read = json_->ReadObject([&](const std::string& key) {
      if (key == "traceId") return json_->ReadString(&trace);
      if (key == "spanId") return ReadId(&span.id);
      if (key == "parentSpanId") return ReadId(&span.parent);
      if (key == "name") return json_->ReadString(&span.name);
      if (key == "startTimeUnixNano") return json_->ReadScalar(&begin);
      if (key == "endTimeUnixNano") return json_->ReadScalar(&end);
      if (key == "attributes") return ReadAttributes(&attributes);
      return json_->Skip();
    });
    if (!read) return false;
    uint64_t upper = 0;
    uint64_t lower = 0;
    if (trace.size() != 32 || !ParseNumber(trace.substr(0, 16), 16, &upper) ||
        !ParseNumber(trace.substr(16), 16, &lower)) {
      return json_->Fail("a traceId that is not 32 hexadecimal digits");
    }
    if (span.id == 0) return json_->Fail("a span without a spanId");
    span.begin_ns = ToNumber(begin);
    if (span.begin_ns == 0) {
      return json_->Fail("a span without a startTimeUnixNano");
    }
    span.duration_ns = std::max(ToNumber(end), span.begin_ns) - span.begin_ns;
    const auto [known, is_new] = traces_.try_emplace({upper, lower});
    if (is_new) {
      file_->trace_names.push_back(trace);
      known->second = file_->trace_names.size();
    }
    span.trace = known->second;
    span.thread = attributes.thread;
    span.done_by = attributes.done_by;
    if (!attributes.thread_name.empty()) {
      file_->thread_names[span.thread] = attributes.thread_name;
    }
    file_->spans.push_back(std::move(span));
    return true;
  }

  bool ReadId(uint64_t* id) {
    std::string text;
    if (!json_->ReadScalar(&text)) return false;
    if (text.empty() || text == "null") return true;  // No parent.
    return (text.size() == 16 && ParseNumber(text, 16, id)) ||
           json_->Fail("a spanId that is not 16 hexadecimal digits");
  }

  JsonReader* const json_;
  TraceFile* const file_;
  std::map<TraceId, uint64_t> traces_;
};

}  // namespace

Status ParseTrace(const Slice& text, TraceFile* file) {
  JsonReader json(text);
  OtlpReader otlp(&json, file);
  bool found = false;
  const auto read_document = [&] {
    return json.ReadObject([&](const std::string& key) {
      if (key == "traceEvents") {
        found = true;
        return json.ReadArray([&] { return ReadEvent(&json, file); });
      }
      if (key == "resourceSpans") {
        found = true;
        return json.ReadArray([&] { return otlp.ReadResource(); });
      }
      return json.Skip();
    });
  };
  // An OTLP file has a document on each line, or one on many lines.
  do {
    if (!read_document()) break;
  } while (json.Peek() != '\0');
  if (json.failed()) {
    return Status::Corruption(
        "no trace in Chrome's format or in OTLP's JSON, at offset " +
            std::to_string(json.offset()),
        json.reason());
  }
  return found ? Status::OK()
               : Status::Corruption(
                     "there are no traceEvents and no resourceSpans");
}

}  // namespace varve
