/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: indexed batches can be used from C, and wrong calls of them are errors.
 * Method: every function of varve/c_indexed_batches.h.
 */

#include "test/c/check.h"

/* Such as -1 that was made a size_t. */
static const size_t kNoLength = (size_t)-3;

static varve_options_t* options;
static varve_t* db;
static varve_column_family_handle_t* family;
static varve_column_family_handle_t* default_family;

static varve_writebatch_wi_t* NewBatch(void) {
  varve_writebatch_wi_t* const batch =
      varve_writebatch_wi_create(NULL, 0, 1, 0);
  CHECK(batch != NULL);
  return batch;
}

/* The result of a read; NULL is nothing. */
static void ExpectValue(char* value, size_t size, const char* expected) {
  OK(error);
  if (expected == NULL) {
    CHECK(value == NULL && size == 0);
  } else {
    SAME(value, size, expected);
  }
  varve_free(value);
}

static void ExpectPinned(varve_pinnableslice_t* value, const char* expected) {
  size_t size = 0;
  OK(error);
  if (expected == NULL) {
    CHECK(value == NULL);
  } else {
    const char* const bytes = varve_pinnableslice_value(value, &size);
    SAME(bytes, size, expected);
  }
  varve_pinnableslice_destroy(value);
}

static void ExpectBoth(varve_writebatch_wi_t* batch, const char* key,
                       const char* expected) {
  size_t size = 7;
  char* const value = varve_writebatch_wi_get_from_batch_and_db(
      batch, db, plain_read, key, strlen(key), &size, &error);
  ExpectValue(value, size, expected);
  ExpectPinned(varve_writebatch_wi_get_pinned_from_batch_and_db(
                   batch, db, plain_read, key, strlen(key), &error),
               expected);
}

static void ExpectBothOf(varve_writebatch_wi_t* batch,
                         varve_column_family_handle_t* of, const char* key,
                         const char* expected) {
  size_t size = 7;
  char* const value = varve_writebatch_wi_get_from_batch_and_db_cf(
      batch, db, plain_read, of, key, strlen(key), &size, &error);
  ExpectValue(value, size, expected);
  ExpectPinned(varve_writebatch_wi_get_pinned_from_batch_and_db_cf(
                   batch, db, plain_read, of, key, strlen(key), &error),
               expected);
}

static void ExpectKeys(varve_iterator_t* iterator, const char* keys) {
  for (varve_iter_seek_to_first(iterator); *keys != '\0'; ++keys) {
    size_t size = 0;
    CHECK(varve_iter_valid(iterator));
    CHECK(varve_iter_key(iterator, &size)[0] == *keys);
    varve_iter_next(iterator);
  }
  CHECK(!varve_iter_valid(iterator));
  varve_iter_get_error(iterator, &error);
  OK(error);
  varve_iter_destroy(iterator);
}

static void TestUpdatesAndReads(void) {
  varve_writebatch_wi_t* const batch = NewBatch();
  size_t size = 7;
  char* value;
  PUT(db, plain_write, "a", "old");
  PUT(db, plain_write, "b", "old");
  varve_writebatch_wi_put(batch, "b", 1, "new", 3);
  varve_writebatch_wi_put_cf(batch, family, "f", 1, "new", 3);
  varve_writebatch_wi_merge(batch, "m", 1, "12345678", 8);
  varve_writebatch_wi_merge_cf(batch, default_family, "n", 1, "12345678", 8);
  varve_writebatch_wi_delete(batch, "a", 1);
  varve_writebatch_wi_delete_cf(batch, family, "a", 1);
  varve_writebatch_wi_put_log_data(batch, "blob", 4);
  CHECK(varve_writebatch_wi_count(batch) == 6);
  value = varve_writebatch_wi_get_from_batch(batch, "b", 1, &size, &error);
  ExpectValue(value, size, "new");
  value = varve_writebatch_wi_get_from_batch_cf(batch, family, "f", 1, &size,
                                                &error);
  ExpectValue(value, size, "new");
  FAILS(CHECK(!varve_writebatch_wi_get_from_batch_cf(batch, default_family, "n",
                                                     1, &size, &error)),
        "Incomplete: ");
  ExpectBoth(batch, "a", NULL);
  ExpectBoth(batch, "b", "new");
  ExpectBoth(batch, "m", "12345678");
  ExpectBothOf(batch, family, "f", "new");
  ExpectBothOf(batch, default_family, "n", "12345678");
  ExpectKeys(varve_writebatch_wi_create_iterator(batch, db, plain_read), "bmn");
  ExpectKeys(
      varve_writebatch_wi_create_iterator_cf(batch, db, plain_read, family),
      "f");
  GOOD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  GET(db, plain_read, "b", "new");
  GET(db, plain_read, "a", NULL);
  varve_writebatch_wi_destroy(batch);
}

static void TestRangesAndSavePoints(void) {
  varve_writebatch_wi_t* const batch = NewBatch();
  varve_writebatch_t* copy;
  const char* data;
  size_t size = 0;
  PUT(db, plain_write, "r", "v");
  varve_writebatch_wi_delete_range(batch, "r", 1, "s", 1);
  varve_writebatch_wi_delete_range_cf(batch, family, "f", 1, "g", 1);
  varve_writebatch_wi_singledelete(batch, "b", 1);
  varve_writebatch_wi_singledelete_cf(batch, family, "x", 1);
  ExpectBoth(batch, "r", NULL);
  ExpectBoth(batch, "b", NULL);
  ExpectBothOf(batch, family, "f", NULL);
  varve_writebatch_wi_set_save_point(batch);
  varve_writebatch_wi_put(batch, "r", 1, "2", 1);
  ExpectBoth(batch, "r", "2");
  GOOD(varve_writebatch_wi_rollback_to_save_point(batch, &error));
  ExpectBoth(batch, "r", NULL);
  FAILS(varve_writebatch_wi_rollback_to_save_point(batch, &error), "NotFound");
  data = varve_writebatch_wi_data(batch, &size);
  copy = varve_writebatch_create_from(data, size);
  CHECK(varve_writebatch_count(copy) == 4);
  varve_writebatch_destroy(copy);
  varve_writebatch_wi_clear(batch);
  CHECK(varve_writebatch_wi_count(batch) == 0);
  ExpectBoth(batch, "r", "v");
  varve_writebatch_wi_destroy(batch);
}

static void TestIteratorsOutliveTheBatch(void) {
  varve_writebatch_wi_t* const batch = NewBatch();
  varve_iterator_t* iterator;
  varve_writebatch_wi_put_cf(batch, family, "x", 1, "v", 1);
  iterator =
      varve_writebatch_wi_create_iterator_cf(batch, db, plain_read, family);
  varve_writebatch_wi_destroy(batch);
  varve_iter_seek(iterator, "x", 1);
  ExpectEntry(iterator, "x", "v");
  varve_iter_destroy(iterator);
}

static void TestRefusedBatches(void) {
  varve_writebatch_wi_t* batch = NewBatch();
  varve_writebatch_wi_put(batch, NULL, 1, "v", 1);
  BAD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  varve_writebatch_wi_clear(batch);
  GOOD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  varve_writebatch_wi_put(batch, "k", kNoLength, "v", 1);
  BAD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  varve_writebatch_wi_clear(batch);
  varve_writebatch_wi_put_cf(batch, NULL, "k", 1, "v", 1);
  BAD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  varve_writebatch_wi_clear(batch);
  varve_writebatch_wi_put_log_data(batch, NULL, 1);
  BAD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  varve_writebatch_wi_destroy(batch);
  CHECK(varve_writebatch_wi_create(NULL, kNoLength, 1, 0) == NULL);
  batch = varve_writebatch_wi_create(NULL, 0, 1, 40);
  varve_writebatch_wi_put(batch, "k", 1, "v", 1);
  varve_writebatch_wi_put(batch, "l", 1, "01234567890123456789", 20);
  CHECK(varve_writebatch_wi_count(batch) == 1);
  FAILS(varve_write_writebatch_wi(db, plain_write, batch, &error), "Aborted: ");
  varve_writebatch_wi_destroy(batch);
}

static void TestNull(void) {
  varve_writebatch_wi_t* const batch = NewBatch();
  varve_iterator_t* iterator;
  size_t size = 7;
  varve_writebatch_wi_destroy(NULL);
  varve_writebatch_wi_clear(NULL);
  CHECK(varve_writebatch_wi_count(NULL) == 0);
  CHECK(varve_writebatch_wi_data(NULL, &size) == NULL && size == 0);
  CHECK(varve_writebatch_wi_data(batch, NULL) == NULL);
  varve_writebatch_wi_set_save_point(NULL);
  BAD(varve_writebatch_wi_rollback_to_save_point(NULL, &error));
  varve_writebatch_wi_put(NULL, "k", 1, "v", 1);
  varve_writebatch_wi_put_cf(NULL, family, "k", 1, "v", 1);
  varve_writebatch_wi_merge(NULL, "k", 1, "v", 1);
  varve_writebatch_wi_merge_cf(NULL, family, "k", 1, "v", 1);
  varve_writebatch_wi_delete(NULL, "k", 1);
  varve_writebatch_wi_delete_cf(NULL, family, "k", 1);
  varve_writebatch_wi_singledelete(NULL, "k", 1);
  varve_writebatch_wi_singledelete_cf(NULL, family, "k", 1);
  varve_writebatch_wi_delete_range(NULL, "k", 1, "l", 1);
  varve_writebatch_wi_delete_range_cf(NULL, family, "k", 1, "l", 1);
  varve_writebatch_wi_put_log_data(NULL, "b", 1);
  BAD(varve_write_writebatch_wi(NULL, plain_write, batch, &error));
  BAD(varve_write_writebatch_wi(db, NULL, batch, &error));
  BAD(varve_write_writebatch_wi(db, plain_write, NULL, &error));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch(NULL, "k", 1, &size, &error)));
  BAD(CHECK(
      !varve_writebatch_wi_get_from_batch(batch, NULL, 1, &size, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch(batch, "k", 1, NULL, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_cf(batch, NULL, "k", 1, &size,
                                                   &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_and_db(NULL, db, plain_read,
                                                       "k", 1, &size, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_and_db(batch, NULL, plain_read,
                                                       "k", 1, &size, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_and_db(batch, db, NULL, "k", 1,
                                                       &size, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_and_db(batch, db, plain_read,
                                                       "k", 1, NULL, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_and_db_cf(
      batch, db, plain_read, NULL, "k", 1, &size, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_pinned_from_batch_and_db(
      batch, db, plain_read, NULL, 1, &error)));
  BAD(CHECK(!varve_writebatch_wi_get_pinned_from_batch_and_db_cf(
      batch, db, plain_read, NULL, "k", 1, &error)));
  iterator = varve_writebatch_wi_create_iterator(NULL, db, plain_read);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  iterator = varve_writebatch_wi_create_iterator(batch, db, NULL);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  iterator =
      varve_writebatch_wi_create_iterator_cf(batch, db, plain_read, NULL);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  varve_writebatch_wi_destroy(batch);
}

static void TestClosedDatabase(void) {
  varve_t* const closed = OpenPlain("closed");
  varve_column_family_handle_t* const its_family =
      varve_get_default_column_family_handle(closed);
  varve_writebatch_wi_t* const batch = NewBatch();
  varve_iterator_t* iterator;
  size_t size = 7;
  varve_writebatch_wi_put(batch, "k", 1, "v", 1);
  varve_close(closed);
  FAILS(varve_write_writebatch_wi(closed, plain_write, batch, &error),
        "Shutdown in progress: ");
  FAILS(CHECK(!varve_writebatch_wi_get_from_batch_and_db(
            batch, closed, plain_read, "k", 1, &size, &error)),
        "Shutdown in progress: ");
  BAD(CHECK(!varve_writebatch_wi_get_from_batch_cf(batch, its_family, "k", 1,
                                                   &size, &error)));
  iterator = varve_writebatch_wi_create_iterator(batch, closed, plain_read);
  FAILS(varve_iter_get_error(iterator, &error), "Shutdown in progress: ");
  varve_iter_destroy(iterator);
  varve_writebatch_wi_put_cf(batch, its_family, "k", 1, "v", 1);
  BAD(varve_write_writebatch_wi(db, plain_write, batch, &error));
  varve_writebatch_wi_destroy(batch);
  varve_column_family_handle_destroy(its_family);
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_uint64add_merge_operator(options);
  GOOD(db = varve_open(options, PathOf("db"), &error));
  GOOD(family = varve_create_column_family(db, options, "other", &error));
  default_family = varve_get_default_column_family_handle(db);
  TEST(TestUpdatesAndReads);
  TEST(TestRangesAndSavePoints);
  TEST(TestIteratorsOutliveTheBatch);
  TEST(TestRefusedBatches);
  TEST(TestNull);
  TEST(TestClosedDatabase);
  varve_column_family_handle_destroy(default_family);
  varve_column_family_handle_destroy(family);
  varve_close(db);
  varve_options_destroy(options);
  return EndTests();
}
