// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's db_bench, which overwrites keys that all are there, and deletes
// none, until it is killed.

#include <memory>
#include <string>
#include <vector>

#include "test/testing/tools.h"

namespace varve::test {

class BusyDbBench {
 public:
  static constexpr size_t kKeys = 2000;

  // Writes the database at `path`, which it creates in `directory`.
  // `recycles`: later, files of logs are used again.
  BusyDbBench(const TempDir& directory, const std::string& path,
              const std::string& buffer_bytes, bool recycles)
      : directory_(directory),
        path_(path),
        common_({"--db=" + path, "--num=" + std::to_string(kKeys),
                 "--value_size=200", "--compression_type=none",
                 "--write_buffer_size=" + buffer_bytes,
                 "--target_file_size_base=65536"}) {
    RunOrFail(Command({"db_bench", "--benchmarks=fillseq"}, common_));
    std::vector<std::string> command =
        Command({"db_bench", "--benchmarks=overwrite", "--use_existing_db=1",
                 "--duration=600"},
                common_);
    if (recycles) command.push_back("--options_file=" + RecyclingOptions());
    writer_ = std::make_unique<RunningTool>(command);
  }

  void Kill() {
    writer_->Kill();
    const ToolResult& result = writer_->Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
  }

 private:
  // Returns the path of an options file like the database's, but with recycled
  // logs.
  std::string RecyclingOptions() const {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(Env::Default()->GetChildren(path_, &names)));
    std::string text;
    for (const std::string& name : names) {
      if (!name.starts_with("OPTIONS-")) continue;
      EXPECT_TRUE(
          Ok(ReadFileToString(Env::Default(), path_ + "/" + name, &text)));
    }
    const std::string option = "recycle_log_file_num=";
    const size_t place = text.find(option);
    EXPECT_NE(place, std::string::npos);
    if (place == std::string::npos) return "";
    text.replace(place + option.size(), 1, "4");
    const std::string file = directory_.Sub("options");
    EXPECT_TRUE(Ok(WriteStringToFile(Env::Default(), text, file, false)));
    return file;
  }

  const TempDir& directory_;
  const std::string path_;
  const std::vector<std::string> common_;
  std::unique_ptr<RunningTool> writer_;
};

}  // namespace varve::test
