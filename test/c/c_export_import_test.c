/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: families can be exported and imported from C, and wrong calls are
 * errors. Method: every function of varve/c_live_files.h for that, with
 * metadata as it is exported, and made of its parts.
 */

#include "test/c/check.h"

static varve_options_t* options;
static varve_t* db;
static varve_column_family_handle_t* family;

/* Returns metadata made of the parts of other metadata. */
static varve_export_import_files_metadata_t* Remake(
    const varve_export_import_files_metadata_t* metadata) {
  varve_export_import_files_metadata_t* const made =
      varve_export_import_files_metadata_create();
  varve_livefiles_t* const from =
      varve_export_import_files_metadata_get_files(metadata);
  varve_livefiles_t* const to = varve_livefiles_create();
  char* const name =
      varve_export_import_files_metadata_get_db_comparator_name(metadata);
  int i;
  CHECK(varve_livefiles_count(from) == 1);
  for (i = 0; i < varve_livefiles_count(from); ++i) {
    size_t size = 0;
    const char* key;
    varve_livefile_t* const file = varve_livefile_create();
    varve_livefile_set_column_family_name(
        file, varve_livefiles_column_family_name(from, i));
    varve_livefile_set_level(file, varve_livefiles_level(from, i));
    varve_livefile_set_name(file, varve_livefiles_name(from, i));
    varve_livefile_set_directory(file, varve_livefiles_directory(from, i));
    varve_livefile_set_size(file, varve_livefiles_size(from, i));
    key = varve_livefiles_smallestkey(from, i, &size);
    varve_livefile_set_smallest_key(file, key, size);
    key = varve_livefiles_largestkey(from, i, &size);
    varve_livefile_set_largest_key(file, key, size);
    varve_livefile_set_smallest_seqno(file,
                                      varve_livefiles_smallest_seqno(from, i));
    varve_livefile_set_largest_seqno(file,
                                     varve_livefiles_largest_seqno(from, i));
    varve_livefile_set_num_entries(file, varve_livefiles_entries(from, i));
    varve_livefile_set_num_deletions(file, varve_livefiles_deletions(from, i));
    varve_livefiles_add(to, file);
    varve_livefile_destroy(file);
    CHECK(varve_livefiles_entries(to, i) == varve_livefiles_entries(from, i));
  }
  varve_export_import_files_metadata_set_files(made, to);
  varve_export_import_files_metadata_set_db_comparator_name(made, name);
  varve_free(name);
  varve_livefiles_destroy(from);
  varve_livefiles_destroy(to);
  return made;
}

static void TestExportAndImport(void) {
  char path[kPathBytes];
  size_t length = 0;
  char* value;
  int i;
  varve_checkpoint_t* checkpoint;
  varve_export_import_files_metadata_t* metadata[2];
  Join(path, test_root, "exported");
  GOOD(varve_put_cf(db, plain_write, family, "x", 1, "1", 1, &error));
  GOOD(varve_compact_range_cf(db, family, NULL, 0, NULL, 0));
  GOOD(checkpoint = varve_checkpoint_object_create(db, &error));
  GOOD(metadata[0] = varve_checkpoint_export_column_family(checkpoint, family,
                                                           path, &error));
  BAD(varve_checkpoint_export_column_family(checkpoint, family, path, &error));
  metadata[1] = Remake(metadata[0]);
  for (i = 0; i < 2; ++i) {
    const char* const name = i == 0 ? "imported" : "again";
    varve_column_family_handle_t* imported;
    /* The tables are also the database's. */
    BAD(varve_create_column_family_with_import(db, options, name, 1,
                                               metadata[i], &error));
    GOOD(imported = varve_create_column_family_with_import(
             db, options, name, 0, metadata[i], &error));
    GOOD(value =
             varve_get_cf(db, plain_read, imported, "x", 1, &length, &error));
    SAME(value, length, "1");
    varve_free(value);
    BAD(varve_create_column_family_with_import(db, options, name, 0,
                                               metadata[i], &error));
    varve_column_family_handle_destroy(imported);
    varve_export_import_files_metadata_destroy(metadata[i]);
  }
  varve_checkpoint_object_destroy(checkpoint);
}

static void TestWrongCalls(void) {
  varve_checkpoint_t* checkpoint;
  varve_t* closed;
  varve_column_family_handle_t* closed_family;
  varve_livefiles_t* files;
  varve_livefile_t* const file = varve_livefile_create();
  varve_export_import_files_metadata_t* const empty =
      varve_export_import_files_metadata_create();
  GOOD(checkpoint = varve_checkpoint_object_create(db, &error));
  BAD(varve_checkpoint_export_column_family(NULL, family, "x", &error));
  BAD(varve_checkpoint_export_column_family(checkpoint, NULL, "x", &error));
  BAD(varve_checkpoint_export_column_family(checkpoint, family, NULL, &error));
  varve_checkpoint_object_destroy(checkpoint);
  GOOD(closed = varve_open(options, PathOf("closed"), &error));
  closed_family = varve_get_default_column_family_handle(closed);
  GOOD(checkpoint = varve_checkpoint_object_create(closed, &error));
  BAD(varve_checkpoint_export_column_family(checkpoint, family, "x", &error));
  varve_close(closed);
  varve_checkpoint_export_column_family(checkpoint, closed_family, "x", &error);
  CHECK(error != NULL);
  varve_free(error);
  error = NULL;
  varve_column_family_handle_destroy(closed_family);
  varve_checkpoint_object_destroy(checkpoint);
  BAD(varve_create_column_family_with_import(NULL, options, "n", 0, empty,
                                             &error));
  BAD(varve_create_column_family_with_import(db, NULL, "n", 0, empty, &error));
  BAD(varve_create_column_family_with_import(db, options, NULL, 0, empty,
                                             &error));
  BAD(varve_create_column_family_with_import(db, options, "n", 0, NULL,
                                             &error));
  BAD(varve_create_column_family_with_import(db, options, "n", 0, empty,
                                             &error));
  CHECK(varve_export_import_files_metadata_get_files(NULL) == NULL);
  CHECK(varve_export_import_files_metadata_get_db_comparator_name(NULL) ==
        NULL);
  varve_export_import_files_metadata_set_db_comparator_name(NULL, "n");
  varve_export_import_files_metadata_set_db_comparator_name(empty, NULL);
  varve_export_import_files_metadata_set_files(NULL, NULL);
  varve_export_import_files_metadata_set_files(empty, NULL);
  varve_export_import_files_metadata_destroy(empty);
  varve_export_import_files_metadata_destroy(NULL);
  varve_livefile_set_column_family_name(NULL, "n");
  varve_livefile_set_name(file, NULL);
  varve_livefile_set_directory(file, NULL);
  varve_livefile_set_level(NULL, 1);
  varve_livefile_set_size(NULL, 1);
  varve_livefile_set_smallest_key(file, NULL, 1);
  varve_livefile_set_largest_key(NULL, "k", 1);
  varve_livefile_set_smallest_seqno(NULL, 1);
  varve_livefile_set_largest_seqno(NULL, 1);
  varve_livefile_set_num_entries(NULL, 1);
  varve_livefile_set_num_deletions(NULL, 1);
  varve_livefiles_add(NULL, file);
  files = varve_livefiles_create();
  varve_livefiles_add(files, NULL);
  CHECK(varve_livefiles_count(files) == 0);
  CHECK(varve_livefiles_directory(files, 0) == NULL);
  CHECK(varve_livefiles_smallest_seqno(files, 0) == 0);
  CHECK(varve_livefiles_largest_seqno(NULL, 0) == 0);
  varve_livefiles_destroy(files);
  varve_livefile_destroy(file);
  varve_livefile_destroy(NULL);
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  GOOD(db = varve_open(options, PathOf("db"), &error));
  GOOD(family = varve_create_column_family(db, options, "other", &error));
  TEST(TestExportAndImport);
  TEST(TestWrongCalls);
  varve_column_family_handle_destroy(family);
  varve_close(db);
  varve_options_destroy(options);
  return EndTests();
}
