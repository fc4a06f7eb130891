/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: a wrong call of a function of varve/c_transactions.h is an error, or
 * does nothing where there is no way to tell: null pointers, lengths that are
 * none, handles of another database, and databases without such transactions.
 * Method: every function.
 */

#include "test/c/check.h"

/* Such as -1 that was made a size_t. */
static const size_t kNoLength = (size_t)-3;

static varve_options_t* options;
static varve_transactiondb_options_t* db_options;
static varve_transaction_options_t* locking;
static varve_optimistictransaction_options_t* optimistic;
static varve_t* db;
static varve_t* other;
static varve_column_family_handle_t* family;
static varve_column_family_handle_t* other_family;
static varve_transaction_t* txn;
static size_t size;

static void TestOptionsOfNull(void) {
  varve_transactiondb_options_destroy(NULL);
  varve_transactiondb_options_set_max_num_locks(NULL, 1);
  varve_transactiondb_options_set_num_stripes(NULL, 1);
  varve_transactiondb_options_set_transaction_lock_timeout(NULL, 1);
  varve_transactiondb_options_set_default_lock_timeout(NULL, 1);
  varve_transaction_options_destroy(NULL);
  varve_transaction_options_set_set_snapshot(NULL, 1);
  varve_transaction_options_set_deadlock_detect(NULL, 1);
  varve_transaction_options_set_deadlock_detect_depth(NULL, 1);
  varve_transaction_options_set_lock_timeout(NULL, 1);
  varve_transaction_options_set_expiration(NULL, 1);
  varve_transaction_options_set_max_write_batch_size(NULL, 1);
  varve_transaction_options_set_skip_prepare(NULL, 1);
  varve_optimistictransaction_options_destroy(NULL);
  varve_optimistictransaction_options_set_set_snapshot(NULL, 1);
  varve_optimistictransaction_options_set_serializable(NULL, 1);
}

static void TestOpeningWithNull(void) {
  const char* const path = PathOf("none");
  const char* const names[] = {"default"};
  const varve_options_t* all[1];
  varve_column_family_handle_t* handles[1];
  all[0] = options;
  BAD(CHECK(!varve_transactiondb_open(NULL, db_options, path, &error)));
  BAD(CHECK(!varve_transactiondb_open(options, NULL, path, &error)));
  BAD(CHECK(!varve_transactiondb_open(options, db_options, NULL, &error)));
  BAD(CHECK(!varve_optimistictransactiondb_open(NULL, path, &error)));
  BAD(CHECK(!varve_optimistictransactiondb_open(options, NULL, &error)));
  BAD(CHECK(!varve_transactiondb_open_column_families(
      options, NULL, path, 1, names, all, handles, &error)));
  BAD(CHECK(!varve_transactiondb_open_column_families(
      options, db_options, path, 1, NULL, all, handles, &error)));
  BAD(CHECK(!varve_optimistictransactiondb_open_column_families(
      options, path, 1, names, NULL, handles, &error)));
  CHECK(handles[0] == NULL);
  BAD(CHECK(!varve_optimistictransactiondb_open_column_families(
      options, path, 1, names, all, NULL, &error)));
}

static void TestBeginningOfNull(void) {
  varve_t* const plain = OpenPlain("plain");
  varve_transaction_t* foreign;
  size = 7;
  BAD(CHECK(
      !varve_transaction_begin(NULL, plain_write, locking, NULL, &error)));
  BAD(CHECK(!varve_transaction_begin(db, NULL, locking, NULL, &error)));
  BAD(CHECK(!varve_transaction_begin(db, plain_write, NULL, NULL, &error)));
  BAD(CHECK(!varve_optimistictransaction_begin(NULL, plain_write, optimistic,
                                               NULL, &error)));
  BAD(CHECK(!varve_optimistictransaction_begin(other, NULL, optimistic, NULL,
                                               &error)));
  BAD(CHECK(!varve_optimistictransaction_begin(other, plain_write, NULL, NULL,
                                               &error)));
  /* Of another kind. */
  BAD(CHECK(!varve_optimistictransaction_begin(db, plain_write, optimistic,
                                               NULL, &error)));
  BAD(CHECK(
      !varve_transaction_begin(other, plain_write, locking, NULL, &error)));
  BAD(CHECK(
      !varve_transaction_begin(plain, plain_write, locking, NULL, &error)));
  CHECK(!varve_transactiondb_get_prepared_transactions(plain, &size));
  CHECK(size == 0);
  CHECK(!varve_transactiondb_get_prepared_transactions(NULL, &size));
  CHECK(!varve_transactiondb_get_prepared_transactions(db, NULL));
  /* Of another database. */
  GOOD(foreign = varve_optimistictransaction_begin(other, plain_write,
                                                   optimistic, NULL, &error));
  BAD(CHECK(
      !varve_transaction_begin(db, plain_write, locking, foreign, &error)));
  varve_transaction_destroy(foreign);
  varve_transaction_destroy(NULL);
  varve_close(plain);
}

static void TestTransactionsOfNull(void) {
  BAD(varve_transaction_commit(NULL, &error));
  BAD(varve_transaction_rollback(NULL, &error));
  BAD(varve_transaction_set_name(NULL, "n", 1, &error));
  BAD(varve_transaction_set_name(txn, NULL, 1, &error));
  BAD(varve_transaction_set_name(txn, "n", kNoLength, &error));
  BAD(varve_transaction_set_name(txn, "", 0, &error));
  CHECK(!varve_transaction_get_name(NULL, &size) && size == 0);
  varve_free(varve_transaction_get_name(txn, NULL));
  BAD(varve_transaction_prepare(NULL, &error));
  varve_transaction_set_savepoint(NULL);
  BAD(varve_transaction_rollback_to_savepoint(NULL, &error));
  varve_transaction_set_snapshot(NULL);
  varve_readoptions_set_transaction_snapshot(NULL, txn);
  varve_readoptions_set_transaction_snapshot(plain_read, NULL);
}

static void TestUpdatesOfNull(void) {
  varve_writebatch_t* const batch = varve_writebatch_create();
  BAD(varve_transaction_put(NULL, "k", 1, "v", 1, &error));
  BAD(varve_transaction_put(txn, NULL, 1, "v", 1, &error));
  BAD(varve_transaction_put(txn, "k", kNoLength, "v", 1, &error));
  BAD(varve_transaction_put(txn, "k", 1, NULL, 1, &error));
  BAD(varve_transaction_put_cf(NULL, family, "k", 1, "v", 1, &error));
  BAD(varve_transaction_put_cf(txn, NULL, "k", 1, "v", 1, &error));
  BAD(varve_transaction_put_cf(txn, other_family, "k", 1, "v", 1, &error));
  BAD(varve_transaction_merge(NULL, "k", 1, "v", 1, &error));
  BAD(varve_transaction_merge_cf(txn, other_family, "k", 1, "v", 1, &error));
  BAD(varve_transaction_delete(NULL, "k", 1, &error));
  BAD(varve_transaction_delete_cf(txn, other_family, "k", 1, &error));
  BAD(varve_transaction_singledelete(NULL, "k", 1, &error));
  BAD(varve_transaction_singledelete_cf(txn, NULL, "k", 1, &error));
  BAD(varve_transaction_delete_range(NULL, "k", 1, "l", 1, &error));
  BAD(varve_transaction_delete_range(txn, "k", 1, NULL, 1, &error));
  BAD(varve_transaction_delete_range_cf(txn, NULL, "k", 1, "l", 1, &error));
  varve_transaction_put_log_data(NULL, "b", 1);
  varve_transaction_put_log_data(txn, NULL, 1);
  BAD(varve_transaction_rebuild_from_writebatch(NULL, batch, &error));
  BAD(varve_transaction_rebuild_from_writebatch(txn, NULL, &error));
  varve_transaction_put(txn, "k", 1, NULL, 1, NULL);
  varve_writebatch_destroy(batch);
}

static void TestReadsOfNull(void) {
  size = 7;
  BAD(CHECK(!varve_transaction_get(NULL, plain_read, "k", 1, &size, &error)));
  CHECK(size == 0);
  BAD(CHECK(!varve_transaction_get(txn, NULL, "k", 1, &size, &error)));
  BAD(CHECK(!varve_transaction_get(txn, plain_read, NULL, 1, &size, &error)));
  BAD(CHECK(!varve_transaction_get(txn, plain_read, "k", 1, NULL, &error)));
  BAD(CHECK(!varve_transaction_get_cf(txn, plain_read, other_family, "k", 1,
                                      &size, &error)));
  BAD(CHECK(!varve_transaction_get_pinned(NULL, plain_read, "k", 1, &error)));
  BAD(CHECK(
      !varve_transaction_get_pinned_cf(txn, plain_read, NULL, "k", 1, &error)));
  BAD(CHECK(!varve_transaction_get_for_update(NULL, plain_read, "k", 1, &size,
                                              1, &error)));
  BAD(CHECK(!varve_transaction_get_for_update_cf(txn, plain_read, NULL, "k", 1,
                                                 &size, 1, &error)));
  BAD(CHECK(
      !varve_transaction_get_pinned_for_update(txn, NULL, "k", 1, 1, &error)));
  BAD(CHECK(!varve_transaction_get_pinned_for_update_cf(
      txn, plain_read, other_family, "k", 1, 1, &error)));
}

static void TestMultiGetsOfNull(void) {
  const char* keys[] = {"k", NULL};
  const size_t sizes[] = {1, 1};
  const varve_column_family_handle_t* families[2];
  char* values[2];
  size_t value_sizes[2];
  char* errors[2];
  int i;
  families[0] = family;
  families[1] = other_family;
  varve_transaction_multi_get(txn, plain_read, 2, keys, sizes, values,
                              value_sizes, errors);
  OK(errors[0]);
  FAILED(errors[1], "Invalid argument: ");
  keys[1] = "k";
  varve_transaction_multi_get_cf(txn, plain_read, families, 2, keys, sizes,
                                 values, value_sizes, errors);
  OK(errors[0]);
  FAILED(errors[1], "Invalid argument: ");
  for (i = 0; i < 3; ++i) {
    varve_transaction_multi_get_for_update_cf(
        i == 0 ? NULL : txn, i == 1 ? NULL : plain_read,
        i == 2 ? NULL : families, 1, keys, sizes, values, value_sizes, errors);
    FAILED(errors[0], "Invalid argument: ");
  }
  varve_transaction_multi_get_for_update(NULL, plain_read, 1, keys, sizes,
                                         values, value_sizes, errors);
  FAILED(errors[0], "Invalid argument: ");
  varve_transaction_multi_get(txn, plain_read, 1, NULL, sizes, values,
                              value_sizes, errors);
  FAILED(errors[0], "Invalid argument: ");
  varve_transaction_multi_get(txn, plain_read, kNoLength, keys, sizes, values,
                              value_sizes, errors);
  varve_transaction_multi_get(txn, plain_read, 1, keys, sizes, values,
                              value_sizes, NULL);
}

static void ExpectBad(varve_iterator_t* iterator) {
  CHECK(iterator != NULL && !varve_iter_valid(iterator));
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
}

static void TestIteratorsOfNull(void) {
  ExpectBad(varve_transaction_create_iterator(NULL, plain_read));
  ExpectBad(varve_transaction_create_iterator(txn, NULL));
  ExpectBad(varve_transaction_create_iterator_cf(txn, plain_read, NULL));
  ExpectBad(
      varve_transaction_create_iterator_cf(txn, plain_read, other_family));
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  db_options = varve_transactiondb_options_create();
  locking = varve_transaction_options_create();
  optimistic = varve_optimistictransaction_options_create();
  GOOD(db =
           varve_transactiondb_open(options, db_options, PathOf("db"), &error));
  GOOD(other = varve_optimistictransactiondb_open(options, PathOf("other"),
                                                  &error));
  family = varve_get_default_column_family_handle(db);
  other_family = varve_get_default_column_family_handle(other);
  GOOD(txn = varve_transaction_begin(db, plain_write, locking, NULL, &error));
  TEST(TestOptionsOfNull);
  TEST(TestOpeningWithNull);
  TEST(TestBeginningOfNull);
  TEST(TestTransactionsOfNull);
  TEST(TestUpdatesOfNull);
  TEST(TestReadsOfNull);
  TEST(TestMultiGetsOfNull);
  TEST(TestIteratorsOfNull);
  varve_transaction_destroy(txn);
  varve_column_family_handle_destroy(family);
  varve_column_family_handle_destroy(other_family);
  varve_close(db);
  varve_close(other);
  varve_optimistictransaction_options_destroy(optimistic);
  varve_transaction_options_destroy(locking);
  varve_transactiondb_options_destroy(db_options);
  varve_options_destroy(options);
  return EndTests();
}
