/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: a wrong call of a function of varve/c_families.h is an error, or does
 * nothing where there is no way to tell: null pointers, lengths that are none,
 * and handles of another database, of a closed one, or of a dropped family.
 * Method: every function.
 */

#include "test/c/check.h"

/* Such as -1 that was made a size_t. */
static const size_t kNoLength = (size_t)-3;

static varve_options_t* options;
static varve_flushoptions_t* flush;
static varve_compactoptions_t* compact;
static varve_t* db;
static varve_column_family_handle_t* family;

static varve_column_family_handle_t* Create(varve_t* of, const char* name) {
  varve_column_family_handle_t* const created =
      varve_create_column_family(of, options, name, &error);
  OK(error);
  CHECK(created != NULL);
  return created;
}

static void TestOpeningWithNull(void) {
  const char* names[] = {"default", NULL};
  const varve_options_t* all[2];
  varve_column_family_handle_t* handles[2];
  size_t count = 7;
  int i;
  all[0] = options;
  all[1] = options;
  for (i = 0; i < 2; ++i) {
    varve_t* (*open)(const varve_options_t*, const char*, int,
                     const char* const*, const varve_options_t* const*,
                     varve_column_family_handle_t**, char**) =
        i == 0 ? varve_open_column_families
               : varve_open_for_read_only_column_families;
    const char* const path = PathOf("none");
    BAD(CHECK(!open(NULL, path, 1, names, all, handles, &error)));
    BAD(CHECK(!open(options, NULL, 1, names, all, handles, &error)));
    BAD(CHECK(!open(options, path, 1, NULL, all, handles, &error)));
    BAD(CHECK(!open(options, path, 1, names, NULL, handles, &error)));
    BAD(CHECK(!open(options, path, 1, names, all, NULL, &error)));
    BAD(CHECK(!open(options, path, 2, names, all, handles, &error)));
    BAD(CHECK(!open(options, path, 0, names, all, handles, &error)));
    BAD(CHECK(!open(options, path, -1, names, all, handles, &error)));
    names[1] = "default";
    BAD(CHECK(!open(options, path, 2, names, all, handles, &error)));
    names[1] = "other";
    all[1] = NULL;
    BAD(CHECK(!open(options, path, 2, names, all, handles, &error)));
    CHECK(handles[0] == NULL && handles[1] == NULL);
    all[1] = options;
    names[1] = NULL;
  }
  CHECK(!Exists(PathOf("none")));
  BAD(CHECK(!varve_list_column_families(NULL, "name", &count, &error)));
  BAD(CHECK(!varve_list_column_families(options, NULL, &count, &error)));
  BAD(CHECK(!varve_list_column_families(options, "name", NULL, &error)));
  CHECK(!varve_list_column_families(options, PathOf("none"), &count, &error));
  CHECK(count == 0 && error != NULL);
  varve_free(error);
  error = NULL;
  varve_list_column_families_destroy(NULL, 3);
}

static void TestHandlesOfNull(void) {
  static const char* const kNames[] = {"created", NULL};
  varve_column_family_handle_t** created;
  size_t count = 7;
  BAD(CHECK(!varve_create_column_family(NULL, options, "n", &error)));
  BAD(CHECK(!varve_create_column_family(db, NULL, "n", &error)));
  BAD(CHECK(!varve_create_column_family(db, options, NULL, &error)));
  BAD(CHECK(!varve_create_column_family(db, options, "", &error)));
  BAD(CHECK(
      !varve_create_column_families(NULL, options, 1, kNames, &count, &error)));
  CHECK(count == 0);
  BAD(CHECK(
      !varve_create_column_families(db, NULL, 1, kNames, &count, &error)));
  BAD(CHECK(
      !varve_create_column_families(db, options, 1, NULL, &count, &error)));
  BAD(CHECK(
      !varve_create_column_families(db, options, 1, kNames, NULL, &error)));
  BAD(created =
          varve_create_column_families(db, options, 2, kNames, &count, &error));
  CHECK(count == 1);
  GOOD(varve_drop_column_family(db, created[0], &error));
  varve_column_family_handle_destroy(created[0]);
  varve_create_column_families_destroy(created);
  varve_create_column_families_destroy(NULL);
  GOOD(created = varve_create_column_families(db, options, -1, kNames, &count,
                                              &error));
  CHECK(count == 0);
  varve_create_column_families_destroy(created);
  CHECK(varve_get_default_column_family_handle(NULL) == NULL);
  CHECK(varve_column_family_handle_get_id(NULL) == 0);
  CHECK(varve_column_family_handle_get_name(NULL, &count) == NULL);
  CHECK(varve_column_family_handle_get_name(NULL, NULL) == NULL);
  varve_column_family_handle_destroy(NULL);
  varve_options_set_create_missing_column_families(NULL, 1);
  varve_options_set_max_total_wal_size(NULL, 1);
  varve_options_set_atomic_flush(NULL, 1);
}

/* All calls on `of` with that handle, which are refused. */
static void ExpectRefused(varve_t* of, varve_column_family_handle_t* bad) {
  static const char* const kKeys[] = {"k"};
  static const size_t kSizes[] = {1};
  const varve_column_family_handle_t* families[1];
  varve_column_family_handle_t* handles[1];
  varve_iterator_t* iterators[1];
  varve_iterator_t* iterator;
  char buffer[8];
  char* values[1];
  size_t sizes[1];
  char* errors[1];
  uint64_t number = 7;
  size_t size = 7;
  uint8_t found = 1;
  families[0] = bad;
  handles[0] = bad;
  BAD(varve_put_cf(of, plain_write, bad, "k", 1, "v", 1, &error));
  BAD(varve_delete_cf(of, plain_write, bad, "k", 1, &error));
  BAD(varve_singledelete_cf(of, plain_write, bad, "k", 1, &error));
  BAD(varve_delete_range_cf(of, plain_write, bad, "k", 1, "l", 1, &error));
  BAD(CHECK(!varve_get_cf(of, plain_read, bad, "k", 1, &size, &error)));
  CHECK(size == 0);
  BAD(CHECK(!varve_get_pinned_cf(of, plain_read, bad, "k", 1, &error)));
  BAD(CHECK(!varve_get_into_buffer_cf(of, plain_read, bad, "k", 1, buffer, 8,
                                      &size, &found, &error)));
  CHECK(found == 0);
  varve_multi_get_cf(of, plain_read, families, 1, kKeys, kSizes, values, sizes,
                     errors);
  FAILED(errors[0], "Invalid argument: ");
  CHECK(values[0] == NULL && sizes[0] == 0);
  iterator = varve_create_iterator_cf(of, plain_read, bad);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  BAD(varve_create_iterators(of, plain_read, handles, iterators, 1, &error));
  CHECK(iterators[0] == NULL);
  CHECK(varve_property_value_cf(of, bad, "varve.levelstats") == NULL);
  CHECK(varve_property_int_cf(of, bad, "varve.base-level", &number) == -1);
  BAD(varve_approximate_sizes_cf(of, bad, 1, kKeys, kSizes, kKeys, kSizes,
                                 &number, &error));
  CHECK(number == 0);
  varve_compact_range_cf(of, bad, NULL, 0, NULL, 0);
  BAD(varve_compact_range_cf_opt(of, bad, compact, NULL, 0, NULL, 0, &error));
  BAD(varve_flush_cf(of, flush, bad, &error));
  BAD(varve_flush_cfs(of, flush, handles, 1, &error));
  BAD(varve_set_options_cf(of, bad, 0, NULL, NULL, &error));
  BAD(varve_drop_column_family(of, bad, &error));
}

/* A batch with an update of that handle is refused as a whole. */
static void ExpectRefusedInBatches(varve_t* of,
                                   varve_column_family_handle_t* bad) {
  varve_writebatch_t* const batch = varve_writebatch_create();
  int i;
  for (i = 0; i < 4; ++i) {
    varve_writebatch_clear(batch);
    varve_writebatch_put(batch, "in", 2, "no", 2);
    if (i == 0) varve_writebatch_put_cf(batch, bad, "k", 1, "v", 1);
    if (i == 1) varve_writebatch_delete_cf(batch, bad, "k", 1);
    if (i == 2) varve_writebatch_singledelete_cf(batch, bad, "k", 1);
    if (i == 3) varve_writebatch_delete_range_cf(batch, bad, "k", 1, "l", 1);
    BAD(varve_write(of, plain_write, batch, &error));
  }
  GET(of, plain_read, "in", NULL);
  varve_writebatch_destroy(batch);
}

static void TestAHandleThatIsNull(void) {
  ExpectRefused(db, NULL);
  ExpectRefusedInBatches(db, NULL);
}

static void TestAHandleOfAnotherDatabase(void) {
  varve_t* const other = OpenPlain("other");
  varve_column_family_handle_t* const theirs = Create(other, "theirs");
  varve_column_family_handle_t* const whole =
      varve_get_default_column_family_handle(other);
  ExpectRefused(db, theirs);
  ExpectRefused(db, whole);
  ExpectRefused(other, family);
  ExpectRefusedInBatches(db, theirs);
  ExpectRefusedInBatches(db, whole);
  ExpectRefusedInBatches(other, family);
  varve_column_family_handle_destroy(whole);
  varve_column_family_handle_destroy(theirs);
  varve_close(other);
}

/* The handle outlives its database, and then only knows its name. */
static void TestAHandleOfAClosedDatabase(void) {
  varve_t* const closed = OpenPlain("closed");
  varve_column_family_handle_t* const left = Create(closed, "left");
  varve_column_family_handle_t* const whole =
      varve_get_default_column_family_handle(closed);
  varve_iterator_t* iterator;
  size_t size = 0;
  char* name;
  varve_close(closed);
  name = varve_column_family_handle_get_name(left, &size);
  SAME(name, size, "left");
  varve_free(name);
  CHECK(varve_column_family_handle_get_id(left) == 1);
  ExpectRefused(db, left);
  ExpectRefusedInBatches(db, left);
  ExpectRefused(db, whole);
  ExpectRefusedInBatches(db, whole);
  FAILS(varve_put_cf(closed, plain_write, left, "k", 1, "v", 1, &error),
        "Shutdown in progress: ");
  FAILS(CHECK(!varve_get_cf(closed, plain_read, left, "k", 1, &size, &error)),
        "Shutdown in progress: ");
  iterator = varve_create_iterator_cf(closed, plain_read, left);
  FAILS(varve_iter_get_error(iterator, &error), "Shutdown in progress: ");
  varve_iter_destroy(iterator);
  FAILS(varve_flush_cf(closed, flush, left, &error), "Shutdown in progress: ");
  FAILS(varve_drop_column_family(closed, left, &error),
        "Shutdown in progress: ");
  FAILS(CHECK(!varve_create_column_family(closed, options, "more", &error)),
        "Shutdown in progress: ");
  CHECK(varve_get_default_column_family_handle(closed) == NULL);
  varve_column_family_handle_destroy(left);
  varve_column_family_handle_destroy(whole);
}

/* Iterators keep the database open; handles do not. */
static void TestAHandleWhileTheDatabaseWaits(void) {
  const char* names[] = {"default", "left"};
  const varve_options_t* all[2];
  varve_column_family_handle_t* handles[2];
  varve_t* waits = OpenPlain("waits");
  varve_column_family_handle_t* const left = Create(waits, "left");
  varve_column_family_handle_t* const dropped = Create(waits, "dropped");
  varve_iterator_t* iterator;
  GOOD(varve_put_cf(waits, plain_write, left, "k", 1, "v", 1, &error));
  GOOD(varve_put_cf(waits, plain_write, dropped, "k", 1, "d", 1, &error));
  GOOD(varve_drop_column_family(waits, dropped, &error));
  iterator = varve_create_iterator_cf(waits, plain_read, left);
  FAILS(CHECK(varve_close_checked(waits, &error) == 0), "Busy: ");
  varve_close(waits);
  ExpectRefused(db, left);
  FAILS(varve_put_cf(waits, plain_write, left, "k", 1, "w", 1, &error),
        "Shutdown in progress: ");
  varve_column_family_handle_destroy(dropped);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "k", "v");
  varve_iter_destroy(iterator);
  varve_column_family_handle_destroy(left);
  all[0] = options;
  all[1] = options;
  GOOD(waits = varve_open_column_families(options, PathOf("waits"), 2, names,
                                          all, handles, &error));
  GOOD(CHECK(varve_close_checked(waits, &error) == 1));
  varve_column_family_handle_destroy(handles[0]);
  varve_column_family_handle_destroy(handles[1]);
}

static void TestADroppedFamily(void) {
  varve_column_family_handle_t* const dropped = Create(db, "dropped");
  varve_writebatch_t* const batch = varve_writebatch_create();
  size_t size = 7;
  GOOD(varve_drop_column_family(db, dropped, &error));
  BAD(varve_put_cf(db, plain_write, dropped, "k", 1, "v", 1, &error));
  BAD(varve_delete_cf(db, plain_write, dropped, "k", 1, &error));
  BAD(varve_singledelete_cf(db, plain_write, dropped, "k", 1, &error));
  BAD(varve_delete_range_cf(db, plain_write, dropped, "k", 1, "l", 1, &error));
  varve_writebatch_put_cf(batch, dropped, "k", 1, "v", 1);
  BAD(varve_write(db, plain_write, batch, &error));
  GOOD(CHECK(!varve_get_cf(db, plain_read, dropped, "k", 1, &size, &error)));
  varve_column_family_handle_destroy(dropped);
  varve_writebatch_destroy(batch);
}

static void TestOtherArgumentsThatAreWrong(void) {
  static const char* const kKeys[] = {"k"};
  static const char* const kNulls[] = {NULL};
  static const size_t kSizes[] = {1};
  const varve_column_family_handle_t* families[1];
  varve_column_family_handle_t* handles[1];
  varve_iterator_t* iterators[1];
  varve_iterator_t* iterator;
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_writebatch_t* const batch = varve_writebatch_create();
  char buffer[8];
  char* values[1];
  size_t sizes[1];
  char* errors[1];
  uint64_t number = 7;
  size_t size = 7;
  uint8_t found = 1;
  families[0] = family;
  handles[0] = family;
  ExpectRefused(NULL, family);
  /* Options that are null. */
  BAD(varve_put_cf(db, NULL, family, "k", 1, "v", 1, &error));
  BAD(varve_delete_cf(db, NULL, family, "k", 1, &error));
  BAD(varve_singledelete_cf(db, NULL, family, "k", 1, &error));
  BAD(varve_delete_range_cf(db, NULL, family, "k", 1, "l", 1, &error));
  BAD(varve_get_cf(db, NULL, family, "k", 1, &size, &error));
  BAD(varve_get_pinned_cf(db, NULL, family, "k", 1, &error));
  BAD(varve_get_into_buffer_cf(db, NULL, family, "k", 1, buffer, 8, &size,
                               &found, &error));
  varve_multi_get_cf(db, NULL, families, 1, kKeys, kSizes, values, sizes,
                     errors);
  FAILED(errors[0], "Invalid argument: ");
  iterator = varve_create_iterator_cf(db, NULL, family);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  BAD(varve_create_iterators(db, NULL, handles, iterators, 1, &error));
  BAD(varve_compact_range_cf_opt(db, family, NULL, NULL, 0, NULL, 0, &error));
  BAD(varve_flush_cf(db, NULL, family, &error));
  BAD(varve_flush_cfs(db, NULL, handles, 1, &error));
  /* Keys, values, bounds, and places for results. */
  BAD(varve_put_cf(db, plain_write, family, NULL, 1, "v", 1, &error));
  BAD(varve_put_cf(db, plain_write, family, "k", 1, NULL, 1, &error));
  BAD(varve_put_cf(db, plain_write, family, "k", kNoLength, "v", 1, &error));
  BAD(varve_delete_cf(db, plain_write, family, NULL, 1, &error));
  BAD(varve_singledelete_cf(db, plain_write, family, NULL, 1, &error));
  BAD(varve_delete_range_cf(db, plain_write, family, NULL, 1, "l", 1, &error));
  BAD(varve_delete_range_cf(db, plain_write, family, "k", 1, NULL, 1, &error));
  BAD(varve_get_cf(db, plain_read, family, NULL, 1, &size, &error));
  BAD(varve_get_cf(db, plain_read, family, "k", 1, NULL, &error));
  BAD(varve_get_pinned_cf(db, plain_read, family, NULL, 1, &error));
  BAD(varve_get_into_buffer_cf(db, plain_read, family, "k", 1, NULL, 8, &size,
                               &found, &error));
  BAD(varve_get_into_buffer_cf(db, plain_read, family, "k", 1, buffer, 8, NULL,
                               NULL, &error));
  varve_multi_get_cf(db, plain_read, NULL, 1, kKeys, kSizes, values, sizes,
                     errors);
  FAILED(errors[0], "Invalid argument: ");
  varve_multi_get_cf(db, plain_read, families, 1, kNulls, kSizes, values, sizes,
                     errors);
  FAILED(errors[0], "Invalid argument: ");
  varve_multi_get_cf(db, plain_read, families, 1, kKeys, kSizes, values, sizes,
                     NULL);
  varve_multi_get_cf(db, plain_read, families, kNoLength, kKeys, kSizes, values,
                     sizes, errors);
  BAD(varve_create_iterators(db, plain_read, NULL, iterators, 1, &error));
  BAD(varve_create_iterators(db, plain_read, handles, NULL, 1, &error));
  BAD(varve_create_iterators(db, plain_read, handles, iterators, kNoLength,
                             &error));
  varve_readoptions_set_iterate_upper_bound(read, "k", kNoLength);
  iterator = varve_create_iterator_cf(db, read, family);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  BAD(varve_create_iterators(db, read, handles, iterators, 1, &error));
  CHECK(varve_property_value_cf(db, family, NULL) == NULL);
  CHECK(varve_property_int_cf(db, family, NULL, &number) == -1);
  CHECK(varve_property_int_cf(db, family, "varve.base-level", NULL) == -1);
  BAD(varve_approximate_sizes_cf(db, family, 1, NULL, kSizes, kKeys, kSizes,
                                 &number, &error));
  BAD(varve_approximate_sizes_cf(db, family, 1, kNulls, kSizes, kKeys, kSizes,
                                 &number, &error));
  BAD(varve_approximate_sizes_cf(db, family, 1, kKeys, kSizes, kKeys, kSizes,
                                 NULL, &error));
  GOOD(varve_approximate_sizes_cf(db, family, -1, kKeys, kSizes, kKeys, kSizes,
                                  &number, &error));
  BAD(varve_compact_range_cf_opt(db, family, compact, "k", kNoLength, NULL, 0,
                                 &error));
  BAD(varve_flush_cfs(db, flush, NULL, 1, &error));
  GOOD(varve_flush_cfs(db, flush, handles, -1, &error));
  BAD(varve_set_options_cf(db, family, 1, NULL, kKeys, &error));
  BAD(varve_set_options_cf(db, family, 1, kNulls, kKeys, &error));
  /* Batches. */
  varve_writebatch_put_cf(batch, family, NULL, 1, "v", 1);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_put_cf(NULL, family, "k", 1, "v", 1);
  varve_writebatch_delete_cf(NULL, family, "k", 1);
  varve_writebatch_singledelete_cf(NULL, family, "k", 1);
  varve_writebatch_delete_range_cf(NULL, family, "k", 1, "l", 1);
  varve_writebatch_iterate_cf(NULL, NULL, NULL, NULL, NULL);
  BAD(varve_writebatch_iterate_all_cf(NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                      &error));
  varve_writebatch_destroy(batch);
  varve_readoptions_destroy(read);
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  flush = varve_flushoptions_create();
  compact = varve_compactoptions_create();
  db = OpenPlain("db");
  family = Create(db, "family");
  TEST(TestOpeningWithNull);
  TEST(TestHandlesOfNull);
  TEST(TestAHandleThatIsNull);
  TEST(TestAHandleOfAnotherDatabase);
  TEST(TestAHandleOfAClosedDatabase);
  TEST(TestAHandleWhileTheDatabaseWaits);
  TEST(TestADroppedFamily);
  TEST(TestOtherArgumentsThatAreWrong);
  varve_close(db);
  varve_column_family_handle_destroy(family);
  varve_compactoptions_destroy(compact);
  varve_flushoptions_destroy(flush);
  varve_options_destroy(options);
  return EndTests();
}
