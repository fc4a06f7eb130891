// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: range deletions come back from a table as they were written, hide what
// they should from lookups, and a block that is no block of range deletions is
// refused. Method: tables built in memory; blocks crafted by hand are put in
// place of the written one, with a checksum that fits.

#include "table/block/block_builder.h"
#include "table/build/table_builder.h"
#include "test/testing/env/string_file.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/status_checks.h"
#include "test/testing/table/table_bytes.h"
#include "test/testing/table/table_lookup.h"
#include "test/testing/test_headers.h"
#include "varve/filter_policy.h"

namespace varve::test {
namespace {

using ::testing::HasSubstr;
using ::varve::testing::StringFile;
using ::varve::testing::StringRandomAccessFile;
using ::varve::testing::TableBytes;

const InternalKeyComparator kComparator(BytewiseComparator());

std::string Value(const Slice& key, SequenceNumber sequence) {
  return MakeInternalKey(key, PackTrailer(sequence, ValueType::kValue));
}
std::string Deletion(const Slice& key, SequenceNumber sequence) {
  return MakeInternalKey(key, PackTrailer(sequence, ValueType::kRangeDeletion));
}

class RangeTombstoneBlockTest : public ::testing::Test {
 protected:
  RangeTombstoneBlockTest() {
    options_.comparator = &kComparator;
    options_.filter_policy = NewBloomFilterPolicy(10);
    builder_ = std::make_unique<TableBuilder>(options_, &file_);
  }

  std::string Finish() {
    EXPECT_TRUE(Ok(builder_->Finish()));
    return file_.contents();
  }

  static Status Open(std::string bytes, std::unique_ptr<Table>* table) {
    TableReaderOptions options;
    options.comparator = &kComparator;
    options.file_name = "000007.sst";
    options.file_size = bytes.size();
    return Table::Open(
        options, std::make_unique<StringRandomAccessFile>(std::move(bytes)),
        table);
  }

  // Returns the result of opening the table with `body` in place of its block.
  // `body` must be as long as the block.
  static std::string OpenWith(const std::string& bytes, std::string body) {
    const TableBytes table(bytes);
    const BlockHandle handle = table.meta_blocks().at(kRangeTombstoneBlockName);
    EXPECT_EQ(body.size(), handle.size);
    body.push_back('\0');
    PutFixed32(&body, BlockChecksum(table.footer().checksum, body.data(),
                                    handle.size));
    std::string changed = bytes;
    changed.replace(handle.offset, body.size(), body);
    std::unique_ptr<Table> opened;
    return Open(changed, &opened).ToString();
  }

  TableBuilderOptions options_;
  StringFile file_;
  std::unique_ptr<TableBuilder> builder_;
};

TEST_F(RangeTombstoneBlockTest, ComesBackAsItWasWritten) {
  builder_->Add(Value("b", 3), "b3");
  builder_->AddRangeTombstone("a", "c", 7);
  builder_->Add(Value("d", 4), "d4");
  builder_->AddRangeTombstone("a", "x", 5);
  builder_->AddRangeTombstone("ab", "b", 6);
  const std::string bytes = Finish();
  const TableBytes parts(bytes);
  const BlockHandle handle = parts.meta_blocks().at(kRangeTombstoneBlockName);
  EXPECT_EQ(parts.TypeOf(handle), CompressionType::kNone);
  const auto entries = TableBytes::Entries(parts.ReadBlock(handle));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0], std::pair(Deletion("a", 7), std::string("c")));
  EXPECT_EQ(entries[1], std::pair(Deletion("a", 5), std::string("x")));
  EXPECT_EQ(parts.properties().num_entries, 5u);
  EXPECT_EQ(parts.properties().num_range_deletions, 3u);

  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(bytes, &table).ok());
  ASSERT_NE(table->tombstones(), nullptr);
  EXPECT_EQ(table->tombstones()->size(), 3u);
  EXPECT_TRUE(table->VerifyChecksum().ok());
}

TEST_F(RangeTombstoneBlockTest, LookupsObeyIt) {
  builder_->Add(Value("b", 9), "b9");
  builder_->Add(Value("b", 3), "b3");
  builder_->Add(Value("d", 4), "d4");
  builder_->AddRangeTombstone("a", "d", 6);
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(Finish(), &table).ok());
  LookupState state;
  std::string value;
  ASSERT_TRUE(GetAt(*table, "b", 9, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kFound);
  EXPECT_EQ(value, "b9");
  ASSERT_TRUE(GetAt(*table, "b", 8, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kDeleted);
  ASSERT_TRUE(GetAt(*table, "b", 5, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kFound);
  EXPECT_EQ(value, "b3");
  ASSERT_TRUE(GetAt(*table, "d", 9, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kFound);
  // The filter does not contain these keys.
  ASSERT_TRUE(GetAt(*table, "c", 9, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kDeleted);
  ASSERT_TRUE(GetAt(*table, "c", 5, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kNotFound);
  ASSERT_TRUE(GetAt(*table, "e", 9, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kNotFound);
}

TEST_F(RangeTombstoneBlockTest, MayBeAllThatATableHas) {
  builder_->AddRangeTombstone("a", "d", 6);
  std::unique_ptr<Table> table;
  ASSERT_TRUE(Open(Finish(), &table).ok());
  EXPECT_TRUE(table->VerifyChecksum().ok());
  LookupState state;
  std::string value;
  ASSERT_TRUE(GetAt(*table, "b", 9, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kDeleted);
  ASSERT_TRUE(GetAt(*table, "d", 9, &state, &value).ok());
  EXPECT_EQ(state, LookupState::kNotFound);
  const auto it = table->NewIterator(ReadOptions());
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  it->SeekToLast();
  EXPECT_FALSE(it->Valid());
  it->Seek(Value("b", 1));
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
}

TEST_F(RangeTombstoneBlockTest, RefusesADamagedBlock) {
  builder_->Add(Value("b", 3), "b3");
  builder_->AddRangeTombstone("a", "c", 7);
  builder_->AddRangeTombstone("e", "f", 8);
  const std::string bytes = Finish();
  const TableBytes parts(bytes);
  const BlockHandle handle = parts.meta_blocks().at(kRangeTombstoneBlockName);
  const std::string good = parts.ReadBlock(handle);
  EXPECT_EQ(OpenWith(bytes, good), "OK");

  std::string body = good;
  body[1] = 100;  // Unshared bytes.
  EXPECT_THAT(OpenWith(bytes, body),
              HasSubstr("Corruption: range deletions 000007.sst offset"));
  EXPECT_THAT(OpenWith(bytes, body), HasSubstr("overruns the block's entries"));
  body = good;
  body[1] = 3;  // Less than a trailer; the rest of the key is the value.
  body[2] = 7;
  EXPECT_THAT(OpenWith(bytes, body), HasSubstr("no range deletion: key"));
  body = good;
  body[4] = 1;  // The type.
  EXPECT_THAT(OpenWith(bytes, body), HasSubstr("no range deletion: key"));
  body = good;
  body[body.size() - 1] = 1;  // Restart points.
  EXPECT_THAT(OpenWith(bytes, body), HasSubstr("restart points overrun"));
  EXPECT_THAT(OpenWith(bytes, std::string(good.size(), '\0')),
              HasSubstr("without restart points"));

  // One entry fewer than the properties say.
  BlockBuilder fewer(1);
  fewer.Add(Deletion("a", 7), "c" + std::string(good.size() - 21, 'x'));
  EXPECT_THAT(OpenWith(bytes, *fewer.Finish()),
              HasSubstr("the block has 1 entries, the properties say 2"));
}

TEST_F(RangeTombstoneBlockTest, RefusesATableThatHasLostIt) {
  builder_->Add(Value("b", 3), "b3");
  builder_->AddRangeTombstone("a", "c", 7);
  std::string bytes = Finish();
  // The metaindex is checked too: rename the block and fix the checksum.
  const TableBytes parts(bytes);
  const BlockHandle metaindex = parts.footer().metaindex;
  const size_t at = bytes.find("range_del", metaindex.offset);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 8] = 'm';
  std::string trailer;
  PutFixed32(&trailer,
             BlockChecksum(parts.footer().checksum,
                           bytes.data() + metaindex.offset, metaindex.size));
  bytes.replace(metaindex.offset + metaindex.size + 1, 4, trailer);
  std::unique_ptr<Table> table;
  EXPECT_THAT(Open(bytes, &table).ToString(),
              HasSubstr("Corruption: 000007.sst: the block of range deletions"
                        " is missing"));
}

}  // namespace
}  // namespace varve::test
