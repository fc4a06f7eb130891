// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: texts of OPTIONS files are read and written as RocksDB does, and
// hostile ones are refused with their line. Method: texts, and random damage to
// one.

#include "db/option_files/options_document.h"

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

constexpr char kText[] =
    "# This is a RocksDB option file.\n"
    "\n"
    "[Version]\n"
    "  rocksdb_version=9.1.0\n"
    "  options_file_version=1.1\n"
    "\n"
    "[DBOptions]\n"
    "  max_open_files = -1   # as many as there are\n"
    "  #varve key_case=insensitive\n"
    "  \n"
    "[CFOptions \"default\"]\n"
    "  merge_operator={id=StringAppendOperator;delimiter=\\:;}\n"
    "[TableOptions/BlockBasedTable \"default\"]\n"
    "  block_size=8192\n"
    "[CFOptions \"a]b \"c\\#d\"]\n"
    "[TableOptions/PlainTable \"a]b \"c\\#d\"]\n"
    "  user_key_len=0\n";

std::string Repeated(const std::string& line, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line;
  return text;
}

Status Parse(const std::string& text, OptionsDocument* document) {
  return ParseOptionsDocument(text, "OPTIONS-000007", document);
}

TEST(OptionsDocumentTest, ReadsRocksDbsText) {
  OptionsDocument document;
  ASSERT_TRUE(Ok(Parse(kText, &document)));
  EXPECT_EQ(document.version, "9.1.0");
  ASSERT_EQ(document.database.size(), 2u);
  EXPECT_EQ(document.database[0].name, "max_open_files");
  EXPECT_EQ(document.database[0].value, "-1");
  EXPECT_FALSE(document.database[0].is_own);
  EXPECT_EQ(document.database[0].line_number, 8u);
  EXPECT_EQ(document.database[1].name, "key_case");
  EXPECT_EQ(document.database[1].value, "insensitive");
  EXPECT_TRUE(document.database[1].is_own);
  ASSERT_EQ(document.families.size(), 2u);
  EXPECT_EQ(document.families[0].name, "default");
  EXPECT_EQ(document.families[0].lines[0].value,
            "{id=StringAppendOperator;delimiter=\\:;}");
  EXPECT_EQ(FindLine(document.families[0].table, "block_size")->value, "8192");
  EXPECT_EQ(FindLine(document.families[0].table, "block_align"), nullptr);
  EXPECT_EQ(document.families[1].name, "a]b \"c#d");
  EXPECT_TRUE(document.families[1].table.empty());
}

TEST(OptionsDocumentTest, ReadsWhatItWrites) {
  OptionsDocument document;
  document.version = "7.8.3";
  document.database = {{"bytes_per_sync", "1048576"},
                       {"wal_write", "auto", /*is_own=*/true}};
  for (const std::string name :
       {"default", "#[x]", "a\\b\n\r\"q\" ", "=", "x:y", "\xff"}) {
    document.families.push_back(
        {name, {{"comparator", "leveldb.BytewiseComparator"}}, {}});
  }
  const std::string text = ToString(document);
  OptionsDocument again;
  ASSERT_TRUE(Ok(Parse(text, &again)));
  ASSERT_EQ(again.families.size(), document.families.size());
  for (size_t i = 0; i < document.families.size(); ++i) {
    EXPECT_EQ(again.families[i].name, document.families[i].name);
  }
  EXPECT_TRUE(again.database[1].is_own);
  EXPECT_EQ(ToString(again), text);
}

TEST(OptionsDocumentTest, RefusesWrongTextsWithTheirLine) {
  const std::string version = "[Version]\n  options_file_version=1.1\n";
  const std::string head = version + "[DBOptions]\n[CFOptions \"default\"]\n";
  const std::pair<std::string, const char*> texts[] = {
      {"", ":0"},
      {"x=1\n", ":1"},
      {"[DBOptions]\n", ":1"},
      {"[Version]\n  options_file_version=2.0\n", ":2"},
      {"[Version]\n  options_file_version=x\n", ":2"},
      {version + version, ":3"},
      {version + "[CFOptions \"default\"]\n", ":3"},
      {version + "[DBOptions]\n[CFOptions \"x\"]\n", ":4"},
      {version + "[DBOptions]\n[CFOptions]\n", ":4"},
      {version + "[DBOptions]\n[CFOptions \"]\n", ":4"},
      {version + "[DBOptions]\n", ":3"},
      {head + "[DBOptions]\n", ":5"},
      {head + "[CFOptions \"default\"]\n", ":5"},
      {head + "[TableOptions/BlockBasedTable \"x\"]\n", ":5"},
      {head + "[TableOptions/PlainTable \"default\"]\n" +
           "[TableOptions/BlockBasedTable \"default\"]\n",
       ":6"},
      {head + "[Other]\n", ":5"},
      {head + "no_value\n", ":5"},
      {head + "=1\n", ":5"},
      {head + std::string(70000, 'x') + "=1\n", ":5"},
      {head + Repeated("x=1\n", 2000), ":1005"},
  };
  for (const auto& [text, line] : texts) {
    OptionsDocument document;
    const Status status = Parse(text, &document);
    EXPECT_TRUE(status.IsCorruption()) << text;
    EXPECT_TRUE(
        Contains(status.ToString(), std::string("OPTIONS-000007") + line))
        << text << status.ToString();
  }
}

TEST(OptionsDocumentTest, ReadsDamagedTextsInBounds) {
  Rng rng(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    std::string text = kText;
    for (int changes = rng.Between(1, 4); changes > 0; --changes) {
      text[rng.Below(text.size())] = static_cast<char>(rng.Next());
    }
    text.resize(rng.Below(text.size() + 1));
    OptionsDocument document;
    if (!Parse(text, &document).ok()) continue;
    OptionsDocument again;
    EXPECT_TRUE(Ok(Parse(ToString(document), &again))) << text;
  }
}

}  // namespace
}  // namespace varve::test
