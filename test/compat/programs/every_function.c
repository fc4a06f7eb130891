/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/* Goal: each function of LevelDB's C header does the same with every library.
 * Method: calls all of them and prints what they return. headers_test.py
 * compares the output of two libraries.
 *
 * usage: every_function DIRECTORY */

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* error = NULL;

/* Prints a step, and the error that it caused without the directory's name. */
static void report(const char* step) {
  const char* text = "ok";
  if (error != NULL) {
    const char* colon = strchr(error, ':');
    printf("%s: %.*s\n", step, (int)(colon ? colon - error : 40), error);
    leveldb_free(error);
    error = NULL;
    return;
  }
  printf("%s: %s\n", step, text);
}

static void show(const char* step, const char* data, size_t size) {
  if (data == NULL) {
    printf("%s: NULL\n", step);
  } else if (size > 64) {
    printf("%s: %zu bytes\n", step, size);
  } else {
    printf("%s: \"%.*s\"\n", step, (int)size, data);
  }
}

static void destroyed(void* state) { printf("destroyed: %s\n", (char*)state); }

/* Compares as numbers if both are numbers. */
static int compare(void* state, const char* a, size_t a_size, const char* b,
                   size_t b_size) {
  (void)state;
  char left[32] = {0};
  char right[32] = {0};
  memcpy(left, a, a_size < 31 ? a_size : 31);
  memcpy(right, b, b_size < 31 ? b_size : 31);
  const long x = atol(left);
  const long y = atol(right);
  return x < y ? -1 : x > y;
}

static const char* comparator_name(void* state) {
  (void)state;
  return "numbers";
}

static char* create_filter(void* state, const char* const* keys,
                           const size_t* sizes, int count, size_t* size) {
  (void)state;
  (void)keys;
  (void)sizes;
  (void)count;
  *size = 4;
  char* filter = malloc(4);
  memcpy(filter, "fake", 4);
  return filter;
}

static uint8_t refuse_key = 0;

static uint8_t key_may_match(void* state, const char* key, size_t key_size,
                             const char* filter, size_t size) {
  (void)state;
  (void)key;
  (void)key_size;
  if (size != 4 || memcmp(filter, "fake", 4) != 0) printf("bad filter\n");
  return !refuse_key;
}

static const char* filter_name(void* state) {
  (void)state;
  return "all or nothing";
}

static void print_put(void* state, const char* k, size_t k_size, const char* v,
                      size_t v_size) {
  printf("%s put %.*s=%.*s\n", (char*)state, (int)k_size, k, (int)v_size, v);
}

static void print_deleted(void* state, const char* k, size_t k_size) {
  printf("%s deleted %.*s\n", (char*)state, (int)k_size, k);
}

static void get(leveldb_t* db, const leveldb_readoptions_t* options,
                const char* key) {
  size_t size = 12345;
  char* value = leveldb_get(db, options, key, strlen(key), &size, &error);
  char step[64];
  snprintf(step, sizeof(step), "get %s (%zu)", key, size);
  show(step, value, size);
  leveldb_free(value);
  if (error != NULL) report("get failed");
}

static void walk(leveldb_t* db, const leveldb_readoptions_t* options) {
  leveldb_iterator_t* it = leveldb_create_iterator(db, options);
  size_t size;
  printf("valid at first: %d\n", leveldb_iter_valid(it));
  leveldb_iter_seek_to_first(it);
  for (int step = 0; leveldb_iter_valid(it) && step < 20; step++) {
    const char* key = leveldb_iter_key(it, &size);
    show("  key", key, size);
    const char* value = leveldb_iter_value(it, &size);
    show("  value", value, size);
    leveldb_iter_next(it);
  }
  leveldb_iter_seek_to_last(it);
  if (leveldb_iter_valid(it)) leveldb_iter_prev(it);
  if (leveldb_iter_valid(it)) {
    const char* key = leveldb_iter_key(it, &size);
    show("last but one", key, size);
  }
  leveldb_iter_seek(it, "2", 1);
  if (leveldb_iter_valid(it)) {
    const char* key = leveldb_iter_key(it, &size);
    show("sought", key, size);
  }
  leveldb_iter_get_error(it, &error);
  report("iterator");
  leveldb_iter_destroy(it);
}

static void show_property(leveldb_t* db, const char* name) {
  char* value = leveldb_property_value(db, name);
  printf("property %s: %s\n", name, value == NULL ? "none" : "there");
  leveldb_free(value);
}

static leveldb_t* open_database(const leveldb_options_t* options,
                                const char* name, const char* step) {
  leveldb_t* db = leveldb_open(options, name, &error);
  printf("%s ", db == NULL ? "not opened" : "opened");
  report(step);
  return db;
}

static void use_batches(leveldb_t* db, const leveldb_writeoptions_t* write) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_t* other = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "cleared", 7, "x", 1);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "20", 2, "twenty", 6);
  leveldb_writebatch_delete(batch, "3", 1);
  leveldb_writebatch_put(other, "4", 1, "", 0);
  leveldb_writebatch_append(batch, other);
  leveldb_writebatch_iterate(batch, "batch", print_put, print_deleted);
  leveldb_write(db, write, batch, &error);
  report("write");
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(other);
}

static void use_sizes(leveldb_t* db) {
  const char* start[] = {"1", "100000"};
  const size_t start_size[] = {1, 6};
  const char* limit[] = {"99999", "100001"};
  const size_t limit_size[] = {5, 6};
  uint64_t sizes[2] = {1, 1};
  leveldb_approximate_sizes(db, 2, start, start_size, limit, limit_size, sizes);
  printf("sizes: %d, %d\n", sizes[0] > 20000, sizes[1] > 0);
}

/* Uses a database with everything that the options can have. */
static void use(const char* name, leveldb_options_t* options) {
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_readoptions_t* moment = leveldb_readoptions_create();
  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_readoptions_set_verify_checksums(read, 1);
  leveldb_readoptions_set_fill_cache(read, 0);
  leveldb_options_set_create_if_missing(options, 0);
  leveldb_t* db = open_database(options, name, "a missing database");
  leveldb_options_set_create_if_missing(options, 1);
  db = open_database(options, name, "a new database");
  if (db == NULL) exit(1);
  leveldb_writeoptions_set_sync(write, 1);
  leveldb_put(db, write, "1", 1, "one", 3, &error);
  report("put");
  leveldb_writeoptions_set_sync(write, 0);
  leveldb_put(db, write, "3", 1, "three", 5, &error);
  leveldb_put(db, write, "10", 2, "ten", 3, &error);
  get(db, read, "1");
  get(db, read, "7");
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_readoptions_set_snapshot(moment, snapshot);
  use_batches(db, write);
  leveldb_delete(db, write, "1", 1, &error);
  report("delete");
  leveldb_delete(db, write, "missing", 7, &error);
  report("delete of a missing key");
  get(db, moment, "1");
  get(db, read, "1");
  get(db, moment, "20");
  get(db, read, "4");
  walk(db, moment);
  walk(db, read);
  leveldb_release_snapshot(db, snapshot);
  show_property(db, "leveldb.stats");
  show_property(db, "leveldb.sstables");
  show_property(db, "leveldb.num-files-at-level0");
  show_property(db, "leveldb.num-files-at-level7");
  show_property(db, "leveldb.approximate-memory-usage");
  show_property(db, "leveldb.nothing");
  show_property(db, "stats");
  char value[100] = {0};
  for (int i = 1000; i < 5000; i++) {
    for (int j = 0; j < 100; j++) value[j] = (char)rand();
    char key[16];
    snprintf(key, sizeof(key), "%d", i);
    leveldb_put(db, write, key, strlen(key), value, sizeof(value), &error);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  use_sizes(db);
  get(db, read, "3000");
  refuse_key = 1;
  get(db, read, "3000"); /* The filter refuses it if it is the caller's own. */
  refuse_key = 0;
  open_database(options, name, "a database that is open");
  leveldb_close(db);
  leveldb_options_set_error_if_exists(options, 1);
  open_database(options, name, "a database that exists");
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_repair_db(options, name, &error);
  report("repair");
  db = open_database(options, name, "a repaired database");
  get(db, read, "10");
  get(db, read, "4999");
  leveldb_close(db);
  leveldb_destroy_db(options, name, &error);
  report("destroy");
  leveldb_destroy_db(options, name, &error);
  report("destroy again");
  leveldb_readoptions_destroy(read);
  leveldb_readoptions_destroy(moment);
  leveldb_writeoptions_destroy(write);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  srand(1);
  char name[4096];
  snprintf(name, sizeof(name), "%s/c_database", argv[1]);
  printf("version %d.%d\n", leveldb_major_version(), leveldb_minor_version());

  leveldb_options_t* options = leveldb_options_create();
  use(name, options);

  leveldb_comparator_t* comparator = leveldb_comparator_create(
      "comparator", destroyed, compare, comparator_name);
  leveldb_filterpolicy_t* filter = leveldb_filterpolicy_create(
      "filter", destroyed, create_filter, key_may_match, filter_name);
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_cache_t* cache = leveldb_cache_create_lru(100000);
  leveldb_env_t* env = leveldb_create_default_env();
  char* directory = leveldb_env_get_test_directory(env);
  printf("test directory: %d\n", directory != NULL && directory[0] == '/');
  leveldb_free(directory);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_max_open_files(options, 100);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 1 << 20);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  leveldb_options_set_filter_policy(options, bloom);
  use(name, options);
  leveldb_options_set_compression(options, leveldb_no_compression);
  leveldb_options_set_filter_policy(options, filter);
  leveldb_options_set_comparator(options, comparator);
  use(name, options);

  leveldb_options_destroy(options);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_filterpolicy_destroy(filter);
  leveldb_comparator_destroy(comparator);
  return 0;
}
