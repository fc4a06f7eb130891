// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a follower tells edits that bring entries from those that only move
// them, and takes atomic groups whole. Method: edits as the engines write them.

#include "db/follower/manifest_view.h"

#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve::test {
namespace {

FileMetaData File(uint64_t number) {
  FileMetaData file;
  file.number = number;
  file.file_size = 1000;
  file.smallest = MakeInternalKey("a", 1 << 8);
  file.largest = MakeInternalKey("b", 1 << 8);
  return file;
}

TEST(ManifestViewTest, TellsIngestionsFromFlushesAndCompactions) {
  VersionEdit flush;
  flush.SetLogNumber(7);
  flush.AddFile(0, File(8));
  EXPECT_FALSE(ManifestView::BringsEntries(flush));
  VersionEdit compaction;
  compaction.RemoveFile(0, 8);
  compaction.AddFile(1, File(9));
  EXPECT_FALSE(ManifestView::BringsEntries(compaction));
  VersionEdit counters;
  counters.SetLogNumber(9);
  EXPECT_FALSE(ManifestView::BringsEntries(counters));
  VersionEdit ingestion;
  ingestion.AddFile(6, File(10));
  EXPECT_TRUE(ManifestView::BringsEntries(ingestion));
  VersionEdit removal;
  removal.RemoveFile(6, 10);
  EXPECT_TRUE(ManifestView::BringsEntries(removal));
}

TEST(ManifestViewTest, AppliesAGroupWhenItIsComplete) {
  ManifestState state;
  ManifestView view;
  view.Assign(state);
  std::string records[2];
  for (uint32_t i = 0; i < 2; ++i) {
    VersionEdit edit;
    edit.SetLogNumber(5 + i);
    edit.SetAtomicGroupRemaining(1 - i);
    edit.EncodeTo(&records[i]);
  }
  ASSERT_TRUE(Ok(view.Add(records[0])));
  EXPECT_EQ(view.NewestNamedLog(), 0);
  ManifestView copy = view;
  ASSERT_TRUE(Ok(copy.Add(records[1])));
  EXPECT_EQ(copy.NewestNamedLog(), 6);
  // The first again: the group is not one.
  EXPECT_TRUE(view.Add(records[0]).IsCorruption());
}

TEST(ManifestViewTest, RefusesWhatNoManifestHas) {
  ManifestState state;
  ManifestView view;
  view.Assign(state);
  EXPECT_FALSE(view.Add("no edit").ok());
  std::string record;
  VersionEdit edit;
  edit.SetColumnFamily(3);  // There is none.
  edit.SetLogNumber(5);
  edit.EncodeTo(&record);
  EXPECT_TRUE(view.Add(record).IsCorruption());
}

}  // namespace
}  // namespace varve::test
