/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
/*
 * Goal: the functions of varve/c_backups.h do what the C++ calls do, and a
 * wrong call returns an error or nothing. Method: each function, on a small
 * database.
 */
#include "test/c/check.h"

static varve_t* db;
static varve_backup_engine_t* engine;
static varve_env_t* memory;
static char path[kPathBytes];
static char restored[kPathBytes];
static int progress_calls;

static void CountCall(void* state) { ++*(int*)state; }

static void OpenAll(void) {
  varve_options_t* const options = varve_options_create();
  varve_backup_engine_options_t* engine_options;
  varve_options_set_create_if_missing(options, 1);
  GOOD(db = varve_open(options, path, &error));
  varve_options_destroy(options);
  memory = varve_create_mem_env();
  engine_options = varve_backup_engine_options_create("/backups");
  varve_backup_engine_options_set_env(engine_options, memory);
  varve_backup_engine_options_set_share_table_files(engine_options, 1);
  varve_backup_engine_options_set_sync(engine_options, 0);
  varve_backup_engine_options_set_destroy_old_data(engine_options, 0);
  varve_backup_engine_options_set_backup_log_files(engine_options, 1);
  varve_backup_engine_options_set_backup_rate_limit(engine_options, 1 << 30);
  varve_backup_engine_options_set_restore_rate_limit(engine_options, 1 << 30);
  varve_backup_engine_options_set_max_background_operations(engine_options, 2);
  varve_backup_engine_options_set_callback_trigger_interval_size(engine_options,
                                                                 1);
  varve_backup_engine_options_set_schema_version(engine_options, 0);
  BAD(varve_backup_engine_open_opts(engine_options, NULL, &error));
  varve_backup_engine_options_set_schema_version(engine_options, 2);
  GOOD(engine = varve_backup_engine_open_opts(engine_options, NULL, &error));
  varve_backup_engine_options_destroy(engine_options);
}

static void TestBackups(void) {
  uint32_t id = 0;
  varve_backup_engine_info_t* info;
  const char* metadata;
  size_t size;
  PUT(db, plain_write, "a", "1");
  GOOD(varve_backup_engine_create_new_backup(engine, db, 0, "m", 1, CountCall,
                                             &progress_calls, &id, &error));
  CHECK(id == 1);
  CHECK(progress_calls > 0);
  PUT(db, plain_write, "b", "2");
  GOOD(varve_backup_engine_create_new_backup(engine, db, 1, NULL, 0, NULL, NULL,
                                             NULL, &error));
  CHECK((info = varve_backup_engine_get_backup_info(engine)) != NULL);
  CHECK(varve_backup_engine_info_count(info) == 2);
  CHECK(varve_backup_engine_info_backup_id(info, 1) == 2);
  CHECK(varve_backup_engine_info_timestamp(info, 0) > 0);
  CHECK(varve_backup_engine_info_size(info, 0) > 0);
  CHECK(varve_backup_engine_info_number_files(info, 0) > 2);
  metadata = varve_backup_engine_info_app_metadata(info, 0, &size);
  SAME(metadata, size, "m");
  CHECK(varve_backup_engine_info_app_metadata(info, 2, &size) == NULL);
  CHECK(size == 0);
  CHECK(varve_backup_engine_info_backup_id(info, -1) == 0);
  varve_backup_engine_info_destroy(info);
  GOOD(varve_backup_engine_verify_backup(engine, 1, 1, &error));
  FAILS(varve_backup_engine_verify_backup(engine, 3, 0, &error), "NotFound: ");
}

static void TestRestore(void) {
  varve_restore_options_t* const options = varve_restore_options_create();
  uint32_t id = 0;
  varve_restore_options_set_keep_log_files(options, 0);
  varve_restore_options_set_mode(options, 2);
  GOOD(varve_backup_engine_restore_db_from_backup(engine, restored, restored,
                                                  options, 1, &error));
  GOOD(varve_backup_engine_restore_db_from_latest_backup(
      engine, restored, restored, options, &id, &error));
  CHECK(id == 2);
  FAILS(varve_backup_engine_restore_db_from_backup(engine, path, path, options,
                                                   1, &error),
        "Busy: ");
  BAD(varve_backup_engine_restore_db_from_backup(engine, NULL, path, options, 1,
                                                 &error));
  BAD(varve_backup_engine_restore_db_from_latest_backup(engine, restored, NULL,
                                                        options, NULL, &error));
  varve_restore_options_destroy(options);
}

static void TestDeletion(void) {
  GOOD(varve_backup_engine_purge_old_backups(engine, 1, &error));
  FAILS(varve_backup_engine_delete_backup(engine, 1, &error), "NotFound: ");
  GOOD(varve_backup_engine_garbage_collect(engine, &error));
  GOOD(varve_backup_engine_delete_backup(engine, 2, &error));
  varve_backup_engine_stop_backup(engine);
  FAILS(varve_backup_engine_create_new_backup(engine, db, 0, NULL, 0, NULL,
                                              NULL, NULL, &error),
        "Incomplete: ");
}

static void TestClosed(void) {
  varve_close(db);
  BAD(varve_backup_engine_open_opts(NULL, NULL, &error));
  varve_backup_engine_close(engine);
  varve_env_destroy(memory);
}

static void TestWrongCalls(void) {
  CHECK(varve_backup_engine_options_create(NULL) == NULL);
  varve_backup_engine_options_set_sync(NULL, 1);
  varve_backup_engine_options_set_env(NULL, NULL);
  varve_backup_engine_options_set_schema_version(NULL, 1);
  varve_backup_engine_options_destroy(NULL);
  BAD(varve_backup_engine_open_opts(NULL, NULL, &error));
  BAD(varve_backup_engine_create_new_backup(NULL, db, 0, NULL, 0, NULL, NULL,
                                            NULL, &error));
  BAD(varve_backup_engine_create_new_backup(engine, NULL, 0, NULL, 0, NULL,
                                            NULL, NULL, &error));
  BAD(varve_backup_engine_create_new_backup(engine, db, 0, NULL, 7, NULL, NULL,
                                            NULL, &error));
  BAD(varve_backup_engine_purge_old_backups(NULL, 1, &error));
  BAD(varve_backup_engine_delete_backup(NULL, 1, &error));
  BAD(varve_backup_engine_garbage_collect(NULL, &error));
  BAD(varve_backup_engine_verify_backup(NULL, 1, 0, &error));
  varve_restore_options_set_keep_log_files(NULL, 1);
  varve_restore_options_set_mode(NULL, 1);
  varve_restore_options_destroy(NULL);
  CHECK(varve_backup_engine_get_backup_info(NULL) == NULL);
  CHECK(varve_backup_engine_info_count(NULL) == 0);
  CHECK(varve_backup_engine_info_size(NULL, 0) == 0);
  varve_backup_engine_info_destroy(NULL);
  varve_backup_engine_stop_backup(NULL);
  varve_backup_engine_close(NULL);
}

int main(void) {
  BeginTests();
  Join(path, test_root, "db");
  Join(restored, test_root, "restored");
  OpenAll();
  TEST(TestWrongCalls);
  TEST(TestBackups);
  TEST(TestRestore);
  TEST(TestDeletion);
  TEST(TestClosed);
  return EndTests();
}
