/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: the functions of varve/c_extensions.h do what it says. Method: every
 * function but those that c_observe_test.c calls.
 */

#include "test/c/check.h"

static varve_flushoptions_t* plain_flush;

static void Flush(varve_t* db) { GOOD(varve_flush(db, plain_flush, &error)); }

static uint64_t Number(varve_t* db, const char* name) {
  uint64_t number = 0;
  CHECK(varve_property_int(db, name, &number) == 0);
  return number;
}

/* ---- Opening and closing ---- */

static void TestVersion(void) {
  int major = -1;
  int minor = -1;
  int patch = -1;
  CHECK(sscanf(varve_version(), "%d.%d.%d", &major, &minor, &patch) == 3);
  CHECK(major == VARVE_VERSION_MAJOR);
  CHECK(minor == VARVE_VERSION_MINOR);
  CHECK(patch == VARVE_VERSION_PATCH);
}

static void TestNothingIsDestroyedByNull(void) {
  varve_close(NULL);
  CHECK(varve_close_checked(NULL, &error) == 1);
  CHECK(varve_catalog_close(NULL, &error) == 1);
  varve_release_snapshot(NULL, NULL);
  varve_iter_destroy(NULL);
  varve_writebatch_destroy(NULL);
  varve_options_destroy(NULL);
  varve_readoptions_destroy(NULL);
  varve_writeoptions_destroy(NULL);
  varve_flushoptions_destroy(NULL);
  varve_compactoptions_destroy(NULL);
  varve_comparator_destroy(NULL);
  varve_filterpolicy_destroy(NULL);
  varve_cache_destroy(NULL);
  varve_env_destroy(NULL);
  varve_logger_destroy(NULL);
  varve_ratelimiter_destroy(NULL);
  varve_write_buffer_manager_destroy(NULL);
  varve_statistics_destroy(NULL);
  varve_pinnableslice_destroy(NULL);
  varve_checkpoint_object_destroy(NULL);
  varve_readtransaction_end(NULL);
  varve_traceoptions_destroy(NULL);
  varve_tracespan_end(NULL);
  CHECK(varve_trace_end(NULL) == NULL);
  OK(error);
}

static void TestCloseSaysWhetherItCould(void) {
  varve_t* const db = OpenPlain("close");
  varve_iterator_t* const iterator = varve_create_iterator(db, plain_read);
  FAILS(CHECK(varve_close_checked(db, &error) == 0), "Busy: ");
  PUT(db, plain_write, "still", "open");
  GET(db, plain_read, "still", "open");
  varve_iter_destroy(iterator);
  GOOD(CHECK(varve_close_checked(db, &error) == 1));
}

static void TestReadOnly(void) {
  varve_options_t* const options = varve_options_create();
  varve_t* db = OpenPlain("read only");
  PUT(db, plain_write, "k", "v");
  varve_close(db);
  GOOD(db = varve_open_for_read_only(options, PathOf("read only"), &error));
  GET(db, plain_read, "k", "v");
  FAILS(varve_put(db, plain_write, "k", 1, "w", 1, &error), "Not supported: ");
  varve_close(db);
  FAILS(
      CHECK(varve_open_for_read_only(options, PathOf("none"), &error) == NULL),
      "");
  varve_options_destroy(options);
}

static void TestFollower(void) {
  varve_options_t* const options = varve_options_create();
  varve_t* const db = OpenPlain("followed");
  varve_t* follower;
  char path[kPathBytes];
  char second[kPathBytes];
  Join(path, test_root, "followed");
  Join(second, test_root, "second");
  PUT(db, plain_write, "k", "v");
  GOOD(follower = varve_open_as_secondary(options, path, second, &error));
  GET(follower, plain_read, "k", "v");
  PUT(db, plain_write, "k", "w");
  GET(follower, plain_read, "k", "v");
  GOOD(varve_try_catch_up_with_primary(follower, &error));
  GET(follower, plain_read, "k", "w");
  FAILS(varve_put(follower, plain_write, "k", 1, "x", 1, &error),
        "Not supported: ");
  FAILS(varve_try_catch_up_with_primary(db, &error), "Not supported: ");
  FAILS(varve_promote(db, &error), "Not supported: ");
  FAILS(varve_promote(follower, &error), "");
  PUT(db, plain_write, "k", "x");
  varve_close(db);
  GOOD(varve_promote(follower, &error));
  GET(follower, plain_read, "k", "x");
  PUT(follower, plain_write, "k", "y");
  GET(follower, plain_read, "k", "y");
  varve_close(follower);
  {
    const char* const names[] = {"default"};
    const varve_options_t* families[1];
    varve_column_family_handle_t* handle;
    families[0] = options;
    GOOD(follower = varve_open_as_secondary_column_families(
             options, path, second, 1, names, families, &handle, &error));
    GET(follower, plain_read, "k", "y");
    varve_column_family_handle_destroy(handle);
    varve_close(follower);
    FAILS(CHECK(varve_open_as_secondary_column_families(
                    options, path, NULL, 1, names, families, &handle, &error) ==
                NULL),
          "");
  }
  varve_options_destroy(options);
}

/* ---- Reading ---- */

static void TestMultiGet(void) {
  static const char* const kKeys[] = {"b", "none", "a", "", "b"};
  static const char* const kExpected[] = {"2", NULL, "", "empty key", "2"};
  varve_t* const db = OpenPlain("multi get");
  size_t sizes[5];
  char* values[5];
  size_t value_sizes[5];
  char* errors[5];
  int round;
  int i;
  PUT(db, plain_write, "a", "");
  PUT(db, plain_write, "b", "2");
  PUT(db, plain_write, "", "empty key");
  for (round = 0; round < 2; ++round) {
    for (i = 0; i < 5; ++i) sizes[i] = strlen(kKeys[i]);
    memset(errors, 0xcc, sizeof(errors)); /* Need not be set before. */
    varve_multi_get(db, plain_read, 5, kKeys, sizes, values, value_sizes,
                    errors);
    for (i = 0; i < 5; ++i) {
      OK(errors[i]);
      if (kExpected[i] == NULL) {
        CHECK(values[i] == NULL && value_sizes[i] == 0);
      } else {
        SAME(values[i], value_sizes[i], kExpected[i]);
      }
      varve_free(values[i]);
    }
    Flush(db);
  }
  varve_multi_get(db, plain_read, 0, NULL, NULL, NULL, NULL, NULL);
  varve_close(db);
}

static void TestGetPinned(void) {
  varve_t* const db = OpenPlain("pinned");
  size_t size = 77;
  const char* bytes;
  varve_pinnableslice_t* value;
  PUT(db, plain_write, "k", "value");
  Flush(db);
  GOOD(value = varve_get_pinned(db, plain_read, "k", 1, &error));
  PUT(db, plain_write, "k", "other"); /* It stays as it was. */
  bytes = varve_pinnableslice_value(value, &size);
  SAME(bytes, size, "value");
  varve_pinnableslice_destroy(value);
  value = varve_get_pinned(db, plain_read, "none", 4, &error);
  CHECK(value == NULL && error == NULL);
  CHECK(varve_pinnableslice_value(NULL, &size) == NULL && size == 0);
  varve_close(db);
}

static void TestGetIntoBuffer(void) {
  varve_t* const db = OpenPlain("buffer");
  char buffer[4] = "....";
  size_t size = 77;
  uint8_t found = 7;
  PUT(db, plain_write, "four", "1234");
  PUT(db, plain_write, "five", "12345");
  PUT(db, plain_write, "zero", "");
  CHECK(varve_get_into_buffer(db, plain_read, "four", 4, buffer, 4, &size,
                              &found, &error) == 1);
  CHECK(found == 1);
  SAME(buffer, size, "1234");
  CHECK(varve_get_into_buffer(db, plain_read, "five", 4, buffer, 4, &size,
                              &found, &error) == 0);
  CHECK(found == 1 && size == 5 && memcmp(buffer, "1234", 4) == 0);
  CHECK(varve_get_into_buffer(db, plain_read, "zero", 4, NULL, 0, &size, &found,
                              &error) == 1);
  CHECK(found == 1 && size == 0);
  CHECK(varve_get_into_buffer(db, plain_read, "none", 4, buffer, 4, &size,
                              &found, &error) == 0);
  CHECK(found == 0 && size == 0);
  OK(error);
  varve_close(db);
}

static void TestIntProperties(void) {
  varve_t* const db = OpenPlain("numbers");
  uint64_t number = 0;
  uint64_t before;
  CHECK(varve_property_int(db, "varve.num-snapshots", &number) == 0);
  CHECK(number == 0);
  CHECK(varve_property_int(db, "varve.stats", &number) == -1);
  CHECK(varve_property_int(db, "none", &number) == -1);
  before = varve_get_latest_sequence_number(db);
  PUT(db, plain_write, "k", "v");
  CHECK(varve_get_latest_sequence_number(db) == before + 1);
  varve_close(db);
}

/* ---- Writing ---- */

static void TestOtherDeletions(void) {
  varve_t* const db = OpenPlain("deletions");
  FillNumbers(db, 10);
  GOOD(varve_singledelete(db, plain_write, "key000000", 9, &error));
  GET(db, plain_read, "key000000", NULL);
  GOOD(varve_delete_range(db, plain_write, "key000002", 9, "key000008", 9,
                          &error));
  GET(db, plain_read, "key000001", "value 7919 of many");
  GET(db, plain_read, "key000002", NULL);
  GET(db, plain_read, "key000007", NULL);
  GET(db, plain_read, "key000008", "value 63352 of many");
  BAD(varve_delete_range(db, plain_write, "z", 1, "a", 1, &error));
  varve_close(db);
}

static void TestWriteOptions(void) {
  varve_writeoptions_t* const write = varve_writeoptions_create();
  varve_t* db = OpenPlain("write options");
  varve_writeoptions_disable_WAL(write, 1);
  varve_writeoptions_set_no_slowdown(write, 1);
  PUT(db, write, "k", "v");
  varve_writeoptions_set_sync(write, 1); /* That is too much. */
  BAD(varve_put(db, write, "k", 1, "w", 1, &error));
  varve_writeoptions_disable_WAL(write, 0);
  PUT(db, write, "k", "w");
  GOOD(varve_sync_wal(db, &error));
  GOOD(varve_flush_wal(db, 0, &error));
  GOOD(varve_flush_wal(db, 1, &error));
  varve_close(db);
  db = OpenPlain("write options");
  GET(db, plain_read, "k", "w");
  varve_close(db);
  varve_writeoptions_destroy(write);
}

struct Log {
  char text[256];
};

static void Append(void* state, const char* kind, const char* a, size_t alen,
                   const char* b, size_t blen) {
  struct Log* const log = state;
  const size_t used = strlen(log->text);
  CHECK((size_t)snprintf(log->text + used, sizeof(log->text) - used,
                         "%s(%.*s,%.*s) ", kind, (int)alen, a, (int)blen,
                         b) < sizeof(log->text) - used);
}

static void OnPut(void* state, const char* k, size_t klen, const char* v,
                  size_t vlen) {
  Append(state, "put", k, klen, v, vlen);
}
static void OnDelete(void* state, const char* k, size_t klen) {
  Append(state, "delete", k, klen, "", 0);
}
static void OnSingle(void* state, const char* k, size_t klen) {
  Append(state, "single", k, klen, "", 0);
}
static void OnRange(void* state, const char* a, size_t alen, const char* b,
                    size_t blen) {
  Append(state, "range", a, alen, b, blen);
}
static void OnLog(void* state, const char* blob, size_t len) {
  Append(state, "log", blob, len, "", 0);
}

static void TestBatchesOfEverything(void) {
  varve_writebatch_t* const batch = varve_writebatch_create();
  varve_writebatch_t* copy;
  struct Log log = {""};
  const char* bytes;
  size_t size;
  varve_writebatch_put(batch, "a", 1, "1", 1);
  varve_writebatch_singledelete(batch, "b", 1);
  varve_writebatch_delete(batch, "c", 1);
  varve_writebatch_put_log_data(batch, "note", 4);
  varve_writebatch_delete_range(batch, "d", 1, "e", 1);
  CHECK(varve_writebatch_count(batch) == 4);
  varve_writebatch_iterate(batch, &log, OnPut, OnDelete);
  CHECK(strcmp(log.text, "put(a,1) delete(b,) delete(c,) ") == 0);

  bytes = varve_writebatch_data(batch, &size);
  copy = varve_writebatch_create_from(bytes, size);
  varve_writebatch_destroy(batch);
  log.text[0] = '\0';
  GOOD(varve_writebatch_iterate_all(copy, &log, OnPut, OnDelete, OnSingle,
                                    OnRange, OnLog, &error));
  CHECK(strcmp(log.text,
               "put(a,1) single(b,) delete(c,) log(note,) range(d,e) ") == 0);
  log.text[0] = '\0';
  GOOD(varve_writebatch_iterate_all(copy, &log, NULL, OnDelete, NULL, NULL,
                                    NULL, &error));
  CHECK(strcmp(log.text, "delete(c,) ") == 0);
  varve_writebatch_destroy(copy);
}

/* The second has an update of another column family. */
static void TestBadBatchesAreRefused(void) {
  static const char family[] = "\0\0\0\0\0\0\0\0\1\0\0\0\5\2\1k\1v";
  const char* const bytes[] = {"bad", family};
  const size_t sizes[] = {3, sizeof(family) - 1};
  const char* const beginnings[] = {"Corruption: ", "Invalid argument: "};
  varve_t* const db = OpenPlain("bad batch");
  for (int i = 0; i < 2; ++i) {
    varve_writebatch_t* const batch =
        varve_writebatch_create_from(bytes[i], sizes[i]);
    struct Log log = {""};
    varve_writebatch_iterate(batch, &log, OnPut, OnDelete);
    FAILS(varve_writebatch_iterate_all(batch, &log, OnPut, OnDelete, OnSingle,
                                       OnRange, OnLog, &error),
          beginnings[i]);
    FAILS(varve_write(db, plain_write, batch, &error), beginnings[i]);
    CHECK(log.text[0] == '\0');
    varve_writebatch_destroy(batch);
  }
  varve_close(db);
}

/* ---- Moments and iterators ---- */

static void TestReadTransactions(void) {
  varve_t* const db = OpenPlain("transactions");
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_readtransaction_t* transaction;
  varve_iterator_t* iterator;
  char* value;
  size_t size;
  PUT(db, plain_write, "k", "1");
  transaction = varve_readtransaction_begin(db);
  CHECK(varve_snapshot_get_sequence_number(varve_readtransaction_snapshot(
            transaction)) == varve_get_latest_sequence_number(db));
  PUT(db, plain_write, "k", "2");
  Flush(db);
  varve_readoptions_set_snapshot(read,
                                 varve_readtransaction_snapshot(transaction));
  GET(db, read, "k", "1");
  {
    const char* const keys[] = {"k"};
    const size_t key_sizes[] = {1};
    GOOD(varve_multi_get(db, read, 1, keys, key_sizes, &value, &size, &error));
    SAME(value, size, "1");
    varve_free(value);
  }
  /* It is not released by mistake. */
  varve_release_snapshot(db, varve_readtransaction_snapshot(transaction));
  iterator = varve_create_iterator(db, read);
  FAILS(CHECK(varve_close_checked(db, &error) == 0), "Busy: ");
  varve_readtransaction_end(transaction);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "k", "1");
  varve_iter_destroy(iterator);
  GET(db, plain_read, "k", "2");
  varve_readoptions_destroy(read);
  varve_close(db);
}

static void TestBoundsAreTheIteratorsOwn(void) {
  varve_t* const db = OpenPlain("bounds");
  varve_readoptions_t* const read = varve_readoptions_create();
  varve_iterator_t* iterator;
  char lower[] = "b";
  char upper[] = "d";
  PUT(db, plain_write, "a", "1");
  PUT(db, plain_write, "b", "2");
  PUT(db, plain_write, "c", "3");
  PUT(db, plain_write, "d", "4");
  varve_readoptions_set_iterate_lower_bound(read, lower, 1);
  varve_readoptions_set_iterate_upper_bound(read, upper, 1);
  varve_readoptions_set_readahead_size(read, 1 << 20);
  lower[0] = upper[0] = 'x';
  iterator = varve_create_iterator(db, read);
  varve_readoptions_set_iterate_lower_bound(read, NULL, 0);
  varve_readoptions_set_iterate_upper_bound(read, NULL, 0);
  varve_iter_seek_to_first(iterator);
  ExpectEntry(iterator, "b", "2");
  varve_iter_prev(iterator);
  CHECK(!varve_iter_valid(iterator));
  varve_iter_seek_to_last(iterator);
  ExpectEntry(iterator, "c", "3");
  varve_iter_seek_for_prev(iterator, "bb", 2);
  ExpectEntry(iterator, "b", "2");
  varve_iter_destroy(iterator);
  iterator = varve_create_iterator(db, read); /* Without bounds again. */
  varve_readoptions_destroy(read);
  varve_iter_seek_to_last(iterator);
  ExpectEntry(iterator, "d", "4");
  varve_iter_destroy(iterator);
  varve_close(db);
}

/* A database goes to another one in chunks, as a snapshot that is sent. */
static void TestEntriesAreCopiedInChunks(void) {
  varve_t* const source = OpenPlain("source");
  varve_t* const target = OpenPlain("target");
  varve_iterator_t* iterator;
  varve_writebatch_t* const batch = varve_writebatch_create();
  char buffer[100];
  size_t used = 7;
  size_t total = 0;
  size_t count;
  FillNumbers(source, 1000);
  PUT(source, plain_write, "", "");
  iterator = varve_create_iterator(source, plain_read);
  varve_iter_seek_to_first(iterator);
  CHECK(varve_iter_copy_entries(iterator, buffer, 7, &used) == 0);
  CHECK(used == 8); /* The lengths alone take more. */
  while ((count = varve_iter_copy_entries(iterator, buffer, sizeof(buffer),
                                          &used)) > 0) {
    CHECK(used > 0 && used <= sizeof(buffer));
    GOOD(varve_writebatch_put_entries(batch, buffer, used, &error));
    /* Whatever is cut off is an error, and adds nothing. */
    FAILS(varve_writebatch_put_entries(batch, buffer, used - 1, &error),
          "Corruption: ");
    FAILS(varve_writebatch_put_entries(batch, buffer, 5, &error),
          "Corruption: ");
    total += count;
    CHECK(varve_writebatch_count(batch) == (int)total);
  }
  CHECK(used == 0 && total == 1001);
  GOOD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  GOOD(varve_write(target, plain_write, batch, &error));
  GET(target, plain_read, "", "");
  GET(target, plain_read, "key000999", "value 7911081 of many");
  varve_writebatch_destroy(batch);
  varve_close(source);
  varve_close(target);
}

/* ---- Options as text ---- */

static void TestOptionFiles(void) {
  static const char* const kNames[] = {"max_background_jobs"};
  static const char* const kValues[] = {"5"};
  static const char* const kFamilyOption[] = {"ttl"};
  varve_options_t* const options = varve_options_create();
  varve_options_t* loaded;
  varve_options_t** family_options;
  char** names;
  size_t count;
  varve_t* db;
  FAILS(varve_load_latest_options(PathOf("option_files"), &loaded, &count,
                                  &names, &family_options, &error),
        "NotFound: ");
  CHECK(loaded == NULL && count == 0);
  varve_options_set_create_if_missing(options, 1);
  GOOD(varve_get_options_from_string(options, "write_buffer_size=1M;ttl=9",
                                     options, &error));
  BAD(varve_get_options_from_string(options, "no_such_option=1", options,
                                    &error));
  GOOD(db = varve_open(options, PathOf("option_files"), &error));
  GOOD(varve_set_db_options(db, 1, kNames, kValues, &error));
  BAD(varve_set_db_options(db, 1, kFamilyOption, kValues, &error));
  varve_close(db);
  GOOD(varve_load_latest_options(PathOf("option_files"), &loaded, &count,
                                 &names, &family_options, &error));
  CHECK(count == 1 && strcmp(names[0], "default") == 0);
  GOOD(db = varve_open(family_options[0], PathOf("option_files"), &error));
  varve_close(db);
  varve_load_latest_options_destroy(loaded, names, family_options, count);
  varve_options_destroy(options);
}

/* ---- Background work ---- */

static void TestCompactionOnDemand(void) {
  varve_options_t* const options = varve_options_create();
  varve_compactoptions_t* const compact = varve_compactoptions_create();
  static const char* const kNames[] = {"disable_auto_compactions",
                                       "max_write_buffer_number"};
  static const char* const kValues[] = {"true", "3"};
  static const char* const kBad[] = {"true", "much"};
  varve_t* db;
  int i;
  varve_options_set_create_if_missing(options, 1);
  GOOD(db = varve_open(options, PathOf("compaction"), &error));
  GOOD(varve_set_options(db, 2, kNames, kValues, &error));
  BAD(varve_set_options(db, 2, kNames, kBad, &error));
  for (i = 0; i < 6; ++i) {
    FillNumbers(db, 10);
    Flush(db);
  }
  GOOD(varve_wait_for_compact(db, &error));
  CHECK(Number(db, "varve.num-files-at-level0") == 6);
  varve_compactoptions_set_exclusive_manual_compaction(compact, 1);
  varve_compactoptions_set_bottommost_level_compaction(compact, 1);
  varve_compactoptions_set_target_level(compact, 6);
  GOOD(varve_compact_range_opt(db, compact, NULL, 0, NULL, 0, &error));
  CHECK(Number(db, "varve.num-files-at-level0") == 0);
  CHECK(Number(db, "varve.num-files-at-level6") == 1);
  varve_compactoptions_set_target_level(compact, 99);
  BAD(varve_compact_range_opt(db, compact, "a", 1, "b", 1, &error));
  GOOD(varve_verify_checksum(db, &error));
  varve_resume(db, &error); /* There is nothing to resume from. */
  OK(error);
  varve_cancel_all_background_work(db, 1);
  varve_compactoptions_set_target_level(compact, -1);
  FAILS(varve_compact_range_opt(db, compact, NULL, 0, NULL, 0, &error),
        "Shutdown in progress: ");
  varve_close(db);
  varve_compactoptions_destroy(compact);
  varve_options_destroy(options);
}

static void TestCheckpoint(void) {
  varve_t* const db = OpenPlain("original");
  varve_t* copy;
  varve_checkpoint_t* checkpoint;
  FillNumbers(db, 100);
  Flush(db);
  PUT(db, plain_write, "key000000", "in the log");
  GOOD(checkpoint = varve_checkpoint_object_create(db, &error));
  GOOD(varve_checkpoint_create(checkpoint, PathOf("copy"), 0, &error));
  BAD(varve_checkpoint_create(checkpoint, PathOf("copy"), 0, &error));
  varve_checkpoint_object_destroy(checkpoint);
  PUT(db, plain_write, "key000000", "later");
  copy = OpenPlain("copy");
  GET(copy, plain_read, "key000000", "in the log");
  GET(copy, plain_read, "key000099", "value 783981 of many");
  varve_close(copy);
  varve_close(db);
}

/* ---- Options ---- */

static void TestTypedOptions(void) {
  static const int kCompressions[] = {
      varve_no_compression, varve_lz4_compression, varve_zstd_compression};
  static const char* const kStarts[] = {"K", "K"};
  static const char* const kLimits[] = {"\xff", "L"};
  static const size_t kSizes[] = {1, 1};
  varve_options_t* const options = varve_options_create();
  varve_options_t* copy;
  varve_ratelimiter_t* const limiter =
      varve_ratelimiter_create(1 << 30, 100000, 10);
  varve_write_buffer_manager_t* const buffers =
      varve_write_buffer_manager_create(8 << 20, 1);
  uint64_t sizes[2];
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_key_case(options, varve_key_case_insensitive);
  varve_options_set_max_write_buffer_number(options, 3);
  varve_options_set_max_background_jobs(options, 3);
  varve_options_set_max_subcompactions(options, 2);
  varve_options_set_num_levels(options, 5);
  varve_options_set_target_file_size_base(options, 1 << 20);
  varve_options_set_max_bytes_for_level_base(options, 1 << 20);
  varve_options_set_max_bytes_for_level_multiplier(options, 4);
  varve_options_set_level_compaction_dynamic_level_bytes(options, 0);
  varve_options_set_level0_file_num_compaction_trigger(options, 2);
  varve_options_set_level0_slowdown_writes_trigger(options, 10);
  varve_options_set_level0_stop_writes_trigger(options, 20);
  varve_options_set_disable_auto_compactions(options, 0);
  varve_options_set_compression_per_level(options, kCompressions, 3);
  varve_options_set_bottommost_compression(options, varve_lz4hc_compression);
  varve_options_set_cache_index_and_filter_blocks(options, 1);
  varve_options_set_allow_mmap_reads(options, 0);
  varve_options_set_use_direct_reads(options, 1);
  varve_options_set_bytes_per_sync(options, 1 << 20);
  varve_options_set_wal_bytes_per_sync(options, 1 << 20);
  varve_options_set_manual_wal_flush(options, 1);
  varve_options_set_ratelimiter(options, limiter);
  varve_ratelimiter_destroy(limiter);
  varve_options_set_write_buffer_manager(options, buffers);
  varve_write_buffer_manager_destroy(buffers);
  copy = varve_options_create_copy(options);
  varve_options_destroy(options);
  GOOD(db = varve_open(copy, PathOf("typed"), &error));
  FillNumbers(db, 5000);
  varve_compact_range(db, NULL, 0, NULL, 0);
  GET(db, plain_read, "KEY004999", "value 39587081 of many");
  /* A bound that is no UTF-8 has no place among such keys. */
  varve_approximate_sizes(db, 2, kStarts, kSizes, kLimits, kSizes, sizes);
  CHECK(sizes[0] == 0 && sizes[1] > 0);
  varve_close(db);
  varve_options_set_max_subcompactions(copy, 4000000000u);
  FAILS(CHECK(varve_open(copy, PathOf("typed"), &error) == NULL),
        "Invalid argument: max_subcompactions");
  varve_options_set_max_subcompactions(copy, 1);
  varve_options_set_key_case(copy, varve_key_case_sensitive);
  BAD(CHECK(varve_open(copy, PathOf("typed"), &error) == NULL));
  varve_options_set_key_case(copy, varve_key_case_insensitive);
  varve_options_set_bottommost_compression(copy, 77);
  BAD(CHECK(varve_open(copy, PathOf("typed"), &error) == NULL));
  varve_options_destroy(copy);
}

static void TestOptionsByName(void) {
  varve_options_t* const options = varve_options_create();
  varve_filterpolicy_t* const policy = varve_filterpolicy_create_bloom(5);
  varve_t* db;
  varve_options_set_filter_policy(options, policy);
  GOOD(varve_options_set(options, "create_if_missing", "true", &error));
  GOOD(varve_options_set(options, "block_cache", "4M", &error));
  GOOD(varve_options_set(options, "filter_policy", "bloomfilter:10", &error));
  varve_filterpolicy_destroy(policy); /* Not in use any more. */
  FAILS(varve_options_set(options, "none_of_this_name", "1", &error),
        "Invalid argument: none_of_this_name");
  FAILS(varve_options_set(options, "block_size", "large", &error),
        "Invalid argument: block_size");
  GOOD(db = varve_open(options, PathOf("by name"), &error));
  CHECK(Number(db, "varve.block-cache-capacity") == 4 << 20);
  FillNumbers(db, 10);
  Flush(db);
  GET(db, plain_read, "key000009", "value 71271 of many");
  GET(db, plain_read, "key000010", NULL);
  varve_close(db);
  varve_options_destroy(options);
}

static void TestCacheIsShared(void) {
  varve_cache_t* const cache = varve_cache_create_lru(8 << 20);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  CHECK(varve_cache_get_capacity(cache) == 8 << 20);
  CHECK(varve_cache_get_usage(cache) == 0);
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_cache(options, cache);
  GOOD(db = varve_open(options, PathOf("cache"), &error));
  FillNumbers(db, 1000);
  Flush(db);
  GET(db, plain_read, "key000000", "value 0 of many");
  CHECK(varve_cache_get_usage(cache) > 0);
  CHECK(varve_cache_get_pinned_usage(cache) <= varve_cache_get_usage(cache));
  varve_cache_set_capacity(cache, 4 << 20);
  CHECK(varve_cache_get_capacity(cache) == 4 << 20);
  varve_cache_destroy(cache); /* The database keeps it. */
  GET(db, plain_read, "key000999", "value 7911081 of many");
  varve_close(db);
  varve_options_destroy(options);
}

static void TestMemoryEnv(void) {
  varve_env_t* const env = varve_create_mem_env();
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_env(options, env);
  GOOD(db = varve_open(options, "/in-memory-only", &error));
  PUT(db, plain_write, "k", "v");
  varve_close(db);
  CHECK(!Exists("/in-memory-only"));
  GOOD(db = varve_open(options, "/in-memory-only", &error));
  GET(db, plain_read, "k", "v");
  varve_close(db);
  varve_options_destroy(options);
  varve_env_destroy(env);
}

int main(void) {
  BeginTests();
  plain_flush = varve_flushoptions_create();
  varve_flushoptions_set_wait(plain_flush, 1);
  TEST(TestVersion);
  TEST(TestNothingIsDestroyedByNull);
  TEST(TestCloseSaysWhetherItCould);
  TEST(TestReadOnly);
  TEST(TestFollower);
  TEST(TestMultiGet);
  TEST(TestGetPinned);
  TEST(TestGetIntoBuffer);
  TEST(TestIntProperties);
  TEST(TestOtherDeletions);
  TEST(TestWriteOptions);
  TEST(TestBatchesOfEverything);
  TEST(TestBadBatchesAreRefused);
  TEST(TestReadTransactions);
  TEST(TestBoundsAreTheIteratorsOwn);
  TEST(TestEntriesAreCopiedInChunks);
  TEST(TestOptionFiles);
  TEST(TestCompactionOnDemand);
  TEST(TestCheckpoint);
  TEST(TestTypedOptions);
  TEST(TestOptionsByName);
  TEST(TestCacheIsShared);
  TEST(TestMemoryEnv);
  varve_flushoptions_destroy(plain_flush);
  return EndTests();
}
