// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Sinks that write traces to files for other programs.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "env/descriptor_supply.h"
#include "monitoring/tsc_clock.h"
#include "util/base/descriptor.h"
#include "util/base/system_random.h"
#include "varve/trace.h"

namespace varve::trace {

namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
// Receivers of OTLP read whole lines.
constexpr size_t kSpansInALine = 500;

void AppendNumber(std::string* out, uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number);
  out->append(digits, end.ptr);
}

// Appends nanoseconds as microseconds.
void AppendMicros(std::string* out, uint64_t ns) {
  AppendNumber(out, ns / 1000);
  const auto rest = static_cast<unsigned>(ns % 1000);
  const char digits[] = {'.', static_cast<char>('0' + rest / 100),
                         static_cast<char>('0' + rest / 10 % 10),
                         static_cast<char>('0' + rest % 10)};
  out->append(digits, sizeof(digits));
}

void AppendHex(std::string* out, uint64_t number) {
  for (int shift = 60; shift >= 0; shift -= 4) {
    out->push_back("0123456789abcdef"[number >> shift & 15]);
  }
}

void AppendQuoted(std::string* out, std::string_view text) {
  out->push_back('"');
  for (const char byte : text) {
    const auto c = static_cast<unsigned char>(byte);
    if (c == '"' || c == '\\') out->push_back('\\');
    if (c >= ' ') {
      out->push_back(byte);
    } else {
      out->append("\\u00").push_back("01"[c >> 4]);
      out->push_back("0123456789abcdef"[c & 15]);
    }
  }
  out->push_back('"');
}

// The common part of both formats: a file, and its first error.
class FileSink : public Sink {
 public:
  Status Open(const std::string& path) {
    path_ = path;
    const int descriptor = OpenDescriptor([&path] {
      return MoveAboveStandard(
          open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    });
    if (descriptor < 0) return Status::FromErrno(path, errno);
    file_ = fdopen(descriptor, "w");
    if (file_ != nullptr) return Status::OK();
    const int error_number = errno;
    close(descriptor);
    return Status::FromErrno(path, error_number);
  }
  ~FileSink() override {
    if (file_ != nullptr) fclose(file_);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  Status Flush() override {
    WriteOut();
    if (status_.ok() && fflush(file_) != 0) Fail();
    return status_;
  }

 protected:
  FileSink() = default;

  void WriteOut() {
    if (status_.ok() &&
        fwrite(text_.data(), 1, text_.size(), file_) != text_.size()) {
      Fail();
    }
    text_.clear();
  }
  void WriteOutIfMuch() {
    if (text_.size() >= kBufferBytes) WriteOut();
  }
  void Finish() {
    if (file_ != nullptr) WriteOut();
  }

  std::string text_;

 private:
  void Fail() { status_ = Status::FromErrno(path_, errno); }

  std::string path_;
  FILE* file_ = nullptr;
  Status status_;
};

class ChromeSink final : public FileSink {
 public:
  ChromeSink()
      : monotonic_ns_(ReadSlowClock(ClockKind::kSteady)),
        base_ns_(EpochOffsetNs() + monotonic_ns_),
        process_(static_cast<uint64_t>(getpid())) {
    text_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"epoch_ns\":\"";
    AppendNumber(&text_, base_ns_);
    text_ += "\",\"monotonic_ns\":\"";
    AppendNumber(&text_, monotonic_ns_);
    text_ += "\"},\"traceEvents\":[";
    BeginEvent();
    AddName("process_name", process_, program_invocation_short_name);
  }
  ~ChromeSink() override {
    text_ += "\n]}\n";
    Finish();
  }

  void Add(const Record* records, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      AddThread(records[i].thread);
      if (records[i].done_by != records[i].thread) {
        AddThread(records[i].done_by);
      }
      BeginEvent();
      AddOne(records[i]);
      WriteOutIfMuch();
    }
  }

 private:
  void BeginEvent() {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }
  // Writes a thread's name before its first span.
  void AddThread(uint32_t thread) {
    if (!named_threads_.insert(thread).second) return;
    const std::string name = ThreadName(thread);
    if (name.empty()) return;
    BeginEvent();
    AddName("thread_name", thread, name);
  }
  void AddName(const char* event, uint64_t thread, std::string_view name) {
    text_ += "{\"name\":\"";
    text_ += event;
    text_ += "\",\"ph\":\"M\",\"pid\":";
    AppendNumber(&text_, process_);
    text_ += ",\"tid\":";
    AppendNumber(&text_, thread);
    text_ += ",\"args\":{\"name\":";
    AppendQuoted(&text_, name);
    text_ += "}}";
  }
  void AddOne(const Record& record) {
    const uint64_t begin =
        record.begin_ns > base_ns_ ? record.begin_ns - base_ns_ : 0;
    text_ += "{\"name\":";
    AppendQuoted(&text_, record.name);
    // Programs can leave out the copies of work that a group shares.
    text_ += record.done_by == record.thread ? ",\"cat\":\"varve\""
                                             : ",\"cat\":\"varve.shared\"";
    text_ += ",\"ph\":\"X\",\"ts\":";
    AppendMicros(&text_, begin);
    text_ += ",\"dur\":";
    AppendMicros(&text_, record.end_ns - record.begin_ns);
    text_ += ",\"pid\":";
    AppendNumber(&text_, process_);
    text_ += ",\"tid\":";
    AppendNumber(&text_, record.thread);
    text_ += ",\"args\":{\"trace\":";
    AppendNumber(&text_, record.trace_id);
    text_ += ",\"span\":";
    AppendNumber(&text_, record.span_id);
    text_ += ",\"parent\":";
    AppendNumber(&text_, record.parent_id);
    if (record.done_by != record.thread) {
      text_ += ",\"by\":";
      AppendNumber(&text_, record.done_by);
    }
    text_ += "}}";
  }

  // The time of the start of the file, by CLOCK_MONOTONIC and since 1970. Spans
  // are relative to it: programs read times as floating-point microseconds,
  // which cannot hold nanoseconds since 1970.
  const uint64_t monotonic_ns_;
  const uint64_t base_ns_;
  const uint64_t process_;
  std::unordered_set<uint32_t> named_threads_;
  bool is_first_ = true;
};

class OtlpSink final : public FileSink {
 public:
  OtlpSink() {
    upper_half_ = SystemRandom();
    resource_ =
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":"
        "\"service.name\",\"value\":{\"stringValue\":\"varve\"}},{\"key\":"
        "\"process.pid\",\"value\":{\"intValue\":\"";
    AppendNumber(&resource_, static_cast<uint64_t>(getpid()));
    resource_ +=
        "\"}},{\"key\":\"process.executable.name\",\"value\":{"
        "\"stringValue\":";
    AppendQuoted(&resource_, program_invocation_short_name);
    resource_ +=
        "}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"varve\"},\"spans\":[";
  }
  ~OtlpSink() override { Finish(); }

  void Add(const Record* records, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      if (i % kSpansInALine == 0) {
        text_ += resource_;
      } else {
        text_ += ',';
      }
      AddOne(records[i]);
      if ((i + 1) % kSpansInALine == 0 || i + 1 == count) {
        text_ += "]}]}]}\n";
        WriteOutIfMuch();
      }
    }
  }

 private:
  void AppendSpanId(const Record& record, uint32_t span_id) {
    AppendHex(&text_, record.trace_id << 20 | span_id);
  }
  void AppendThread(const char* key, uint32_t thread) {
    text_ += "{\"key\":\"";
    text_ += key;
    text_ += "\",\"value\":{\"intValue\":\"";
    AppendNumber(&text_, thread);
    text_ += "\"}}";
  }
  void AppendThreadName(uint32_t thread) {
    const auto [known, is_new] = names_.try_emplace(thread);
    if (is_new) known->second = ThreadName(thread);
    if (known->second.empty()) return;
    text_ += ",{\"key\":\"thread.name\",\"value\":{\"stringValue\":";
    AppendQuoted(&text_, known->second);
    text_ += "}}";
  }
  void AddOne(const Record& record) {
    text_ += "{\"traceId\":\"";
    AppendHex(&text_, upper_half_);
    AppendHex(&text_, record.trace_id);
    text_ += "\",\"spanId\":\"";
    AppendSpanId(record, record.span_id);
    text_ += "\",\"parentSpanId\":\"";
    if (record.parent_id != 0) AppendSpanId(record, record.parent_id);
    text_ += "\",\"name\":";
    AppendQuoted(&text_, record.name);
    text_ += ",\"kind\":1,\"startTimeUnixNano\":\"";
    AppendNumber(&text_, record.begin_ns);
    text_ += "\",\"endTimeUnixNano\":\"";
    AppendNumber(&text_, record.end_ns);
    text_ += "\",\"attributes\":[";
    AppendThread("thread.id", record.thread);
    AppendThreadName(record.thread);
    if (record.done_by != record.thread) {
      text_ += ',';
      AppendThread("varve.done_by", record.done_by);
    }
    text_ += "]}";
  }

  uint64_t upper_half_;   // Of all trace ids, so that processes differ.
  std::string resource_;  // The beginning of each line.
  std::unordered_map<uint32_t, std::string> names_;
};

template <typename Kind>
Status OpenSink(const std::string& path, std::shared_ptr<Sink>* sink) {
  auto made = std::make_shared<Kind>();
  Status status = made->Open(path);
  if (status.ok()) *sink = std::move(made);
  return status;
}

}  // namespace

Status NewChromeSink(const std::string& path, std::shared_ptr<Sink>* sink) {
  return OpenSink<ChromeSink>(path, sink);
}

Status NewOtlpSink(const std::string& path, std::shared_ptr<Sink>* sink) {
  return OpenSink<OtlpSink>(path, sink);
}

}  // namespace varve::trace
