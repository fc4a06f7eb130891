// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: DB::OpenForReadOnly beside a process of RocksDB that writes: no error,
// and no key is lost. Method: its db_bench overwrites keys that all are there,
// and deletes none; with write buffers that are soon full, with one that takes
// as long to read as to fill, and with logs whose files are used again.

#include <chrono>
#include <string>

#include "test/testing/tools.h"

namespace varve::test {
namespace {

constexpr size_t kKeys = 2000;

class ReadBesideRocksDbTest : public ::testing::Test {
 protected:
  ReadBesideRocksDbTest() : path_(dir_.Sub("db")) {}

  void Fill(const std::string& buffer_bytes) {
    common_ = {"--db=" + path_,
               "--num=" + std::to_string(kKeys),
               "--value_size=200",
               "--compression_type=none",
               "--write_buffer_size=" + buffer_bytes,
               "--target_file_size_base=65536"};
    RunOrFail(Command({"db_bench", "--benchmarks=fillseq"}, common_));
  }

  // Returns the text of an options file like the database's, but with recycled
  // logs.
  std::string RecyclingOptions() {
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
    const std::string file = dir_.Sub("options");
    EXPECT_TRUE(Ok(WriteStringToFile(Env::Default(), text, file, false)));
    return file;
  }

  void ReadBesideWriter(const std::vector<std::string>& more) {
    RunningTool writer(
        Command(Command({"db_bench", "--benchmarks=overwrite",
                         "--use_existing_db=1", "--duration=600"},
                        common_),
                more));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    int opens = 0;
    for (; std::chrono::steady_clock::now() < end; ++opens) {
      std::unique_ptr<DB> db;
      ASSERT_TRUE(Ok(DB::OpenForReadOnly(Options(), path_, &db))) << opens;
      EntryList entries;
      ASSERT_TRUE(Ok(ScanForward(db.get(), {}, &entries))) << opens;
      ASSERT_EQ(entries.size(), kKeys) << opens;
    }
    EXPECT_GT(opens, 0);
    printf("%d opens\n", opens);
    writer.Kill();
    const ToolResult& result = writer.Wait();
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.Summary();
  }

  TempDir dir_;
  const std::string path_;
  std::vector<std::string> common_;
};

TEST_F(ReadBesideRocksDbTest, EveryOpenSeesAllKeys) {
  Fill("65536");
  ReadBesideWriter({});
}

TEST_F(ReadBesideRocksDbTest, EveryOpenSeesAllKeysOfLargeBuffers) {
  Fill("33554432");
  ReadBesideWriter({});
}

TEST_F(ReadBesideRocksDbTest, EveryOpenSeesAllKeysWhereLogsAreReused) {
  Fill("65536");
  ReadBesideWriter({"--options_file=" + RecyclingOptions()});
}

}  // namespace
}  // namespace varve::test
