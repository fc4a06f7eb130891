// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: `varve trace` shows what a trace file says, as text and as a page that
// draws it in a browser, and no file makes it crash. Method: scripted traces
// through the sink and back; files cut off and spoilt at every place; the page
// as a browser without a screen has drawn it.

#include "tools/varve/varve_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "test/testing/run_tool.h"
#include "test/testing/seed.h"
#include "test/testing/temp_dir.h"
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

       count     total ms      mean us       max us
           1        0.200      200.000      200.000  DB::Write
           1        0.060       60.000       60.000    WAL append
           2        0.105       52.500      100.000  DB::Get
           1        0.040       40.000       40.000    block read
           1        0.020       20.000       20.000    decompress </script>

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
  EXPECT_EQ(out, expected);
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
  std::vector<TraceSpan> spans;
  ASSERT_TRUE(Ok(ParseChromeTrace(text_, &spans)));
  const std::string page = FormatTracePage(BuildTraceTrees(spans), 10);
  for (const char* reference : {"http:", "https:", "src=", "href=", "import"}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
  EXPECT_EQ(page.find("decompress </script>"), std::string::npos);
}

TEST_F(VarveTraceTest, BrowserDrawsEachSpan) {
  RunOrFail({VARVE_TOOL_PATH, "trace", path_});
  const std::string dom =
      RunOrFail({"chromium-headless-shell", "--no-sandbox", "--disable-gpu",
                 "--user-data-dir=" + dir_.Sub("profile"), "--dump-dom",
                 "file://" + path_ + ".html"});
  for (const char* name : {"DB::Get", "DB::Write", "WAL append", "block read",
                           "decompress &lt;/script&gt;"}) {
    EXPECT_NE(dom.find(">" + std::string(name) + "</div>"), std::string::npos)
        << name << " is not in\n"
        << dom;
  }
  EXPECT_NE(dom.find("3 traces; the 3 slowest"), std::string::npos);
  // Writes before reads, side by side.
  EXPECT_NE(dom.find("left: 65.57"), std::string::npos) << dom;
}

TEST_F(VarveTraceTest, AcceptsFieldsOfOtherPrograms) {
  std::vector<TraceSpan> spans;
  ASSERT_TRUE(Ok(ParseChromeTrace(
      R"({ "x" : [1, -2.5e3, {"a": null}, true, "\u00e9\"" ],
           "traceEvents": [ {"ph":"M","name":"thread_name","args":{"name":"a"}},
           {"args":{"span":1,"trace":4,"other":[]},"dur":1.5,"ts":7,"tid":2,
            "name":"n","ph":"X"} ] })",
      &spans)));
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].begin_ns, 7000u);
  EXPECT_EQ(spans[0].duration_ns, 1500u);
}

// A terminal would obey them.
TEST_F(VarveTraceTest, ControlCharactersOfNamesAreNotPrinted) {
  std::vector<TraceSpan> spans(1);
  spans[0].name = "red \x1b[31m";
  const std::string text = FormatTraces(BuildTraceTrees(spans), 10);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("red \\x1B[31m"), std::string::npos) << text;
}

TEST_F(VarveTraceTest, RefusesFilesThatAreNoTrace) {
  std::vector<TraceSpan> spans;
  for (size_t size = 0; size + 3 < text_.size(); ++size) {
    ASSERT_FALSE(ParseChromeTrace(Slice(text_.data(), size), &spans).ok());
  }
  EXPECT_TRUE(ParseChromeTrace("{}", &spans).IsCorruption());
  const CommandOutcome outcome =
      RunCommand({"trace", std::filesystem::temp_directory_path()});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.error, ::testing::HasSubstr("Is a directory"));
  EXPECT_TRUE(
      ParseChromeTrace(std::string(100000, '['), &spans).IsCorruption());
  Rng rng(TestSeed());
  for (int i = 0; i < 3000; ++i) {
    std::string spoilt = text_;
    for (int j = 0; j < 3; ++j) {
      spoilt[rng.Below(spoilt.size())] = static_cast<char>(rng.Between(0, 127));
    }
    spans.clear();
    ParseChromeTrace(spoilt, &spans).IgnoreError();  // Must only come back.
    FormatTracePage(BuildTraceTrees(spans), 10);
    FormatTraces(BuildTraceTrees(spans), 10);
  }
}

TEST_F(VarveTraceTest, NumbersAreWholeOrRefused) {
  const auto parse = [](const std::string& ts, const std::string& span,
                        std::vector<TraceSpan>* spans) {
    return ParseChromeTrace(R"({"traceEvents":[{"args":{"span":)" + span +
                                R"(,"trace":4},"dur":1,"ts":)" + ts +
                                R"(,"tid":2,"name":"n","ph":"X"}]})",
                            spans);
  };
  std::vector<TraceSpan> spans;
  ASSERT_TRUE(Ok(parse("1234567890.1239", "18446744073709551615", &spans)));
  EXPECT_EQ(spans[0].begin_ns, 1234567890123u);
  EXPECT_EQ(spans[0].id, UINT64_MAX);
  for (const char* ts : {"1.5e6", "-1", "99999999999999999999", "1.2.3", "x"}) {
    EXPECT_TRUE(parse(ts, "1", &spans).IsCorruption()) << ts;
  }
  for (const char* id : {"18446744073709551616", "1.0", "-1", "1e3", ""}) {
    EXPECT_TRUE(parse("1", id, &spans).IsCorruption()) << id;
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
