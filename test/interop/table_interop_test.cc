// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB reads the tables that Varve writes. Method: tables of all
// kinds are written through the operating system's Env, then verified and
// scanned by RocksDB's sst_dump, whose output must be what was put in.
#include <sys/wait.h>
#include <unistd.h>

#include "table/build/table_builder.h"
#include "test/testing/list_policy.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "util/base/random.h"
#include "varve/env.h"

namespace varve {
namespace {

using ::testing::HasSubstr;
using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

std::string Key(const Slice& user_key, SequenceNumber sequence = 1,
                ValueType type = ValueType::kValue) {
  return MakeInternalKey(user_key, PackTrailer(sequence, type));
}

std::string Numbered(int i) {
  char buffer[20];
  snprintf(buffer, sizeof(buffer), "key%08d", i);
  return buffer;
}

struct ToolResult {
  int exit_code = -1;
  std::string output;
};

ToolResult RunSstDump(const std::string& path, const std::string& arguments) {
  const std::string command =
      "sst_dump --file='" + path + "' " + arguments + " 2>&1";
  ToolResult result;
  FILE* pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  if (pipe == nullptr) return result;
  char buffer[4096];
  size_t count;
  while ((count = fread(buffer, 1, sizeof(buffer), pipe)) > 0) {
    result.output.append(buffer, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

// The lines that are entries, which begin with a quoted key.
std::string EntryLines(const std::string& output) {
  std::istringstream lines(output);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '\'') result += line + "\n";
  }
  return result;
}

std::string ExpectedLines(const KeysAndValues& entries) {
  std::string result;
  for (const auto& [key, value] : entries) {
    result += DescribeInternalKey(key) + " => " +
              Slice(value).ToString(/*hex=*/true) + "\n";
  }
  return result;
}

class TableInteropTest : public ::testing::Test {
 protected:
  TableInteropTest() {
    std::string path = ::testing::TempDir() + "varve_table_interop_XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~TableInteropTest() override { std::filesystem::remove_all(directory_); }

  static TableBuilderOptions Options() {
    static const InternalKeyComparator comparator(BytewiseComparator());
    TableBuilderOptions options;
    options.comparator = &comparator;
    options.db_identity = "01234567-89ab-cdef-0123-456789abcdef";
    options.file_number = 12;
    options.creation_time_s = 1700000000;
    return options;
  }

  void Write(const TableBuilderOptions& options, const KeysAndValues& entries) {
    std::unique_ptr<WritableFile> file;
    ASSERT_TRUE(
        Env::Default()->NewWritableFile(Path(), FileOptions(), &file).ok());
    TableBuilder builder(options, file.get());
    for (const auto& [key, value] : entries) builder.Add(key, value);
    ASSERT_TRUE(Ok(builder.Finish()));
    ASSERT_TRUE(file->Close().ok());
    uint64_t size = 0;
    ASSERT_TRUE(Env::Default()->GetFileSize(Path(), &size).ok());
    ASSERT_EQ(size, builder.FileSize());
  }

  void Check(const TableBuilderOptions& options, const KeysAndValues& entries) {
    Write(options, entries);
    const ToolResult verify = RunSstDump(Path(), "--command=verify");
    EXPECT_EQ(verify.exit_code, 0) << verify.output;
    EXPECT_THAT(verify.output, HasSubstr("The file is ok"));
    const ToolResult scan = RunSstDump(Path(), "--command=scan --output_hex");
    EXPECT_EQ(scan.exit_code, 0) << scan.output;
    // Not EXPECT_EQ: the texts may have megabytes.
    EXPECT_TRUE(EntryLines(scan.output) == ExpectedLines(entries))
        << scan.output.substr(0, 2000);
  }

  std::string Path() const { return directory_ + "/000012.sst"; }

 private:
  std::string directory_;
};

KeysAndValues ManyEntries(int count) {
  Random random(99);
  KeysAndValues entries;
  for (int i = 0; i < count; ++i) {
    std::string value(random.Uniform(300), 'v');
    for (size_t j = 0; j < value.size() / 2; ++j) {
      value[j] = static_cast<char>(random.Uniform(256));
    }
    const bool deleted = i % 10 == 9;
    entries.emplace_back(
        Key(Numbered(i), static_cast<SequenceNumber>(i),
            deleted ? ValueType::kDeletion : ValueType::kValue),
        deleted ? "" : value);
  }
  return entries;
}

TEST_F(TableInteropTest, RocksDbReadsEveryCompressionAndChecksum) {
  const KeysAndValues entries = ManyEntries(2000);
  for (const CompressionType compression :
       {CompressionType::kNone, CompressionType::kSnappy,
        CompressionType::kZlib, CompressionType::kBZip2, CompressionType::kLZ4,
        CompressionType::kLZ4HC, CompressionType::kZSTD}) {
    SCOPED_TRACE(static_cast<int>(compression));
    TableBuilderOptions options = Options();
    options.compression = compression;
    Check(options, entries);
    options.filter_policy = NewBloomFilterPolicy(10);
    Check(options, entries);
  }
  for (const ChecksumType checksum :
       {ChecksumType::kNone, ChecksumType::kCrc32c, ChecksumType::kXxHash32,
        ChecksumType::kXxHash64}) {
    SCOPED_TRACE(static_cast<int>(checksum));
    TableBuilderOptions options = Options();
    options.checksum = checksum;
    Check(options, entries);
  }
}

TEST_F(TableInteropTest, RocksDbReadsKeysSpanningBlocks) {
  KeysAndValues entries;
  for (const char* user_key : {"", "a", "b"}) {
    for (SequenceNumber sequence = 300; sequence > 0; --sequence) {
      entries.emplace_back(Key(user_key, sequence), std::string(100, 'v'));
    }
  }
  TableBuilderOptions options = Options();
  options.filter_policy = NewBloomFilterPolicy(10);
  Check(options, entries);
  // Ranges begin and end inside the run of one user key.
  const ToolResult range =
      RunSstDump(Path(), "--command=scan --from=a --to=b --output_hex");
  EXPECT_EQ(EntryLines(range.output),
            ExpectedLines(
                KeysAndValues(entries.begin() + 300, entries.begin() + 600)));
}

TEST_F(TableInteropTest, RocksDbReadsEmptyAndHugeKeysAndValues) {
  TableBuilderOptions options = Options();
  options.filter_policy = NewBloomFilterPolicy(10);
  Check(options, {{Key(""), ""},
                  {Key("a"), std::string(5 << 20, 'x')},
                  {Key("b"), ""},
                  {Key(std::string(70000, 'b')), "after a long key"},
                  {Key("c", kMaxSequenceNumber), std::string(100000, '\0')},
                  {Key("\xFF\xFF", 0), "end"}});
}

TEST_F(TableInteropTest, RocksDbIgnoresCustomFilters) {
  TableBuilderOptions options = Options();
  options.filter_policy = std::make_shared<test::ListPolicy>();
  Check(options, ManyEntries(500));
}

TEST_F(TableInteropTest, RocksDbReadsOddBlockSizes) {
  const KeysAndValues entries = ManyEntries(300);
  for (const size_t block_size : {0, 100, 20000, 1 << 30}) {
    for (const int interval : {1, 3, 1024}) {
      TableBuilderOptions options = Options();
      options.block_size = block_size;
      options.block_restart_interval = interval;
      Check(options, entries);
    }
  }
}

TEST_F(TableInteropTest, RocksDbShowsTheProperties) {
  TableBuilderOptions options = Options();
  options.compression = CompressionType::kZSTD;
  options.filter_policy = NewBloomFilterPolicy(10);
  Write(options, ManyEntries(1000));
  const ToolResult result =
      RunSstDump(Path(), "--command=none --show_properties");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* line :
       {"# entries: 1000", "# deletions: 100", "# entries for filter: 1000",
        "index block size (user-key? 1, delta-value? 1)",
        "filter policy name: bloomfilter",
        "comparator name: leveldb.BytewiseComparator",
        "column family name: default", "SST file compression algo: ZSTD",
        "prefix extractor name: nullptr", "merge operator name: nullptr",
        "property collectors names: []", "creation time: 1700000000",
        "DB identity: 01234567-89ab-cdef-0123-456789abcdef",
        // Unknown to RocksDB.
        "varve.hidden.entries: 0x00", "varve.longest.dead.run: 0x0",
        "original file number: 12"}) {
    EXPECT_THAT(result.output, HasSubstr(line));
  }
}

}  // namespace
}  // namespace varve
