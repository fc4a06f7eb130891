/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/* Goal: LevelDB's C functions work. Method: a C program calls each of the 68;
 * it runs with both libraries. */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)
#define NO_ERROR CHECK(error == NULL)

static int destroyed = 0;
static void Destroy(void* state) { *(int*)state += 1; }
static int Compare(void* state, const char* a, size_t alen, const char* b,
                   size_t blen) {
  const size_t common = alen < blen ? alen : blen;
  int result = memcmp(a, b, common);
  (void)state;
  return result != 0 ? result : (alen > blen) - (alen < blen);
}
static const char* ComparatorName(void* state) {
  (void)state;
  return "test.comparator";
}
static const char* FilterName(void* state) {
  (void)state;
  return "test.filter";
}
static char* CreateFilter(void* state, const char* const* keys,
                          const size_t* lengths, int count, size_t* size) {
  char* filter = malloc(4);
  (void)state, (void)keys, (void)lengths;
  CHECK(count > 0);
  memcpy(filter, "fake", 4);
  *size = 4;
  return filter;
}
static int matches = 1;
static uint8_t KeyMayMatch(void* state, const char* key, size_t length,
                           const char* filter, size_t size) {
  (void)state, (void)key, (void)length;
  CHECK(size == 4 && memcmp(filter, "fake", 4) == 0);
  return matches;
}

static char iterated[100];
static void NotePut(void* state, const char* key, size_t klen,
                    const char* value, size_t vlen) {
  CHECK(state == iterated);
  strcat(iterated, "+");
  strncat(iterated, key, klen);
  strncat(iterated, value, vlen);
}
static void NoteDeleted(void* state, const char* key, size_t klen) {
  CHECK(state == iterated);
  strcat(iterated, "-");
  strncat(iterated, key, klen);
}

static void CheckGet(leveldb_t* db, const leveldb_readoptions_t* options,
                     const char* key, const char* expected) {
  char* error = NULL;
  size_t size = 99;
  char* value = leveldb_get(db, options, key, strlen(key), &size, &error);
  NO_ERROR;
  if (expected == NULL) {
    CHECK(value == NULL && size == 0);
  } else {
    CHECK(value != NULL && size == strlen(expected) &&
          memcmp(value, expected, size) == 0);
  }
  leveldb_free(value);
}

int main(int argc, char** argv) {
  char path[] = "/tmp/leveldb_c_XXXXXX";
  char name[100];
  char* error = NULL;
  char* text;
  size_t size;
  int i;
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_cache_t* cache = leveldb_cache_create_lru(100000);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_comparator_t* comparator =
      leveldb_comparator_create(&destroyed, Destroy, Compare, ComparatorName);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create(
      &destroyed, Destroy, CreateFilter, KeyMayMatch, FilterName);
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_t* db;
  leveldb_iterator_t* iterator;
  leveldb_writebatch_t* batch;
  leveldb_writebatch_t* more;
  const leveldb_snapshot_t* snapshot;

  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  CHECK(mkdtemp(path) != NULL);
  snprintf(name, sizeof(name), "%s/db", path);
  text = leveldb_env_get_test_directory(env);
  CHECK(text != NULL);
  leveldb_free(text);

  leveldb_options_set_comparator(options, comparator);
  leveldb_options_set_filter_policy(options, policy);
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_max_open_files(options, 100);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  leveldb_readoptions_set_verify_checksums(read, 1);
  leveldb_readoptions_set_fill_cache(read, 0);
  leveldb_writeoptions_set_sync(write, 1);

  leveldb_destroy_db(options, name, &error);
  NO_ERROR;
  db = leveldb_open(options, name, &error);
  CHECK(db == NULL && error != NULL && strstr(error, "does not exist") != NULL);
  leveldb_free(error);
  error = NULL;
  leveldb_options_set_create_if_missing(options, 1);
  db = leveldb_open(options, name, &error);
  NO_ERROR;

  leveldb_put(db, write, "foo", 3, "hello", 5, &error);
  NO_ERROR;
  CheckGet(db, read, "foo", "hello");
  CheckGet(db, read, "bar", NULL);
  leveldb_delete(db, write, "none", 4, &error);
  NO_ERROR;

  batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "x", 1, "y", 1);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "bar", 3, "b", 1);
  leveldb_writebatch_put(batch, "box", 3, "c", 1);
  more = leveldb_writebatch_create();
  leveldb_writebatch_delete(more, "bar", 3);
  leveldb_writebatch_append(batch, more);
  leveldb_write(db, write, batch, &error);
  NO_ERROR;
  CheckGet(db, read, "bar", NULL);
  CheckGet(db, read, "box", "c");
  leveldb_writebatch_iterate(batch, iterated, NotePut, NoteDeleted);
  CHECK(strcmp(iterated, "+barb+boxc-bar") == 0);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(more);

  iterator = leveldb_create_iterator(db, read);
  CHECK(!leveldb_iter_valid(iterator));
  leveldb_iter_seek_to_first(iterator);
  CHECK(leveldb_iter_valid(iterator));
  text = (char*)leveldb_iter_key(iterator, &size);
  CHECK(size == 3 && memcmp(text, "box", 3) == 0);
  leveldb_iter_next(iterator);
  text = (char*)leveldb_iter_value(iterator, &size);
  CHECK(size == 5 && memcmp(text, "hello", 5) == 0);
  leveldb_iter_prev(iterator);
  leveldb_iter_prev(iterator);
  CHECK(!leveldb_iter_valid(iterator));
  leveldb_iter_seek_to_last(iterator);
  leveldb_iter_seek(iterator, "b", 1);
  CHECK(leveldb_iter_valid(iterator));
  leveldb_iter_get_error(iterator, &error);
  NO_ERROR;
  leveldb_iter_destroy(iterator);

  snapshot = leveldb_create_snapshot(db);
  leveldb_delete(db, write, "foo", 3, &error);
  NO_ERROR;
  leveldb_readoptions_set_snapshot(read, snapshot);
  CheckGet(db, read, "foo", "hello");
  leveldb_readoptions_set_snapshot(read, NULL);
  CheckGet(db, read, "foo", NULL);
  leveldb_release_snapshot(db, snapshot);

  for (i = 0; i < 20000; i++) {
    char key[20];
    char value[20];
    snprintf(key, sizeof(key), "k%020d", i);
    snprintf(value, sizeof(value), "v%020d", i);
    leveldb_writeoptions_set_sync(write, 0);
    leveldb_put(db, write, key, strlen(key), value, strlen(value), &error);
    NO_ERROR;
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  {
    const char* starts[2] = {"a", "k00000000000000010000"};
    const char* limits[2] = {"k00000000000000010000", "z"};
    size_t lengths[2][2] = {{1, 21}, {21, 1}};
    uint64_t sizes[2] = {0, 0};
    leveldb_approximate_sizes(db, 2, starts, lengths[0], limits, lengths[1],
                              sizes);
    CHECK(sizes[0] > 0 || sizes[1] > 0);
  }
  text = leveldb_property_value(db, "none");
  CHECK(text == NULL);
  /* The argument says on which library the program is meant to run. */
  text = leveldb_property_value(db, "varve.stats");
  CHECK((text != NULL) == (argc > 1 && strcmp(argv[1], "varve") == 0));
  leveldb_free(text);
  text = leveldb_property_value(db, "leveldb.stats");
  CHECK(text != NULL);
  leveldb_free(text);
  matches = 0;
  CheckGet(db, read, "box", NULL); /* The filter says so. */
  matches = 1;
  CheckGet(db, read, "box", "c");

  leveldb_close(db);
  leveldb_options_set_create_if_missing(options, 0);
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_repair_db(options, name, &error);
  NO_ERROR;
  leveldb_options_set_filter_policy(options, bloom);
  db = leveldb_open(options, name, &error);
  NO_ERROR;
  CheckGet(db, read, "box", "c");
  leveldb_close(db);
  leveldb_destroy_db(options, name, &error);
  NO_ERROR;
  /* The files that the repair moved away are still there. */
  snprintf(name, sizeof(name), "rm -r %s", path);
  CHECK(system(name) == 0);

  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  leveldb_comparator_destroy(comparator);
  leveldb_filterpolicy_destroy(policy);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  CHECK(destroyed == 2);
  puts("passed");
  return 0;
}
