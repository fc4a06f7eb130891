// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: leveldb::TableBuilder writes LevelDB's table format and leveldb::Table
// reads it. Method: each library reads the other's tables.
#include <gmock/gmock.h>
#include <leveldb/filter_policy.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>
#include <sys/resource.h>

#include "test/compat/leveldb/program.h"

namespace leveldb_test {
namespace {

// Returns a value as four bytes, the lowest first.
std::string Fixed32(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Returns the masked CRC-32C of a block's trailer.
std::string Checksum(const std::string& bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return Fixed32((crc >> 15 | crc << 17) + 0xa282ead8);
}

TEST(LevelDbTableTest, EachLibraryReadsTheOthersTables) {
  const TestDirectory directory;
  for (const char* count : {"0", "1", "16", "17", "5000"}) {
    std::string written[2];
    for (const bool writer : {false, true}) {
      const std::string path =
          directory / (std::string(count) + "." + std::to_string(writer));
      std::string output;
      ASSERT_EQ(RunHelper(writer, "write-table " + path + " " + count, &output),
                0)
          << output;
      EXPECT_EQ(output, std::string(count) + "\n");
      written[writer] = ReadWhole(path);
      for (const bool reader : {false, true}) {
        EXPECT_EQ(RunHelper(reader, "read-table " + path, &output), 0);
        EXPECT_EQ(output, std::string(count) + " entries\n")
            << "written by " << writer << ", read by " << reader;
      }
    }
    // In a larger table, the keys of the index may be shorter in one of them.
    if (atoi(count) <= 17) {
      EXPECT_TRUE(written[0] == written[1]) << count;
    }
  }
}

TEST(LevelDbTableTest, DamageIsReported) {
  const TestDirectory directory;
  std::string output;
  const std::string path = directory / "table";
  ASSERT_EQ(RunHelper(RunsOnVarve(), "write-table " + path + " 1000", &output),
            0);
  const std::string whole = ReadWhole(path);
  leveldb::Env* const env = leveldb::Env::Default();
  int errors = 0;
  // Iterators read neither the filter nor the padding, so some of these bytes
  // may have any value.
  for (size_t i = 0; i < whole.size(); i += 97) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    ASSERT_TRUE(WriteStringToFile(env, damaged, path).ok());
    leveldb::RandomAccessFile* file;
    ASSERT_TRUE(env->NewRandomAccessFile(path, &file).ok());
    leveldb::Table* table = nullptr;
    leveldb::Options options;
    options.paranoid_checks = true;
    leveldb::Status status =
        leveldb::Table::Open(options, file, damaged.size(), &table);
    if (status.ok()) {
      leveldb::ReadOptions read;
      read.verify_checksums = true;
      const std::unique_ptr<leveldb::Iterator> iterator(
          table->NewIterator(read));
      int count = 0;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        ++count;
      }
      status = iterator->status();
      EXPECT_TRUE(!status.ok() || count == 1000) << i;
    }
    if (!status.ok()) {
      ++errors;
      EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    }
    delete table;
    delete file;
  }
  EXPECT_GT(errors, static_cast<int>(whole.size() / 97 / 2));
}

TEST(LevelDbTableTest, AnImpossibleLengthTakesNoMemory) {
  const TestDirectory directory;
  const std::string path = directory / "table";
  // An index that decompresses to 4 GiB, as it says: seven bytes of Snappy.
  const std::string index("\xff\xff\xff\xff\x0f\x00x", 7);
  std::string table = index + '\1' + Checksum(index + '\1');
  std::string footer("\0\0\0\7", 4);  // The offsets and sizes of two blocks.
  footer.resize(40);
  table += footer + Fixed32(0x8b80fb57) + Fixed32(0xdb477524);
  leveldb::Env* const env = leveldb::Env::Default();
  ASSERT_TRUE(WriteStringToFile(env, table, path).ok());
  leveldb::RandomAccessFile* file;
  ASSERT_TRUE(env->NewRandomAccessFile(path, &file).ok());
  leveldb::Table* opened = nullptr;
  const leveldb::Status status =
      leveldb::Table::Open({}, file, table.size(), &opened);
  delete file;
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 2 << 20);  // In KiB.
}

// A filter policy that is not the builder's.
struct OtherPolicy : leveldb::FilterPolicy {
  const char* Name() const override { return "other"; }
  void CreateFilter(const leveldb::Slice*, int, std::string*) const override {}
  bool KeyMayMatch(const leveldb::Slice&,
                   const leveldb::Slice&) const override {
    return false;
  }
};

TEST(LevelDbTableTest, AFilterHasTheNameOfItsPolicy) {
  if (!RunsOnVarve()) GTEST_SKIP() << "LevelDB writes the other's name";
  const TestDirectory directory;
  leveldb::WritableFile* file;
  ASSERT_TRUE(leveldb::Env::Default()
                  ->NewWritableFile(directory / "table", &file)
                  .ok());
  const std::unique_ptr<const leveldb::FilterPolicy> policy(
      leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.filter_policy = policy.get();
  leveldb::TableBuilder builder(options, file);
  builder.Add("a", "1");
  const OtherPolicy other;
  options.filter_policy = &other;
  EXPECT_TRUE(builder.ChangeOptions(options).ok());
  builder.Add("b", "2");
  EXPECT_TRUE(builder.Finish().ok());
  EXPECT_TRUE(file->Close().ok());
  delete file;
  const std::string table = ReadWhole(directory / "table");
  EXPECT_THAT(table, testing::HasSubstr("filter.leveldb.BuiltinBloomFilter2"));
  EXPECT_THAT(table, testing::Not(testing::HasSubstr("filter.other")));
}

TEST(LevelDbTableTest, ABuilderCanBeAbandoned) {
  const TestDirectory directory;
  leveldb::WritableFile* file;
  ASSERT_TRUE(leveldb::Env::Default()
                  ->NewWritableFile(directory / "table", &file)
                  .ok());
  leveldb::TableBuilder builder(leveldb::Options(), file);
  builder.Add("a", "1");
  builder.Flush();
  builder.Add("b", "2");
  EXPECT_EQ(builder.NumEntries(), 2U);
  EXPECT_GT(builder.FileSize(), 0U);
  EXPECT_TRUE(builder.status().ok());
  leveldb::Options other;
  other.block_size = 512;
  EXPECT_TRUE(builder.ChangeOptions(other).ok());
  builder.Abandon();
  delete file;
}

}  // namespace
}  // namespace leveldb_test
