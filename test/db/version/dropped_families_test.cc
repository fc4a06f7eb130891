// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a MANIFEST opens if the families that live at its end fit the options,
// and whatever families of the same names were before them. Method: MANIFESTs
// of a few edits, with comparators by name and with features that Varve does
// not have.

#include "db/version/manifest_reader.h"
#include "db/version/version_edit.h"
#include "db/wal/wal_writer.h"
#include "test/testing/db_helpers.h"
#include "test/testing/test_headers.h"
#include "util/bytes/coding.h"
#include "varve/comparator.h"

namespace varve::test {
namespace {

const InternalKeyComparator* Bytewise() {
  static const InternalKeyComparator comparator(BytewiseComparator());
  return &comparator;
}

const InternalKeyComparator* Reverse() {
  static const InternalKeyComparator comparator(ReverseBytewiseComparator());
  return &comparator;
}

std::string NameOf(const InternalKeyComparator* comparator) {
  return comparator->user_comparator()->Name();
}

// A record of the MANIFEST: an edit, and fields that VersionEdit does not
// write.
std::string Record(const VersionEdit& edit, const std::string& fields = "") {
  std::string record = fields;
  edit.EncodeTo(&record);
  return record;
}

std::string Begin(const std::string& comparator) {
  VersionEdit edit;
  edit.SetComparatorName(comparator);
  edit.SetLogNumber(4);
  edit.SetNextFileNumber(30);
  edit.SetLastSequence(9);
  return Record(edit);
}

std::string Create(uint32_t id, const InternalKeyComparator* comparator,
                   const std::string& fields = "") {
  VersionEdit edit;
  edit.SetColumnFamily(id);
  edit.AddColumnFamily("x");
  edit.SetComparatorName(NameOf(comparator));
  edit.SetLogNumber(4);
  return Record(edit, fields);
}

std::string Drop(uint32_t id) {
  VersionEdit edit;
  edit.SetColumnFamily(id);
  edit.DropColumnFamily();
  return Record(edit);
}

FileMetaData Table(uint64_t number, const std::string& smallest,
                   const std::string& largest) {
  FileMetaData file;
  file.number = number;
  file.file_size = 100;
  file.smallest = smallest + std::string("\1\5\0\0\0\0\0\0", 8);
  file.largest = largest + std::string("\1\5\0\0\0\0\0\0", 8);
  return file;
}

// Adds a table with keys in the order of the comparator.
std::string AddTable(uint32_t id, int level, uint64_t number,
                     const InternalKeyComparator* comparator,
                     const std::string& fields = "") {
  VersionEdit edit;
  edit.SetColumnFamily(id);
  edit.AddFile(level, comparator == Bytewise() ? Table(number, "a", "m")
                                               : Table(number, "m", "a"));
  return Record(edit, fields);
}

// Reads a MANIFEST whose caller gives `comparator` for the family x.
Status Read(const std::vector<std::string>& records,
            const InternalKeyComparator* comparator, ManifestState* state) {
  const auto env = NewMemoryEnv(Env::Default());
  EXPECT_TRUE(Ok(env->CreateDirIfMissing("/db")));
  EXPECT_TRUE(Ok(
      WriteStringToFile(env.get(), "MANIFEST-000005\n", "/db/CURRENT", false)));
  std::unique_ptr<WritableFile> file;
  EXPECT_TRUE(
      Ok(env->NewWritableFile("/db/MANIFEST-000005", FileOptions(), &file)));
  wal::Writer writer(std::move(file), 5);
  for (const std::string& record : records) {
    EXPECT_TRUE(Ok(writer.AddRecord(record)));
  }
  EXPECT_TRUE(Ok(writer.Sync()));
  EXPECT_TRUE(Ok(writer.Close()));
  return ReadManifest(
      env.get(), "/db",
      [comparator](const std::string& name) {
        return name == "x" ? comparator : Bytewise();
      },
      state);
}

TEST(DroppedFamiliesTest, OnlyTheLastComparatorOfANameCounts) {
  const std::vector<std::string> records = {
      Begin(NameOf(Bytewise())),      Create(1, Bytewise()),
      AddTable(1, 1, 10, Bytewise()), Drop(1),
      Create(2, Reverse()),           AddTable(2, 1, 11, Reverse())};
  {
    ManifestState state;
    ASSERT_TRUE(Ok(Read(records, Reverse(), &state)));
    ASSERT_EQ(state.families.size(), 2u);
    EXPECT_EQ(state.families[1]->id, 2u);
    EXPECT_EQ(state.families[1]->comparator, Reverse());
    EXPECT_EQ(state.families[1]->comparator_name, NameOf(Reverse()));
    ASSERT_EQ(state.families[1]->levels[1].size(), 1u);
    EXPECT_EQ(state.families[1]->levels[1][0]->number, 11u);
  }
  {
    ManifestState state;
    EXPECT_TRUE(IsInvalidArgument(Read(records, Bytewise(), &state),
                                  "column family x"));
  }
  // A family that the caller leaves out may have any comparator.
  ManifestState state;
  ASSERT_TRUE(Ok(Read(records, nullptr, &state)));
  EXPECT_EQ(state.FindFamily("x")->comparator_name, NameOf(Reverse()));
}

TEST(DroppedFamiliesTest, ADroppedOneNeedsNoComparatorOfTheCaller) {
  for (const InternalKeyComparator* const given : {Bytewise(), Reverse()}) {
    for (const InternalKeyComparator* const written : {Bytewise(), Reverse()}) {
      ManifestState state;
      ASSERT_TRUE(Ok(Read(
          {Begin(NameOf(Bytewise())), Create(1, written),
           AddTable(1, 1, 10, written), AddTable(1, 0, 11, written), Drop(1)},
          given, &state)));
      EXPECT_EQ(state.families.size(), 1u);
      EXPECT_EQ(state.max_column_family, 1u);
    }
  }
}

TEST(DroppedFamiliesTest, TheDefaultFamilyIsCheckedAtTheEndToo) {
  VersionEdit again;
  again.SetComparatorName(NameOf(Bytewise()));
  ManifestState state;
  EXPECT_TRUE(
      Ok(Read({Begin(NameOf(Reverse())), Record(again)}, nullptr, &state)));
  ManifestState other;
  EXPECT_TRUE(
      Read({Begin(NameOf(Reverse()))}, nullptr, &other).IsInvalidArgument());
}

// The fields of features that Varve does not have.
struct Unsupported {
  std::string fields;
  const char* feature;
};

std::vector<Unsupported> UnsupportedFields() {
  std::string blob_file;
  PutVarint32(&blob_file, 400);
  for (const uint64_t number : {17, 3, 400}) PutVarint64(&blob_file, number);
  PutLengthPrefixedSlice(&blob_file, "");  // The checksum's method and value.
  PutLengthPrefixedSlice(&blob_file, "");
  PutVarint32(&blob_file, 1);  // A field that may be skipped.
  PutLengthPrefixedSlice(&blob_file, "some");
  PutVarint32(&blob_file, 0);
  std::string garbage;
  PutVarint32(&garbage, 401);
  for (const uint64_t number : {17, 1, 100}) PutVarint64(&garbage, number);
  PutVarint32(&garbage, 0);
  std::string low;
  PutVarint32(&low, 8198);
  PutLengthPrefixedSlice(&low, "12345678");
  std::string persist;
  PutVarint32(&persist, 8201);
  PutLengthPrefixedSlice(&persist, Slice("\0", 1));
  std::string path;
  PutVarint32(&path, 103);  // A new file.
  for (const uint64_t number : {2, 12, 100}) PutVarint64(&path, number);
  const FileMetaData table = Table(12, "a", "m");
  PutLengthPrefixedSlice(&path, table.smallest);
  PutLengthPrefixedSlice(&path, table.largest);
  for (const uint64_t number : {1, 5}) PutVarint64(&path, number);
  std::string field = path, blob = path, stripped = path;
  const auto end_with = [](std::string* file, uint32_t tag, Slice value) {
    PutVarint32(file, tag);
    PutLengthPrefixedSlice(file, value);
    PutVarint32(file, 1);
  };
  end_with(&path, 65, Slice("\1", 1));
  end_with(&field, 99, "?");
  end_with(&blob, 4, Slice("\21", 1));
  end_with(&stripped, 16, Slice("\0", 1));
  VersionEdit deep;
  deep.AddFile(kNumLevels, table);
  VersionEdit removes;
  removes.RemoveFile(kNumLevels, 12);
  return {{blob_file, "blob files"},
          {garbage, "blob files"},
          {blob, "blob files"},
          {low, "user timestamps"},
          {persist, "user timestamps"},
          {stripped, "user timestamps"},
          {path, "tables in several paths"},
          {field, "field 99 of a new file"},
          {Record(deep), "more than 7 levels"},
          {Record(removes), "more than 7 levels"}};
}

TEST(DroppedFamiliesTest, UnsupportedFeaturesOfADroppedOneDoNotMatter) {
  for (const Unsupported& each : UnsupportedFields()) {
    SCOPED_TRACE(Slice(each.fields).ToString(true));
    // Files are in later edits than the one that adds a family.
    const std::vector<std::string> used = {
        Begin(NameOf(Bytewise())), Create(1, Bytewise()),
        AddTable(1, 1, 10, Bytewise(), each.fields)};
    {
      ManifestState state;
      EXPECT_TRUE(IsNotSupported(Read(used, Bytewise(), &state), each.feature,
                                 "column family x"));
    }
    {
      ManifestState state;
      EXPECT_TRUE(Ok(Read(used, nullptr, &state)));
      EXPECT_EQ(state.families.size(), 2u);
    }
    std::vector<std::string> dropped = used;
    dropped.push_back(Drop(1));
    dropped.push_back(Create(2, Bytewise()));
    dropped.push_back(AddTable(2, 1, 13, Bytewise()));
    ManifestState state;
    ASSERT_TRUE(Ok(Read(dropped, Bytewise(), &state)));
    ASSERT_EQ(state.families.size(), 2u);
    EXPECT_EQ(state.families[1]->levels[1].size(), 1u);
  }
}

TEST(DroppedFamiliesTest, CutFieldsOfUnsupportedFeaturesAreDamage) {
  for (const Unsupported& each : UnsupportedFields()) {
    SCOPED_TRACE(Slice(each.fields).ToString(true));
    for (size_t length = 1; length < each.fields.size(); ++length) {
      VersionEdit edit;
      const Status status = edit.DecodeFrom(Slice(each.fields.data(), length));
      EXPECT_FALSE(status.IsNotSupported()) << length;
    }
  }
}

}  // namespace
}  // namespace varve::test
