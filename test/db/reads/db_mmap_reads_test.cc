// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized

// Goal: a database with allow_mmap_reads answers as one without, whatever its
// tables' formats are, keeps no descriptors of tables, and detects damage and
// truncation as before. Method: databases of each compression and index, read
// in all ways; tables damaged, truncated and removed.

#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/convert.h"
#include "varve/filter_policy.h"

namespace varve::test {
namespace {

class DbMmapReadsTest : public DbTestBase {
 protected:
  DbMmapReadsTest() {
    options_.allow_mmap_reads = true;
    // Every read goes to a table.
    options_.block_cache = NewTestCache(0);
  }

  // Fills several tables, with some values in blocks of their own.
  void Fill() {
    Rng rng(TestSeed());
    for (int i = 0; i < 2000; ++i) {
      const size_t size = i % 100 == 0 ? 20000 : 60;
      std::string& value = entries_[Key(static_cast<int>(rng.Below(3000)))];
      value = rng.Bytes(size);
    }
    for (const auto& [key, value] : entries_) Put(key, value);
    Flush();
    CompactAll();
  }
  void Check() {
    EXPECT_TRUE(HasEntries(db_.get(), ToList(entries_)));
    std::vector<Slice> keys;
    for (const auto& [key, value] : entries_) keys.emplace_back(key);
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet({}, keys.size(), keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_TRUE(Ok(statuses[i]));
      PinnableSlice pinned;
      ASSERT_TRUE(Ok(db_->Get({}, keys[i], &pinned)));
      const std::string& expected = entries_[keys[i].ToString()];
      ASSERT_EQ(values[i], expected);
      ASSERT_EQ(pinned.ToString(), expected);
    }
    EXPECT_EQ(Get("missing"), "NotFound");
  }
  std::vector<std::string> TablePaths() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().extension() == ".sst") paths.push_back(entry.path());
    }
    return paths;
  }
  static void Damage(const std::string& path, std::streamoff offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(offset);
    file.put(byte);
  }

  Entries entries_;
};

TEST_F(DbMmapReadsTest, AllFormatsGiveTheirEntries) {
  for (const auto& [name, compression] : AllCompressions()) {
    for (const bool parts : {false, true}) {
      SCOPED_TRACE(std::string(name) + (parts ? " in parts" : ""));
      entries_.clear();
      options_.compression = compression;
      options_.filter_policy = NewBloomFilterPolicy(10);
      options_.index_type =
          parts ? IndexType::kTwoLevelIndexSearch : IndexType::kBinarySearch;
      options_.partition_filters = parts;
      options_.metadata_block_size = 300;
      options_.cache_index_and_filter_blocks = parts;
      options_.block_cache = NewTestCache(parts ? 64 << 10 : 0);
      OpenAnew();
      Fill();
      Check();
      Reopen();
      Check();
    }
  }
}

TEST_F(DbMmapReadsTest, OpenTablesKeepNoDescriptors) {
  options_.max_open_files = 16;
  Open();
  Fill();
  Check();
  EXPECT_GT(Tables(), 2u);
  const size_t open_tables = CountOpenTables(path_);
  EXPECT_EQ(open_tables, 0u);
  std::string io_path;
  EXPECT_TRUE(db_->GetProperty("varve.io-path", &io_path));
  EXPECT_TRUE(io_path.ends_with(", mmap")) << io_path;
}

TEST_F(DbMmapReadsTest, LargeValueOutlivesTableAndDatabase) {
  for (const bool parts : {false, true}) {
    options_.compression = CompressionType::kNone;
    options_.index_type =
        parts ? IndexType::kTwoLevelIndexSearch : IndexType::kBinarySearch;
    options_.cache_index_and_filter_blocks = parts;
    OpenAnew();
    const std::string value = Rng(TestSeed()).Bytes(100000);
    Put("a", value);
    Put("b", "short");
    Flush();
    PinnableSlice large, small;
    ASSERT_TRUE(Ok(db_->Get({}, "a", &large)));
    ASSERT_TRUE(Ok(db_->Get({}, "b", &small)));
    Delete("a");
    CompactAll();
    EXPECT_EQ(large.ToString(), value);
    Close();
    std::filesystem::remove_all(path_);
    EXPECT_EQ(large.ToString(), value);
    EXPECT_EQ(small.ToString(), "short");
  }
}

TEST_F(DbMmapReadsTest, TruncatedTableIsAnErrorOfOpen) {
  Open();
  Fill();
  Close();
  const std::string table = TablePaths().front();
  const auto size = std::filesystem::file_size(table);
  for (const auto left : {size - 1, size / 2, std::uintmax_t{0}}) {
    SCOPED_TRACE(left);
    std::filesystem::resize_file(table, left);
    const Status status = TryOpen();
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    EXPECT_TRUE(Contains(status.ToString(), table)) << status.ToString();
  }
}

TEST_F(DbMmapReadsTest, TruncatedTableIsAnErrorOfReadsWithoutChecks) {
  options_.paranoid_checks = false;
  options_.compression = CompressionType::kNone;
  Open();
  Fill();
  Close();
  for (const std::string& table : TablePaths()) {
    std::filesystem::resize_file(table, std::filesystem::file_size(table) / 2);
  }
  ASSERT_TRUE(Ok(TryOpen()));
  const std::string answer = Get(entries_.rbegin()->first);
  EXPECT_TRUE(answer.starts_with("Corruption")) << answer;
}

TEST_F(DbMmapReadsTest, ChecksumsAreVerifiedUnlessToldNot) {
  options_.compression = CompressionType::kNone;
  Open();
  Put("key", std::string(50000, 'v'));
  Flush();
  Close();
  Damage(TablePaths().front(), 25000);
  Open();
  PinnableSlice value;
  const Status status = db_->Get({}, "key", &value);
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  EXPECT_TRUE(Contains(status.ToString(), "checksum")) << status.ToString();
  ReadOptions unverified;
  unverified.verify_checksums = false;
  ASSERT_TRUE(Ok(db_->Get(unverified, "key", &value)));
  EXPECT_EQ(value.size(), 50000u);
}

TEST_F(DbMmapReadsTest, ReplacedTableIsReadAsItWas) {
  Open();
  Fill();
  Check();
  for (const std::string& table : TablePaths()) {
    std::ofstream(table + "2") << "something else";
    std::filesystem::rename(table + "2", table);
  }
  Check();
}

TEST_F(DbMmapReadsTest, ExcludesDirectReads) {
  options_.use_direct_reads = true;
  const Status status = TryOpen();
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
}

TEST_F(DbMmapReadsTest, IsSetFromText) {
  DBOptions options;
  ASSERT_TRUE(Ok(
      GetDBOptionsFromMap({}, {}, {{"allow_mmap_reads", "true"}}, &options)));
  EXPECT_TRUE(options.allow_mmap_reads);
}

}  // namespace
}  // namespace varve::test
