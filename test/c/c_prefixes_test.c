/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: C programs seek by prefix, with transforms of their own and built-in
 * ones, which are destroyed once, after their last use; wrong calls do nothing.
 * Method: every function of varve/c_prefixes.h on a database of a few keys.
 */

#include "test/c/check.h"

#include "varve/c_prefixes.h"

static int destroyed;

static void CountDestruction(void* state) { ++*(int*)state; }

static const char* NameOf(void* state) {
  (void)state;
  return "test.c.FirstByte";
}

static const char* NoName(void* state) {
  (void)state;
  return NULL;
}

static char* FirstByte(void* state, const char* key, size_t length,
                       size_t* prefix_length) {
  (void)state;
  (void)length;
  *prefix_length = 1;
  return (char*)key;
}

static uint8_t IsNotEmpty(void* state, const char* key, size_t length) {
  (void)state;
  (void)key;
  return length > 0;
}

/* That the keys from `target` on, each followed by a space, are `expected`. */
static void CheckKeys(varve_t* db, const varve_readoptions_t* read,
                      const char* target, const char* expected) {
  char keys[100] = "";
  varve_iterator_t* const iterator = varve_create_iterator(db, read);
  varve_iter_seek(iterator, target, strlen(target));
  while (varve_iter_valid(iterator)) {
    size_t length = 0;
    const char* const key = varve_iter_key(iterator, &length);
    strncat(keys, key, length);
    strcat(keys, " ");
    varve_iter_next(iterator);
  }
  if (strcmp(keys, expected) != 0) FAIL(keys);
  varve_iter_destroy(iterator);
}

static void CheckDatabase(const char* path, varve_slicetransform_t* transform) {
  varve_options_t* const options = varve_options_create();
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_t* db = NULL;
  CHECK(transform != NULL);
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_prefix_extractor(options, transform);
  varve_slicetransform_destroy(transform);
  GOOD(db = varve_open(options, path, &error));
  varve_options_destroy(options);
  PUT(db, plain_write, "a1", "v");
  PUT(db, plain_write, "a2", "v");
  PUT(db, plain_write, "b1", "v");
  CheckKeys(db, read, "a2", "a2 b1 ");
  varve_readoptions_set_prefix_same_as_start(read, 1);
  CheckKeys(db, read, "a2", "a2 ");
  CheckKeys(db, read, "a3", "");
  varve_readoptions_set_total_order_seek(read, 1);
  CheckKeys(db, read, "a2", "a2 ");
  varve_readoptions_set_prefix_same_as_start(read, 0);
  CheckKeys(db, read, "a3", "b1 ");
  varve_readoptions_set_total_order_seek(read, 0);
  varve_readoptions_set_auto_prefix_mode(read, 1);
  varve_readoptions_set_iterate_upper_bound(read, "b", 1);
  CheckKeys(db, read, "a", "a1 a2 ");
  varve_readoptions_destroy(read);
  varve_close(db);
}

static void TestTransforms(void) {
  char path[kPathBytes];
  Join(path, test_root, "db");
  CheckDatabase(
      path, varve_slicetransform_create(&destroyed, CountDestruction, FirstByte,
                                        IsNotEmpty, NameOf));
  CHECK(destroyed == 1);
  CheckDatabase(path, varve_slicetransform_create_fixed_prefix(1));
  CheckDatabase(path, varve_slicetransform_create_capped_prefix(1));
  varve_slicetransform_destroy(varve_slicetransform_create_noop());
}

static void TestWrongCalls(void) {
  varve_options_t* const options = varve_options_create();
  CHECK(varve_slicetransform_create(&destroyed, CountDestruction, NULL,
                                    IsNotEmpty, NameOf) == NULL);
  CHECK(varve_slicetransform_create(&destroyed, CountDestruction, FirstByte,
                                    NULL, NameOf) == NULL);
  CHECK(varve_slicetransform_create(&destroyed, CountDestruction, FirstByte,
                                    IsNotEmpty, NULL) == NULL);
  CHECK(varve_slicetransform_create(&destroyed, CountDestruction, FirstByte,
                                    IsNotEmpty, NoName) == NULL);
  CHECK(destroyed == 1); /* By the other test. */
  varve_slicetransform_destroy(NULL);
  varve_options_set_prefix_extractor(NULL, NULL);
  varve_options_set_prefix_extractor(options, NULL);
  varve_options_destroy(options);
  varve_readoptions_set_prefix_same_as_start(NULL, 1);
  varve_readoptions_set_total_order_seek(NULL, 1);
  varve_readoptions_set_auto_prefix_mode(NULL, 1);
}

int main(void) {
  BeginTests();
  TEST(TestTransforms);
  TEST(TestWrongCalls);
  return EndTests();
}
