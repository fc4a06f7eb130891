// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: `varve trace` shows what a trace file says, as text and as a page that
// draws it in a browser, and no file makes it crash. Method: scripted traces
// through the sink and back; files cut off and spoilt at every place; the page
// as a browser without a screen has drawn it.

#include "tools/varve/varve_trace.h"

#include <regex>

#include "test/testing/run_tool.h"
#include "test/testing/seed.h"
#include "test/testing/temp_dir.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "test/testing/varve_command.h"
#include "varve/trace.h"

namespace varve::test {
namespace {

trace::Record Make(uint64_t trace, uint32_t span, uint32_t parent,
                   const char* name, uint64_t begin_us, uint64_t us) {
  trace::Record record;
  record.trace_id = trace;
  record.span_id = span;
  record.parent_id = parent;
  record.name = name;
  // Later than the sink was made.
  record.begin_ns = 4'000'000'000'000'000'000 + begin_us * 1000;
  record.end_ns = record.begin_ns + us * 1000;
  record.thread = record.done_by = 1;
  return record;
}

// Makes one space of each run of them, since columns are wide.
std::string Squeeze(const std::string& text) {
  return std::regex_replace(text, std::regex(" +"), " ");
}

class VarveTraceTest : public ::testing::Test {
 protected:
  VarveTraceTest() {
    std::shared_ptr<trace::Sink> sink;
    EXPECT_TRUE(Ok(trace::NewChromeSink(path_, &sink)));
    std::vector<trace::Record> records = {
        Make(1, 1, 0, "DB::Get", 10, 100),
        Make(1, 2, 1, "block read", 20, 40),
        Make(1, 3, 1, "decompress </script>", 60, 20),
        Make(2, 1, 0, "DB::Write", 10, 200),
        Make(2, 2, 1, "WAL append", 50, 60),
        Make(3, 1, 0, "DB::Get", 500, 5),
    };
    records[4].done_by = 7;
    sink->Add(records.data(), records.size());
    EXPECT_TRUE(Ok(sink->Flush()));
    sink.reset();
    EXPECT_TRUE(Ok(ReadFileToString(Env::Default(), path_, &text_)));
  }

  TempDir dir_;
  std::string path_ = dir_.Sub("trace.json");
  std::string text_;
};

TEST_F(VarveTraceTest, PrintsTheMergedTreeAndTheSlowestTraces) {
  const std::string out = RunOrFail({VARVE_TOOL_PATH, "trace", path_});
  const std::string expected =
      R"(3 traces, 6 spans

 count total ms mean us p50 us p99 us max us
 1 0.200 200.000 200.000 200.000 200.000 DB::Write
 1 0.060 60.000 60.000 60.000 60.000 WAL append
 2 0.105 52.500 5.000 100.000 100.000 DB::Get
 1 0.040 40.000 40.000 40.000 40.000 block read
 1 0.020 20.000 20.000 20.000 20.000 decompress </script>

trace 2, thread 1
       at us           us
       0.000      200.000  DB::Write
      40.000       60.000    WAL append (by thread 7)

trace 1, thread 1
       at us           us
       0.000      100.000  DB::Get
      10.000       40.000    block read
      50.000       20.000    decompress </script>

trace 3, thread 1
       at us           us
       0.000        5.000  DB::Get

Flame chart: )" +
      path_ + ".html\n";
  EXPECT_EQ(Squeeze(out), Squeeze(expected));
}

TEST_F(VarveTraceTest, LimitAndPageAreChosen) {
  const std::string page = dir_.Sub("page.html");
  const std::string out = RunOrFail(
      {VARVE_TOOL_PATH, "trace", path_, "--limit=0", "--html=" + page});
  EXPECT_EQ(out.find("trace 2"), std::string::npos);
  std::string text;
  ASSERT_TRUE(Ok(ReadFileToString(Env::Default(), page, &text)));
  EXPECT_TRUE(text.starts_with("<!DOCTYPE html>"));
}

TEST_F(VarveTraceTest, PageDoesNotReplaceTheTrace) {
  const std::string link = dir_.Sub("link.html");
  std::filesystem::create_symlink(path_, link);
  for (const std::string& page : {path_, link}) {
    const CommandOutcome outcome =
        RunCommand({"trace", path_, "--html=" + page});
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    EXPECT_THAT(outcome.error, ::testing::HasSubstr("is the trace itself"));
    std::string text;
    ASSERT_TRUE(Ok(ReadFileToString(Env::Default(), path_, &text)));
    EXPECT_EQ(text, text_);
  }
}

TEST_F(VarveTraceTest, PageLoadsNothingAndCannotBeBrokenByNames) {
  TraceFile file;
  ASSERT_TRUE(Ok(ParseTrace(text_, &file)));
  const std::string page =
      FormatTracePage(file, BuildTraceTrees(file.spans), 10);
  for (const char* reference : {"http:", "https:", "src=", "href=", "import"}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
  EXPECT_EQ(page.find("decompress </script>"), std::string::npos);
}

// The page reports its own layout.
constexpr char kProbe[] = R"(<script>
const root = document.documentElement;
const amount = /^[\d.]+ (ns|µs|ms|s)$/;
const numbers = [...document.querySelectorAll(".box b")]
    .filter(e => e.textContent.match(amount));
const axis = [...document.querySelectorAll("#axis span")];
document.title = `scroll=${root.scrollWidth} client=${root.clientWidth} ` +
    `numbers=${numbers.length} ticks=${axis.length} ` +
    `inside=${axis.every(e => e.getBoundingClientRect().right <=
                              root.clientWidth)} ` +
    `colours=${["WAL sync", "WAL append"].map(colourOf)}`;
</script></body>)";

TEST_F(VarveTraceTest, BrowserDrawsEachSpanOnPhoneAndDesktop) {
  RunOrFail({VARVE_TOOL_PATH, "trace", path_});
  std::string page;
  ASSERT_TRUE(Ok(ReadFileToString(Env::Default(), path_ + ".html", &page)));
  page.replace(page.rfind("</body>"), 7, kProbe);
  ASSERT_TRUE(
      Ok(WriteStringToFile(Env::Default(), page, path_ + ".html", false)));
  for (const char* width : {"390", "1280"}) {
    const std::string dom = RunOrFail(
        {"chromium-headless-shell", "--no-sandbox", "--disable-gpu",
         "--hide-scrollbars", "--user-data-dir=" + dir_.Sub("profile"),
         "--window-size=" + std::string(width) + ",900", "--dump-dom",
         "file://" + path_ + ".html"});
    for (const char* name : {"DB::Get", "DB::Write", "WAL append", "block read",
                             "decompress &lt;/script&gt;"}) {
      EXPECT_NE(dom.find("<span>" + std::string(name) + "</span>"),
                std::string::npos)
          << name << " is not in\n"
          << dom;
    }
    EXPECT_NE(dom.find("3 traces; the 3 slowest"), std::string::npos);
    // Writes before reads, side by side.
    EXPECT_NE(dom.find("left: 65.57"), std::string::npos) << dom;
    // All boxes have numbers, the axis has marks and a unit, and nothing is
    // wider than the page.
    EXPECT_NE(dom.find("<title>scroll=" + std::string(width) +
                       " client=" + width + " numbers=5 "),
              std::string::npos)
        << dom.substr(0, 400);
    EXPECT_EQ(dom.find("ticks=0"), std::string::npos);
    EXPECT_EQ(dom.find("ticks=1 "), std::string::npos);
    EXPECT_NE(dom.find("inside=true"), std::string::npos) << dom.substr(0, 400);
    EXPECT_NE(dom.find("in µs</p>"), std::string::npos) << dom;
    EXPECT_NE(dom.find("colours=#e8743b,#56b4e9"), std::string::npos)
        << dom.substr(0, 400);
    // The table has the figures as well.
    EXPECT_NE(dom.find("52.5 µs"), std::string::npos) << dom;
  }
}

TEST_F(VarveTraceTest, NamesOfThreadsAreShown) {
  TraceFile file;
  ASSERT_TRUE(Ok(ParseTrace(
      R"({"traceEvents":[
          {"ph":"M","name":"thread_name","pid":1,"tid":5,"args":{"name":"one"}},
          {"ph":"M","name":"thread_name","pid":1,"tid":7,"args":{"name":"two"}},
          {"ph":"M","name":"thread_sort_index","pid":1,"tid":5,
           "args":{"sort_index":1}},
          {"ph":"X","name":"a","ts":1,"dur":2,"tid":5,
           "args":{"trace":4,"span":1,"by":7}}]})",
      &file)));
  const std::string text = FormatTraces(file, BuildTraceTrees(file.spans), 1);
  EXPECT_NE(text.find("\ntrace 4, thread 5 (one)\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  a (by thread 7 (two))\n"), std::string::npos) << text;
}

// A group's leader writes the log once, for all of them.
TEST_F(VarveTraceTest, WorkForAGroupIsCountedOnce) {
  std::vector<TraceSpan> spans;
  const auto add = [&](uint64_t trace, uint64_t id, const char* name,
                       uint64_t begin_ns, uint64_t ns, uint64_t by) {
    TraceSpan span;
    span.name = name;
    span.trace = trace;
    span.id = id;
    span.parent = id == 1 ? 0 : 1;
    span.thread = 100 + trace;
    span.done_by = by;
    span.begin_ns = begin_ns;
    span.duration_ns = ns;
    spans.push_back(span);
  };
  for (uint64_t group = 0; group < 2; ++group) {
    const uint64_t at = 1'000'000 + group * 10'000;
    for (uint64_t writer = 1; writer <= 4; ++writer) {
      const uint64_t trace = group * 10 + writer;
      // The third one leads the first group. The second group's leader has no
      // trace.
      const bool leads = group == 0 && writer == 3;
      const uint64_t by = leads ? 0 : group == 0 ? 103 : 199;
      add(trace, 1, "DB::Write", at, 9'000, 0);
      // Times were converted for each thread by itself.
      add(trace, 2, "WAL sync", at + 1'000 + 30 * (writer % 2),
          5'000 - 30 * (writer % 2), by);
    }
  }
  const std::string text = FormatTraces({}, BuildTraceTrees(spans), 0);
  EXPECT_EQ(Squeeze(text), Squeeze(R"(8 traces, 16 spans

 count total ms mean us p50 us p99 us max us
 8 0.072 9.000 9.000 9.000 9.000 DB::Write
 6 0.030 4.985 4.970 5.000 5.000 WAL sync (shared)
 2 0.010 4.985 4.970 5.000 5.000 WAL sync

shared: the wait for another thread's work that is counted in its own line.
)"));
  const std::string page = FormatTracePage({}, BuildTraceTrees(spans), 0);
  EXPECT_NE(page.find(R"(["WAL sync",1,2,)"), std::string::npos);
  EXPECT_NE(page.find(R"(["WAL sync",1,6,)"), std::string::npos);
}

// ---- OTLP -------------------------------------------------------------------

TEST_F(VarveTraceTest, ReadsTheOtlpThatVarveWrites) {
  const std::string otlp = dir_.Sub("trace.otlp.json");
  std::shared_ptr<trace::Sink> sink;
  ASSERT_TRUE(Ok(trace::NewOtlpSink(otlp, &sink)));
  std::vector<trace::Record> records;
  for (uint64_t trace = 1; trace <= 600; ++trace) {
    records.push_back(Make(trace, 1, 0, "DB::Write", 10, 200 + trace));
    records.push_back(Make(trace, 2, 1, "WAL append", 50, 60));
    records.back().done_by = 7;
  }
  sink->Add(records.data(), records.size());
  sink.reset();  // Three lines.
  const std::string out =
      RunOrFail({VARVE_TOOL_PATH, "trace", otlp, "--limit=1"});
  EXPECT_NE(out.find("600 traces, 1200 spans\n"), std::string::npos) << out;
  EXPECT_THAT(
      out, ::testing::ContainsRegex("\ntrace [0-9a-f]{32}, varve, thread 1\n"
                                    "       at us           us\n"
                                    "       0.000      800.000  DB::Write\n"
                                    "      40.000       60.000    WAL append "
                                    "\\(by thread 7\\)\n"))
      << out;
}

// As a collector's file exporter or a program's SDK writes it.
TEST_F(VarveTraceTest, ReadsTheOtlpOfOtherPrograms) {
  const std::string otlp = dir_.Sub("shop.json");
  ASSERT_TRUE(Ok(WriteStringToFile(Env::Default(), R"({
  "resourceSpans": [
    { "scopeSpans": [
        { "scope": { "name": "shop.http", "version": "1.2" },
          "spans": [
            { "traceId": "5B8EFFF798038103D269B633813FC60C",
              "spanId": "EEE19B7EC3C1B174",
              "parentSpanId": "EEE19B7EC3C1B173",
              "name": "GET /caf\u00e9", "kind": "SPAN_KIND_SERVER",
              "startTimeUnixNano": "1544712660000000000",
              "endTimeUnixNano": 1544712660000250000,
              "attributes": [
                { "key": "thread.id", "value": { "intValue": 17 } },
                { "key": "thread.name", "value": { "stringValue": "http-1" } },
                { "key": "cached", "value": { "boolValue": true } },
                { "key": "tags", "value": { "arrayValue": { "values": [
                    { "stringValue": "x" }, { "doubleValue": -1.5e3 } ] } } }
              ],
              "events": [ { "timeUnixNano": "1", "name": "e" } ],
              "status": {} },
            { "traceId": "5b8efff798038103d269b633813fc60c",
              "spanId": "0000000000000002",
              "parentSpanId": "eee19b7ec3c1b174", "name": "query",
              "startTimeUnixNano": "1544712660000010000",
              "endTimeUnixNano": "1544712660000110000" } ] } ],
      "resource": { "attributes": [
          { "key": "service.name", "value": { "stringValue": "shop" } } ] } } ]
}
{"resourceSpans":[{"instrumentationLibrarySpans":[{"spans":[
{"traceId":"5b8efff798038103d269b633813fc60d","spanId":"0000000000000001",
"name":"unfinished","startTimeUnixNano":"1544712660000000000"}]}]}]}
)",
                                   otlp, false)));
  const std::string out = RunOrFail({VARVE_TOOL_PATH, "trace", otlp});
  EXPECT_EQ(Squeeze(out), Squeeze(R"(2 traces, 3 spans

 count total ms mean us p50 us p99 us max us
 1 0.250 250.000 250.000 250.000 250.000 GET /caf\xC3\xA9
 1 0.100 100.000 100.000 100.000 100.000 query
 1 0.000 0.000 0.000 0.000 0.000 unfinished

trace 5B8EFFF798038103D269B633813FC60C, shop, thread 17 (http-1)
       at us           us
       0.000      250.000  GET /caf\xC3\xA9
      10.000      100.000    query

trace 5b8efff798038103d269b633813fc60d
       at us           us
       0.000        0.000  unfinished

Flame chart: )" + otlp + ".html\n"));
}

TEST_F(VarveTraceTest, RefusesOtlpThatIsNone) {
  const auto parse = [](const std::string& span) {
    TraceFile file;
    return ParseTrace(
        R"({"resourceSpans":[{"scopeSpans":[{"spans":[)" + span + "]}]}]}",
        &file);
  };
  const std::string trace = R"("traceId":"5b8efff798038103d269b633813fc60c",)";
  const std::string id = R"("spanId":"0000000000000001",)";
  const std::string begin = R"("startTimeUnixNano":"9")";
  EXPECT_TRUE(Ok(parse("{" + trace + id + begin + "}")));
  for (const auto& [span, reason] : std::map<std::string, std::string>{
           {"{" + id + begin + "}", "traceId"},
           {R"({"traceId":"5b",)" + id + begin + "}", "traceId"},
           // As some programs have it: base64.
           {R"({"traceId":"W47/95gDgQPSabYzgT/GDA==",)" + id + begin + "}",
            "traceId"},
           {"{" + trace + begin + "}", "without a spanId"},
           {"{" + trace + R"("spanId":"1",)" + begin + "}", "16 hexadecimal"},
           {"{" + trace + id + R"("name":"a"})", "startTimeUnixNano"},
           {"{" + trace + id + R"("startTimeUnixNano":"soon"})",
            "startTimeUnixNano"}}) {
    const Status status = parse(span);
    EXPECT_TRUE(status.IsCorruption()) << span;
    EXPECT_THAT(status.ToString(), ::testing::HasSubstr(reason)) << span;
  }
  TraceFile file;
  EXPECT_TRUE(ParseTrace(R"({"resourceMetrics":[]})", &file).IsCorruption());
  EXPECT_TRUE(ParseTrace("", &file).IsCorruption());
}

TEST_F(VarveTraceTest, EscapesInNamesAreDecoded) {
  TraceFile file;
  const std::string escaped = R"(a\"\\\/\n\u0041\u20ac\ud83d\ude00\ud83d)";
  ASSERT_TRUE(Ok(ParseTrace(
      R"({"traceEvents":[{"ph":"X","ts":1,"dur":2,"tid":5,"name":")" + escaped +
          R"(","args":{"trace":4,"span":1}}]})",
      &file)));
  EXPECT_EQ(file.spans[0].name, "a\"\\/\nA\xe2\x82\xac\xf0\x9f\x98\x80?");
  for (const char* name : {R"(\u12)", R"(\u12x4)", R"(\)"}) {
    EXPECT_FALSE(ParseTrace(R"({"traceEvents":[{"name":")" + std::string(name) +
                                R"("}]})",
                            &file)
                     .ok());
  }
}

TEST_F(VarveTraceTest, AcceptsFieldsOfOtherPrograms) {
  TraceFile file;
  ASSERT_TRUE(Ok(ParseTrace(
      R"({ "x" : [1, -2.5e3, {"a": null}, true, "\u00e9\"" ],
           "traceEvents": [ {"ph":"M","name":"thread_name","args":{"name":"a"}},
           {"args":{"span":1,"trace":4,"other":[]},"dur":1.5,"ts":7,"tid":2,
            "name":"n","ph":"X"} ] })",
      &file)));
  ASSERT_EQ(file.spans.size(), 1u);
  EXPECT_EQ(file.spans[0].begin_ns, 7000u);
  EXPECT_EQ(file.spans[0].duration_ns, 1500u);
}

// A terminal would obey them.
TEST_F(VarveTraceTest, ControlCharactersOfNamesAreNotPrinted) {
  std::vector<TraceSpan> spans(1);
  spans[0].name = "red \x1b[31m";
  const std::string text = FormatTraces({}, BuildTraceTrees(spans), 10);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("red \\x1B[31m"), std::string::npos) << text;
}

TEST_F(VarveTraceTest, RefusesFilesThatAreNoTrace) {
  TraceFile file;
  for (size_t size = 0; size + 3 < text_.size(); ++size) {
    ASSERT_FALSE(ParseTrace(Slice(text_.data(), size), &file).ok());
  }
  EXPECT_TRUE(ParseTrace("{}", &file).IsCorruption());
  const CommandOutcome outcome =
      RunCommand({"trace", std::filesystem::temp_directory_path()});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.error, ::testing::HasSubstr("Is a directory"));
  EXPECT_TRUE(ParseTrace(std::string(100000, '['), &file).IsCorruption());
  Rng rng(TestSeed());
  for (int i = 0; i < 3000; ++i) {
    std::string spoilt = text_;
    for (int j = 0; j < 3; ++j) {
      spoilt[rng.Below(spoilt.size())] = static_cast<char>(rng.Between(0, 127));
    }
    file = TraceFile();
    ParseTrace(spoilt, &file).IgnoreError();  // Must only come back.
    FormatTracePage(file, BuildTraceTrees(file.spans), 10);
    FormatTraces(file, BuildTraceTrees(file.spans), 10);
  }
}

TEST_F(VarveTraceTest, NumbersAreWholeOrRefused) {
  const auto parse = [](const std::string& ts, const std::string& span,
                        TraceFile* file) {
    return ParseTrace(R"({"traceEvents":[{"args":{"span":)" + span +
                          R"(,"trace":4},"dur":1,"ts":)" + ts +
                          R"(,"tid":2,"name":"n","ph":"X"}]})",
                      file);
  };
  TraceFile file;
  ASSERT_TRUE(Ok(parse("1234567890.1239", "18446744073709551615", &file)));
  EXPECT_EQ(file.spans[0].begin_ns, 1234567890123u);
  EXPECT_EQ(file.spans[0].id, UINT64_MAX);
  for (const char* ts : {"1.5e6", "-1", "99999999999999999999", "1.2.3", "x"}) {
    EXPECT_TRUE(parse(ts, "1", &file).IsCorruption()) << ts;
  }
  for (const char* id : {"18446744073709551616", "1.0", "-1", "1e3", ""}) {
    EXPECT_TRUE(parse("1", id, &file).IsCorruption()) << id;
  }
}

TEST_F(VarveTraceTest, SpansInCirclesAndWithoutParentsEnd) {
  std::vector<TraceSpan> spans(4);
  for (size_t i = 0; i < 4; ++i) {
    spans[i].name = std::to_string(i);
    spans[i].trace = 1;
    spans[i].id = i + 1;
  }
  spans[0].parent = 2;  // In a circle.
  spans[1].parent = 1;
  spans[2].parent = 99;
  spans[3].parent = 4;  // Its own.
  const auto trees = BuildTraceTrees(spans);
  ASSERT_EQ(trees.size(), 1u);
  EXPECT_EQ(trees[0].spans.size(), 2u);
}

TEST_F(VarveTraceTest, BenchmarkWritesATraceThatIsRead) {
  const std::string file = dir_.Sub("bench.json");
  const std::string out =
      DbBench(dir_.Sub("db"),
              {"--num=2000", "--trace=" + file, "fillrandom", "readrandom"});
  EXPECT_NE(out.find("\nTrace clock: "), std::string::npos) << out;
  EXPECT_NE(out.find("Traces: "), std::string::npos) << out;
  const std::string tree = RunOrFail({VARVE_TOOL_PATH, "trace", file});
  EXPECT_NE(tree.find("  DB::Write\n"), std::string::npos) << tree;
  EXPECT_NE(tree.find("    WAL append\n"), std::string::npos) << tree;
  EXPECT_NE(tree.find("  DB::Get\n"), std::string::npos) << tree;
}

TEST_F(VarveTraceTest, BenchmarkKeepsSlowOnesAndChooses) {
  const std::string file = dir_.Sub("bench.otlp.json");
  const std::string out =
      DbBench(dir_.Sub("db"), {"--num=2000", "--trace=" + file,
                               "--trace_slower_than_us=100000000",
                               "--trace_sampling=0.5", "fillrandom"});
  EXPECT_NE(out.find("Traces: 0 with 0 spans"), std::string::npos) << out;
  EXPECT_EQ(RunTool({VARVE_DB_BENCH_PATH, "--engine=lmdb", "--trace=" + file})
                .exit_code,
            1);
  EXPECT_EQ(
      RunTool({VARVE_DB_BENCH_PATH, "--ablate=trace_clock=coarse"}).exit_code,
      1);
}

}  // namespace
}  // namespace varve::test
