// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a table that a MANIFEST adds twice is refused, unless LevelDB's names
// it again with the same facts. Method: edits in LevelDB's encoding.
#include "db/version/version_builder.h"

#include "db/version/version.h"
#include "table/block/internal_key.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

const InternalKeyComparator kComparator(BytewiseComparator());

// Appends what LevelDB's MANIFEST says of a table of level 0.
void AppendTable(std::string* edit, uint64_t number, uint64_t size,
                 const std::string& last) {
  PutVarint32(edit, 7);
  PutVarint32(edit, 0);
  PutVarint64(edit, number);
  PutVarint64(edit, size);
  const uint64_t trailer = PackTrailer(9, ValueType::kValue);
  PutLengthPrefixedSlice(edit, MakeInternalKey("a", trailer));
  PutLengthPrefixedSlice(edit, MakeInternalKey(last, trailer));
}

// Returns the result of the edit, and the number of tables of level 0 in
// *count.
Status Apply(const std::string& bytes, size_t* count) {
  VersionEdit edit;
  Status status = edit.DecodeFrom(bytes);
  VersionBuilder builder(&kComparator, nullptr);
  if (status.ok()) status = builder.Apply(std::move(edit));
  LevelFiles levels;
  if (status.ok()) status = builder.Finish(&levels);
  *count = levels[0].size();
  for (const auto& files : levels) {
    for (const FileMetaData* file : files) delete file;
  }
  return status;
}

// goleveldb does so after it has replayed a log.
TEST(VersionBuilderTest, LevelDbsTablesMayBeNamedTwice) {
  std::string edit;
  AppendTable(&edit, 5, 100, "k");
  AppendTable(&edit, 5, 100, "k");
  AppendTable(&edit, 3, 100, "k");
  size_t count = 0;
  EXPECT_TRUE(Apply(edit, &count).ok());
  EXPECT_EQ(count, 2u);
}

TEST(VersionBuilderTest, TwoTablesOfOneNumberAreRefused) {
  for (const bool same_size : {true, false}) {
    std::string edit;
    AppendTable(&edit, 5, 100, "k");
    AppendTable(&edit, 5, same_size ? 100 : 101, same_size ? "l" : "k");
    size_t count = 0;
    EXPECT_THAT(Apply(edit, &count).ToString(),
                HasSubstr("adds table file 5 twice"));
  }
}

}  // namespace
}  // namespace varve
