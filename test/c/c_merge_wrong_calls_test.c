/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: a wrong call of a function of varve/c_merge.h is an error, or does
 * nothing where there is no way to tell: null pointers, lengths that are none,
 * results of callbacks that are none, and handles of another database or of a
 * closed one. Method: every function.
 */

#include "test/c/check.h"

/* Such as -1 that was made a size_t. */
static const size_t kNoLength = (size_t)-3;

static varve_options_t* options;
static varve_t* db;
static varve_column_family_handle_t* family;

static const char* NoName(void* state) {
  (void)state;
  return NULL;
}

static const char* SomeName(void* state) {
  (void)state;
  return "test.wrong";
}

static void FailIfDestroyed(void* state) {
  (void)state;
  FAIL("destroyed, though it was not created");
}

/* The result of a callback, as its state says. */
struct Returned {
  int is_null;
  size_t size;
};

static char* Full(void* state, const char* key, size_t key_length,
                  const char* existing, size_t existing_length,
                  const char* const* operands, const size_t* sizes, int count,
                  uint8_t* success, size_t* new_length) {
  const struct Returned* const returned = state;
  (void)key;
  (void)key_length;
  (void)existing;
  (void)existing_length;
  (void)operands;
  (void)sizes;
  (void)count;
  CHECK(*success == 1); /* It need not be set. */
  *new_length = returned->size;
  return returned->is_null ? NULL : calloc(1, 8);
}

static uint8_t KeepAll(void* state, int level, const char* key, size_t size,
                       const char* value, size_t value_size, char** new_value,
                       size_t* new_value_size, uint8_t* value_changed) {
  (void)level;
  (void)key;
  (void)size;
  (void)value;
  (void)value_size;
  (void)new_value;
  /* A new value without memory, or of no length. */
  *new_value_size = *(const size_t*)state;
  *value_changed = 1;
  return 0;
}

static varve_compactionfilter_t* NoFilter(
    void* state, varve_compactionfiltercontext_t* context) {
  (void)state;
  (void)context;
  return NULL;
}

static void TestCreatingWithNull(void) {
  CHECK(!varve_mergeoperator_create(NULL, FailIfDestroyed, NULL, NULL, NULL,
                                    SomeName));
  CHECK(!varve_mergeoperator_create(NULL, FailIfDestroyed, Full, NULL, NULL,
                                    NULL));
  CHECK(!varve_mergeoperator_create(NULL, FailIfDestroyed, Full, NULL, NULL,
                                    NoName));
  CHECK(!varve_mergeoperator_create_builtin(NULL));
  CHECK(!varve_mergeoperator_create_builtin(""));
  CHECK(!varve_mergeoperator_create_builtin("nosuch"));
  CHECK(!varve_mergeoperator_create_stringappend(NULL, 1));
  CHECK(!varve_mergeoperator_create_stringappend("x", kNoLength));
  varve_mergeoperator_destroy(NULL);
  CHECK(!varve_compactionfilter_create(NULL, FailIfDestroyed, NULL, SomeName));
  CHECK(!varve_compactionfilter_create(NULL, FailIfDestroyed, KeepAll, NULL));
  CHECK(!varve_compactionfilter_create(NULL, FailIfDestroyed, KeepAll, NoName));
  varve_compactionfilter_destroy(NULL);
  CHECK(!varve_compactionfilterfactory_create(NULL, FailIfDestroyed, NULL,
                                              SomeName));
  CHECK(!varve_compactionfilterfactory_create(NULL, FailIfDestroyed, NoFilter,
                                              NULL));
  CHECK(!varve_compactionfilterfactory_create(NULL, FailIfDestroyed, NoFilter,
                                              NoName));
  varve_compactionfilterfactory_destroy(NULL);
  CHECK(!varve_compactionfiltercontext_is_full_compaction(NULL));
  CHECK(!varve_compactionfiltercontext_is_manual_compaction(NULL));
}

static void TestOptionsOfNull(void) {
  varve_mergeoperator_t* const adds = varve_mergeoperator_create_uint64add();
  varve_options_set_merge_operator(NULL, adds);
  varve_options_set_uint64add_merge_operator(NULL);
  varve_options_set_max_successive_merges(NULL, 1);
  CHECK(varve_options_get_max_successive_merges(NULL) == 0);
  varve_options_set_compaction_filter(NULL, NULL);
  varve_options_set_compaction_filter_factory(NULL, NULL);
  varve_options_set_compaction_filter(options, NULL);
  varve_options_set_compaction_filter_factory(options, NULL);
  varve_options_set_ttl(NULL, 1);
  CHECK(varve_options_get_ttl(NULL) == 0);
  varve_options_set_periodic_compaction_seconds(NULL, 1);
  CHECK(varve_options_get_periodic_compaction_seconds(NULL) == 0);
  varve_mergeoperator_destroy(adds);
}

static void TestMergesOfNull(void) {
  varve_t* const other = OpenPlain("other");
  varve_writebatch_t* const batch = varve_writebatch_create();
  BAD(varve_merge(NULL, plain_write, "k", 1, "v", 1, &error));
  BAD(varve_merge(db, NULL, "k", 1, "v", 1, &error));
  BAD(varve_merge(db, plain_write, NULL, 1, "v", 1, &error));
  BAD(varve_merge(db, plain_write, "k", kNoLength, "v", 1, &error));
  BAD(varve_merge(db, plain_write, "k", 1, NULL, 1, &error));
  BAD(varve_merge(db, plain_write, "k", 1, "v", kNoLength, &error));
  varve_merge(NULL, plain_write, "k", 1, "v", 1, NULL);
  BAD(varve_merge_cf(NULL, plain_write, family, "k", 1, "v", 1, &error));
  BAD(varve_merge_cf(db, NULL, family, "k", 1, "v", 1, &error));
  BAD(varve_merge_cf(db, plain_write, NULL, "k", 1, "v", 1, &error));
  BAD(varve_merge_cf(other, plain_write, family, "k", 1, "v", 1, &error));
  BAD(varve_merge_cf(db, plain_write, family, NULL, 1, "v", 1, &error));
  BAD(varve_merge_cf(db, plain_write, family, "k", 1, "v", kNoLength, &error));

  varve_writebatch_merge(NULL, "k", 1, "v", 1);
  varve_writebatch_merge_cf(NULL, family, "k", 1, "v", 1);
  varve_writebatch_merge(batch, NULL, 1, "v", 1);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_clear(batch);
  varve_writebatch_merge(batch, "k", 1, "v", kNoLength);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_clear(batch);
  varve_writebatch_merge_cf(batch, NULL, "k", 1, "v", 1);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_clear(batch);
  varve_writebatch_merge_cf(batch, family, "k", 1, NULL, 3);
  BAD(varve_write(db, plain_write, batch, &error));
  BAD(varve_writebatch_iterate_updates_cf(NULL, NULL, NULL, NULL, NULL, NULL,
                                          NULL, NULL, &error));
  varve_writebatch_clear(batch);
  varve_writebatch_merge(batch, "k", 1, "v", 1);
  GOOD(varve_writebatch_iterate_updates_cf(batch, NULL, NULL, NULL, NULL, NULL,
                                           NULL, NULL, &error));
  /* The family has no operator. */
  FAILS(varve_write(other, plain_write, batch, &error), "Not supported: ");
  varve_writebatch_destroy(batch);
  varve_close(other);
}

static void TestResultsThatAreNone(void) {
  struct Returned returned = {1, 0};
  varve_mergeoperator_t* const wrong =
      varve_mergeoperator_create(&returned, NULL, Full, NULL, NULL, SomeName);
  varve_options_t* const its_options = varve_options_create_copy(options);
  size_t size = 7;
  varve_t* its_db;
  varve_options_set_merge_operator(its_options, wrong);
  GOOD(its_db = varve_open(its_options, PathOf("results"), &error));
  GOOD(varve_merge(its_db, plain_write, "k", 1, NULL, 0, &error));
  GET(its_db, plain_read, "k", ""); /* Nothing, of no length. */
  returned.size = 3;
  FAILS(CHECK(!varve_get(its_db, plain_read, "k", 1, &size, &error)),
        "Corruption: ");
  returned.is_null = 0;
  returned.size = kNoLength;
  FAILS(CHECK(!varve_get(its_db, plain_read, "k", 1, &size, &error)),
        "Corruption: ");
  returned.size = 0;
  GET(its_db, plain_read, "k", "");
  varve_close(its_db);
  varve_options_destroy(its_options);
  varve_mergeoperator_destroy(wrong);
}

static void TestNewValuesThatAreNone(void) {
  size_t size = 3;
  varve_compactionfilter_t* const filter =
      varve_compactionfilter_create(&size, NULL, KeepAll, SomeName);
  varve_options_t* const its_options = varve_options_create_copy(options);
  varve_t* its_db;
  varve_options_set_compaction_filter(its_options, filter);
  GOOD(its_db = varve_open(its_options, PathOf("values"), &error));
  PUT(its_db, plain_write, "k", "v");
  varve_compact_range(its_db, NULL, 0, NULL, 0);
  GET(its_db, plain_read, "k", "v");
  varve_close(its_db);
  varve_options_destroy(its_options);
  varve_compactionfilter_destroy(filter);
}

static void TestClosedDatabase(void) {
  varve_t* const closed = OpenPlain("closed");
  varve_column_family_handle_t* const its_family =
      varve_get_default_column_family_handle(closed);
  varve_writebatch_t* const batch = varve_writebatch_create();
  varve_close(closed);
  FAILS(varve_merge(closed, plain_write, "k", 1, "v", 1, &error),
        "Shutdown in progress: ");
  BAD(varve_merge_cf(db, plain_write, its_family, "k", 1, "v", 1, &error));
  varve_writebatch_merge_cf(batch, its_family, "k", 1, "v", 1);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_destroy(batch);
  varve_column_family_handle_destroy(its_family);
}

int main(void) {
  BeginTests();
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_uint64add_merge_operator(options);
  GOOD(db = varve_open(options, PathOf("db"), &error));
  family = varve_get_default_column_family_handle(db);
  TEST(TestCreatingWithNull);
  TEST(TestOptionsOfNull);
  TEST(TestMergesOfNull);
  TEST(TestResultsThatAreNone);
  TEST(TestNewValuesThatAreNone);
  TEST(TestClosedDatabase);
  varve_column_family_handle_destroy(family);
  varve_close(db);
  varve_options_destroy(options);
  return EndTests();
}
