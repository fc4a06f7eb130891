// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: RocksDB's C functions of a database do as RocksDB's do.
// Method: each call with right arguments. These tests also run on RocksDB.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class RocksDbCTest : public ProgramTest {
 protected:
  RocksDbCTest() { Open(); }

  uint64_t Number(const char* property) {
    uint64_t value = 0;
    EXPECT_EQ(rocksdb_property_int(db_.get(), property, &value), 0) << property;
    return value;
  }
  std::string Text(const char* property) {
    return TakeText(rocksdb_property_value(db_.get(), property));
  }
};

// ---- Errors of Open ---------------------------------------------------------

TEST_F(RocksDbCTest, OpenReportsAMissingDatabase) {
  const OptionsPtr options(rocksdb_options_create());
  const std::string path = directory_.Sub("missing");
  EXPECT_EQ(rocksdb_open(options.get(), path.c_str(), error_), nullptr);
  EXPECT_THAT(error_.Take(),
              AllOf(StartsWith("Invalid argument: "), HasSubstr(path),
                    HasSubstr("does not exist (create_if_missing is false)")));
  EXPECT_EQ(rocksdb_open_for_read_only(options.get(), path.c_str(), 0, error_),
            nullptr);
  EXPECT_THAT(error_.Take(), StartsWith("IO error: No such file or directory"));
}

TEST_F(RocksDbCTest, OpenReportsAnExistingDatabase) {
  db_.reset();
  rocksdb_options_set_error_if_exists(options_.get(), 1);
  EXPECT_EQ(rocksdb_open(options_.get(), path_.c_str(), error_), nullptr);
  EXPECT_EQ(error_.Take(), "Invalid argument: " + path_ +
                               ": exists (error_if_exists is true)");
}

TEST_F(RocksDbCTest, AnOpenDatabaseIsLocked) {
  const auto expect_locked = [this] {
    EXPECT_THAT(error_.Take(),
                AllOf(StartsWith("IO error: "), HasSubstr(path_ + "/LOCK: "),
                      HasSubstr("No locks available")));
  };
  EXPECT_EQ(rocksdb_open(options_.get(), path_.c_str(), error_), nullptr);
  expect_locked();
  rocksdb_destroy_db(options_.get(), path_.c_str(), error_);
  expect_locked();
}

TEST_F(RocksDbCTest, DestroyRemovesAndRepairKeeps) {
  ASSERT_EQ(Put("a", "1"), "OK");
  db_.reset();
  rocksdb_repair_db(options_.get(), path_.c_str(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  Reopen();
  EXPECT_EQ(Get("a"), "1");
  db_.reset();
  rocksdb_destroy_db(options_.get(), path_.c_str(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  Reopen();
  EXPECT_EQ(Get("a"), "null");
}

TEST_F(RocksDbCTest, ReadOnlyDatabasesRefuseWrites) {
  ASSERT_EQ(Put("a", "1"), "OK");
  db_.reset();
  db_.reset(
      rocksdb_open_for_read_only(options_.get(), path_.c_str(), 1, error_));
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Get("a"), "1");
  EXPECT_THAT(Put("a", "2"), StartsWith("Not implemented: "));
}

// ---- Reads and writes -------------------------------------------------------

TEST_F(RocksDbCTest, KeysAreReadInEachForm) {
  ASSERT_EQ(Put("a", "1"), "OK");
  ASSERT_EQ(Put("empty", ""), "OK");
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "null");
  EXPECT_EQ(Get("empty"), "");
  rocksdb_pinnableslice_t* const pinned =
      rocksdb_get_pinned(db_.get(), read_.get(), "a", 1, error_);
  size_t size = 0;
  const char* value = rocksdb_pinnableslice_value(pinned, &size);
  EXPECT_EQ(std::string(value, size), "1");
  rocksdb_pinnableslice_destroy(pinned);
  EXPECT_EQ(rocksdb_get_pinned(db_.get(), read_.get(), "b", 1, error_),
            nullptr);
  EXPECT_EQ(error_.Take(), "OK");
  value = rocksdb_pinnableslice_value(nullptr, &size);
  EXPECT_EQ(value, nullptr);
  EXPECT_EQ(size, 0u);
}

TEST_F(RocksDbCTest, KeysAreReadIntoABuffer) {
  ASSERT_EQ(Put("a", "value"), "OK");
  char buffer[8] = "";
  size_t size = 0;
  unsigned char found = 0;
  const auto get = [&](const char* key, size_t room) {
    return rocksdb_get_into_buffer(db_.get(), read_.get(), key, 1, buffer, room,
                                   &size, &found, error_);
  };
  EXPECT_EQ(get("a", sizeof(buffer)), 1);
  EXPECT_EQ(std::string(buffer, size), "value");
  EXPECT_EQ(found, 1);
  EXPECT_EQ(get("a", 4), 0);  // It does not fit.
  EXPECT_EQ(size, 5u);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(get("b", sizeof(buffer)), 0);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(found, 0);
  rocksdb_pinnable_handle_t* const handle =
      rocksdb_get_pinned_v2(db_.get(), read_.get(), "a", 1, error_);
  EXPECT_EQ(std::string(rocksdb_pinnable_handle_get_value(handle, &size), 5),
            "value");
  rocksdb_pinnable_handle_destroy(handle);
  EXPECT_EQ(error_.Take(), "OK");
}

TEST_F(RocksDbCTest, SeveralKeysAreReadAtOnce) {
  ASSERT_EQ(Put("a", "1"), "OK");
  ASSERT_EQ(Put("b", ""), "OK");
  const char* const keys[] = {"a", "b", "c"};
  const size_t sizes[] = {1, 1, 1};
  char* values[3];
  size_t value_sizes[3];
  char* errors[3];
  rocksdb_multi_get(db_.get(), read_.get(), 3, keys, sizes, values, value_sizes,
                    errors);
  EXPECT_EQ(std::string(values[0], value_sizes[0]), "1");
  EXPECT_EQ(std::string(values[1], value_sizes[1]), "");
  EXPECT_EQ(values[2], nullptr);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(errors[i], nullptr);
    rocksdb_free(values[i]);
  }
  const FamilyPtr family(rocksdb_get_default_column_family_handle(db_.get()));
  rocksdb_pinnableslice_t* pinned[3];
  const rocksdb_slice_t slices[] = {{"a", 1}, {"b", 1}, {"c", 1}};
  for (const bool by_slices : {false, true}) {
    if (by_slices) {
      rocksdb_batched_multi_get_cf_slice(db_.get(), read_.get(), family.get(),
                                         3, slices, pinned, errors, true);
    } else {
      rocksdb_batched_multi_get_cf(db_.get(), read_.get(), family.get(), 3,
                                   keys, sizes, pinned, errors, false);
    }
    size_t size = 0;
    EXPECT_EQ(*rocksdb_pinnableslice_value(pinned[0], &size), '1');
    EXPECT_EQ(size, 1u);
    EXPECT_NE(pinned[1], nullptr);
    EXPECT_EQ(pinned[2], nullptr);
    rocksdb_pinnableslice_destroy(pinned[0]);
    rocksdb_pinnableslice_destroy(pinned[1]);
  }
}

TEST_F(RocksDbCTest, KeysAreDeleted) {
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_EQ(Put(key, "1"), "OK");
  const FamilyPtr family(rocksdb_get_default_column_family_handle(db_.get()));
  rocksdb_delete(db_.get(), write_.get(), "a", 1, error_);
  rocksdb_singledelete(db_.get(), write_.get(), "b", 1, error_);
  rocksdb_delete_range_cf(db_.get(), write_.get(), family.get(), "c", 1, "d", 1,
                          error_);
  EXPECT_EQ(error_.Take(), "OK");
  const IteratorPtr iterator(rocksdb_create_iterator(db_.get(), read_.get()));
  EXPECT_EQ(Scan(iterator.get()), "d=1 ");
}

TEST_F(RocksDbCTest, BatchesAreWritten) {
  rocksdb_writebatch_t* const batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "a", 1, "1", 1);
  rocksdb_writebatch_put(batch, "b", 1, "2", 1);
  rocksdb_writebatch_delete(batch, "a", 1);
  rocksdb_write(db_.get(), write_.get(), batch, error_);
  rocksdb_writebatch_destroy(batch);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Get("a"), "null");
  EXPECT_EQ(Get("b"), "2");
}

TEST_F(RocksDbCTest, MergesNeedAnOperator) {
  rocksdb_merge(db_.get(), write_.get(), "a", 1, "1", 1, error_);
  EXPECT_THAT(error_.Take(), StartsWith("Not implemented: "));
}

TEST_F(RocksDbCTest, KeyMayExistFindsValues) {
  ASSERT_EQ(Put("a", "1"), "OK");
  char* value = nullptr;
  size_t size = 0;
  unsigned char found = 0;
  EXPECT_EQ(rocksdb_key_may_exist(db_.get(), read_.get(), "a", 1, &value, &size,
                                  nullptr, 0, &found),
            1);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(std::string(value, size), "1");
  rocksdb_free(value);
  EXPECT_EQ(rocksdb_key_may_exist(db_.get(), read_.get(), "a", 1, nullptr,
                                  nullptr, nullptr, 0, nullptr),
            1);
  EXPECT_EQ(rocksdb_key_may_exist(db_.get(), read_.get(), "b", 1, nullptr,
                                  nullptr, nullptr, 0, nullptr),
            0);
}

TEST_F(RocksDbCTest, EntriesExpire) {
  db_.reset();
  db_.reset(rocksdb_open_with_ttl(options_.get(), path_.c_str(), 1000, error_));
  ASSERT_EQ(error_.Take(), "OK");
  ASSERT_EQ(Put("a", "1"), "OK");
  EXPECT_EQ(Get("a"), "1");
  const FamilyPtr family(rocksdb_create_column_family_with_ttl(
      db_.get(), options_.get(), "soon", 10, error_));
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(PutTo(family.get(), "b", "2"), "OK");
  const IteratorPtr iterator(
      rocksdb_create_iterator_cf(db_.get(), read_.get(), family.get()));
  EXPECT_EQ(Scan(iterator.get()), "b=2 ");
}

TEST_F(RocksDbCTest, FamiliesHaveTimesToLive) {
  db_.reset();
  rocksdb_options_set_create_missing_column_families(options_.get(), 1);
  const char* const names[] = {"default", "other"};
  const rocksdb_options_t* const options[] = {options_.get(), options_.get()};
  const int ttls[] = {0, 5};
  rocksdb_column_family_handle_t* families[2];
  db_.reset(rocksdb_open_column_families_with_ttl(options_.get(), path_.c_str(),
                                                  2, names, options, families,
                                                  ttls, error_));
  ASSERT_EQ(error_.Take(), "OK");
  const FamilyPtr first(families[0]);
  const FamilyPtr other(families[1]);
  EXPECT_EQ(PutTo(other.get(), "a", "1"), "OK");
  EXPECT_EQ(GetFrom(other.get(), "a"), "1");
}

TEST_F(RocksDbCTest, ReadsOfMemoryAloneReadNoFile) {
  ASSERT_EQ(Put("a", "1"), "OK");
  Flush();
  Reopen();
  rocksdb_readoptions_set_read_tier(read_.get(), 1);
  EXPECT_THAT(Get("a"), StartsWith("Result incomplete: "));
  EXPECT_EQ(rocksdb_key_may_exist(db_.get(), read_.get(), "a", 1, nullptr,
                                  nullptr, nullptr, 0, nullptr),
            1);
  rocksdb_readoptions_set_read_tier(read_.get(), 0);
  EXPECT_EQ(Get("a"), "1");
  rocksdb_readoptions_set_read_tier(read_.get(), 1);
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(RocksDbCTest, SnapshotsKeepTheirState) {
  ASSERT_EQ(Put("a", "1"), "OK");
  const rocksdb_snapshot_t* const snapshot = rocksdb_create_snapshot(db_.get());
  EXPECT_EQ(rocksdb_snapshot_get_sequence_number(snapshot),
            rocksdb_get_latest_sequence_number(db_.get()));
  ASSERT_EQ(Put("a", "2"), "OK");
  rocksdb_readoptions_set_snapshot(read_.get(), snapshot);
  EXPECT_EQ(Get("a"), "1");
  rocksdb_readoptions_set_snapshot(read_.get(), nullptr);
  EXPECT_EQ(Get("a"), "2");
  rocksdb_release_snapshot(db_.get(), snapshot);
}

// ---- Properties and files ---------------------------------------------------

TEST_F(RocksDbCTest, PropertiesHaveRocksDbsNames) {
  ASSERT_EQ(Put("a", "1"), "OK");
  EXPECT_EQ(Number("rocksdb.num-entries-active-mem-table"), 1u);
  EXPECT_EQ(Number("rocksdb.estimate-num-keys"), 1u);
  EXPECT_EQ(Number("rocksdb.num-blob-files"), 0u);
  EXPECT_EQ(Text("rocksdb.num-files-at-level0"), "0");
  Flush();
  EXPECT_EQ(Text("rocksdb.num-files-at-level0"), "1");
  EXPECT_THAT(Text("rocksdb.stats"),
              AllOf(HasSubstr("** Compaction Stats [default] **"),
                    HasSubstr("** DB Stats **")));
  EXPECT_THAT(Text("rocksdb.levelstats"),
              StartsWith("Level Files Size(MB)\n--------------------\n  0 "));
  EXPECT_EQ(Text("rocksdb.no-such-property"), "null");
  uint64_t value = 0;
  EXPECT_EQ(rocksdb_property_int(db_.get(), "rocksdb.no-such-property", &value),
            -1);
}

TEST_F(RocksDbCTest, SizesCountTables) {
  ASSERT_EQ(Put("a", std::string(100000, 'x')), "OK");
  Flush();
  const char* const starts[] = {"a", "b"};
  const char* const limits[] = {"b", "c"};
  const size_t lengths[] = {1, 1};
  uint64_t sizes[2] = {7, 7};
  rocksdb_approximate_sizes(db_.get(), 2, starts, lengths, limits, lengths,
                            sizes, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_GT(sizes[0], 0u);
  EXPECT_EQ(sizes[1], 0u);
}

TEST_F(RocksDbCTest, TablesAreDescribed) {
  ASSERT_EQ(Put("a", "1"), "OK");
  ASSERT_EQ(Put(std::string("\0\xff", 2), "2"), "OK");
  Flush();
  const rocksdb_livefiles_t* const files = rocksdb_livefiles(db_.get());
  ASSERT_EQ(rocksdb_livefiles_count(files), 1);
  size_t size = 0;
  const char* key = rocksdb_livefiles_smallestkey(files, 0, &size);
  EXPECT_EQ(std::string(key, size), std::string("\0\xff", 2));
  key = rocksdb_livefiles_largestkey(files, 0, &size);
  EXPECT_EQ(std::string(key, size), "a");
  EXPECT_EQ(rocksdb_livefiles_level(files, 0), 0);
  EXPECT_EQ(std::string(rocksdb_livefiles_column_family_name(files, 0)),
            "default");
  EXPECT_EQ(std::string(rocksdb_livefiles_directory(files, 0)), path_);
  const std::string name = rocksdb_livefiles_name(files, 0);
  EXPECT_THAT(name, AllOf(StartsWith("/0"), testing::EndsWith(".sst")));
  rocksdb_column_family_metadata_t* const family =
      rocksdb_get_column_family_metadata(db_.get());
  EXPECT_EQ(TakeText(rocksdb_column_family_metadata_get_name(family)),
            "default");
  EXPECT_EQ(rocksdb_column_family_metadata_get_file_count(family), 1u);
  EXPECT_EQ(rocksdb_column_family_metadata_get_size(family),
            rocksdb_livefiles_size(files, 0));
  EXPECT_EQ(rocksdb_column_family_metadata_get_level_count(family), 7u);
  rocksdb_level_metadata_t* const level =
      rocksdb_column_family_metadata_get_level_metadata(family, 0);
  EXPECT_EQ(rocksdb_level_metadata_get_file_count(level), 1u);
  rocksdb_sst_file_metadata_t* const file =
      rocksdb_level_metadata_get_sst_file_metadata(level, 0);
  EXPECT_EQ(
      "/" + TakeText(rocksdb_sst_file_metadata_get_relative_filename(file)),
      name);
  EXPECT_EQ(TakeText(rocksdb_sst_file_metadata_get_directory(file)), path_);
  char* const largest = rocksdb_sst_file_metadata_get_largestkey(file, &size);
  EXPECT_EQ(TakeBytes(largest, size), "a");
  EXPECT_EQ(rocksdb_level_metadata_get_sst_file_metadata(level, 1), nullptr);
  rocksdb_sst_file_metadata_destroy(file);
  rocksdb_level_metadata_destroy(level);
  rocksdb_column_family_metadata_destroy(family);
  rocksdb_livefiles_destroy(files);
}

TEST_F(RocksDbCTest, MetadataIsLimitedToLevelsAndKeys) {
  ASSERT_EQ(Put("b", "1"), "OK");
  Flush();
  rocksdb_column_family_metadata_options_t* const options =
      rocksdb_column_family_metadata_options_create();
  const auto count = [&] {
    rocksdb_column_family_metadata_t* const family =
        rocksdb_get_column_family_metadata_with_options(db_.get(), options);
    const size_t files = rocksdb_column_family_metadata_get_file_count(family);
    rocksdb_column_family_metadata_destroy(family);
    return files;
  };
  EXPECT_EQ(count(), 1u);
  rocksdb_column_family_metadata_options_set_level(options, 1);
  EXPECT_EQ(count(), 0u);
  rocksdb_column_family_metadata_options_set_level(options, -1);
  rocksdb_column_family_metadata_options_set_start_key(options, "c", 1);
  EXPECT_EQ(count(), 0u);
  rocksdb_column_family_metadata_options_set_start_key(options, "b", 1);
  rocksdb_column_family_metadata_options_set_end_key(options, "b", 1);
  EXPECT_EQ(count(), 1u);
  rocksdb_column_family_metadata_options_set_start_key(options, nullptr, 0);
  rocksdb_column_family_metadata_options_set_end_key(options, "a", 1);
  EXPECT_EQ(count(), 0u);
  size_t size = 0;
  EXPECT_EQ(*rocksdb_column_family_metadata_options_get_end_key(options, &size),
            'a');
  EXPECT_EQ(
      rocksdb_column_family_metadata_options_get_start_key(options, &size),
      nullptr);
  rocksdb_column_family_metadata_options_destroy(options);
}

// ---- Maintenance ------------------------------------------------------------

TEST_F(RocksDbCTest, CompactionsMoveTables) {
  ASSERT_EQ(Put("a", "1"), "OK");
  Flush();
  rocksdb_disable_manual_compaction(db_.get());
  rocksdb_compact_range(db_.get(), nullptr, 0, nullptr, 0);
  EXPECT_EQ(Text("rocksdb.num-files-at-level0"), "1");
  rocksdb_enable_manual_compaction(db_.get());
  rocksdb_compact_range(db_.get(), nullptr, 0, nullptr, 0);
  EXPECT_EQ(Text("rocksdb.num-files-at-level0"), "0");
  rocksdb_compactoptions_t* const options = rocksdb_compactoptions_create();
  rocksdb_compact_range_opt(db_.get(), options, "a", 1, "b", 1);
  rocksdb_compactoptions_destroy(options);
  rocksdb_suggest_compact_range(db_.get(), nullptr, 0, nullptr, 0, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(RocksDbCTest, WaitForCompactCanFlushAndClose) {
  ASSERT_EQ(Put("a", "1"), "OK");
  rocksdb_wait_for_compact_options_t* const options =
      rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact_options_set_flush(options, 1);
  rocksdb_wait_for_compact(db_.get(), options, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Number("rocksdb.num-entries-active-mem-table"), 0u);
  rocksdb_wait_for_compact_options_set_close_db(options, 1);
  rocksdb_wait_for_compact(db_.get(), options, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_wait_for_compact_options_destroy(options);
  db_.reset();
  Open();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(RocksDbCTest, TheLogIsFlushed) {
  rocksdb_flush_wal(db_.get(), 1, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_flushwaloptions_t* const options = rocksdb_flushwaloptions_create();
  rocksdb_flushwaloptions_set_sync(options, 1);
  rocksdb_flush_wal_with_options(db_.get(), options, error_);
  rocksdb_flushwaloptions_destroy(options);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_verify_checksum(db_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_cancel_all_background_work(db_.get(), 1);
}

TEST_F(RocksDbCTest, CheckpointsAreDatabases) {
  ASSERT_EQ(Put("a", "1"), "OK");
  rocksdb_checkpoint_t* const checkpoint =
      rocksdb_checkpoint_object_create(db_.get(), error_);
  const std::string copy = directory_.Sub("copy");
  rocksdb_checkpoint_create(checkpoint, copy.c_str(), 0, error_);
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_checkpoint_create(checkpoint, copy.c_str(), 0, error_);
  EXPECT_EQ(error_.Take(), "Invalid argument: Directory exists");
  rocksdb_checkpoint_object_destroy(checkpoint);
  db_.reset(rocksdb_open(options_.get(), copy.c_str(), error_));
  ASSERT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(RocksDbCTest, TheIdentityStays) {
  const auto identity = [this] {
    size_t size = 0;
    char* const bytes = rocksdb_get_db_identity(db_.get(), &size);
    return TakeBytes(bytes, size);
  };
  const std::string first = identity();
  EXPECT_EQ(first.size(), 36u);
  Reopen();
  EXPECT_EQ(identity(), first);
}

}  // namespace
}  // namespace rocksdb_test
