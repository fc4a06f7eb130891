// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the functions of backups in RocksDB's C interface do as RocksDB's do.
// Method: backups of a small database, which are listed, verified, deleted and
// restored. These tests also run on RocksDB.

#include <filesystem>
#include <string>
#include <vector>

#include "test/compat/rocksdb/program.h"

namespace rocksdb_test {
namespace {

using EnginePtr = Owned<rocksdb_backup_engine_t, rocksdb_backup_engine_close>;

class RocksDbCBackupsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    Open();
  }
  void OpenEngine() {
    engine_.reset(
        rocksdb_backup_engine_open(options_.get(), backups_.c_str(), error_));
    ASSERT_EQ(error_.Take(), "OK");
  }
  // Restores a backup, or the latest for 0, and opens the database.
  std::string Restore(uint32_t id) {
    rocksdb_restore_options_t* const options = rocksdb_restore_options_create();
    rocksdb_restore_options_set_keep_log_files(options, 0);
    if (id == 0) {
      rocksdb_backup_engine_restore_db_from_latest_backup(
          engine_.get(), restored_.c_str(), restored_.c_str(), options, error_);
    } else {
      rocksdb_backup_engine_restore_db_from_backup(
          engine_.get(), restored_.c_str(), restored_.c_str(), options, id,
          error_);
    }
    rocksdb_restore_options_destroy(options);
    const std::string result = error_.Take();
    if (result != "OK") return result;
    const DbPtr db(rocksdb_open(options_.get(), restored_.c_str(), error_));
    const IteratorPtr iterator(rocksdb_create_iterator(db.get(), read_.get()));
    return Scan(iterator.get());
  }
  std::vector<uint32_t> Ids() {
    std::vector<uint32_t> ids;
    const rocksdb_backup_engine_info_t* const info =
        rocksdb_backup_engine_get_backup_info(engine_.get());
    for (int i = 0; i < rocksdb_backup_engine_info_count(info); ++i) {
      ids.push_back(rocksdb_backup_engine_info_backup_id(info, i));
      EXPECT_GT(rocksdb_backup_engine_info_timestamp(info, i), 1'700'000'000);
      EXPECT_GT(rocksdb_backup_engine_info_size(info, i), 0u);
      EXPECT_GE(rocksdb_backup_engine_info_number_files(info, i), 3u);
      rocksdb_backup_engine_verify_backup(engine_.get(), ids.back(), error_);
      EXPECT_EQ(error_.Take(), "OK");
    }
    rocksdb_backup_engine_info_destroy(info);
    return ids;
  }

  const std::string backups_ = directory_.Sub("backups");
  const std::string restored_ = directory_.Sub("restored");
  EnginePtr engine_;
};

TEST_F(RocksDbCBackupsTest, BacksUpAndRestores) {
  OpenEngine();
  ASSERT_EQ(Put("a", "1"), "OK");
  rocksdb_backup_engine_create_new_backup(engine_.get(), db_.get(), error_);
  EXPECT_EQ(error_.Take(), "OK");
  ASSERT_EQ(Put("b", "2"), "OK");
  rocksdb_backup_engine_create_new_backup_flush(engine_.get(), db_.get(), 1,
                                                error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Restore(1), "a=1 ");
  EXPECT_EQ(Restore(0), "a=1 b=2 ");
  OpenEngine();
  EXPECT_EQ(Ids(), (std::vector<uint32_t>{1, 2}));
  rocksdb_backup_engine_purge_old_backups(engine_.get(), 1, error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Ids(), (std::vector<uint32_t>{2}));
  EXPECT_TRUE(Restore(1).starts_with("NotFound: "));
  EXPECT_EQ(Restore(2), "a=1 b=2 ");
  rocksdb_backup_engine_verify_backup(engine_.get(), 1, error_);
  EXPECT_TRUE(error_.Take().starts_with("NotFound: "));
}

TEST_F(RocksDbCBackupsTest, OptionsHaveAnEffect) {
  rocksdb_backup_engine_options_t* const options =
      rocksdb_backup_engine_options_create("nowhere");
  rocksdb_backup_engine_options_set_backup_dir(options, backups_.c_str());
  EXPECT_EQ(rocksdb_backup_engine_options_get_sync(options), 1);
  EXPECT_EQ(rocksdb_backup_engine_options_get_share_table_files(options), 1);
  EXPECT_EQ(
      rocksdb_backup_engine_options_get_max_background_operations(options), 1);
  rocksdb_backup_engine_options_set_share_table_files(options, 0);
  rocksdb_backup_engine_options_set_max_background_operations(options, 2);
  rocksdb_backup_engine_options_set_backup_rate_limit(options, 1 << 30);
  rocksdb_env_t* const memory = rocksdb_create_mem_env();
  rocksdb_env_t* const env = rocksdb_create_default_env();
  rocksdb_backup_engine_options_set_env(options, memory);
  ASSERT_EQ(Put("a", "1"), "OK");
  engine_.reset(rocksdb_backup_engine_open_opts(options, env, error_));
  EXPECT_EQ(error_.Take(), "OK");
  rocksdb_backup_engine_create_new_backup_flush(engine_.get(), db_.get(), 1,
                                                error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(Restore(1), "a=1 ");
  EXPECT_FALSE(std::filesystem::exists(backups_));
  engine_.reset();
  rocksdb_backup_engine_options_set_env(options, nullptr);
  rocksdb_backup_engine_options_set_destroy_old_data(options, 1);
  for (int i = 0; i < 2; ++i) {
    engine_.reset(rocksdb_backup_engine_open_opts(options, env, error_));
    EXPECT_EQ(error_.Take(), "OK");
    EXPECT_TRUE(Ids().empty());
    rocksdb_backup_engine_create_new_backup(engine_.get(), db_.get(), error_);
    EXPECT_EQ(Ids(), (std::vector<uint32_t>{1}));
    EXPECT_TRUE(std::filesystem::is_empty(backups_ + "/private/1") == false);
  }
  engine_.reset();
  rocksdb_backup_engine_options_destroy(options);
  rocksdb_env_destroy(memory);
  rocksdb_env_destroy(env);
}

TEST_F(RocksDbCBackupsTest, CallsBack) {
  rocksdb_backup_engine_options_t* const options =
      rocksdb_backup_engine_options_create(backups_.c_str());
  rocksdb_backup_engine_options_set_schema_version(options, 2);
  rocksdb_backup_engine_options_set_callback_trigger_interval_size(options, 1);
  rocksdb_env_t* const env = rocksdb_create_default_env();
  engine_.reset(rocksdb_backup_engine_open_opts(options, env, error_));
  rocksdb_create_backup_options_t* const create =
      rocksdb_create_backup_options_create();
  rocksdb_create_backup_options_set_flush_before_backup(create, 1);
  int calls = 0;
  rocksdb_create_backup_options_set_progress_callback(
      create, &calls, [](void* state) { ++*static_cast<int*>(state); });
  std::string path;
  rocksdb_create_backup_options_set_exclude_files_callback(
      create, &path,
      [](void* state, const char* file, size_t size) -> unsigned char {
        *static_cast<std::string*>(state) = std::string(file, size);
        return 1;
      });
  ASSERT_EQ(Put("a", "1"), "OK");
  uint32_t id = 0;
  const std::string metadata("m\0n", 3);
  rocksdb_backup_engine_create_new_backup_with_metadata(
      engine_.get(), db_.get(), create, metadata.data(), metadata.size(), &id,
      error_);
  EXPECT_EQ(error_.Take(), "OK");
  EXPECT_EQ(id, 1u);
  EXPECT_GT(calls, 100);
  EXPECT_TRUE(path.starts_with("shared_checksum/")) << path;
  const rocksdb_backup_engine_info_t* const info =
      rocksdb_backup_engine_get_backup_info(engine_.get());
  size_t size = 0;
  const char* const found =
      rocksdb_backup_engine_info_app_metadata(info, 0, &size);
  EXPECT_EQ(std::string(found, size), metadata);
  rocksdb_backup_engine_info_destroy(info);
  EXPECT_TRUE(Restore(1).starts_with("Invalid argument: "));
  rocksdb_backup_engine_stop_backup(engine_.get());
  rocksdb_backup_engine_create_new_backup_with_options(engine_.get(), db_.get(),
                                                       create, &id, error_);
  EXPECT_NE(error_.Take(), "OK");
  rocksdb_create_backup_options_destroy(create);
  rocksdb_backup_engine_options_destroy(options);
  engine_.reset();
  rocksdb_env_destroy(env);
}

}  // namespace
}  // namespace rocksdb_test
