/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: the functions of varve/c_families.h work on a column family as the
 * functions of varve/c.h and varve/c_extensions.h work on a database. Method:
 * every function, in a database of three families that hold the same keys with
 * other values.
 */

#include "test/c/check.h"

enum { kFamilies = 3 };
static const char* const kNames[kFamilies] = {"default", "red", "blue"};

/* The value of `key` in the family, or its absence by NULL. */
#define GET_CF(family, key, expected) \
  ExpectGetFamily(__LINE__, family, plain_read, key, expected)
#define PUT_CF(family, key, value) PutFamily(__LINE__, family, key, value)

static varve_t* db;
static varve_column_family_handle_t* families[kFamilies];

static void ExpectGetFamily(int line, varve_column_family_handle_t* family,
                            const varve_readoptions_t* options, const char* key,
                            const char* expected) {
  size_t size = 12345;
  char* const value =
      varve_get_cf(db, options, family, key, strlen(key), &size, &error);
  if (error != NULL) Fail(error, line, key);
  if (expected != NULL) {
    ExpectSame(line, value, size, expected);
  } else if (value != NULL || size != 0) {
    Fail("is there", line, key);
  }
  varve_free(value);
}

static void PutFamily(int line, varve_column_family_handle_t* family,
                      const char* key, const char* value) {
  varve_put_cf(db, plain_write, family, key, strlen(key), value, strlen(value),
               &error);
  if (error != NULL) Fail(error, line, key);
}

/* Opens the database of three families. */
static void OpenFamilies(const char* name) {
  varve_options_t* const options = varve_options_create();
  const varve_options_t* all[kFamilies];
  int i;
  for (i = 0; i < kFamilies; ++i) all[i] = options;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_create_missing_column_families(options, 1);
  GOOD(db = varve_open_column_families(options, PathOf(name), kFamilies, kNames,
                                       all, families, &error));
  CHECK(db != NULL);
  varve_options_destroy(options);
}

static void CloseFamilies(void) {
  int i;
  for (i = 0; i < kFamilies; ++i) {
    varve_column_family_handle_destroy(families[i]);
  }
  varve_close(db);
}

/* ---- Families and handles ---- */

static void ExpectList(const char* name, int count, const char* const* names) {
  varve_options_t* const options = varve_options_create();
  size_t length = 77;
  size_t i;
  char** const list =
      varve_list_column_families(options, PathOf(name), &length, &error);
  OK(error);
  CHECK(length == (size_t)count);
  for (i = 0; i < length; ++i) CHECK(strcmp(list[i], names[i]) == 0);
  varve_list_column_families_destroy(list, length);
  varve_options_destroy(options);
}

static void TestFamiliesAreKept(void) {
  varve_options_t* const options = varve_options_create();
  const varve_options_t* all[kFamilies];
  varve_column_family_handle_t* wrong[2] = {NULL, NULL};
  int i;
  OpenFamilies("kept");
  for (i = 0; i < kFamilies; ++i) {
    size_t size = 0;
    char* const name = varve_column_family_handle_get_name(families[i], &size);
    SAME(name, size, kNames[i]);
    varve_free(name);
    CHECK(varve_column_family_handle_get_id(families[i]) == (uint32_t)i);
    PUT_CF(families[i], "key", kNames[i]);
    all[i] = options;
  }
  GET(db, plain_read, "key", "default");
  CloseFamilies();
  ExpectList("kept", kFamilies, kNames);
  /* All must be named, if not for reading. */
  CHECK(varve_open(options, PathOf("kept"), &error) == NULL);
  CHECK(error != NULL && strstr(error, "red, blue") != NULL);
  FAILED(error, "Invalid argument: ");
  wrong[0] = wrong[1] = (varve_column_family_handle_t*)&error;
  BAD(CHECK(varve_open_column_families(options, PathOf("kept"), 2, kNames, all,
                                       wrong, &error) == NULL));
  CHECK(wrong[0] == NULL && wrong[1] == NULL);
  GOOD(db = varve_open_for_read_only_column_families(
           options, PathOf("kept"), 2, kNames, all, families, &error));
  GET_CF(families[0], "key", "default");
  GET_CF(families[1], "key", "red");
  FAILS(varve_put_cf(db, plain_write, families[1], "k", 1, "v", 1, &error),
        "Not supported: ");
  varve_close(db);
  varve_column_family_handle_destroy(families[0]);
  varve_column_family_handle_destroy(families[1]);
  OpenFamilies("kept");
  for (i = 0; i < kFamilies; ++i) GET_CF(families[i], "key", kNames[i]);
  CloseFamilies();
  varve_options_destroy(options);
}

static void TestCreateAndDrop(void) {
  static const char* const kMore[] = {"one", "two", "red", "three"};
  static const char* const kLeft[] = {"default", "red", "blue", "one"};
  varve_options_t* const options = varve_options_create();
  varve_column_family_handle_t** created;
  varve_column_family_handle_t* two;
  varve_column_family_handle_t* whole;
  varve_iterator_t* iterator;
  size_t count = 77;
  OpenFamilies("create");
  /* Stops at a name that is taken. */
  BAD(created =
          varve_create_column_families(db, options, 4, kMore, &count, &error));
  CHECK(count == 2);
  two = created[1];
  PUT_CF(created[0], "key", "one");
  varve_column_family_handle_destroy(created[0]);
  varve_create_column_families_destroy(created);
  PUT_CF(two, "key", "two");
  GOOD(varve_drop_column_family(db, two, &error));
  /* It can be read on. */
  GET_CF(two, "key", "two");
  iterator = varve_create_iterator_cf(db, plain_read, two);
  BAD(varve_put_cf(db, plain_write, two, "k", 1, "v", 1, &error));
  BAD(varve_drop_column_family(db, two, &error));
  varve_column_family_handle_destroy(two);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "key", "two");
  varve_iter_destroy(iterator);
  /* Its name is free. */
  GOOD(two = varve_create_column_family(db, options, "two", &error));
  GET_CF(two, "key", NULL);
  CHECK(varve_column_family_handle_get_id(two) > 4);
  GOOD(varve_drop_column_family(db, two, &error));
  BAD(CHECK(varve_create_column_family(db, options, "one", &error) == NULL));
  BAD(varve_drop_column_family(db, families[0], &error));
  whole = varve_get_default_column_family_handle(db);
  CHECK(varve_column_family_handle_get_id(whole) == 0);
  PUT_CF(whole, "a", "b");
  GET(db, plain_read, "a", "b");
  varve_column_family_handle_destroy(whole);
  varve_column_family_handle_destroy(two);
  CloseFamilies();
  ExpectList("create", 4, kLeft);
  varve_options_destroy(options);
}

/* Each family has the options that it is opened with. */
static int CompareBackwards(void* state, const char* a, size_t alen,
                            const char* b, size_t blen) {
  const int order = memcmp(b, a, alen < blen ? alen : blen);
  (void)state;
  return order != 0 ? order : (blen > alen) - (blen < alen);
}
static const char* Backwards(void* state) {
  (void)state;
  return "backwards";
}

static void TestOptionsOfFamilies(void) {
  static const char* const kTwo[] = {"default", "back"};
  varve_comparator_t* const comparator =
      varve_comparator_create(NULL, NULL, CompareBackwards, Backwards);
  varve_options_t* const plain = varve_options_create();
  varve_options_t* const back = varve_options_create();
  varve_filterpolicy_t* const policy = varve_filterpolicy_create_bloom(10);
  const varve_options_t* both[2];
  varve_iterator_t* iterator;
  char* bound;
  both[0] = plain;
  both[1] = back;
  varve_options_set_create_if_missing(plain, 1);
  varve_options_set_create_missing_column_families(plain, 1);
  varve_options_set_atomic_flush(plain, 1);
  varve_options_set_max_total_wal_size(plain, 123456789);
  varve_options_set_comparator(back, comparator);
  varve_options_set_filter_policy(back, policy);
  GOOD(db = varve_open_column_families(plain, PathOf("options"), 2, kTwo, both,
                                       families, &error));
  PUT_CF(families[1], "a", "1");
  PUT_CF(families[1], "b", "2");
  iterator = varve_create_iterator_cf(db, plain_read, families[1]);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "b", "2");
  varve_iter_destroy(iterator);
  bound = varve_property_value(db, "varve.oldest-log");
  CHECK(bound != NULL && strstr(bound, "bound 123456789") != NULL);
  varve_free(bound);
  varve_column_family_handle_destroy(families[0]);
  varve_column_family_handle_destroy(families[1]);
  varve_close(db);
  varve_comparator_destroy(comparator);
  varve_filterpolicy_destroy(policy);
  varve_options_destroy(plain);
  varve_options_destroy(back);
}

/* ---- Writing ---- */

static void TestWrites(void) {
  int i;
  OpenFamilies("writes");
  for (i = 0; i < kFamilies; ++i) {
    PUT_CF(families[i], "a", kNames[i]);
    PUT_CF(families[i], "b", kNames[i]);
    PUT_CF(families[i], "c", kNames[i]);
    PUT_CF(families[i], "d", kNames[i]);
  }
  GOOD(varve_delete_cf(db, plain_write, families[1], "a", 1, &error));
  GOOD(varve_singledelete_cf(db, plain_write, families[2], "b", 1, &error));
  GOOD(varve_delete_range_cf(db, plain_write, families[1], "c", 1, "d", 1,
                             &error));
  GET_CF(families[0], "a", "default");
  GET_CF(families[1], "a", NULL);
  GET_CF(families[2], "a", "blue");
  GET_CF(families[1], "b", "red");
  GET_CF(families[2], "b", NULL);
  GET_CF(families[0], "c", "default");
  GET_CF(families[1], "c", NULL);
  GET_CF(families[1], "d", "red");
  GET_CF(families[2], "c", "blue");
  CloseFamilies();
}

struct Seen {
  char text[512];
};

static void Note(struct Seen* seen, const char* what, uint32_t family,
                 const char* a, size_t a_size, const char* b, size_t b_size) {
  const size_t used = strlen(seen->text);
  snprintf(seen->text + used, sizeof(seen->text) - used, "%s %u %.*s %.*s; ",
           what, (unsigned)family, (int)a_size, a, (int)b_size, b);
}
static void NotePut(void* state, uint32_t family, const char* k, size_t klen,
                    const char* v, size_t vlen) {
  Note((struct Seen*)state, "put", family, k, klen, v, vlen);
}
static void NoteDelete(void* state, uint32_t family, const char* k,
                       size_t klen) {
  Note((struct Seen*)state, "delete", family, k, klen, "", 0);
}
static void NoteSingle(void* state, uint32_t family, const char* k,
                       size_t klen) {
  Note((struct Seen*)state, "single", family, k, klen, "", 0);
}
static void NoteRange(void* state, uint32_t family, const char* begin,
                      size_t begin_len, const char* end, size_t end_len) {
  Note((struct Seen*)state, "range", family, begin, begin_len, end, end_len);
}
static void NoteLog(void* state, const char* blob, size_t len) {
  Note((struct Seen*)state, "log", 0, blob, len, "", 0);
}

static void TestBatches(void) {
  varve_writebatch_t* const batch = varve_writebatch_create();
  struct Seen seen;
  OpenFamilies("batches");
  PUT_CF(families[1], "r1", "x");
  PUT_CF(families[2], "gone", "x");
  PUT_CF(families[2], "once", "x");
  varve_writebatch_put(batch, "p", 1, "0", 1);
  varve_writebatch_put_cf(batch, families[1], "p", 1, "1", 1);
  varve_writebatch_put_cf(batch, families[0], "q", 1, "00", 2);
  varve_writebatch_delete_cf(batch, families[2], "gone", 4);
  varve_writebatch_singledelete_cf(batch, families[2], "once", 4);
  varve_writebatch_delete_range_cf(batch, families[1], "r", 1, "s", 1);
  varve_writebatch_put_log_data(batch, "blob", 4);
  CHECK(varve_writebatch_count(batch) == 6);
  seen.text[0] = '\0';
  varve_writebatch_iterate_cf(batch, &seen, NotePut, NoteDelete, NULL);
  CHECK(strcmp(seen.text,
               "put 0 p 0; put 1 p 1; put 0 q 00; delete 2 gone ; "
               "delete 2 once ; ") == 0);
  seen.text[0] = '\0';
  GOOD(varve_writebatch_iterate_all_cf(batch, &seen, NotePut, NoteDelete,
                                       NoteSingle, NoteRange, NoteLog, &error));
  CHECK(strcmp(seen.text,
               "put 0 p 0; put 1 p 1; put 0 q 00; delete 2 gone ; "
               "single 2 once ; range 1 r s; log 0 blob ; ") == 0);
  varve_writebatch_iterate_cf(batch, NULL, NULL, NULL, NULL);
  GOOD(varve_writebatch_iterate_all_cf(batch, NULL, NULL, NULL, NULL, NULL,
                                       NULL, &error));
  /* It knows of no families. */
  BAD(varve_writebatch_iterate_all(batch, NULL, NULL, NULL, NULL, NULL, NULL,
                                   &error));
  GOOD(varve_write(db, plain_write, batch, &error));
  GET_CF(families[0], "p", "0");
  GET_CF(families[0], "q", "00");
  GET_CF(families[1], "p", "1");
  GET_CF(families[1], "q", NULL);
  GET_CF(families[1], "r1", NULL);
  GET_CF(families[2], "p", NULL);
  GET_CF(families[2], "gone", NULL);
  GET_CF(families[2], "once", NULL);
  /* A batch of its bytes does the same. */
  {
    size_t size = 0;
    const char* const bytes = varve_writebatch_data(batch, &size);
    varve_writebatch_t* const copy = varve_writebatch_create_from(bytes, size);
    GOOD(varve_delete_cf(db, plain_write, families[1], "p", 1, &error));
    GOOD(varve_write(db, plain_write, copy, &error));
    GET_CF(families[1], "p", "1");
    varve_writebatch_destroy(copy);
  }
  /* Nothing of a batch is written if one of its families was dropped. */
  GOOD(varve_drop_column_family(db, families[2], &error));
  varve_writebatch_clear(batch);
  varve_writebatch_put_cf(batch, families[1], "z", 1, "1", 1);
  varve_writebatch_put_cf(batch, families[2], "z", 1, "2", 1);
  BAD(varve_write(db, plain_write, batch, &error));
  GET_CF(families[1], "z", NULL);
  CloseFamilies();
  varve_writebatch_destroy(batch);
}

/* ---- Reading ---- */

static void TestGets(void) {
  enum { kKeys = 5 };
  static const char* const kKeyList[kKeys] = {"key", "key", "none", "key", ""};
  static const size_t kSizes[kKeys] = {3, 3, 4, 3, 0};
  const varve_column_family_handle_t* of[kKeys];
  char* values[kKeys];
  size_t sizes[kKeys];
  char* errors[kKeys];
  varve_pinnableslice_t* pinned;
  const char* bytes;
  char buffer[8];
  size_t size = 0;
  uint8_t found = 0;
  int i;
  OpenFamilies("gets");
  for (i = 0; i < kFamilies; ++i) PUT_CF(families[i], "key", kNames[i]);
  PUT_CF(families[2], "", "empty key");
  of[0] = families[2];
  of[1] = families[0];
  of[2] = families[1];
  of[3] = families[1];
  of[4] = families[2];
  memset(errors, 0xcc, sizeof(errors));
  varve_multi_get_cf(db, plain_read, of, kKeys, kKeyList, kSizes, values, sizes,
                     errors);
  for (i = 0; i < kKeys; ++i) OK(errors[i]);
  SAME(values[0], sizes[0], "blue");
  SAME(values[1], sizes[1], "default");
  CHECK(values[2] == NULL && sizes[2] == 0);
  SAME(values[3], sizes[3], "red");
  SAME(values[4], sizes[4], "empty key");
  for (i = 0; i < kKeys; ++i) varve_free(values[i]);
  GOOD(pinned =
           varve_get_pinned_cf(db, plain_read, families[1], "key", 3, &error));
  bytes = varve_pinnableslice_value(pinned, &size);
  SAME(bytes, size, "red");
  varve_pinnableslice_destroy(pinned);
  GOOD(CHECK(varve_get_pinned_cf(db, plain_read, families[1], "no", 2,
                                 &error) == NULL));
  GOOD(CHECK(varve_get_into_buffer_cf(db, plain_read, families[2], "key", 3,
                                      buffer, sizeof(buffer), &size, &found,
                                      &error) == 1));
  SAME(buffer, size, "blue");
  GOOD(CHECK(varve_get_into_buffer_cf(db, plain_read, families[2], "key", 3,
                                      buffer, 3, &size, &found, &error) == 0));
  CHECK(found == 1 && size == 4);
  GOOD(CHECK(varve_get_into_buffer_cf(db, plain_read, families[2], "no", 2,
                                      buffer, 3, &size, &found, &error) == 0));
  CHECK(found == 0);
  CloseFamilies();
}

/* A snapshot, a read transaction's as well, is of all families. */
static void TestMoments(void) {
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_readtransaction_t* transaction;
  const varve_snapshot_t* snapshot;
  int i;
  OpenFamilies("moments");
  for (i = 0; i < kFamilies; ++i) PUT_CF(families[i], "key", "old");
  snapshot = varve_create_snapshot(db);
  for (i = 0; i < kFamilies; ++i) PUT_CF(families[i], "key", "new");
  transaction = varve_readtransaction_begin(db);
  for (i = 0; i < kFamilies; ++i) PUT_CF(families[i], "key", "newest");
  varve_readoptions_set_snapshot(read, snapshot);
  for (i = 0; i < kFamilies; ++i) {
    ExpectGetFamily(__LINE__, families[i], read, "key", "old");
  }
  varve_readoptions_set_snapshot(read,
                                 varve_readtransaction_snapshot(transaction));
  for (i = 0; i < kFamilies; ++i) {
    ExpectGetFamily(__LINE__, families[i], read, "key", "new");
    GET_CF(families[i], "key", "newest");
  }
  varve_readtransaction_end(transaction);
  varve_release_snapshot(db, snapshot);
  varve_readoptions_destroy(read);
  CloseFamilies();
}

static void TestIterators(void) {
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_iterator_t* iterators[kFamilies];
  varve_iterator_t* one;
  int i;
  OpenFamilies("iterators");
  for (i = 0; i < kFamilies; ++i) {
    PUT_CF(families[i], "a", kNames[i]);
    PUT_CF(families[i], "b", kNames[i]);
    PUT_CF(families[i], "c", kNames[i]);
  }
  varve_readoptions_set_iterate_lower_bound(read, "b", 1);
  varve_readoptions_set_iterate_upper_bound(read, "c", 1);
  GOOD(
      varve_create_iterators(db, read, families, iterators, kFamilies, &error));
  one = varve_create_iterator_cf(db, read, families[2]);
  /* Bounds are copied; one iterator may go before the others. */
  varve_readoptions_set_iterate_lower_bound(read, NULL, 0);
  varve_readoptions_destroy(read);
  for (i = 0; i < kFamilies; ++i) {
    PUT_CF(families[i], "b", "later");
    varve_iter_seek_to_first(iterators[i]);
    ExpectEntry(iterators[i], "b", kNames[i]);
    varve_iter_next(iterators[i]);
    CHECK(varve_iter_valid(iterators[i]) == 0);
    GOOD(varve_iter_get_error(iterators[i], &error));
    varve_iter_destroy(iterators[i]);
  }
  varve_iter_seek_to_last(one);
  ExpectEntry(one, "b", "blue");
  varve_iter_destroy(one);
  GOOD(varve_create_iterators(db, plain_read, families, iterators, 0, &error));
  CloseFamilies();
}

/* ---- Files ---- */

static uint64_t Tables(varve_column_family_handle_t* family) {
  char* const text =
      varve_property_value_cf(db, family, "varve.num-files-at-level0");
  const uint64_t count = strtoull(text, NULL, 10);
  varve_free(text);
  return count;
}

static uint64_t SizeOf(varve_column_family_handle_t* family) {
  static const char* const kBegin[] = {""};
  static const char* const kEnd[] = {"z"};
  static const size_t kBeginSizes[] = {0};
  static const size_t kEndSizes[] = {1};
  uint64_t size = 77;
  GOOD(varve_approximate_sizes_cf(db, family, 1, kBegin, kBeginSizes, kEnd,
                                  kEndSizes, &size, &error));
  return size;
}

static void TestFlushesAndCompactions(void) {
  static const char* const kKeys[] = {"disable_auto_compactions"};
  static const char* const kValues[] = {"true"};
  static const char* const kWrong[] = {"no_such_option"};
  varve_flushoptions_t* const flush = varve_flushoptions_create();
  varve_compactoptions_t* const compact = varve_compactoptions_create();
  uint64_t number = 0;
  int i;
  OpenFamilies("files");
  GOOD(varve_set_options_cf(db, families[2], 1, kKeys, kValues, &error));
  BAD(varve_set_options_cf(db, families[2], 1, kWrong, kValues, &error));
  for (i = 0; i < kFamilies; ++i) PUT_CF(families[i], "key", kNames[i]);
  CHECK(varve_property_int_cf(db, families[1],
                              "varve.num-entries-active-mem-table",
                              &number) == 0);
  CHECK(number == 1);
  GOOD(varve_flush_cf(db, flush, families[1], &error));
  CHECK(Tables(families[0]) == 0 && Tables(families[2]) == 0);
  CHECK(Tables(families[1]) == 1);
  CHECK(SizeOf(families[1]) > 0 && SizeOf(families[2]) == 0);
  GOOD(varve_flush_cfs(db, flush, families, kFamilies, &error));
  CHECK(Tables(families[0]) == 1 && Tables(families[2]) == 1);
  for (i = 0; i < 8; ++i) {
    PUT_CF(families[2], "key", "again");
    GOOD(varve_flush_cf(db, flush, families[2], &error));
  }
  CHECK(Tables(families[2]) == 9);
  GOOD(varve_compact_range_cf_opt(db, families[2], compact, NULL, 0, NULL, 0,
                                  &error));
  CHECK(Tables(families[2]) == 0);
  CHECK(Tables(families[0]) == 1);
  varve_compact_range_cf(db, families[0], NULL, 0, "z", 1);
  CHECK(Tables(families[0]) == 0);
  for (i = 0; i < 2; ++i) GET_CF(families[i], "key", kNames[i]);
  GET_CF(families[2], "key", "again");
  CHECK(varve_property_value_cf(db, families[1], "varve.no-such") == NULL);
  CHECK(varve_property_int_cf(db, families[1], "varve.no-such", &number) == -1);
  CloseFamilies();
  varve_compactoptions_destroy(compact);
  varve_flushoptions_destroy(flush);
}

/* A checkpoint has all families. */
static void TestCheckpoint(void) {
  varve_checkpoint_t* checkpoint;
  OpenFamilies("original");
  PUT_CF(families[1], "key", "value");
  GOOD(checkpoint = varve_checkpoint_object_create(db, &error));
  GOOD(varve_checkpoint_create(checkpoint, PathOf("copy"), 0, &error));
  varve_checkpoint_object_destroy(checkpoint);
  CloseFamilies();
  OpenFamilies("copy");
  GET_CF(families[1], "key", "value");
  CloseFamilies();
}

int main(void) {
  BeginTests();
  TEST(TestFamiliesAreKept);
  TEST(TestCreateAndDrop);
  TEST(TestOptionsOfFamilies);
  TEST(TestWrites);
  TEST(TestBatches);
  TEST(TestGets);
  TEST(TestMoments);
  TEST(TestIterators);
  TEST(TestFlushesAndCompactions);
  TEST(TestCheckpoint);
  return EndTests();
}
