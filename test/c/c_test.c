/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: every function that LevelDB's C interface has does what its users rely
 * on. Method: a program in C that calls each of them, with failures and in the
 * corner cases. Comparators and filter policies are in c_callbacks_test.c.
 */

#include "test/c/check.h"

/* ---- Opening and errors ---- */

static void TestVersion(void) {
  CHECK(varve_major_version() == 1);
  CHECK(varve_minor_version() == 23);
}

static void TestErrorsReplaceEachOther(void) {
  varve_options_t* const options = varve_options_create();
  char* kept;
  varve_t* db = varve_open(options, PathOf("errors"), &error);
  CHECK(db == NULL);
  CHECK(error != NULL);
  /* The first message is freed; sanitizers would tell if it were not. */
  db = varve_open(options, PathOf("errors"), &error);
  CHECK(db == NULL);
  /* Success leaves an old message alone. */
  kept = error;
  varve_options_set_create_if_missing(options, 1);
  db = varve_open(options, PathOf("errors"), &error);
  CHECK(db != NULL);
  CHECK(error == kept);
  FAILED(error, "Invalid argument: ");
  /* A message that the caller has made by malloc is freed, too. */
  error = malloc(6);
  CHECK(error != NULL);
  memcpy(error, "hello", 6);
  CHECK(varve_open(options, PathOf("errors"), &error) == NULL);
  CHECK(strcmp(error, "hello") != 0);
  free(error); /* As good as varve_free. */
  error = NULL;
  varve_close(db);

  varve_options_set_error_if_exists(options, 1);
  BAD(CHECK(varve_open(options, PathOf("errors"), &error) == NULL));
  varve_options_destroy(options);
  varve_free(NULL);
}

static void TestUnknownCompressionIsRefused(void) {
  static const int kTypes[] = {-1, 99, 256, 1 << 20};
  varve_options_t* const options = varve_options_create();
  size_t i;
  varve_options_set_create_if_missing(options, 1);
  for (i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); ++i) {
    varve_options_set_compression(options, kTypes[i]);
    BAD(CHECK(varve_open(options, PathOf("compression"), &error) == NULL));
  }
  varve_options_destroy(options);
}

/* Numbers that are out of bounds are taken for the nearest one within. */
static void TestOddNumbersAreTakenForNearOnes(void) {
  static const size_t kSizes[] = {0, 1, (size_t)-1};
  static const int kCounts[] = {-2147483647 - 1, 0, 2147483647};
  size_t i;
  for (i = 0; i < 3; ++i) {
    varve_options_t* const options = varve_options_create();
    varve_t* db;
    varve_options_set_create_if_missing(options, 1);
    /* The largest would be reserved at once. */
    if (i < 2) varve_options_set_write_buffer_size(options, kSizes[i]);
    varve_options_set_block_size(options, kSizes[i]);
    varve_options_set_max_file_size(options, kSizes[i]);
    varve_options_set_max_open_files(options, kCounts[i]);
    varve_options_set_block_restart_interval(options, kCounts[i]);
    GOOD(db = varve_open(options, PathOf("odd"), &error));
    PUT(db, plain_write, "k", "v");
    varve_compact_range(db, NULL, 0, NULL, 0);
    GET(db, plain_read, "k", "v");
    varve_close(db);
    varve_options_destroy(options);
  }
}

/* ---- Reading and writing ---- */

static void TestPutGetDelete(void) {
  varve_t* const db = OpenPlain("basic");
  char* value;
  size_t size = 99;
  GET(db, plain_read, "a", NULL);
  PUT(db, plain_write, "a", "1");
  PUT(db, plain_write, "a", "2");
  GET(db, plain_read, "a", "2");
  DELETE(db, plain_write, "a");
  DELETE(db, plain_write, "a"); /* No error. */
  GET(db, plain_read, "a", NULL);

  /* An empty value is there; so is the empty key. */
  PUT(db, plain_write, "empty", "");
  GET(db, plain_read, "empty", "");
  GOOD(varve_put(db, plain_write, NULL, 0, NULL, 0, &error));
  GET(db, plain_read, "", "");
  GOOD(varve_delete(db, plain_write, NULL, 0, &error));
  GET(db, plain_read, "", NULL);

  /* Zeros are bytes like others. */
  GOOD(varve_put(db, plain_write, "a\0b", 3, "x\0y", 3, &error));
  GOOD(value = varve_get(db, plain_read, "a\0b", 3, &size, &error));
  CHECK(size == 3 && memcmp(value, "x\0y", 3) == 0);
  varve_free(value);
  value = varve_get(db, plain_read, "a\0c", 3, &size, &error);
  CHECK(value == NULL && size == 0 && error == NULL);
  varve_close(db);
}

/* That a key is not there is no error and leaves an old one alone. */
static void TestMissingKeyIsNoError(void) {
  varve_t* const db = OpenPlain("missing");
  char* error = strdup("of before");
  char* const before = error;
  size_t size = 7;
  CHECK(varve_get(db, plain_read, "k", 1, &size, &error) == NULL);
  CHECK(size == 0);
  CHECK(error == before && strcmp(error, "of before") == 0);
  free(error);
  varve_close(db);
}

static void TestBigValues(void) {
  static const size_t kSizes[] = {1000, 100000, 3000000};
  varve_t* db = OpenPlain("big");
  char* const bytes = malloc(3000000);
  int round;
  size_t i;
  CHECK(bytes != NULL);
  for (i = 0; i < 3000000; ++i) bytes[i] = (char)(i * 2654435761u >> 13);
  for (i = 0; i < 3; ++i) {
    const char key[1] = {(char)('a' + i)};
    GOOD(varve_put(db, plain_write, key, 1, bytes, kSizes[i], &error));
  }
  /* From memory, from tables, and after opening again. */
  for (round = 0; round < 3; ++round) {
    for (i = 0; i < 3; ++i) {
      size_t size = 0;
      const char key[1] = {(char)('a' + i)};
      char* const value = varve_get(db, plain_read, key, 1, &size, &error);
      OK(error);
      CHECK(size == kSizes[i] && memcmp(value, bytes, size) == 0);
      varve_free(value);
    }
    if (round == 0) varve_compact_range(db, NULL, 0, NULL, 0);
    if (round == 1) {
      varve_close(db);
      db = OpenPlain("big");
    }
  }
  free(bytes);
  varve_close(db);
}

static void TestSyncedWritesAreThereAfterReopen(void) {
  varve_writeoptions_t* const synced = varve_writeoptions_create();
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_t* db = OpenPlain("synced");
  varve_writeoptions_set_sync(synced, 1);
  varve_readoptions_set_verify_checksums(read, 1);
  varve_readoptions_set_fill_cache(read, 0);
  PUT(db, synced, "k", "v");
  DELETE(db, synced, "gone");
  varve_close(db);
  db = OpenPlain("synced");
  GET(db, read, "k", "v");
  varve_close(db);
  varve_readoptions_destroy(read);
  varve_writeoptions_destroy(synced);
}

/* ---- Batches ---- */

struct Log {
  char text[256];
};

static void LogPut(void* state, const char* k, size_t klen, const char* v,
                   size_t vlen) {
  struct Log* const log = state;
  const size_t used = strlen(log->text);
  snprintf(log->text + used, sizeof(log->text) - used, "%.*s=%.*s ", (int)klen,
           k, (int)vlen, v);
}

static void LogDelete(void* state, const char* k, size_t klen) {
  struct Log* const log = state;
  const size_t used = strlen(log->text);
  snprintf(log->text + used, sizeof(log->text) - used, "-%.*s ", (int)klen, k);
}

static void ExpectBatch(const varve_writebatch_t* batch, const char* expected) {
  struct Log log;
  log.text[0] = '\0';
  varve_writebatch_iterate(batch, &log, LogPut, LogDelete);
  CHECK(strcmp(log.text, expected) == 0);
}

static void TestBatches(void) {
  varve_t* const db = OpenPlain("batches");
  varve_writebatch_t* const a = varve_writebatch_create();
  varve_writebatch_t* const b = varve_writebatch_create();
  ExpectBatch(a, "");
  varve_write(db, plain_write, a, &error); /* An empty one is fine. */
  OK(error);
  varve_writebatch_put(a, "dropped", 7, "x", 1);
  varve_writebatch_clear(a);
  varve_writebatch_put(a, "k1", 2, "v1", 2);
  varve_writebatch_put(a, "k2", 2, "", 0);
  varve_writebatch_delete(b, "k1", 2);
  varve_writebatch_put(b, "k3", 2, "v3", 2);
  ExpectBatch(a, "k1=v1 k2= ");
  varve_writebatch_append(a, b);
  varve_writebatch_append(b, b); /* Itself. */
  ExpectBatch(a, "k1=v1 k2= -k1 k3=v3 ");
  ExpectBatch(b, "-k1 k3=v3 -k1 k3=v3 ");
  varve_writebatch_destroy(b);
  GOOD(varve_write(db, plain_write, a, &error));
  /* The later update of a key wins, and the batch can be written again. */
  GET(db, plain_read, "k1", NULL);
  GET(db, plain_read, "k2", "");
  GET(db, plain_read, "k3", "v3");
  GET(db, plain_read, "dropped", NULL);
  DELETE(db, plain_write, "k3");
  ExpectBatch(a, "k1=v1 k2= -k1 k3=v3 ");
  GOOD(varve_write(db, plain_write, a, &error));
  GET(db, plain_read, "k3", "v3");
  varve_writebatch_destroy(a);
  varve_close(db);
}

/* ---- Iterators and snapshots ---- */

static void TestIterators(void) {
  varve_t* const db = OpenPlain("iterators");
  varve_iterator_t* iterator = varve_create_iterator(db, plain_read);
  varve_iter_seek_to_first(iterator); /* Of nothing. */
  CHECK(varve_iter_valid(iterator) == 0);
  varve_iter_seek_to_last(iterator);
  CHECK(varve_iter_valid(iterator) == 0);
  GOOD(varve_iter_get_error(iterator, &error));
  PUT(db, plain_write, "b", "2");
  PUT(db, plain_write, "d", "");
  varve_compact_range(db, NULL, 0, NULL, 0);
  PUT(db, plain_write, "f", "6");
  varve_iter_seek_to_first(iterator); /* It was made before them. */
  CHECK(!varve_iter_valid(iterator));
  varve_iter_destroy(iterator);

  iterator = varve_create_iterator(db, plain_read);
  CHECK(!varve_iter_valid(iterator));
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "b", "2");
  varve_iter_next(iterator);
  ExpectEntry(iterator, "d", "");
  varve_iter_next(iterator);
  ExpectEntry(iterator, "f", "6");
  varve_iter_prev(iterator);
  ExpectEntry(iterator, "d", "");
  varve_iter_seek(iterator, "c", 1); /* Between two keys. */
  ExpectEntry(iterator, "d", "");
  varve_iter_seek(iterator, "d", 1); /* A key. */
  ExpectEntry(iterator, "d", "");
  varve_iter_seek(iterator, NULL, 0); /* Before all. */
  ExpectEntry(iterator, "b", "2");
  varve_iter_prev(iterator);
  CHECK(!varve_iter_valid(iterator));
  varve_iter_seek(iterator, "g", 1); /* Behind all. */
  CHECK(!varve_iter_valid(iterator));
  varve_iter_seek_to_last(iterator);
  ExpectEntry(iterator, "f", "6");
  varve_iter_next(iterator);
  CHECK(!varve_iter_valid(iterator));
  GOOD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  varve_close(db);
}

static void TestSnapshotsSurviveCompaction(void) {
  varve_t* const db = OpenPlain("snapshots");
  varve_readoptions_t* const read = varve_readoptions_create();
  const varve_snapshot_t* first;
  const varve_snapshot_t* second;
  varve_iterator_t* iterator;
  PUT(db, plain_write, "k", "1");
  first = varve_create_snapshot(db);
  PUT(db, plain_write, "k", "2");
  second = varve_create_snapshot(db);
  DELETE(db, plain_write, "k");
  PUT(db, plain_write, "new", "x");
  varve_compact_range(db, NULL, 0, NULL, 0);
  varve_readoptions_set_snapshot(read, first);
  GET(db, read, "k", "1");
  GET(db, read, "new", NULL);
  varve_readoptions_set_snapshot(read, second);
  GET(db, read, "k", "2");
  varve_release_snapshot(db, first); /* In any order. */
  varve_compact_range(db, NULL, 0, NULL, 0);
  GET(db, read, "k", "2");
  iterator = varve_create_iterator(db, read);
  varve_readoptions_set_snapshot(read, NULL);
  GET(db, read, "k", NULL);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "k", "2");
  varve_iter_next(iterator);
  CHECK(!varve_iter_valid(iterator));
  varve_iter_destroy(iterator);
  varve_release_snapshot(db, second);
  varve_readoptions_destroy(read);
  varve_close(db);
}

/* ---- What a database says of itself ---- */

static void TestProperties(void) {
  static const char* const kNames[] = {
      "leveldb.stats", "leveldb.sstables", "leveldb.num-files-at-level0",
      "leveldb.approximate-memory-usage", "varve.stats"};
  static const char* const kUnknown[] = {"", "nonsense", "leveldb.nonsense",
                                         "leveldb.num-files-at-level99"};
  varve_t* const db = OpenPlain("properties");
  size_t i;
  FillNumbers(db, 10);
  for (i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    char* const value = varve_property_value(db, kNames[i]);
    CHECK(value != NULL);
    varve_free(value);
  }
  for (i = 0; i < sizeof(kUnknown) / sizeof(kUnknown[0]); ++i) {
    CHECK(varve_property_value(db, kUnknown[i]) == NULL);
  }
  varve_close(db);
}

static void TestApproximateSizes(void) {
  static const char* const kStart[] = {"", "key010000", "x"};
  static const char* const kLimit[] = {"key010000", "z", "z"};
  static const size_t kStartSizes[] = {0, 9, 1};
  static const size_t kLimitSizes[] = {9, 1, 1};
  varve_t* const db = OpenPlain("sizes");
  uint64_t sizes[3] = {1, 2, 3};
  varve_approximate_sizes(db, 3, kStart, kStartSizes, kLimit, kLimitSizes,
                          sizes);
  CHECK(sizes[0] == 0 && sizes[1] == 0 && sizes[2] == 0);
  FillNumbers(db, 20000);
  varve_compact_range(db, NULL, 0, NULL, 0);
  varve_approximate_sizes(db, 3, kStart, kStartSizes, kLimit, kLimitSizes,
                          sizes);
  CHECK(sizes[0] > 0 && sizes[1] > 0 && sizes[2] == 0);
  /* Halves, more or less. */
  CHECK(sizes[0] < 2 * sizes[1] && sizes[1] < 2 * sizes[0]);
  varve_approximate_sizes(db, 0, NULL, NULL, NULL, NULL, NULL);
  varve_close(db);
}

static void TestCompactRange(void) {
  varve_t* const db = OpenPlain("ranges");
  FillNumbers(db, 1000);
  varve_compact_range(db, "key0001", 7, "key0005", 7);
  varve_compact_range(db, NULL, 0, "key0003", 7);
  varve_compact_range(db, "key0003", 7, NULL, 0);
  varve_compact_range(db, "z", 1, "a", 1);
  GET(db, plain_read, "key000999", "value 7911081 of many");
  varve_close(db);
}

/* ---- All options at once, and several databases ---- */

static void TestAllOptions(void) {
  varve_options_t* const options = varve_options_create();
  varve_cache_t* const cache = varve_cache_create_lru(1 << 20);
  varve_env_t* const env = varve_create_default_env();
  varve_t* first;
  varve_t* second;
  int type;
  for (type = varve_no_compression; type <= varve_snappy_compression; ++type) {
    varve_options_set_create_if_missing(options, 1);
    varve_options_set_error_if_exists(options, 0);
    varve_options_set_paranoid_checks(options, (uint8_t)(type * 2));
    varve_options_set_env(options, env);
    varve_options_set_info_log(options, NULL);
    varve_options_set_write_buffer_size(options, 100000);
    varve_options_set_max_open_files(options, 20);
    varve_options_set_cache(options, cache);
    varve_options_set_block_size(options, 1000);
    varve_options_set_block_restart_interval(options, 4);
    varve_options_set_max_file_size(options, 100000);
    varve_options_set_compression(options, type);
    GOOD(first = varve_open(options, PathOf("options 1"), &error));
    GOOD(second = varve_open(options, PathOf("options 2"), &error));
    FillNumbers(first, 5000);
    FillNumbers(second, 10);
    varve_compact_range(first, NULL, 0, NULL, 0);
    GET(first, plain_read, "key004999", "value 39587081 of many");
    GET(second, plain_read, "key004999", NULL);
    varve_close(first);
    varve_close(second);
  }
  /* NULL for the default again. */
  varve_options_set_env(options, NULL);
  varve_options_set_cache(options, NULL);
  GOOD(first = varve_open(options, PathOf("options 1"), &error));
  varve_options_destroy(options); /* Not needed any more. */
  GET(first, plain_read, "key000000", "value 0 of many");
  varve_close(first);
  varve_cache_destroy(cache);
  varve_env_destroy(env);
}

static void TestTestDirectory(void) {
  varve_env_t* const env = varve_create_default_env();
  char* path = varve_env_get_test_directory(env);
  CHECK(path != NULL && Exists(path));
  varve_free(path);
  CHECK(setenv("TEST_TMPDIR", PathOf("directory of tests"), 1) == 0);
  path = varve_env_get_test_directory(env);
  CHECK(path != NULL && strcmp(path, PathOf("directory of tests")) == 0);
  CHECK(Exists(path));
  varve_free(path);
  varve_env_destroy(env);
}

/* ---- Removal and repair ---- */

static void TestDestroy(void) {
  varve_options_t* const options = varve_options_create();
  varve_t* const db = OpenPlain("destroyed");
  FillNumbers(db, 100);
  varve_destroy_db(options, PathOf("destroyed"), &error); /* It is open. */
  FAILED(error, "");
  GET(db, plain_read, "key000000", "value 0 of many");
  varve_close(db);
  GOOD(varve_destroy_db(options, PathOf("destroyed"), &error));
  CHECK(!Exists(PathOf("destroyed")));
  varve_destroy_db(options, PathOf("destroyed"), &error); /* None there. */
  OK(error);
  BAD(CHECK(varve_open(options, PathOf("destroyed"), &error) == NULL));
  varve_options_destroy(options);
}

/* Removes the MANIFEST, or empties a log, and so on, by the name's beginning.
 */
static void RemoveFilesLike(const char* path, const char* beginning) {
  DIR* const directory = opendir(path);
  struct dirent* entry;
  int removed = 0;
  CHECK(directory != NULL);
  while ((entry = readdir(directory)) != NULL) {
    char file[kPathBytes];
    if (strncmp(entry->d_name, beginning, strlen(beginning)) != 0) continue;
    Join(file, path, entry->d_name);
    CHECK(unlink(file) == 0);
    ++removed;
  }
  closedir(directory);
  CHECK(removed > 0);
}

static void TestRepair(void) {
  varve_options_t* const options = varve_options_create();
  varve_t* db = OpenPlain("repaired");
  FillNumbers(db, 500);
  varve_compact_range(db, NULL, 0, NULL, 0);
  PUT(db, plain_write, "key000001", "newer");
  DELETE(db, plain_write, "key000002");
  varve_close(db);
  varve_repair_db(options, PathOf("repaired"), &error); /* A whole one. */
  OK(error);
  RemoveFilesLike(PathOf("repaired"), "MANIFEST");
  RemoveFilesLike(PathOf("repaired"), "CURRENT");
  FAILS(CHECK(varve_open(options, PathOf("repaired"), &error) == NULL), "");
  GOOD(varve_repair_db(options, PathOf("repaired"), &error));
  GOOD(db = varve_open(options, PathOf("repaired"), &error));
  GET(db, plain_read, "key000000", "value 0 of many");
  GET(db, plain_read, "key000001", "newer");
  GET(db, plain_read, "key000002", NULL);
  GET(db, plain_read, "key000499", "value 3951581 of many");
  varve_close(db);

  FAILS(varve_repair_db(options, PathOf("never there"), &error), "");
  varve_options_destroy(options);
}

/* Reading a damaged table returns an error, with iterators as well. */
static void TestDamageIsReported(void) {
  varve_options_t* const options = varve_options_create();
  varve_t* db = OpenPlain("damaged");
  varve_readoptions_t* const read = varve_readoptions_create();
  DIR* directory;
  struct dirent* entry;
  size_t size = 5;
  int damaged = 0;
  FillNumbers(db, 5000);
  varve_compact_range(db, NULL, 0, NULL, 0);
  varve_close(db);
  directory = opendir(PathOf("damaged"));
  CHECK(directory != NULL);
  while ((entry = readdir(directory)) != NULL) {
    char file[kPathBytes];
    FILE* stream;
    if (strstr(entry->d_name, ".sst") == NULL &&
        strstr(entry->d_name, ".ldb") == NULL) {
      continue;
    }
    Join(file, PathOf("damaged"), entry->d_name);
    stream = fopen(file, "r+b");
    CHECK(stream != NULL);
    CHECK(fseek(stream, 100, SEEK_SET) == 0); /* In the first block. */
    CHECK(fwrite("damage", 6, 1, stream) == 1);
    CHECK(fclose(stream) == 0);
    ++damaged;
  }
  closedir(directory);
  CHECK(damaged > 0);
  GOOD(db = varve_open(options, PathOf("damaged"), &error));
  varve_readoptions_set_verify_checksums(read, 1);
  CHECK(varve_get(db, read, "key000000", 9, &size, &error) == NULL);
  CHECK(size == 0);
  FAILED(error, "Corruption: ");
  GET(db, read, "key004999", "value 39587081 of many");
  {
    varve_iterator_t* const iterator = varve_create_iterator(db, read);
    varve_iter_seek_to_first(iterator);
    while (varve_iter_valid(iterator)) varve_iter_next(iterator);
    FAILS(varve_iter_get_error(iterator, &error), "Corruption: ");
    varve_iter_destroy(iterator);
  }
  varve_close(db);
  varve_readoptions_destroy(read);
  varve_options_destroy(options);
}

int main(void) {
  BeginTests();
  TEST(TestVersion);
  TEST(TestErrorsReplaceEachOther);
  TEST(TestUnknownCompressionIsRefused);
  TEST(TestOddNumbersAreTakenForNearOnes);
  TEST(TestPutGetDelete);
  TEST(TestMissingKeyIsNoError);
  TEST(TestBigValues);
  TEST(TestSyncedWritesAreThereAfterReopen);
  TEST(TestBatches);
  TEST(TestIterators);
  TEST(TestSnapshotsSurviveCompaction);
  TEST(TestProperties);
  TEST(TestApproximateSizes);
  TEST(TestCompactRange);
  TEST(TestAllOptions);
  TEST(TestTestDirectory);
  TEST(TestDestroy);
  TEST(TestRepair);
  TEST(TestDamageIsReported);
  return EndTests();
}
