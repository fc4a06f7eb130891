/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
/*
 * Goal: the functions of varve/c_live_files.h do what the C++ calls do, and a
 * wrong call returns an error or nothing. Method: each function, on a database
 * of two tables.
 */
#include "test/c/check.h"

static varve_t* db;
static char path[kPathBytes];

static void OpenDatabase(void) {
  varve_options_t* const options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  varve_options_add_compact_on_deletion_collector_factory(options, 10, 5, 0.5);
  varve_options_add_compact_on_deletion_collector_factory(NULL, 1, 1, 0);
  GOOD(db = varve_open(options, path, &error));
  varve_options_destroy(options);
}

static void FlushDatabase(void) {
  varve_flushoptions_t* const options = varve_flushoptions_create();
  GOOD(varve_flush(db, options, &error));
  varve_flushoptions_destroy(options);
}

static void TestTables(void) {
  varve_livefiles_t* files;
  const char* key;
  size_t size;
  PUT(db, plain_write, "a", "1");
  PUT(db, plain_write, "b", "1");
  DELETE(db, plain_write, "c");
  FlushDatabase();
  CHECK((files = varve_livefiles(db)) != NULL);
  CHECK(varve_livefiles_count(files) == 1);
  CHECK(strcmp(varve_livefiles_column_family_name(files, 0), "default") == 0);
  CHECK(varve_livefiles_name(files, 0)[0] == '/');
  CHECK(varve_livefiles_level(files, 0) == 0);
  CHECK(varve_livefiles_size(files, 0) > 0);
  CHECK(varve_livefiles_entries(files, 0) ==
        2 + varve_livefiles_deletions(files, 0));
  key = varve_livefiles_smallestkey(files, 0, &size);
  SAME(key, size, "a");
  CHECK(varve_livefiles_largestkey(files, 0, NULL) != NULL);
  CHECK(varve_livefiles_name(files, 1) == NULL);
  CHECK(varve_livefiles_name(files, -1) == NULL);
  CHECK(varve_livefiles_level(files, 1) == 0);
  varve_livefiles_destroy(files);
  varve_livefiles_destroy(NULL);
  CHECK(varve_livefiles(NULL) == NULL);
  CHECK(varve_livefiles_count(NULL) == 0);
  CHECK(varve_livefiles_smallestkey(NULL, 0, &size) == NULL && size == 0);
}

static void TestStorageInfo(void) {
  varve_livefiles_storage_info_t* info;
  size_t i;
  size_t size;
  size_t logs = 0;
  size_t replaced = 0;
  PUT(db, plain_write, "d", "1");
  GOOD(varve_disable_file_deletions(db, &error));
  GOOD(info = varve_get_livefiles_storage_info(db, UINT64_MAX, &error));
  for (i = 0; i < varve_livefiles_storage_info_count(info); ++i) {
    const char* const name =
        varve_livefiles_storage_info_relative_filename(info, i);
    if (strstr(name, ".log") != NULL) ++logs;
    CHECK(varve_livefiles_storage_info_size(info, i) > 0);
    if (varve_livefiles_storage_info_replacement_contents(info, i, &size) !=
        NULL) {
      CHECK(strcmp(name, "CURRENT") == 0);
      CHECK(size == varve_livefiles_storage_info_size(info, i));
      ++replaced;
    }
  }
  CHECK(logs == 1);
  CHECK(replaced == 1);
  CHECK(varve_livefiles_storage_info_relative_filename(info, i) == NULL);
  CHECK(varve_livefiles_storage_info_size(info, i) == 0);
  varve_livefiles_storage_info_destroy(info);
  varve_livefiles_storage_info_destroy(NULL);
  GOOD(varve_enable_file_deletions(db, &error));
  BAD(varve_disable_file_deletions(NULL, &error));
  BAD(varve_enable_file_deletions(NULL, &error));
  BAD(info = varve_get_livefiles_storage_info(NULL, 0, &error));
  CHECK(info == NULL);
  CHECK(varve_livefiles_storage_info_count(NULL) == 0);
}

static void TestRanges(void) {
  varve_compact_range(db, NULL, 0, NULL, 0);
  GOOD(varve_suggest_compact_range_cf(db, NULL, NULL, 0, NULL, 0, &error));
  GOOD(varve_delete_file_in_range_cf(db, NULL, "x", 1, NULL, 0, &error));
  GET(db, plain_read, "a", "1");
  GOOD(varve_delete_file_in_range_cf(db, NULL, "a", 1, "z", 1, &error));
  GET(db, plain_read, "a", NULL);
  BAD(varve_delete_file_in_range_cf(NULL, NULL, "a", 1, "z", 1, &error));
  BAD(varve_delete_file_in_range_cf(db, NULL, "a", (size_t)-1, "z", 1, &error));
  BAD(varve_suggest_compact_range_cf(NULL, NULL, NULL, 0, NULL, 0, &error));
}

static void TestClosed(void) {
  varve_livefiles_t* files;
  varve_close(db);
  CHECK((files = varve_livefiles(db)) != NULL);
  CHECK(varve_livefiles_count(files) == 0);
  varve_livefiles_destroy(files);
  FAILS(varve_disable_file_deletions(db, &error), "Shutdown in progress");
  FAILS(varve_delete_file_in_range_cf(db, NULL, NULL, 0, NULL, 0, &error),
        "Shutdown in progress");
}

int main(void) {
  BeginTests();
  Join(path, test_root, "db");
  OpenDatabase();
  TEST(TestTables);
  TEST(TestStorageInfo);
  TEST(TestRanges);
  TEST(TestClosed);
  return EndTests();
}
