/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: tables can be written and ingested from C, and wrong calls are errors.
 * Method: every function of varve/c_external_files.h.
 */

#include "test/c/check.h"

static varve_options_t* options;
static varve_t* db;
static varve_column_family_handle_t* family;

static void TestWriteAndIngest(void) {
  char path[kPathBytes];
  const char* files[1];
  uint64_t size = 0;
  size_t length = 0;
  char* value;
  varve_sstfilewriter_t* const writer = varve_sstfilewriter_create(options);
  CHECK(writer != NULL);
  Join(path, test_root, "table");
  files[0] = path;
  BAD(varve_sstfilewriter_put(writer, "a", 1, "1", 1, &error));
  GOOD(varve_sstfilewriter_open(writer, path, &error));
  GOOD(varve_sstfilewriter_put(writer, "a", 1, "1", 1, &error));
  BAD(varve_sstfilewriter_put(writer, "a", 1, "1", 1, &error));
  GOOD(
      varve_sstfilewriter_merge(writer, "b", 1, "\1\0\0\0\0\0\0\0", 8, &error));
  GOOD(varve_sstfilewriter_delete(writer, "c", 1, &error));
  GOOD(varve_sstfilewriter_delete_range(writer, "d", 1, "f", 1, &error));
  BAD(varve_sstfilewriter_delete_range(writer, "f", 1, "d", 1, &error));
  GOOD(varve_sstfilewriter_finish(writer, &error));
  varve_sstfilewriter_file_size(writer, &size);
  CHECK(size > 0);
  varve_sstfilewriter_destroy(writer);

  PUT(db, plain_write, "c", "old");
  PUT(db, plain_write, "e", "old");
  GOOD(varve_ingest_external_files(
      db, NULL, files, 1, varve_ingest_link | varve_ingest_verify, &error));
  GET(db, plain_read, "a", "1");
  GET(db, plain_read, "c", NULL);
  GET(db, plain_read, "e", NULL);
  CHECK(Exists(path));
  GOOD(varve_ingest_external_files(db, family, files, 1, varve_ingest_move,
                                   &error));
  CHECK(!Exists(path));
  GOOD(value = varve_get_cf(db, plain_read, family, "a", 1, &length, &error));
  SAME(value, length, "1");
  varve_free(value);
}

static void TestWrongCalls(void) {
  const char* none[1] = {NULL};
  const char* missing[1] = {"/there is no such file"};
  uint64_t size = 1;
  varve_sstfilewriter_t* const writer = varve_sstfilewriter_create(options);
  CHECK(varve_sstfilewriter_create(NULL) == NULL);
  BAD(varve_sstfilewriter_open(NULL, "x", &error));
  BAD(varve_sstfilewriter_open(writer, NULL, &error));
  BAD(varve_sstfilewriter_put(NULL, "a", 1, "1", 1, &error));
  BAD(varve_sstfilewriter_put(writer, NULL, 1, "1", 1, &error));
  BAD(varve_sstfilewriter_merge(NULL, "a", 1, "1", 1, &error));
  BAD(varve_sstfilewriter_delete(NULL, "a", 1, &error));
  BAD(varve_sstfilewriter_delete_range(NULL, "a", 1, "b", 1, &error));
  BAD(varve_sstfilewriter_finish(NULL, &error));
  BAD(varve_sstfilewriter_finish(writer, &error));
  varve_sstfilewriter_file_size(NULL, &size);
  CHECK(size == 0);
  varve_sstfilewriter_file_size(writer, NULL);
  varve_sstfilewriter_destroy(writer);
  varve_sstfilewriter_destroy(NULL);
  BAD(varve_ingest_external_files(NULL, NULL, missing, 1, 0, &error));
  BAD(varve_ingest_external_files(db, NULL, NULL, 1, 0, &error));
  BAD(varve_ingest_external_files(db, NULL, none, 1, 0, &error));
  BAD(varve_ingest_external_files(db, NULL, missing, 0, 0, &error));
  varve_ingest_external_files(db, NULL, missing, 1, 0, &error);
  CHECK(error != NULL);
  varve_free(error);
  error = NULL;
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_uint64add_merge_operator(options);
  GOOD(db = varve_open(options, PathOf("db"), &error));
  GOOD(family = varve_create_column_family(db, options, "other", &error));
  TEST(TestWriteAndIngest);
  TEST(TestWrongCalls);
  varve_column_family_handle_destroy(family);
  varve_close(db);
  varve_options_destroy(options);
  return EndTests();
}
