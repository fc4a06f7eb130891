/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
/*
 * Goal: the functions of varve/c_streams.h do what the C++ calls do, and a
 * wrong call returns an error or nothing. Method: each function, on a database
 * with a few updates.
 */
#include "test/c/check.h"

static varve_t* db;
static varve_wal_iterator_t* stream;
static char path[kPathBytes];

static void OpenDatabase(void) {
  varve_options_t* const options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_wal_ttl_seconds(options, 1000000);
  varve_options_set_wal_size_limit_mb(options, 1000);
  varve_options_set_wal_ttl_seconds(NULL, 1);
  varve_options_set_wal_size_limit_mb(NULL, 1);
  GOOD(db = varve_open(options, path, &error));
  varve_options_destroy(options);
}

static void ExpectBatch(uint64_t number) {
  uint64_t sequence = 0;
  varve_writebatch_t* batch;
  CHECK(varve_wal_iter_valid(stream) == 1);
  GOOD(varve_wal_iter_status(stream, &error));
  CHECK((batch = varve_wal_iter_get_batch(stream, &sequence)) != NULL);
  CHECK(sequence == number);
  GOOD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_destroy(batch);
  varve_wal_iter_next(stream);
}

static void TestBatches(void) {
  PUT(db, plain_write, "a", "1");
  PUT(db, plain_write, "b", "2");
  FAILS(stream = varve_get_updates_since(db, 9, &error), "NotFound");
  CHECK(stream == NULL);
  GOOD(stream = varve_get_updates_since(db, 1, &error));
  ExpectBatch(1); /* And writes it again, as update 3. */
  ExpectBatch(2);
  ExpectBatch(3);
  ExpectBatch(4);
  varve_wal_iter_destroy(stream);
  /* The last two wrote two more. */
  GOOD(stream = varve_get_updates_since(db, 5, &error));
  CHECK(varve_wal_iter_valid(stream) == 1);
  varve_wal_iter_next(stream);
  varve_wal_iter_next(stream);
  CHECK(varve_wal_iter_valid(stream) == 0);
  GOOD(varve_wal_iter_status(stream, &error));
  CHECK(varve_wal_iter_wait(stream, 1000) == 0);
  PUT(db, plain_write, "c", "3");
  CHECK(varve_wal_iter_wait(stream, 1000000) == 1);
  CHECK(varve_wal_iter_gap(stream, NULL, NULL) == varve_wal_gap_none);
  varve_wal_iter_next(stream);
}

static void TestGaps(void) {
  uint64_t first = 1;
  uint64_t last = 1;
  uint32_t family = 1;
  varve_writeoptions_t* const unlogged = varve_writeoptions_create();
  varve_writeoptions_disable_WAL(unlogged, 1);
  PUT(db, unlogged, "d", "4");
  varve_writeoptions_destroy(unlogged);
  varve_wal_iter_next(stream);
  CHECK(varve_wal_iter_valid(stream) == 0);
  CHECK(varve_wal_iter_gap(stream, &first, &last) == varve_wal_gap_unlogged);
  CHECK(first == last && first > 1);
  FAILS(varve_wal_iter_status(stream, &error), "");
  CHECK(varve_wal_iter_gap_files(stream) == 0);
  CHECK(varve_wal_iter_gap_file(stream, 0, &family) == NULL && family == 0);
}

static void TestWrongCalls(void) {
  uint64_t sequence = 1;
  varve_writebatch_t* batch;
  BAD(stream = varve_get_updates_since(NULL, 1, &error));
  CHECK(stream == NULL);
  CHECK(varve_wal_iter_valid(NULL) == 0);
  varve_wal_iter_next(NULL);
  BAD(varve_wal_iter_status(NULL, &error));
  CHECK((batch = varve_wal_iter_get_batch(NULL, &sequence)) != NULL);
  CHECK(sequence == 0);
  varve_writebatch_destroy(batch);
  CHECK(varve_wal_iter_wait(NULL, 0) == 0);
  CHECK(varve_wal_iter_gap(NULL, NULL, NULL) == varve_wal_gap_none);
  CHECK(varve_wal_iter_gap_files(NULL) == 0);
  varve_wal_iter_destroy(NULL);
}

static void TestClosed(void) {
  varve_wal_iterator_t* open;
  GOOD(open = varve_get_updates_since(db, 1, &error));
  varve_close(db);
  FAILS(stream = varve_get_updates_since(db, 1, &error),
        "Shutdown in progress");
  /* It keeps the database open. */
  CHECK(varve_wal_iter_valid(open) == 1);
  varve_wal_iter_next(open);
  CHECK(varve_wal_iter_valid(open) == 1);
  varve_wal_iter_destroy(open);
  OpenDatabase();
  varve_close(db);
}

int main(void) {
  BeginTests();
  Join(path, test_root, "db");
  OpenDatabase();
  TEST(TestBatches);
  TEST(TestGaps);
  varve_wal_iter_destroy(stream);
  TEST(TestWrongCalls);
  TEST(TestClosed);
  return EndTests();
}
