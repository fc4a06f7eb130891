/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: what is left of a database that was closed can be used and destroyed,
 * and a closed handle is an error. Method: each kind of object outlives its
 * handle, in either order; then the directory is opened again.
 */

#include "test/c/check.h"

static varve_t* OpenWithNumbers(const char* name) {
  varve_t* const db = OpenPlain(name);
  FillNumbers(db, 10);
  return db;
}

/* A second opening of the database, which something still holds. */
static void ExpectHeld(const char* name) {
  varve_options_t* const options = varve_options_create();
  FAILS(CHECK(varve_open(options, PathOf(name), &error) == NULL), "Busy: ");
  varve_options_destroy(options);
}

/* It can be opened, and all is there. */
static void ExpectFree(const char* name) {
  varve_t* const db = OpenPlain(name);
  GET(db, plain_read, "key000000", "value 0 of many");
  GET(db, plain_read, "key000009", "value 71271 of many");
  varve_close(db);
}

static void TestIteratorOutlivesTheHandle(void) {
  varve_t* const db = OpenWithNumbers("iterator");
  varve_iterator_t* const iterator = varve_create_iterator(db, plain_read);
  varve_iterator_t* const other = varve_create_iterator(db, plain_read);
  int count = 0;
  varve_iter_seek_to_last(other);
  varve_close(db);
  ExpectHeld("iterator");
  for (varve_iter_seek_to_first(iterator); varve_iter_valid(iterator);
       varve_iter_next(iterator)) {
    ++count;
  }
  CHECK(count == 10);
  GOOD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  ExpectHeld("iterator");
  ExpectEntry(other, "key000009", "value 71271 of many");
  varve_iter_destroy(other);
  ExpectFree("iterator");
}

static void TestSnapshotOutlivesTheHandle(void) {
  varve_t* const db = OpenWithNumbers("snapshot");
  const varve_snapshot_t* const snapshot = varve_create_snapshot(db);
  const varve_snapshot_t* const later = varve_create_snapshot(db);
  varve_close(db);
  CHECK(varve_snapshot_get_sequence_number(snapshot) == 10);
  varve_release_snapshot(db, snapshot);
  ExpectHeld("snapshot");
  varve_release_snapshot(NULL, later);
  ExpectFree("snapshot");
}

static void TestTransactionOutlivesTheHandle(void) {
  varve_t* const db = OpenWithNumbers("transaction");
  varve_readtransaction_t* const transaction = varve_readtransaction_begin(db);
  const varve_snapshot_t* const snapshot =
      varve_readtransaction_snapshot(transaction);
  varve_close(db);
  CHECK(varve_snapshot_get_sequence_number(snapshot) == 10);
  ExpectHeld("transaction");
  varve_readtransaction_end(transaction);
  ExpectFree("transaction");
}

static void TestPinnedValueOutlivesTheHandle(void) {
  varve_flushoptions_t* const flush = varve_flushoptions_create();
  size_t size = 0;
  const char* bytes;
  varve_pinnableslice_t* of_memtable;
  varve_pinnableslice_t* of_table;
  varve_t* const db = OpenWithNumbers("pinned");
  of_memtable = varve_get_pinned(db, plain_read, "key000000", 9, &error);
  GOOD(varve_flush(db, flush, &error));
  varve_flushoptions_destroy(flush);
  GOOD(of_table = varve_get_pinned(db, plain_read, "key000009", 9, &error));
  varve_close(db);
  ExpectFree("pinned");
  bytes = varve_pinnableslice_value(of_memtable, &size);
  SAME(bytes, size, "value 0 of many");
  bytes = varve_pinnableslice_value(of_table, &size);
  SAME(bytes, size, "value 71271 of many");
  varve_pinnableslice_destroy(of_memtable);
  varve_pinnableslice_destroy(of_table);
}

static void TestCheckpointOutlivesTheHandle(void) {
  varve_t* const db = OpenWithNumbers("checkpoint");
  varve_checkpoint_t* const checkpoint =
      varve_checkpoint_object_create(db, &error);
  varve_checkpoint_t* const other = varve_checkpoint_object_create(db, &error);
  OK(error);
  varve_checkpoint_object_destroy(other);
  varve_close(db);
  ExpectFree("checkpoint");
  FAILS(varve_checkpoint_create(checkpoint, PathOf("copy"), 0, &error),
        "Shutdown in progress: ");
  varve_checkpoint_object_destroy(checkpoint);
}

/* Unlogged writes survive a close, even if no call reports it. */
static void TestUnloggedWritesAreKept(void) {
  varve_writeoptions_t* const unlogged = varve_writeoptions_create();
  varve_options_t* const options = varve_options_create();
  varve_t* db = OpenWithNumbers("unlogged");
  varve_t* reader;
  varve_iterator_t* iterator;
  varve_writeoptions_disable_WAL(unlogged, 1);
  PUT(db, unlogged, "k", "v");
  iterator = varve_create_iterator(db, plain_read);
  varve_close(db);
  GOOD(reader = varve_open_for_read_only(options, PathOf("unlogged"), &error));
  GET(reader, plain_read, "k", "v");
  varve_close(reader);
  varve_iter_destroy(iterator);
  db = OpenPlain("unlogged");
  GET(db, plain_read, "k", "v");
  varve_close(db);
  varve_options_destroy(options);
  varve_writeoptions_destroy(unlogged);
}

static void TestReadOnlyAndManyObjects(void) {
  enum { kObjects = 100 };
  varve_options_t* const options = varve_options_create();
  varve_iterator_t* iterators[kObjects];
  const varve_snapshot_t* snapshots[kObjects];
  varve_t* db;
  int i;
  varve_close(OpenWithNumbers("read only"));
  GOOD(db = varve_open_for_read_only(options, PathOf("read only"), &error));
  for (i = 0; i < kObjects; ++i) {
    snapshots[i] = varve_create_snapshot(db);
    iterators[i] = varve_create_iterator(db, plain_read);
  }
  varve_close(db);
  for (i = 0; i < kObjects; ++i) {
    varve_release_snapshot(db, snapshots[i]);
    varve_iter_seek_to_first(iterators[i]);
    ExpectEntry(iterators[i], "key000000", "value 0 of many");
    varve_iter_destroy(iterators[i]);
  }
  ExpectFree("read only");
  varve_options_destroy(options);
}

/* Of a catalog, the database stays until the catalog goes. */
static void TestObjectsOutliveAReference(void) {
  varve_options_t* const options = varve_options_create();
  varve_catalog_t* catalog;
  varve_t* db;
  varve_iterator_t* iterator;
  const varve_snapshot_t* snapshot;
  varve_checkpoint_t* checkpoint;
  varve_options_set_create_if_missing(options, 1);
  GOOD(catalog = varve_catalog_open(options, PathOf("catalog"), &error));
  GOOD(varve_catalog_create_db(catalog, "db", &error));
  GOOD(db = varve_catalog_find(catalog, "db", &error));
  FillNumbers(db, 10);
  iterator = varve_create_iterator(db, plain_read);
  snapshot = varve_create_snapshot(db);
  GOOD(checkpoint = varve_checkpoint_object_create(db, &error));
  varve_close(db);
  varve_close(db);
  FAILS(varve_put(db, plain_write, "k", 1, "v", 1, &error),
        "Shutdown in progress: ");
  FAILS(CHECK(varve_catalog_close(catalog, &error) == 0), "Busy: ");
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "key000000", "value 0 of many");
  varve_iter_destroy(iterator);
  GOOD(CHECK(varve_catalog_close_idle(catalog, 0, &error) == 0));
  varve_release_snapshot(NULL, snapshot);
  GOOD(CHECK(varve_catalog_close_idle(catalog, 0, &error) == 1));
  FAILS(varve_checkpoint_create(checkpoint, PathOf("copy"), 0, &error),
        "Shutdown in progress: ");
  varve_checkpoint_object_destroy(checkpoint);
  GOOD(CHECK(varve_catalog_close(catalog, &error) == 1));
  FAILS(CHECK(varve_catalog_close(catalog, &error) == 1),
        "Shutdown in progress: ");
  FAILS(CHECK(varve_catalog_find(catalog, "db", &error) == NULL),
        "Shutdown in progress: ");
  FAILS(varve_catalog_create_db(catalog, "other", &error),
        "Shutdown in progress: ");
  varve_options_destroy(options);
}

static void TestAClosedHandleIsAnError(void) {
  varve_t* const db = OpenWithNumbers("closed");
  varve_writebatch_t* const batch = varve_writebatch_create();
  varve_flushoptions_t* const flush = varve_flushoptions_create();
  const char* const key = "key000000";
  const size_t key_size = 9;
  uint64_t number = 7;
  size_t size = 7;
  uint8_t found = 1;
  char* value = NULL;
  char* errors[1];
  varve_iterator_t* iterator;
  varve_close(db);
  varve_close(db);
  FAILS(CHECK(varve_close_checked(db, &error) == 1), "Shutdown in progress: ");
  FAILS(varve_put(db, plain_write, "k", 1, "v", 1, &error),
        "Shutdown in progress: ");
  FAILS(varve_delete(db, plain_write, "k", 1, &error),
        "Shutdown in progress: ");
  FAILS(varve_singledelete(db, plain_write, "k", 1, &error),
        "Shutdown in progress: ");
  FAILS(varve_delete_range(db, plain_write, "k", 1, "l", 1, &error),
        "Shutdown in progress: ");
  varve_writebatch_put(batch, "k", 1, "v", 1);
  FAILS(varve_write(db, plain_write, batch, &error), "Shutdown in progress: ");
  CHECK(varve_get(db, plain_read, key, key_size, &size, &error) == NULL);
  CHECK(size == 0);
  FAILED(error, "Shutdown in progress: ");
  FAILS(CHECK(varve_get_pinned(db, plain_read, key, key_size, &error) == NULL),
        "Shutdown in progress: ");
  CHECK(varve_get_into_buffer(db, plain_read, key, key_size, NULL, 0, &size,
                              &found, &error) == 0);
  CHECK(found == 0);
  FAILED(error, "Shutdown in progress: ");
  varve_multi_get(db, plain_read, 1, &key, &key_size, &value, &size, errors);
  CHECK(value == NULL && size == 0);
  FAILED(errors[0], "Shutdown in progress: ");
  iterator = varve_create_iterator(db, plain_read);
  varve_iter_seek_to_first(iterator);
  CHECK(varve_iter_valid(iterator) == 0);
  FAILS(varve_iter_get_error(iterator, &error), "Shutdown in progress: ");
  varve_iter_destroy(iterator);
  CHECK(varve_create_snapshot(db) == NULL);
  CHECK(varve_readtransaction_begin(db) == NULL);
  FAILS(CHECK(varve_checkpoint_object_create(db, &error) == NULL),
        "Shutdown in progress: ");
  CHECK(varve_property_value(db, "varve.stats") == NULL);
  CHECK(varve_property_int(db, "varve.num-snapshots", &number) == -1);
  CHECK(varve_get_latest_sequence_number(db) == 0);
  varve_approximate_sizes(db, 1, &key, &key_size, &key, &key_size, &number);
  CHECK(number == 0);
  varve_compact_range(db, NULL, 0, NULL, 0);
  varve_cancel_all_background_work(db, 1);
  FAILS(varve_flush(db, flush, &error), "Shutdown in progress: ");
  FAILS(varve_flush_wal(db, 1, &error), "Shutdown in progress: ");
  FAILS(varve_sync_wal(db, &error), "Shutdown in progress: ");
  FAILS(varve_wait_for_compact(db, &error), "Shutdown in progress: ");
  FAILS(varve_set_options(db, 0, NULL, NULL, &error), "Shutdown in progress: ");
  FAILS(varve_set_db_options(db, 0, NULL, NULL, &error),
        "Shutdown in progress: ");
  FAILS(varve_resume(db, &error), "Shutdown in progress: ");
  FAILS(varve_verify_checksum(db, &error), "Shutdown in progress: ");
  varve_flushoptions_destroy(flush);
  varve_writebatch_destroy(batch);
  ExpectFree("closed");
}

/* While an iterator keeps the database open, its handle is closed all the
 * same. */
static void TestAHandleThatWaitsIsAnError(void) {
  varve_t* const db = OpenWithNumbers("waits");
  varve_iterator_t* const iterator = varve_create_iterator(db, plain_read);
  varve_close(db);
  varve_close(db);
  FAILS(varve_put(db, plain_write, "k", 1, "v", 1, &error),
        "Shutdown in progress: ");
  FAILS(CHECK(varve_close_checked(db, &error) == 1), "Shutdown in progress: ");
  varve_iter_destroy(iterator);
  varve_close(db);
  ExpectFree("waits");
}

int main(void) {
  BeginTests();
  TEST(TestIteratorOutlivesTheHandle);
  TEST(TestSnapshotOutlivesTheHandle);
  TEST(TestTransactionOutlivesTheHandle);
  TEST(TestPinnedValueOutlivesTheHandle);
  TEST(TestCheckpointOutlivesTheHandle);
  TEST(TestUnloggedWritesAreKept);
  TEST(TestReadOnlyAndManyObjects);
  TEST(TestObjectsOutliveAReference);
  TEST(TestAClosedHandleIsAnError);
  TEST(TestAHandleThatWaitsIsAnError);
  return EndTests();
}
