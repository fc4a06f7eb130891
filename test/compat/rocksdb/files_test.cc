// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the functions on live files, logs and single tables of RocksDB's C
// interface do as RocksDB's do. Method: a database of known tables. These tests
// also run on RocksDB.
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::EndsWith;
using testing::Not;
using testing::StartsWith;

class RocksDbCFilesTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    Open();
  }
  // Returns the names of the tables of a level.
  std::vector<std::string> Tables(int level) {
    std::vector<std::string> names;
    const rocksdb_livefiles_t* const files = rocksdb_livefiles(db_.get());
    for (int i = 0; i < rocksdb_livefiles_count(files); ++i) {
      if (rocksdb_livefiles_level(files, i) == level) {
        names.emplace_back(rocksdb_livefiles_name(files, i));
      }
    }
    rocksdb_livefiles_destroy(files);
    return names;
  }
  // Compacts the tables of level 0 into another one.
  void MoveTo(int level) {
    rocksdb_compaction_options_t* const options =
        rocksdb_compaction_options_create();
    const std::vector<std::string> names = Tables(0);
    std::vector<const char*> inputs;
    for (const std::string& name : names) inputs.push_back(name.c_str());
    char** outputs = nullptr;
    size_t count = 0;
    rocksdb_compact_files(db_.get(), options, inputs.data(), inputs.size(),
                          level, -1, &outputs, &count, nullptr, error_);
    EXPECT_EQ(error_.Take(), "OK");
    ASSERT_EQ(count, 1u);
    EXPECT_THAT(outputs[0], StartsWith(path_ + "/"));
    rocksdb_compact_files_output_file_names_destroy(outputs, count);
    rocksdb_compaction_options_destroy(options);
  }
};

TEST_F(RocksDbCFilesTest, TablesHaveCounts) {
  ASSERT_EQ(Put("a", "1"), "OK");
  ASSERT_EQ(Put("b", "1"), "OK");
  Flush();
  const rocksdb_livefiles_t* const files = rocksdb_livefiles(db_.get());
  ASSERT_EQ(rocksdb_livefiles_count(files), 1);
  EXPECT_EQ(rocksdb_livefiles_entries(files, 0), 2u);
  EXPECT_EQ(rocksdb_livefiles_deletions(files, 0), 0u);
  EXPECT_EQ(rocksdb_livefiles_smallest_seqno(files, 0), 1u);
  EXPECT_EQ(rocksdb_livefiles_largest_seqno(files, 0), 2u);
  rocksdb_livefiles_destroy(files);
}

TEST_F(RocksDbCFilesTest, FilesOfOneStateAreListed) {
  ASSERT_EQ(Put("a", "1"), "OK");
  Flush();
  ASSERT_EQ(Put("b", "1"), "OK");
  rocksdb_disable_file_deletions(db_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_livefiles_storage_info_options_t* const options =
      rocksdb_livefiles_storage_info_options_create();
  rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(options,
                                                                UINT64_MAX);
  rocksdb_livefiles_storage_info_t* const info =
      rocksdb_get_livefiles_storage_info(db_.get(), options, error_);
  EXPECT_EQ(error_.Take(), "OK");
  ASSERT_NE(info, nullptr);
  std::map<int, int> types;
  for (size_t i = 0; i < rocksdb_livefiles_storage_info_count(info); ++i) {
    const std::string name =
        rocksdb_livefiles_storage_info_relative_filename(info, i);
    EXPECT_THAT(name, Not(StartsWith("/")));
    EXPECT_EQ(rocksdb_livefiles_storage_info_directory(info, i), path_);
    const int type = rocksdb_livefiles_storage_info_file_type(info, i);
    ++types[type];
    size_t size = 0;
    const char* const contents =
        rocksdb_livefiles_storage_info_replacement_contents(info, i, &size);
    if (name == "CURRENT") {
      EXPECT_THAT(std::string(contents, size), StartsWith("MANIFEST-"));
      EXPECT_THAT(std::string(contents, size), EndsWith("\n"));
    } else {
      EXPECT_EQ(size, 0u);
    }
  }
  EXPECT_EQ(types[0], 1);  // A log.
  EXPECT_EQ(types[2], 1);  // A table.
  EXPECT_EQ(types[3], 1);  // The MANIFEST.
  EXPECT_EQ(types[4], 1);  // CURRENT.
  rocksdb_livefiles_storage_info_destroy(info);
  rocksdb_livefiles_storage_info_options_destroy(options);
  rocksdb_enable_file_deletions(db_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
}

TEST_F(RocksDbCFilesTest, LogsAreListed) {
  ASSERT_EQ(Put("a", "1"), "OK");
  rocksdb_wal_files_t* const files =
      rocksdb_get_sorted_wal_files(db_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  ASSERT_EQ(rocksdb_wal_files_count(files), 1u);
  const rocksdb_wal_file_t* const file =
      rocksdb_wal_files_get_wal_file(files, 0);
  EXPECT_THAT(rocksdb_wal_file_path_name(file), StartsWith("/0"));
  EXPECT_EQ(rocksdb_wal_file_type(file), rocksdb_wal_file_type_alive_log);
  EXPECT_EQ(rocksdb_wal_file_start_sequence(file), 1u);
  rocksdb_wal_file_t* const current =
      rocksdb_get_current_wal_file(db_.get(), error_);
  EXPECT_EQ(rocksdb_wal_file_log_number(current),
            rocksdb_wal_file_log_number(file));
  EXPECT_EQ(rocksdb_wal_file_size_file_bytes(current),
            rocksdb_wal_file_size_file_bytes(file));
  rocksdb_wal_file_destroy(current);
  rocksdb_wal_files_destroy(files);
}

TEST_F(RocksDbCFilesTest, WholeFilesAreDeleted) {
  ASSERT_EQ(Put("a", "1"), "OK");
  Flush();
  MoveTo(3);
  ASSERT_EQ(Put("m", "1"), "OK");
  Flush();
  MoveTo(3);
  EXPECT_EQ(Tables(3).size(), 2u);
  rocksdb_delete_file_in_range(db_.get(), "a", 1, "c", 1, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Tables(3).size(), 1u);
  EXPECT_EQ(Get("a"), "null");
  EXPECT_EQ(Get("m"), "1");
  rocksdb_delete_file_in_range(db_.get(), nullptr, 0, nullptr, 0, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Tables(3).size(), 0u);
}

TEST_F(RocksDbCFilesTest, UpdatesComeInTheirOrder) {
  ASSERT_EQ(Put("a", "1"), "OK");
  ASSERT_EQ(Put("b", "2"), "OK");
  rocksdb_wal_iterator_t* const updates =
      rocksdb_get_updates_since(db_.get(), 1, nullptr, error_);
  ASSERT_EQ(error_.Take(), "OK");
  uint64_t number = 0;
  for (; rocksdb_wal_iter_valid(updates) != 0; rocksdb_wal_iter_next(updates)) {
    uint64_t sequence = 0;
    rocksdb_writebatch_t* const batch =
        rocksdb_wal_iter_get_batch(updates, &sequence);
    EXPECT_EQ(sequence, ++number);
    EXPECT_EQ(rocksdb_writebatch_count(batch), 1);
    rocksdb_writebatch_destroy(batch);
  }
  rocksdb_wal_iter_status(updates, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(number, 2u);
  rocksdb_wal_iter_destroy(updates);
  EXPECT_EQ(rocksdb_get_updates_since(db_.get(), 1000, nullptr, error_),
            nullptr);
  EXPECT_THAT(error_.Take(), StartsWith("NotFound"));
}

}  // namespace
}  // namespace rocksdb_test
