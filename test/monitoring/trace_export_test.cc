// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: the files that sinks write are what other programs read. Method: the
// text of some records; python's reader of JSON takes every line.

#include <sys/wait.h>
#include <unistd.h>

#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "varve/trace.h"

namespace varve::test {
namespace {

using trace::Record;

class TraceExportTest : public ::testing::Test {
 protected:
  std::string ReadBack() {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // Whether a program of python about the file's `text` holds.
  bool Holds(const std::string& condition) {
    const std::string command =
        "python3 -c 'import json; text = open(\"" + path_ +
        "\").read(); lines = text.splitlines(); assert " + condition + "'";
    return system(command.c_str()) == 0;
  }
  static Record Make(uint32_t span, uint32_t parent, const char* name,
                     uint64_t begin_ns, uint64_t end_ns) {
    Record record;
    record.trace_id = 7;
    record.span_id = span;
    record.parent_id = parent;
    record.name = name;
    record.begin_ns = begin_ns;
    record.end_ns = end_ns;
    record.thread = record.done_by = 3;
    return record;
  }
  uint64_t NowNs() const {
    timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(time.tv_nsec);
  }

  TempDir dir_;
  std::string path_ = dir_.Sub("trace.json");
  const std::string pid_ = std::to_string(getpid());
};

TEST_F(TraceExportTest, ChromeFileIsJsonOfCompleteEvents) {
  std::shared_ptr<trace::Sink> sink;
  ASSERT_TRUE(trace::NewChromeSink(path_, &sink).ok());
  const uint64_t now = NowNs() + 1'000'000'000;
  Record records[] = {Make(1, 0, "a \"b\"\\\x01", now, now + 12345),
                      Make(2, 1, "child", now + 1, now + 10)};
  records[1].done_by = 5;
  sink->Add(records, 2);
  sink->Add(records, 1);
  ASSERT_TRUE(sink->Flush().ok());
  sink.reset();
  const std::string text = ReadBack();
  EXPECT_NE(text.find("{\"name\":\"a \\\"b\\\"\\\\\\u0001\",\"cat\":\"varve\","
                      "\"ph\":\"X\",\"ts\":"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"dur\":12.345,\"pid\":" + pid_ +
                      ",\"tid\":3,\"args\":{\"trace\":7,\"span\":1,"
                      "\"parent\":0}}"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"dur\":0.009,\"pid\":" + pid_ +
                      ",\"tid\":3,\"args\":{\"trace\":7,\"span\":2,"
                      "\"parent\":1,\"by\":5}}"),
            std::string::npos)
      << text;
  EXPECT_TRUE(Holds("len(json.loads(text)[\"traceEvents\"]) == 4"));
  // The copy of another thread's work has a category of its own.
  EXPECT_TRUE(
      Holds("[e.get(\"cat\") for e in json.loads(text)[\"traceEvents\"]] == "
            "[None, \"varve\", \"varve.shared\", \"varve\"]"));
  // The time of the span.
  EXPECT_TRUE(
      Holds("abs(int(json.loads(text)[\"otherData\"][\"epoch_ns\"]) + "
            "round(json.loads(text)[\"traceEvents\"][2][\"ts\"] * 1000) - " +
            std::to_string(now + 1) + ") < 2"));
}

TEST_F(TraceExportTest, EmptyChromeFileIsJson) {
  std::shared_ptr<trace::Sink> sink;
  ASSERT_TRUE(trace::NewChromeSink(path_, &sink).ok());
  sink.reset();
  EXPECT_TRUE(
      Holds("[e[\"name\"] for e in json.loads(text)[\"traceEvents\"]] "
            "== [\"process_name\"]"));
}

// Other programs, such as perf, show the same ids and names.
TEST_F(TraceExportTest, FilesHaveTheKernelsIdsAndNames) {
  const std::string otlp_path = dir_.Sub("trace.otlp.json");
  std::shared_ptr<trace::Sink> chrome;
  std::shared_ptr<trace::Sink> otlp;
  ASSERT_TRUE(trace::NewChromeSink(path_, &chrome).ok());
  ASSERT_TRUE(trace::NewOtlpSink(otlp_path, &otlp).ok());
  pid_t id = 0;
  const auto work = [&](std::shared_ptr<trace::Sink>* sink) {
    std::thread([&] {
      pthread_setname_np(pthread_self(), "work \"1\"");
      id = gettid();
      trace::TraceOptions options;
      options.sink = *sink;
      auto [root, collector] = trace::Root("request", options);
      root.End();
    }).join();
    sink->reset();
  };
  work(&chrome);
  EXPECT_TRUE(Holds(
      "[(e[\"name\"], e[\"ph\"], e[\"pid\"], e[\"tid\"], "
      "e[\"args\"].get(\"name\")) for e in json.loads(text)[\"traceEvents\"]] "
      "== "
      "[(\"process_name\", \"M\", " +
      pid_ + ", " + pid_ + ", \"" + program_invocation_short_name +
      "\"), (\"thread_name\", \"M\", " + pid_ + ", " + std::to_string(id) +
      ", \"work \\\"1\\\"\"), (\"request\", \"X\", " + pid_ + ", " +
      std::to_string(id) + ", None)]"))
      << ReadBack();
  work(&otlp);
  path_ = otlp_path;
  EXPECT_TRUE(Holds(
      "{a[\"key\"]: list(a[\"value\"].values())[0] for a in "
      "json.loads(text)[\"resourceSpans\"][0][\"scopeSpans\"][0][\"spans\"]"
      "[0][\"attributes\"]} == {\"thread.id\": \"" +
      std::to_string(id) + "\", \"thread.name\": \"work \\\"1\\\"\"}"))
      << ReadBack();
  EXPECT_TRUE(
      Holds("[list(a[\"value\"].values())[0] for a in json.loads(text)"
            "[\"resourceSpans\"][0][\"resource\"][\"attributes\"]] == "
            "[\"varve\", \"" +
            pid_ + "\", \"" + program_invocation_short_name + "\"]"))
      << ReadBack();
}

TEST_F(TraceExportTest, OtlpFileHasALineForSomeHundredSpans) {
  std::shared_ptr<trace::Sink> sink;
  ASSERT_TRUE(trace::NewOtlpSink(path_, &sink).ok());
  std::vector<Record> records;
  for (uint32_t i = 0; i < 1100; ++i) {
    records.push_back(Make(i + 1, i == 0 ? 0 : 1, "span",
                           1'700'000'000'000'000'001,
                           1'700'000'000'000'000'009));
  }
  records[1].done_by = 5;
  sink->Add(records.data(), records.size());
  ASSERT_TRUE(sink->Flush().ok());
  sink.reset();
  const std::string spans =
      "[s for line in lines for r in json.loads(line)[\"resourceSpans\"] "
      "for c in r[\"scopeSpans\"] for s in c[\"spans\"]]";
  EXPECT_TRUE(Holds("len(lines) == 3"));
  EXPECT_TRUE(Holds("len(" + spans + ") == 1100"));
  EXPECT_TRUE(Holds("len(set(s[\"spanId\"] for s in " + spans + ")) == 1100"));
  EXPECT_TRUE(
      Holds("all(len(s[\"spanId\"]) == 16 and len(s[\"traceId\"]) == 32 "
            "for s in " +
            spans + ")"));
  EXPECT_TRUE(Holds(spans + "[0][\"parentSpanId\"] == \"\""));
  EXPECT_TRUE(
      Holds(spans + "[9][\"parentSpanId\"] == " + spans + "[0][\"spanId\"]"));
  EXPECT_TRUE(
      Holds(spans + "[0][\"startTimeUnixNano\"] == \"1700000000000000001\""));
  EXPECT_TRUE(Holds(spans + "[1][\"attributes\"][1][\"value\"][\"intValue\"] "
                            "== \"5\""));
}

// Output of a program without standard output does not go into a trace.
TEST_F(TraceExportTest, FilesTakeNoStandardDescriptors) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(STDOUT_FILENO);
    std::shared_ptr<trace::Sink> sink;
    const bool ok = trace::NewChromeSink(path_, &sink).ok();
    _exit(ok && write(STDOUT_FILENO, "printed", 7) < 0 ? 0 : 1);
  }
  int outcome = 0;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_TRUE(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) << outcome;
}

TEST_F(TraceExportTest, ReportsUnwritableFiles) {
  std::shared_ptr<trace::Sink> sink;
  const Status missing = trace::NewChromeSink(dir_.Sub("none/file"), &sink);
  EXPECT_FALSE(missing.ok());
  EXPECT_EQ(sink, nullptr);
  ASSERT_TRUE(trace::NewOtlpSink("/dev/full", &sink).ok());
  const Record record = Make(1, 0, "span", 1, 2);
  sink->Add(&record, 1);
  EXPECT_FALSE(sink->Flush().ok());
  EXPECT_FALSE(sink->Flush().ok());
}

}  // namespace
}  // namespace varve::test
