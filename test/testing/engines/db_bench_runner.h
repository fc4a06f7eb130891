// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Runs db_bench on a database of its own, for tests of the program.

#include <string>
#include <vector>

#include "test/testing/run_tool.h"
#include "test/testing/temp_dir.h"

namespace varve::test {

class DbBenchRunner {
 protected:
  // Runs it with 1,000 entries, unless the arguments have another number.
  ToolResult RunBench(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {VARVE_DB_BENCH_PATH, "--db=" + database_, "--num=1000"});
    return RunTool(arguments);
  }

  TempDir directory_;
  std::string database_ = directory_.Sub("db");
};

}  // namespace varve::test
