/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: transactions can be used from C: both kinds, on families, with
 * snapshots, save points and two phases, and after their database was closed.
 * Method: the functions of varve/c_transactions.h with right arguments.
 */

#include "test/c/check.h"

#include <pthread.h>

static const char kLockTimeout[] = "Operation timed out: ";

static varve_options_t* options;
static varve_transactiondb_options_t* db_options;
static varve_transaction_options_t* locking;
static varve_optimistictransaction_options_t* optimistic;

static varve_t* OpenLocking(const char* name) {
  varve_t* db;
  GOOD(db =
           varve_transactiondb_open(options, db_options, PathOf(name), &error));
  CHECK(db != NULL);
  return db;
}

static varve_t* OpenOptimistic(const char* name) {
  varve_t* db;
  GOOD(db = varve_optimistictransactiondb_open(options, PathOf(name), &error));
  CHECK(db != NULL);
  return db;
}

static varve_transaction_t* BeginLocking(varve_t* db) {
  varve_transaction_t* transaction;
  GOOD(transaction =
           varve_transaction_begin(db, plain_write, locking, NULL, &error));
  CHECK(transaction != NULL);
  return transaction;
}

static varve_transaction_t* BeginOptimistic(varve_t* db) {
  varve_transaction_t* transaction;
  GOOD(transaction = varve_optimistictransaction_begin(
           db, plain_write, optimistic, NULL, &error));
  CHECK(transaction != NULL);
  return transaction;
}

static void ExpectIn(varve_transaction_t* transaction,
                     const varve_readoptions_t* read, const char* key,
                     const char* expected) {
  size_t size = 7;
  char* value;
  varve_pinnableslice_t* pinned;
  GOOD(value = varve_transaction_get(transaction, read, key, strlen(key), &size,
                                     &error));
  GOOD(pinned = varve_transaction_get_pinned(transaction, read, key,
                                             strlen(key), &error));
  if (expected == NULL) {
    CHECK(value == NULL && size == 0 && pinned == NULL);
  } else {
    const char* bytes;
    SAME(value, size, expected);
    bytes = varve_pinnableslice_value(pinned, &size);
    SAME(bytes, size, expected);
  }
  varve_free(value);
  varve_pinnableslice_destroy(pinned);
}

static void TestConflicts(void) {
  varve_t* const db = OpenOptimistic("conflicts");
  varve_transaction_t* one = BeginOptimistic(db);
  varve_transaction_t* two = BeginOptimistic(db);
  size_t size = 7;
  GOOD(varve_transaction_put(one, "a", 1, "1", 1, &error));
  GOOD(varve_transaction_put(two, "a", 1, "2", 1, &error));
  ExpectIn(one, plain_read, "a", "1");
  GET(db, plain_read, "a", NULL);
  GOOD(varve_transaction_commit(one, &error));
  GET(db, plain_read, "a", "1");
  FAILS(varve_transaction_commit(two, &error), "Busy: ");
  GOOD(varve_transaction_rollback(two, &error));

  /* A plain write, of a key that was only read. */
  GOOD(CHECK(two == varve_optimistictransaction_begin(
                        db, plain_write, optimistic, two, &error)));
  GOOD(CHECK(!varve_transaction_get_for_update(two, plain_read, "b", 1, &size,
                                               1, &error)));
  PUT(db, plain_write, "b", "1");
  FAILS(varve_transaction_commit(two, &error), "Busy: ");
  varve_transaction_destroy(one);
  varve_transaction_destroy(two);
  varve_close(db);
}

static void TestSerializable(void) {
  varve_t* const db = OpenOptimistic("serializable");
  varve_transaction_t* transaction;
  varve_optimistictransaction_options_set_serializable(optimistic, 1);
  transaction = BeginOptimistic(db);
  varve_optimistictransaction_options_set_serializable(optimistic, 0);
  ExpectIn(transaction, plain_read, "a", NULL);
  GOOD(varve_transaction_put(transaction, "b", 1, "1", 1, &error));
  PUT(db, plain_write, "a", "1");
  FAILS(varve_transaction_commit(transaction, &error), "Busy: ");
  varve_transaction_destroy(transaction);
  varve_close(db);
}

static void TestSnapshotsAndSavePoints(void) {
  varve_t* const db = OpenOptimistic("snapshots");
  varve_transaction_t* const transaction = BeginOptimistic(db);
  varve_readoptions_t* const read = varve_readoptions_create();
  PUT(db, plain_write, "a", "1");
  varve_transaction_set_snapshot(transaction);
  PUT(db, plain_write, "a", "2");
  varve_readoptions_set_transaction_snapshot(read, transaction);
  ExpectIn(transaction, read, "a", "1");
  ExpectIn(transaction, plain_read, "a", "2");
  varve_readoptions_destroy(read);
  GOOD(varve_transaction_put(transaction, "b", 1, "1", 1, &error));
  varve_transaction_set_savepoint(transaction);
  GOOD(varve_transaction_put(transaction, "a", 1, "3", 1, &error));
  GOOD(varve_transaction_rollback_to_savepoint(transaction, &error));
  ExpectIn(transaction, plain_read, "a", "2");
  FAILS(varve_transaction_rollback_to_savepoint(transaction, &error),
        "NotFound");
  GOOD(varve_transaction_commit(transaction, &error));
  GET(db, plain_read, "b", "1");
  varve_transaction_destroy(transaction);
  varve_close(db);
}

static void TestFamilies(void) {
  const char* const names[] = {"default", "other"};
  const varve_options_t* const all[] = {options, options};
  varve_column_family_handle_t* handles[2];
  varve_column_family_handle_t* family;
  const varve_column_family_handle_t* families[3];
  const char* const keys[] = {"a", "b", "a"};
  const size_t sizes[] = {1, 1, 1};
  char* values[3];
  size_t value_sizes[3];
  char* errors[3];
  varve_transaction_t* transaction;
  varve_iterator_t* iterator;
  varve_pinnableslice_t* pinned;
  varve_t* db;
  char* value;
  size_t size = 0;
  int i;
  varve_options_set_create_missing_column_families(options, 1);
  GOOD(db = varve_optimistictransactiondb_open_column_families(
           options, PathOf("families"), 2, names, all, handles, &error));
  family = handles[1];
  transaction = BeginOptimistic(db);
  GOOD(varve_transaction_put_cf(transaction, family, "a", 1, "1", 1, &error));
  GOOD(varve_transaction_put(transaction, "a", 1, "0", 1, &error));
  GOOD(varve_transaction_merge_cf(transaction, family, "m", 1, "12345678", 8,
                                  &error));
  GOOD(varve_transaction_merge(transaction, "m", 1, "12345678", 8, &error));
  GOOD(varve_transaction_delete_cf(transaction, family, "x", 1, &error));
  GOOD(varve_transaction_delete(transaction, "x", 1, &error));
  GOOD(varve_transaction_singledelete_cf(transaction, family, "y", 1, &error));
  GOOD(varve_transaction_singledelete(transaction, "y", 1, &error));
  GOOD(varve_transaction_delete_range_cf(transaction, family, "n", 1, "o", 1,
                                         &error));
  GOOD(varve_transaction_delete_range(transaction, "n", 1, "o", 1, &error));
  GOOD(value = varve_transaction_get_cf(transaction, plain_read, family, "a", 1,
                                        &size, &error));
  SAME(value, size, "1");
  varve_free(value);
  GOOD(value = varve_transaction_get_for_update_cf(
           transaction, plain_read, family, "m", 1, &size, 0, &error));
  SAME(value, size, "12345678");
  varve_free(value);
  GOOD(pinned = varve_transaction_get_pinned_cf(transaction, plain_read, family,
                                                "a", 1, &error));
  varve_pinnableslice_destroy(pinned);
  GOOD(pinned = varve_transaction_get_pinned_for_update_cf(
           transaction, plain_read, family, "a", 1, 1, &error));
  varve_pinnableslice_destroy(pinned);
  GOOD(pinned = varve_transaction_get_pinned_for_update(transaction, plain_read,
                                                        "a", 1, 1, &error));
  varve_pinnableslice_destroy(pinned);
  families[0] = family;
  families[1] = family;
  families[2] = handles[0];
  varve_transaction_multi_get_cf(transaction, plain_read, families, 3, keys,
                                 sizes, values, value_sizes, errors);
  for (i = 0; i < 3; ++i) OK(errors[i]);
  SAME(values[0], value_sizes[0], "1");
  CHECK(values[1] == NULL);
  SAME(values[2], value_sizes[2], "0");
  for (i = 0; i < 3; ++i) varve_free(values[i]);
  varve_transaction_multi_get_for_update_cf(transaction, plain_read, families,
                                            3, keys, sizes, values, value_sizes,
                                            errors);
  for (i = 0; i < 3; ++i) OK(errors[i]);
  for (i = 0; i < 3; ++i) varve_free(values[i]);
  varve_transaction_multi_get(transaction, plain_read, 2, keys, sizes, values,
                              value_sizes, errors);
  SAME(values[0], value_sizes[0], "0");
  CHECK(values[1] == NULL && errors[1] == NULL);
  varve_free(values[0]);
  varve_transaction_multi_get_for_update(transaction, plain_read, 2, keys,
                                         sizes, values, value_sizes, errors);
  SAME(values[0], value_sizes[0], "0");
  varve_free(values[0]);
  iterator =
      varve_transaction_create_iterator_cf(transaction, plain_read, family);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "a", "1");
  varve_iter_destroy(iterator);
  iterator = varve_transaction_create_iterator(transaction, plain_read);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "a", "0");
  varve_iter_destroy(iterator);
  GOOD(varve_transaction_commit(transaction, &error));
  GET(db, plain_read, "a", "0");
  varve_transaction_destroy(transaction);
  varve_column_family_handle_destroy(handles[0]);
  varve_column_family_handle_destroy(handles[1]);
  varve_close(db);
}

static void TestBatches(void) {
  varve_t* const db = OpenOptimistic("batches");
  varve_transaction_t* const transaction = BeginOptimistic(db);
  varve_writebatch_t* const batch = varve_writebatch_create();
  varve_writebatch_put(batch, "a", 1, "1", 1);
  GOOD(varve_transaction_rebuild_from_writebatch(transaction, batch, &error));
  varve_transaction_put_log_data(transaction, "blob", 4);
  ExpectIn(transaction, plain_read, "a", "1");
  varve_writebatch_destroy(batch);
  GOOD(varve_transaction_commit(transaction, &error));
  GET(db, plain_read, "a", "1");
  varve_transaction_destroy(transaction);
  varve_close(db);
}

static void TestLocks(void) {
  varve_t* const db = OpenLocking("locks");
  varve_transaction_t* const one = BeginLocking(db);
  varve_transaction_t* const two = BeginLocking(db);
  size_t size = 7;
  GOOD(varve_transaction_put(one, "a", 1, "1", 1, &error));
  FAILS(varve_transaction_put(two, "a", 1, "2", 1, &error), kLockTimeout);
  FAILS(CHECK(!varve_transaction_get_for_update(two, plain_read, "a", 1, &size,
                                                0, &error)),
        kLockTimeout);
  FAILS(varve_put(db, plain_write, "a", 1, "2", 1, &error), kLockTimeout);
  FAILS(varve_transaction_delete_range(one, "a", 1, "b", 1, &error),
        "Not supported: ");
  GOOD(varve_transaction_commit(one, &error));
  GOOD(varve_transaction_put(two, "a", 1, "2", 1, &error));
  GOOD(varve_transaction_rollback(two, &error));
  GET(db, plain_read, "a", "1");
  PUT(db, plain_write, "a", "3");
  varve_transaction_destroy(one);
  varve_transaction_destroy(two);
  varve_close(db);
}

static void Prepare(varve_transaction_t* transaction, const char* name) {
  GOOD(varve_transaction_put(transaction, name, strlen(name), "1", 1, &error));
  BAD(varve_transaction_prepare(transaction, &error));
  GOOD(varve_transaction_set_name(transaction, name, strlen(name), &error));
  GOOD(varve_transaction_prepare(transaction, &error));
}

static void TestTwoPhases(void) {
  varve_t* db = OpenLocking("phases");
  varve_transaction_t* one = BeginLocking(db);
  varve_transaction_t* two = BeginLocking(db);
  varve_transaction_t** all;
  size_t count = 7;
  size_t i;
  CHECK(!varve_transactiondb_get_prepared_transactions(db, &count));
  CHECK(count == 0);
  Prepare(one, "one");
  Prepare(two, "two");
  BAD(CHECK(!varve_transaction_begin(db, plain_write, locking, one, &error)));
  all = varve_transactiondb_get_prepared_transactions(db, &count);
  CHECK(count == 2);
  for (i = 0; i < count; ++i) varve_transaction_destroy(all[i]);
  varve_free(all);
  GET(db, plain_read, "one", NULL);
  varve_transaction_destroy(one);
  varve_transaction_destroy(two);
  varve_close(db);

  db = OpenLocking("phases");
  FAILS(varve_put(db, plain_write, "one", 3, "2", 1, &error), kLockTimeout);
  all = varve_transactiondb_get_prepared_transactions(db, &count);
  CHECK(count == 2);
  for (i = 0; i < count; ++i) {
    size_t size = 0;
    char* const name = varve_transaction_get_name(all[i], &size);
    CHECK(size == 3);
    if (memcmp(name, "one", 3) == 0) {
      GOOD(varve_transaction_commit(all[i], &error));
    } else {
      GOOD(varve_transaction_rollback(all[i], &error));
    }
    varve_free(name);
    varve_transaction_destroy(all[i]);
  }
  varve_free(all);
  GET(db, plain_read, "one", "1");
  GET(db, plain_read, "two", NULL);
  varve_close(db);
}

enum { kPrepared = 1000 };

static pthread_mutex_t done_mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_done;

static void* PrepareMany(void* db) {
  char* mine = NULL;
  char name[32];
  int i;
  for (i = 0; i < kPrepared; ++i) {
    varve_transaction_t* const transaction =
        varve_transaction_begin(db, plain_write, locking, NULL, &mine);
    snprintf(name, sizeof(name), "transaction%d", i);
    varve_transaction_set_name(transaction, name, strlen(name), &mine);
    varve_transaction_put(transaction, "k", 1, "v", 1, &mine);
    varve_transaction_prepare(transaction, &mine);
    varve_transaction_commit(transaction, &mine);
    varve_transaction_destroy(transaction);
    OK(mine);
  }
  pthread_mutex_lock(&done_mutex);
  is_done = 1;
  pthread_mutex_unlock(&done_mutex);
  return NULL;
}

/*
 * A transaction has one owner, whoever asks for it while it is being prepared,
 * committed or destroyed.
 */
static void TestTwoPhasesBesideOthersWhoAsk(void) {
  varve_t* const db = OpenLocking("asked");
  pthread_t other;
  int ended = 0;
  CHECK(pthread_create(&other, NULL, PrepareMany, db) == 0);
  while (!ended) {
    size_t count = 7;
    size_t i;
    varve_transaction_t** all;
    pthread_mutex_lock(&done_mutex);
    ended = is_done;
    pthread_mutex_unlock(&done_mutex);
    all = varve_transactiondb_get_prepared_transactions(db, &count);
    for (i = 0; i < count; ++i) {
      size_t size = 0;
      char* const name = varve_transaction_get_name(all[i], &size);
      CHECK(size > 11 && memcmp(name, "transaction", 11) == 0);
      varve_free(name);
      varve_transaction_destroy(all[i]);
    }
    varve_free(all);
    CHECK(!ended || count == 0);
  }
  pthread_join(other, NULL);
  varve_close(db);
}

static void TestClosedDatabases(void) {
  varve_t* db = OpenLocking("closed");
  varve_transaction_t* const idle = BeginLocking(db);
  varve_transaction_t* const used = BeginLocking(db);
  varve_transaction_t* const iterated = BeginLocking(db);
  varve_iterator_t* iterator;
  size_t size = 7;
  GOOD(varve_transaction_put(used, "a", 1, "1", 1, &error));
  GOOD(varve_transaction_put(iterated, "b", 1, "1", 1, &error));
  iterator = varve_transaction_create_iterator(iterated, plain_read);
  varve_transaction_destroy(iterated);
  varve_close(db);
  FAILS(varve_transaction_put(idle, "a", 1, "1", 1, &error),
        "Shutdown in progress: ");
  FAILS(varve_transaction_commit(used, &error), "Shutdown in progress: ");
  FAILS(CHECK(!varve_transaction_get(used, plain_read, "a", 1, &size, &error)),
        "Shutdown in progress: ");
  FAILS(CHECK(!varve_transaction_begin(db, plain_write, locking, NULL, &error)),
        "Shutdown in progress: ");
  CHECK(!varve_transactiondb_get_prepared_transactions(db, &size));
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "b", "1");
  FAILS(CHECK(!varve_transactiondb_open(options, db_options, PathOf("closed"),
                                        &error)),
        "Busy: ");
  varve_iter_destroy(iterator);
  varve_transaction_destroy(idle);
  varve_transaction_destroy(used);
  db = OpenLocking("closed");
  GET(db, plain_read, "a", NULL);
  GET(db, plain_read, "b", NULL);
  varve_close(db);
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_uint64add_merge_operator(options);
  db_options = varve_transactiondb_options_create();
  /* Calls never wait. */
  varve_transactiondb_options_set_transaction_lock_timeout(db_options, 0);
  varve_transactiondb_options_set_default_lock_timeout(db_options, 0);
  locking = varve_transaction_options_create();
  optimistic = varve_optimistictransaction_options_create();
  TEST(TestConflicts);
  TEST(TestSerializable);
  TEST(TestSnapshotsAndSavePoints);
  TEST(TestFamilies);
  TEST(TestBatches);
  TEST(TestLocks);
  TEST(TestTwoPhases);
  TEST(TestTwoPhasesBesideOthersWhoAsk);
  TEST(TestClosedDatabases);
  varve_optimistictransaction_options_destroy(optimistic);
  varve_transaction_options_destroy(locking);
  varve_transactiondb_options_destroy(db_options);
  varve_options_destroy(options);
  return EndTests();
}
