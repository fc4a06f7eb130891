// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the mark of a table is read and written as RocksDB has it, and damaged
// bytes in its place are Corruption. Method: edits byte by byte.
#include "db/version/version_edit.h"

#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

// Returns an edit that adds a table with these custom fields.
std::string Edit(const std::string& custom_fields) {
  std::string edit;
  PutVarint32(&edit, 103);
  PutVarint32(&edit, 2);  // The level.
  PutVarint64(&edit, 7);
  PutVarint64(&edit, 1000);
  const std::string key = MakeInternalKey("k", PackTrailer(9, ValueType{1}));
  PutLengthPrefixedSlice(&edit, key);
  PutLengthPrefixedSlice(&edit, key);
  PutVarint64(&edit, 9);
  PutVarint64(&edit, 9);
  return edit + custom_fields + "\1";
}

TEST(VersionEditTest, MarksAreKept) {
  for (const bool is_marked : {true, false}) {
    const std::string bytes =
        Edit(is_marked ? std::string("\2\1\1") : std::string());
    VersionEdit edit;
    ASSERT_TRUE(edit.DecodeFrom(bytes).ok());
    ASSERT_EQ(edit.new_files().size(), 1u);
    EXPECT_EQ(edit.new_files()[0].second.marked_for_compaction, is_marked);
    EXPECT_EQ(edit.new_files()[0].second.other_fields, "");
    std::string again;
    edit.EncodeTo(&again);
    EXPECT_EQ(again, bytes);
  }
}

TEST(VersionEditTest, DamagedMarksAreCorruption) {
  VersionEdit edit;
  for (const std::string& field :
       {std::string("\2\0", 2), std::string("\2\2\1\1"), std::string("\2\2")}) {
    const Status status = edit.DecodeFrom(Edit(field));
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  }
  // RocksDB marks by a 1 only.
  ASSERT_TRUE(edit.DecodeFrom(Edit(std::string("\2\1\0", 3))).ok());
  EXPECT_FALSE(edit.new_files()[0].second.marked_for_compaction);
}

}  // namespace
}  // namespace varve
