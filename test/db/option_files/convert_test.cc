// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: options are read from texts of Varve and of RocksDB, and written so
// that they are read again. Method: texts; for each row of the option table, a
// value that is not its default.

#include "varve/convert.h"

#include "db/option_files/options_lines.h"
#include "db/options/options_check.h"
#include "db/options/options_update.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"
#include "varve/write_buffer_manager.h"

namespace varve::test {
namespace {

// Returns a text of the option other than its default, or "" if it has none.
std::string OtherText(const OptionRow& row) {
  for (const char* const text :
       {"true", "false", "3", "128", "70000", "100000000", "0.125",
        "insensitive", "kAbsoluteConsistency", "map", "all", "kZSTD",
        "kZSTD:kNoCompression", "kTwoLevelIndexSearch", "bloomfilter:7.5:false",
        "rocksdb.FixedPrefix.3"}) {
    Options options;
    if (ParseOption(row, text, &options).ok() && CheckOptions(options).ok() &&
        LinesOf(SectionOf(row), options).size() > 0) {
      Options defaults;
      const auto line = [&](const Options& from) {
        for (const OptionsLine& one : LinesOf(SectionOf(row), from)) {
          if (one.name == row.name) return one.value;
        }
        return std::string();
      };
      if (line(options) != line(defaults)) return text;
    }
  }
  return "";
}

TEST(ConvertTest, EachOptionHasATextThatIsReadAgain) {
  for (const OptionRow& row : kOptionTable) {
    SCOPED_TRACE(row.name);
    const std::string name = row.name;
    const std::string text = OtherText(row);
    if (name == "block_cache" || name == "rate_limiter" ||
        name == "compression_level") {
      EXPECT_EQ(text, "");
      continue;
    }
    ASSERT_NE(text, "");
    Options options;
    std::string written;
    std::string again;
    if (row.of_family) {
      ColumnFamilyOptions read;
      ASSERT_TRUE(Ok(
          GetColumnFamilyOptionsFromString({}, {}, name + "=" + text, &read)));
      ASSERT_TRUE(Ok(GetStringFromColumnFamilyOptions({}, read, &written)));
      EXPECT_TRUE(Contains(written, name + "=" + text + ";")) << written;
      ASSERT_TRUE(Ok(GetColumnFamilyOptionsFromString({}, {}, written, &read)));
      ASSERT_TRUE(Ok(GetStringFromColumnFamilyOptions({}, read, &again)));
    } else {
      DBOptions read;
      ASSERT_TRUE(Ok(GetDBOptionsFromString({}, {}, name + "=" + text, &read)));
      ASSERT_TRUE(Ok(GetStringFromDBOptions({}, read, &written)));
      EXPECT_TRUE(Contains(written, name + "=" + text + ";")) << written;
      ASSERT_TRUE(Ok(GetDBOptionsFromString({}, {}, written, &read)));
      ASSERT_TRUE(Ok(GetStringFromDBOptions({}, read, &again)));
    }
    EXPECT_EQ(again, written);
  }
}

TEST(ConvertTest, ReadsRocksDbsForms) {
  ColumnFamilyOptions family;
  ASSERT_TRUE(Ok(GetColumnFamilyOptionsFromString(
      {}, {},
      "compression=kLZ4Compression;bottommost_compression="
      "kDisableCompressionOption; compression_opts={level=5;strategy=0;} ;"
      "compression_per_level=kNoCompression:kSnappyCompression;"
      "comparator=rocksdb.ReverseBytewiseComparator;"
      "merge_operator={id=StringAppendOperator;delimiter=\\:;};"
      "ttl=18446744073709551614;memtable_factory=SkipListFactory;"
      "block_based_table_factory={block_size=16K;filter_policy=bloomfilter:10:"
      "false;metadata_cache_options={top_level_index_pinning=kFallback;};};",
      &family)));
  EXPECT_EQ(family.compression, CompressionType::kLZ4);
  EXPECT_FALSE(family.bottommost_compression.has_value());
  EXPECT_EQ(family.compression_level, 5);
  EXPECT_EQ(family.compression_per_level,
            (std::vector{CompressionType::kNone, CompressionType::kSnappy}));
  EXPECT_EQ(family.comparator, ReverseBytewiseComparator());
  ASSERT_NE(family.merge_operator, nullptr);
  std::string joined;
  family.merge_operator->PartialMerge("k", "a", "b", &joined);
  EXPECT_EQ(joined, "a:b");
  EXPECT_EQ(family.ttl, 0u);
  EXPECT_EQ(family.block_size, 16u << 10);
  ASSERT_NE(family.filter_policy, nullptr);
  EXPECT_EQ(family.filter_policy->BuiltinBloomBitsPerKey(), 10);

  ASSERT_TRUE(Ok(GetColumnFamilyOptionsFromMap(
      {}, family,
      {{"compression_opts", "-14:32767:0"},
       {"merge_operator", "nullptr"},
       {"table_factory", "{id=BlockBasedTable;block_size=4096;}"},
       {"write_buffer_size", "1M"}},
      &family)));
  EXPECT_EQ(family.compression_level, 0);
  EXPECT_EQ(family.merge_operator, nullptr);
  EXPECT_EQ(family.block_size, 4096u);
  EXPECT_EQ(family.write_buffer_size, 1u << 20);

  DBOptions database;
  ASSERT_TRUE(Ok(GetDBOptionsFromString(
      {}, {},
      "wal_recovery_mode=kTolerateCorruptedTailRecords;max_open_files=99;"
      "db_write_buffer_size=1048576;rate_limiter_bytes_per_sec=1000;"
      "max_manifest_file_size=12",
      &database)));
  EXPECT_EQ(database.wal_recovery_mode, WalRecoveryMode::kPointInTime);
  EXPECT_EQ(database.max_open_files, 99);
  ASSERT_NE(database.write_buffer_manager, nullptr);
  EXPECT_EQ(database.write_buffer_manager->buffer_size(), 1u << 20);
  EXPECT_NE(database.rate_limiter, nullptr);

  Options all;
  ASSERT_TRUE(Ok(GetOptionsFromString(
      {}, {}, "max_background_jobs=7;num_levels=4;wal_dir=x;block_size=77",
      &all)));
  EXPECT_EQ(all.max_background_jobs, 7);
  EXPECT_EQ(all.num_levels, 4);
  EXPECT_EQ(all.block_size, 77u);
}

TEST(ConvertTest, KeepsTheDelimiterOfAnOperator) {
  for (const std::string delimiter : {",", "", ":", ";", "a#b\n\\"}) {
    ColumnFamilyOptions family;
    family.merge_operator = NewStringAppendOperator(delimiter);
    std::string text;
    ASSERT_TRUE(Ok(GetStringFromColumnFamilyOptions({}, family, &text)));
    ColumnFamilyOptions read;
    ASSERT_TRUE(Ok(GetColumnFamilyOptionsFromString({}, {}, text, &read)));
    std::string joined;
    ASSERT_NE(read.merge_operator, nullptr) << text;
    read.merge_operator->PartialMerge("k", "a", "b", &joined);
    EXPECT_EQ(joined, "a" + delimiter + "b") << text;
  }
}

TEST(ConvertTest, RefusesWithoutAChange) {
  for (const char* const text :
       {"write_buffer_size", "=1", "write_buffer_size=x",
        "write_buffer_size=128G", "level0_slowdown_writes_trigger=2",
        "block_based_table_factory={block_size=0}", "comparator={x",
        "compression={x}y", "no_such_option=1", "max_open_files=9",
        "block_based_table_factory={no_such_option=1}", "compression_opts=3"}) {
    SCOPED_TRACE(text);
    ColumnFamilyOptions options;
    options.num_levels = 5;
    const Status status = GetColumnFamilyOptionsFromString(
        {}, ColumnFamilyOptions(), std::string("num_levels=3;") + text,
        &options);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_EQ(options.num_levels, 5);
  }
}

TEST(ConvertTest, PassesOverWhatIsAsked) {
  ConfigOptions config;
  config.ignore_unknown_options = true;
  DBOptions database;
  EXPECT_TRUE(
      Ok(GetDBOptionsFromString(config, {}, "no_such_option=1", &database)));
  for (const char* const text :
       {"comparator=mine", "merge_operator=mine", "compaction_filter=mine",
        "table_factory=PlainTable", "compression=kXpressCompression"}) {
    SCOPED_TRACE(text);
    ColumnFamilyOptions family;
    config.ignore_unsupported_options = true;
    EXPECT_TRUE(
        Ok(GetColumnFamilyOptionsFromString(config, {}, text, &family)));
    config.ignore_unsupported_options = false;
    EXPECT_TRUE(GetColumnFamilyOptionsFromString(config, {}, text, &family)
                    .IsNotSupported());
  }
}

TEST(ConvertTest, SplitsTexts) {
  OptionsMap map;
  ASSERT_TRUE(Ok(StringToMap(" a = 1 ;b={c=2;d={e=3}}; f={ } ;g=", &map)));
  EXPECT_EQ(map, (OptionsMap{
                     {"a", "1"}, {"b", "c=2;d={e=3}"}, {"f", ""}, {"g", ""}}));
  EXPECT_TRUE(StringToMap("a={b", &map).IsInvalidArgument());
  EXPECT_TRUE(StringToMap("a={b}c", &map).IsInvalidArgument());
  EXPECT_TRUE(StringToMap("a", &map).IsInvalidArgument());
  EXPECT_TRUE(Ok(StringToMap("", &map)));
  EXPECT_TRUE(map.empty());
}

class LoadOptionsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& body) {
    WriteWholeFile(path_ + "/" + name,
                   "[Version]\n  options_file_version=1.1\n" + body);
  }

  TempDir dir_;
  const std::string path_ = dir_.path();
  DBOptions database_;
  std::vector<ColumnFamilyDescriptor> families_;
};

TEST_F(LoadOptionsTest, LoadsTheNewestFile) {
  std::string name;
  EXPECT_TRUE(
      GetLatestOptionsFileName(path_, Env::Default(), &name).IsNotFound());
  EXPECT_TRUE(
      LoadLatestOptions({}, path_, &database_, &families_).IsNotFound());
  Write("OPTIONS-000099", "broken");
  Write("OPTIONS-000100.dbtmp", "broken");
  Write(
      "OPTIONS-000100",
      "[DBOptions]\n  max_background_jobs=1000\n  #varve wal_write=map\n"
      "[CFOptions \"default\"]\n  num_levels=1\n  compression=kZSTD\n"
      "  compression_opts={level=1000;}\n"
      "[TableOptions/BlockBasedTable \"default\"]\n  block_size=77\n"
      "[CFOptions \"two\"]\n  comparator=rocksdb.ReverseBytewiseComparator\n");
  ASSERT_TRUE(Ok(GetLatestOptionsFileName(path_, Env::Default(), &name)));
  EXPECT_EQ(name, "OPTIONS-000100");
  ASSERT_TRUE(Ok(LoadLatestOptions({}, path_, &database_, &families_)));
  EXPECT_EQ(database_.max_background_jobs, 64);
  EXPECT_EQ(database_.wal_write, WriteMethod::kMap);
  ASSERT_EQ(families_.size(), 2u);
  EXPECT_EQ(families_[0].name, "default");
  EXPECT_EQ(families_[0].options.num_levels, 2);
  EXPECT_EQ(families_[0].options.compression_level, 22);
  EXPECT_EQ(families_[0].options.block_size, 77u);
  EXPECT_EQ(families_[1].name, "two");
  EXPECT_EQ(families_[1].options.comparator, ReverseBytewiseComparator());
}

TEST_F(LoadOptionsTest, ErrorsNameFileAndLine) {
  Write("OPTIONS-000001",
        "[DBOptions]\n  max_open_files=x\n[CFOptions \"default\"]\n");
  Status status = LoadLatestOptions({}, path_, &database_, &families_);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_TRUE(Contains(status.ToString(), path_ + "/OPTIONS-000001:4"))
      << status.ToString();
  Write("OPTIONS-000002", "[DBOptions]\n");
  status = LoadLatestOptions({}, path_, &database_, &families_);
  EXPECT_TRUE(status.IsCorruption());
  EXPECT_TRUE(Contains(status.ToString(), path_ + "/OPTIONS-000002:"))
      << status.ToString();
  EXPECT_TRUE(LoadOptionsFromFile({}, path_ + "/none", &database_, &families_)
                  .IsNotFound());
}

TEST_F(LoadOptionsTest, ComparesObjectsAndFamilies) {
  Write("OPTIONS-000001",
        "[DBOptions]\n[CFOptions \"default\"]\n"
        "  comparator=leveldb.BytewiseComparator\n"
        "[CFOptions \"two\"]\n  merge_operator={id=UInt64AddOperator;}\n");
  ColumnFamilyOptions plain;
  ColumnFamilyOptions adds;
  adds.merge_operator = NewUInt64AddOperator();
  ColumnFamilyOptions reverse;
  reverse.comparator = ReverseBytewiseComparator();
  const auto check = [&](std::vector<ColumnFamilyDescriptor> families) {
    return CheckOptionsCompatibility({}, path_, database_, families);
  };
  EXPECT_TRUE(Ok(check({{"default", adds}, {"two", adds}})));
  EXPECT_TRUE(check({{"default", adds}}).IsInvalidArgument());
  EXPECT_TRUE(check({{"default", reverse}, {"two", adds}}).IsInvalidArgument());
  EXPECT_TRUE(check({{"default", plain}, {"two", plain}}).IsInvalidArgument());
  EXPECT_TRUE(check({{"default", plain}, {"two", adds}, {"three", plain}})
                  .IsInvalidArgument());
  database_.create_missing_column_families = true;
  EXPECT_TRUE(Ok(check({{"default", plain}, {"two", adds}, {"three", plain}})));
}

}  // namespace
}  // namespace varve::test
