// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs Varve's tools and RocksDB's tools on one database in turn. A missing
// tool is a failure, since its check has not run.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/run_tool.h"
#include "test/testing/test_headers.h"

#ifndef VARVE_DB_BENCH_PATH
#define VARVE_DB_BENCH_PATH "db_bench (not built: VARVE_BUILD_TOOLS is off)"
#endif
#ifdef VARVE_TOOL_PATH
#define VARVE_HAS_TOOL 1
#else
#define VARVE_HAS_TOOL 0
#define VARVE_TOOL_PATH "varve (not built: VARVE_BUILD_TOOLS is off)"
#endif

namespace varve::test {

inline std::vector<std::string> Command(
    const std::vector<std::string>& program,
    const std::vector<std::string>& arguments) {
  std::vector<std::string> all = program;
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

// Runs a tool that must succeed, and returns its output.
inline std::string RunOrFail(const std::vector<std::string>& arguments) {
  const ToolResult result = RunTool(arguments);
  std::string line;
  for (const std::string& argument : arguments) line += argument + " ";
  EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.Summary();
  // In some cases ldb reports a failure and exits with 0.
  EXPECT_EQ(result.error.find("Failed:"), std::string::npos)
      << line << "\n"
      << result.Summary();
  return result.out;
}

// Runs RocksDB's ldb. Its commands on entries take and print them as hex.
inline std::string Ldb(const std::string& db,
                       const std::vector<std::string>& arguments) {
  std::vector<std::string> all = Command({"ldb", "--db=" + db}, arguments);
  for (const char* on_entries : {"scan", "put", "batchput", "delete"}) {
    if (arguments.front() == on_entries) all.push_back("--hex");
  }
  return RunOrFail(all);
}

inline std::string DbBench(const std::string& db,
                           const std::vector<std::string>& arguments) {
  return RunOrFail(Command({VARVE_DB_BENCH_PATH, "--db=" + db}, arguments));
}

inline std::string Hex(const std::string& bytes) {
  return "0x" + Slice(bytes).ToString(true);
}

// Returns the lines that `ldb --hex scan` prints.
inline std::string ScanLines(const EntryList& entries) {
  std::string lines;
  for (const auto& [key, value] : entries) {
    lines += Hex(key) + " : " + Hex(value) + "\n";
  }
  return lines;
}

// Compares texts of many lines, and reports only the first different line.
inline ::testing::AssertionResult SameText(const std::string& expected,
                                           const std::string& found) {
  if (expected == found) return ::testing::AssertionSuccess();
  size_t at = 0;
  while (at < expected.size() && at < found.size() &&
         expected[at] == found[at]) {
    at++;
  }
  const size_t line = expected.rfind('\n', at == 0 ? 0 : at - 1);
  const size_t start = line == std::string::npos ? 0 : line + 1;
  const auto excerpt = [start](const std::string& text) {
    return start < text.size() ? text.substr(start, 160) : "(the end)";
  };
  return ::testing::AssertionFailure()
         << "sizes " << expected.size() << " and " << found.size()
         << ", different at " << at << ":\n"
         << excerpt(expected) << "\n--- but found\n"
         << excerpt(found);
}

// Checks with RocksDB's tools a database that Varve wrote: the same contents,
// consistent, every table whole.
inline void ExpectRocksDbAgrees(const std::string& db,
                                const EntryList& expected) {
  EXPECT_TRUE(SameText(ScanLines(expected), Ldb(db, {"scan"})));
  EXPECT_EQ(Ldb(db, {"checkconsistency"}), "OK\n");
  EXPECT_TRUE(Contains(Ldb(db, {"manifest_dump"}), "next_file_number"));
  size_t tables = FilesEndingIn(db, ".sst").size();
  if (tables == 0) return;
  const std::string verified = RunOrFail(
      {"sst_dump", "--file=" + db, "--command=verify", "--verify_checksum"});
  size_t whole = 0;
  for (size_t at = verified.find("The file is ok"); at != std::string::npos;
       at = verified.find("The file is ok", at + 1)) {
    whole++;
  }
  EXPECT_EQ(whole, tables) << verified;
}

}  // namespace varve::test
