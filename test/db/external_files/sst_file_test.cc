// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: SstFileWriter writes what SstFileReader reads, and both refuse wrong
// calls. Method: one case for each rule; tables of databases, too.

#include "test/testing/db/external_tables.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/sst_file_reader.h"

namespace varve::test {
namespace {

class SstFileTest : public DbTestBase {
 protected:
  SstFileTest() : file_(dir_.Sub("table")) {
    options_.merge_operator = NewStringAppendOperator();
    options_.filter_policy = NewBloomFilterPolicy(10);
  }

  static EntryList Scan(SstFileReader* reader, bool forward) {
    EntryList found;
    const auto it = reader->NewIterator({});
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev()) {
      found.emplace_back(it->key().ToString(), it->value().ToString());
    }
    EXPECT_TRUE(Ok(it->status()));
    if (!forward) std::reverse(found.begin(), found.end());
    return found;
  }
  void ExpectEntries(const EntryList& expected) {
    SstFileReader reader(options_);
    ASSERT_TRUE(Ok(reader.Open(file_)));
    EXPECT_TRUE(SameEntries(expected, Scan(&reader, true)));
    EXPECT_TRUE(SameEntries(expected, Scan(&reader, false)));
    std::vector<Slice> keys;
    std::vector<std::string> values;
    for (const auto& [key, value] : expected) keys.emplace_back(key);
    keys.emplace_back("none");
    const std::vector<Status> statuses = reader.MultiGet({}, keys, &values);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(Ok(statuses[i]));
      EXPECT_EQ(values[i], expected[i].second);
    }
    EXPECT_TRUE(IsNotFound(statuses.back()));
    EXPECT_TRUE(Ok(reader.VerifyChecksum()));
    EXPECT_TRUE(Ok(reader.VerifyNumEntries()));
  }

  const std::string file_;
};

TEST_F(SstFileTest, ReadsWhatWasWritten) {
  WriteExternalTable(options_, file_,
                     "put a 1, delete b, merge c 2, delete_range c e, put d 3");
  ExpectEntries({{"a", "1"}, {"c", "2"}, {"d", "3"}});
}

TEST_F(SstFileTest, TellsWhatItWrote) {
  SstFileWriter writer(options_);
  ASSERT_TRUE(Ok(writer.Open(file_)));
  ASSERT_TRUE(Ok(writer.DeleteRange("m", "z")));
  ASSERT_TRUE(Ok(writer.DeleteRange("b", "d")));
  ASSERT_TRUE(Ok(writer.DeleteRange("b", "c")));
  ASSERT_TRUE(Ok(writer.DeleteRange("q", "q")));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Ok(writer.Put(Key(i), std::string(100, 'v'))));
  }
  EXPECT_GT(writer.FileSize(), 0u);
  ExternalSstFileInfo info;
  ASSERT_TRUE(Ok(writer.Finish(&info)));
  EXPECT_EQ(info.file_path, file_);
  EXPECT_EQ(info.smallest_key, Key(0));
  EXPECT_EQ(info.largest_key, Key(999));
  EXPECT_EQ(info.smallest_range_del_key, "b");
  EXPECT_EQ(info.largest_range_del_key, "z");
  EXPECT_EQ(info.num_entries, 1000u);
  EXPECT_EQ(info.num_range_del_entries, 2u);
  EXPECT_EQ(info.version, 2);
  EXPECT_EQ(info.sequence_number, 0u);
  EXPECT_EQ(info.file_size, std::filesystem::file_size(file_));
  EXPECT_EQ(writer.FileSize(), info.file_size);
  // Once more, with the same object.
  ASSERT_TRUE(Ok(writer.Open(file_)));
  ASSERT_TRUE(Ok(writer.Put("a", "1")));
  ASSERT_TRUE(Ok(writer.Finish(&info)));
  EXPECT_EQ(info.num_entries, 1u);
  EXPECT_EQ(info.num_range_del_entries, 0u);
  ExpectEntries({{"a", "1"}});
}

TEST_F(SstFileTest, RefusesWrongCalls) {
  SstFileWriter writer(options_);
  EXPECT_TRUE(IsInvalidArgument(writer.Put("a", "1"), "no file"));
  EXPECT_TRUE(IsInvalidArgument(writer.DeleteRange("a", "b"), "no file"));
  EXPECT_TRUE(IsInvalidArgument(writer.Finish(), "no file"));
  ASSERT_TRUE(Ok(writer.Open(file_)));
  EXPECT_TRUE(IsInvalidArgument(writer.Open(file_), "unfinished"));
  EXPECT_TRUE(IsInvalidArgument(writer.Finish(), "no entries"));
  EXPECT_FALSE(std::filesystem::exists(file_));
  ASSERT_TRUE(Ok(writer.Open(file_)));
  ASSERT_TRUE(Ok(writer.Put("b", "1")));
  EXPECT_TRUE(IsInvalidArgument(writer.Put("b", "2"), "in order"));
  EXPECT_TRUE(IsInvalidArgument(writer.Delete("a"), "in order"));
  EXPECT_TRUE(IsInvalidArgument(writer.DeleteRange("d", "c")));
  ASSERT_TRUE(Ok(writer.Merge("c", "2")));
  ASSERT_TRUE(Ok(writer.Finish()));
  ExpectEntries({{"b", "1"}, {"c", "2"}});
  SstFileReader reader(options_);
  std::string value;
  EXPECT_TRUE(IsInvalidArgument(reader.Get({}, "b", &value), "no file"));
  EXPECT_TRUE(IsInvalidArgument(reader.NewIterator({})->status(), "no file"));
  EXPECT_TRUE(IsInvalidArgument(reader.VerifyChecksum(), "no file"));
  EXPECT_FALSE(reader.Open(dir_.Sub("none")).ok());
}

TEST_F(SstFileTest, RemovesAnUnfinishedFile) {
  {
    SstFileWriter writer(options_);
    ASSERT_TRUE(Ok(writer.Open(file_)));
    ASSERT_TRUE(Ok(writer.Put("a", "1")));
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(SstFileTest, ReadsTablesOfDatabases) {
  Open();
  Do("put a 1, put b 1, merge c 1, snap, put b 2, merge c 2, delete_range d f");
  Do("put e 3, delete a, flush");
  std::string own;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() == ".sst") own = entry.path();
  }
  ReleaseSnapshots();
  std::filesystem::copy_file(own, file_);
  ExpectEntries({{"b", "2"}, {"c", "1,2"}, {"e", "3"}});
}

TEST_F(SstFileTest, AnIteratorKeepsTheFile) {
  WriteExternalTable(options_, file_, "put a 1, merge b 2");
  std::unique_ptr<Iterator> it;
  {
    SstFileReader reader(options_);
    ASSERT_TRUE(Ok(reader.Open(file_)));
    it = reader.NewIterator({});
  }
  it->SeekToLast();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "2");
  it->Prev();
  EXPECT_EQ(it->key(), "a");
}

TEST_F(SstFileTest, TellsTheProperties) {
  WriteExternalTable(options_, file_, "put a 1, delete b, delete_range c d");
  SstFileReader reader(options_);
  EXPECT_EQ(reader.GetTableProperties(), nullptr);
  ASSERT_TRUE(Ok(reader.Open(file_)));
  const auto properties = reader.GetTableProperties();
  ASSERT_NE(properties, nullptr);
  EXPECT_EQ(properties->num_entries, 3u);
  EXPECT_EQ(properties->num_deletions, 2u);
  EXPECT_EQ(properties->num_range_deletions, 1u);
  EXPECT_EQ(properties->comparator_name, options_.comparator->Name());
}

TEST_F(SstFileTest, HasTheOrderOfTheComparator) {
  options_.comparator = ReverseBytewiseComparator();
  WriteExternalTable(options_, file_, "put b 1, put a 2");
  ExpectEntries({{"b", "1"}, {"a", "2"}});
}

}  // namespace
}  // namespace varve::test
