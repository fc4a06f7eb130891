/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: reads with limits, and databases whose entries expire, work from C.
 * Method: a program in C that makes each call, right and wrong.
 */

#include "test/c/check.h"

static void TestReadsOfMemory(void) {
  varve_t* db = OpenPlain("memory");
  varve_options_t* const options = varve_options_create();
  varve_readoptions_t* const read = varve_readoptions_create();
  char* value;
  size_t size;
  PUT(db, plain_write, "k", "v");
  CHECK(varve_key_may_exist(db, read, NULL, "k", 1, &value, &size) == 1);
  CHECK(size == 1 && value[0] == 'v');
  varve_free(value);
  CHECK(varve_key_may_exist(db, read, NULL, "n", 1, NULL, NULL) == 0);
  varve_compact_range(db, NULL, 0, NULL, 0); /* To a table. */
  varve_close(db);
  GOOD(db = varve_open(options, PathOf("memory"), &error));
  varve_readoptions_set_read_tier(read, varve_block_cache_tier);
  FAILS(varve_get(db, read, "k", 1, &size, &error), "Incomplete: ");
  CHECK(varve_key_may_exist(db, read, NULL, "k", 1, &value, &size) == 1);
  CHECK(value == NULL && size == 0);
  varve_readoptions_set_read_tier(read, 3); /* Ignored. */
  FAILS(varve_get(db, read, "k", 1, &size, &error), "Incomplete: ");
  varve_readoptions_set_read_tier(read, varve_read_all_tier);
  varve_readoptions_set_deadline(read, 1);
  FAILS(varve_get(db, read, "k", 1, &size, &error), "Operation timed out: ");
  varve_readoptions_set_deadline(read, 0);
  GET(db, read, "k", "v");
  CHECK(varve_key_may_exist(NULL, read, NULL, "k", 1, NULL, NULL) == 0);
  CHECK(varve_key_may_exist(db, NULL, NULL, "k", 1, NULL, NULL) == 0);
  CHECK(varve_key_may_exist(db, read, NULL, NULL, 1, NULL, NULL) == 0);
  varve_readoptions_set_read_tier(NULL, 0);
  varve_readoptions_set_deadline(NULL, 0);
  varve_close(db);
  varve_readoptions_destroy(read);
  varve_options_destroy(options);
}

static void TestIteratorsThatFollow(void) {
  varve_t* const db = OpenPlain("follow");
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_iterator_t* iterator;
  varve_readoptions_set_max_skippable_internal_keys(read, 100);
  varve_readoptions_set_max_skippable_internal_keys(NULL, 100);
  iterator = varve_create_iterator(db, read);
  PUT(db, plain_write, "k", "v");
  varve_iter_seek_to_first(iterator);
  CHECK(!varve_iter_valid(iterator));
  GOOD(varve_iter_refresh(iterator, &error));
  varve_iter_seek_to_first(iterator);
  CHECK(varve_iter_valid(iterator));
  varve_iter_destroy(iterator);
  varve_readoptions_set_tailing(read, 1);
  varve_readoptions_set_tailing(NULL, 1);
  iterator = varve_create_iterator(db, read);
  PUT(db, plain_write, "l", "v");
  varve_iter_seek(iterator, "l", 1);
  CHECK(varve_iter_valid(iterator));
  varve_iter_destroy(iterator);
  FAILS(varve_iter_refresh(NULL, &error), "Invalid argument: ");
  varve_readoptions_destroy(read);
  varve_close(db);
}

static void TestTimeToLive(void) {
  varve_options_t* const options = varve_options_create();
  const varve_options_t* const family_options[] = {options, options};
  const char* const names[] = {"default", "other"};
  const int ttls[] = {0, 10};
  varve_column_family_handle_t* families[2];
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  GOOD(db = varve_open_with_ttl(options, PathOf("ttl"), 1000, &error));
  PUT(db, plain_write, "k", "v");
  GET(db, plain_read, "k", "v");
  varve_close(db);
  GOOD(varve_options_set(options, "create_missing_column_families", "true",
                         &error));
  GOOD(db = varve_open_column_families_with_ttl(options, PathOf("ttl"), 2,
                                                names, family_options, families,
                                                ttls, &error));
  GET(db, plain_read, "k", "v");
  varve_column_family_handle_destroy(families[0]);
  varve_column_family_handle_destroy(families[1]);
  varve_close(db);
  FAILS(varve_open_with_ttl(NULL, PathOf("ttl"), 1, &error),
        "Invalid argument: ");
  FAILS(varve_open_column_families_with_ttl(options, PathOf("ttl"), 2, names,
                                            family_options, families, NULL,
                                            &error),
        "Invalid argument: ");
  varve_options_destroy(options);
}

int main(void) {
  BeginTests();
  TEST(TestReadsOfMemory);
  TEST(TestIteratorsThatFollow);
  TEST(TestTimeToLive);
  return EndTests();
}
