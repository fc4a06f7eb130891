// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: families are exported and imported by RocksDB's C interface as by
// RocksDB's. Method: a family of a database becomes one of another, with the
// metadata as it is, and with metadata that the program makes of its parts.
// These tests also run on RocksDB.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using MetadataPtr = Owned<rocksdb_export_import_files_metadata_t,
                          rocksdb_export_import_files_metadata_destroy>;
using FilesPtr = Owned<rocksdb_livefiles_t, rocksdb_livefiles_destroy>;
using FilePtr = Owned<rocksdb_livefile_t, rocksdb_livefile_destroy>;

class RocksDbCExportImportTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    Open();
  }

  // Fills a family, in two levels, and exports it to a directory of its name.
  MetadataPtr Export(const char* name) {
    const FamilyPtr family(
        rocksdb_create_column_family(db_.get(), options_.get(), name, error_));
    EXPECT_EQ(error_.Take(), "OK");
    for (const char* key : {"a", "b", "c"}) {
      EXPECT_EQ(PutTo(family.get(), key, "1"), "OK");
    }
    rocksdb_compact_range_cf(db_.get(), family.get(), nullptr, 0, nullptr, 0);
    EXPECT_EQ(PutTo(family.get(), "b", "2"), "OK");
    rocksdb_delete_cf(db_.get(), write_.get(), family.get(), "c", 1, error_);
    return ExportFamily(family.get(), directory_.Sub(name));
  }
  MetadataPtr ExportFamily(rocksdb_column_family_handle_t* family,
                           const std::string& directory) {
    rocksdb_checkpoint_t* const checkpoint =
        rocksdb_checkpoint_object_create(db_.get(), error_);
    MetadataPtr metadata(rocksdb_checkpoint_export_column_family(
        checkpoint, family, directory.c_str(), error_));
    rocksdb_checkpoint_object_destroy(checkpoint);
    return metadata;
  }
  // Creates a family of the tables in another database.
  FamilyPtr Import(rocksdb_export_import_files_metadata_t* metadata,
                   const char* name = "imported", bool moves = false) {
    if (other_ == nullptr) {
      other_.reset(rocksdb_open(options_.get(), directory_.Sub("other").c_str(),
                                error_));
      EXPECT_EQ(error_.Take(), "OK");
    }
    rocksdb_import_column_family_options_t* const options =
        rocksdb_import_column_family_options_create();
    rocksdb_import_column_family_options_set_move_files(options, moves);
    EXPECT_EQ(rocksdb_import_column_family_options_get_move_files(options),
              moves);
    FamilyPtr family(rocksdb_create_column_family_with_import(
        other_.get(), options_.get(), name, options, metadata, error_));
    rocksdb_import_column_family_options_destroy(options);
    return family;
  }
  std::string Contents(rocksdb_column_family_handle_t* family) {
    const IteratorPtr iterator(
        rocksdb_create_iterator_cf(other_.get(), read_.get(), family));
    return Scan(iterator.get());
  }

  DbPtr other_;
};

TEST_F(RocksDbCExportImportTest, AFamilyGoesToAnotherDatabase) {
  for (const bool moves : {false, true}) {
    const char* const name = moves ? "moved" : "copied";
    const MetadataPtr metadata = Export(name);
    ASSERT_EQ(error_.Take(), "OK");
    EXPECT_EQ(
        TakeText(rocksdb_export_import_files_metadata_get_db_comparator_name(
            metadata.get())),
        "leveldb.BytewiseComparator");
    const FamilyPtr family = Import(metadata.get(), name, moves);
    ASSERT_EQ(error_.Take(), "OK");
    EXPECT_EQ(Contents(family.get()), "a=1 b=2 ");
    EXPECT_EQ(std::filesystem::is_empty(directory_.Sub(name)), moves);
  }
}

TEST_F(RocksDbCExportImportTest, MetadataIsMadeOfItsParts) {
  const std::string directory = directory_.Sub("export");
  const MetadataPtr exported = Export("export");
  ASSERT_EQ(error_.Take(), "OK");
  const FilesPtr files(
      rocksdb_export_import_files_metadata_get_files(exported.get()));
  ASSERT_EQ(rocksdb_livefiles_count(files.get()), 2);
  const FilesPtr copies(rocksdb_livefiles_create());
  for (int i = 0; i < 2; ++i) {
    const FilePtr file(rocksdb_livefile_create());
    rocksdb_livefile_set_column_family_name(
        file.get(), rocksdb_livefiles_column_family_name(files.get(), i));
    rocksdb_livefile_set_level(file.get(),
                               rocksdb_livefiles_level(files.get(), i));
    rocksdb_livefile_set_name(file.get(),
                              rocksdb_livefiles_name(files.get(), i));
    rocksdb_livefile_set_directory(file.get(), directory.c_str());
    rocksdb_livefile_set_size(file.get(),
                              rocksdb_livefiles_size(files.get(), i));
    size_t size = 0;
    const char* key = rocksdb_livefiles_smallestkey(files.get(), i, &size);
    rocksdb_livefile_set_smallest_key(file.get(), key, size);
    key = rocksdb_livefiles_largestkey(files.get(), i, &size);
    rocksdb_livefile_set_largest_key(file.get(), key, size);
    rocksdb_livefile_set_smallest_seqno(
        file.get(), rocksdb_livefiles_smallest_seqno(files.get(), i));
    rocksdb_livefile_set_largest_seqno(
        file.get(), rocksdb_livefiles_largest_seqno(files.get(), i));
    rocksdb_livefile_set_num_entries(file.get(),
                                     rocksdb_livefiles_entries(files.get(), i));
    rocksdb_livefile_set_num_deletions(
        file.get(), rocksdb_livefiles_deletions(files.get(), i));
    rocksdb_livefiles_add(copies.get(), file.get());
    // They have all that the exported ones have.
    ASSERT_EQ(rocksdb_livefiles_count(copies.get()), i + 1);
    EXPECT_STREQ(rocksdb_livefiles_name(copies.get(), i),
                 rocksdb_livefiles_name(files.get(), i));
    EXPECT_STREQ(rocksdb_livefiles_column_family_name(copies.get(), i),
                 rocksdb_livefiles_column_family_name(files.get(), i));
    EXPECT_EQ(rocksdb_livefiles_entries(copies.get(), i),
              rocksdb_livefiles_entries(files.get(), i));
    EXPECT_EQ(rocksdb_livefiles_deletions(copies.get(), i),
              rocksdb_livefiles_deletions(files.get(), i));
  }
  const MetadataPtr made(rocksdb_export_import_files_metadata_create());
  rocksdb_export_import_files_metadata_set_files(made.get(), copies.get());
  rocksdb_export_import_files_metadata_set_db_comparator_name(made.get(),
                                                              "another");
  EXPECT_EQ(Import(made.get()), nullptr);
  EXPECT_THAT(error_.Take(), StartsWith("Invalid argument: "));
  rocksdb_export_import_files_metadata_set_db_comparator_name(
      made.get(), "leveldb.BytewiseComparator");
  const FamilyPtr family = Import(made.get());
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Contents(family.get()), "a=1 b=2 ");
}

TEST_F(RocksDbCExportImportTest, ErrorsCreateNothing) {
  const std::string directory = directory_.Sub("export");
  const MetadataPtr metadata = Export("export");
  ASSERT_EQ(error_.Take(), "OK");
  const FamilyPtr family(rocksdb_get_default_column_family_handle(db_.get()));
  EXPECT_EQ(ExportFamily(family.get(), directory), nullptr);
  EXPECT_EQ(error_.Take(), "Invalid argument: Specified export_dir exists");
  const MetadataPtr empty(rocksdb_export_import_files_metadata_create());
  EXPECT_EQ(Import(empty.get()), nullptr);
  EXPECT_THAT(error_.Take(), HasSubstr("Invalid argument: "));
  const FamilyPtr first = Import(metadata.get());
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Import(metadata.get()), nullptr);
  EXPECT_THAT(error_.Take(), HasSubstr("Invalid argument: "));
}

}  // namespace
}  // namespace rocksdb_test
