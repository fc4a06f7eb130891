/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: a call with a null pointer, a length that is none or a number that is
 * not of its enum is an error, or does nothing where there is no way to tell.
 * Method: every function that takes one.
 */

#include "test/c/check.h"

/* Such as -1 that was made a size_t. */
static const size_t kNoLength = (size_t)-3;

static varve_t* db;

static void TestOpeningWithNull(void) {
  varve_options_t* const options = varve_options_create();
  BAD(CHECK(varve_open(options, NULL, &error) == NULL));
  BAD(CHECK(varve_open(NULL, "name", &error) == NULL));
  BAD(CHECK(varve_open(options, "", &error) == NULL));
  BAD(CHECK(varve_open_for_read_only(options, NULL, &error) == NULL));
  BAD(CHECK(varve_open_for_read_only(NULL, "name", &error) == NULL));
  BAD(CHECK(varve_open_as_secondary(options, NULL, "second", &error) == NULL));
  BAD(CHECK(varve_open_as_secondary(NULL, "name", "second", &error) == NULL));
  BAD(CHECK(varve_open_as_secondary(options, "name", NULL, &error) == NULL));
  BAD(varve_try_catch_up_with_primary(NULL, &error));
  BAD(varve_promote(NULL, &error));
  BAD(varve_destroy_db(options, NULL, &error));
  BAD(varve_destroy_db(NULL, "name", &error));
  BAD(varve_repair_db(options, NULL, &error));
  BAD(varve_repair_db(NULL, "name", &error));
  BAD(CHECK(varve_catalog_open(options, NULL, &error) == NULL));
  BAD(CHECK(varve_catalog_open(NULL, "name", &error) == NULL));
  BAD(varve_options_set(options, NULL, "1", &error));
  BAD(varve_options_set(options, "num_levels", NULL, &error));
  BAD(varve_options_set(NULL, "num_levels", "3", &error));
  /* The error pointer may be NULL. */
  CHECK(varve_open(options, NULL, NULL) == NULL);
  CHECK(varve_open(options, PathOf("missing"), NULL) == NULL);
  varve_options_destroy(options);
}

static void TestWritingWithNull(void) {
  varve_writebatch_t* const batch = varve_writebatch_create();
  BAD(varve_put(NULL, plain_write, "k", 1, "v", 1, &error));
  BAD(varve_put(db, NULL, "k", 1, "v", 1, &error));
  BAD(varve_put(db, plain_write, NULL, 1, "v", 1, &error));
  BAD(varve_put(db, plain_write, "k", 1, NULL, 1, &error));
  BAD(varve_put(db, plain_write, "k", kNoLength, "v", 1, &error));
  BAD(varve_put(db, plain_write, "k", 1, "v", kNoLength, &error));
  BAD(varve_delete(NULL, plain_write, "k", 1, &error));
  BAD(varve_delete(db, NULL, "k", 1, &error));
  BAD(varve_delete(db, plain_write, NULL, 1, &error));
  BAD(varve_delete(db, plain_write, "k", kNoLength, &error));
  BAD(varve_singledelete(NULL, plain_write, "k", 1, &error));
  BAD(varve_singledelete(db, NULL, "k", 1, &error));
  BAD(varve_singledelete(db, plain_write, NULL, 1, &error));
  BAD(varve_delete_range(NULL, plain_write, "k", 1, "l", 1, &error));
  BAD(varve_delete_range(db, NULL, "k", 1, "l", 1, &error));
  BAD(varve_delete_range(db, plain_write, NULL, 1, "l", 1, &error));
  BAD(varve_delete_range(db, plain_write, "k", 1, NULL, 1, &error));
  BAD(varve_delete_range(db, plain_write, "k", 1, "l", kNoLength, &error));
  BAD(varve_write(NULL, plain_write, batch, &error));
  BAD(varve_write(db, NULL, batch, &error));
  BAD(varve_write(db, plain_write, NULL, &error));
  varve_put(db, plain_write, NULL, 1, NULL, 1, NULL);
  CHECK(varve_get_latest_sequence_number(db) == 0);
  /* No bytes need no pointer. */
  GOOD(varve_put(db, plain_write, NULL, 0, NULL, 0, &error));
  GET(db, plain_read, "", "");
  GOOD(varve_delete(db, plain_write, NULL, 0, &error));
  varve_writebatch_destroy(batch);
}

static void TestReadingWithNull(void) {
  const char* keys[] = {"a", NULL};
  size_t key_sizes[] = {1, 1};
  char* values[] = {NULL, NULL};
  size_t sizes[] = {7, 7};
  char* errors[2];
  char buffer[8];
  size_t size = 7;
  uint8_t found = 1;
  uint64_t number = 7;
  BAD(varve_get(NULL, plain_read, "k", 1, &size, &error));
  BAD(varve_get(db, NULL, "k", 1, &size, &error));
  BAD(varve_get(db, plain_read, NULL, 1, &size, &error));
  BAD(varve_get(db, plain_read, "k", kNoLength, &size, &error));
  CHECK(size == 0);
  BAD(varve_get(db, plain_read, "k", 1, NULL, &error));
  BAD(varve_get_pinned(NULL, plain_read, "k", 1, &error));
  BAD(varve_get_pinned(db, NULL, "k", 1, &error));
  BAD(varve_get_pinned(db, plain_read, NULL, 1, &error));
  BAD(varve_get_into_buffer(NULL, plain_read, "k", 1, buffer, 8, &size, &found,
                            &error));
  BAD(varve_get_into_buffer(db, NULL, "k", 1, buffer, 8, &size, &found,
                            &error));
  BAD(varve_get_into_buffer(db, plain_read, NULL, 1, buffer, 8, &size, &found,
                            &error));
  BAD(varve_get_into_buffer(db, plain_read, "k", 1, NULL, 8, &size, &found,
                            &error));
  BAD(varve_get_into_buffer(db, plain_read, "k", 1, buffer, 8, NULL, &found,
                            &error));
  BAD(varve_get_into_buffer(db, plain_read, "k", 1, buffer, 8, &size, NULL,
                            &error));
  CHECK(found == 0);
  PUT(db, plain_write, "a", "1");
  varve_multi_get(db, plain_read, 2, keys, key_sizes, values, sizes, errors);
  OK(errors[0]);
  SAME(values[0], sizes[0], "1");
  varve_free(values[0]);
  CHECK(values[1] == NULL && sizes[1] == 0);
  FAILED(errors[1], "Invalid argument: ");
  varve_multi_get(NULL, plain_read, 2, keys, key_sizes, values, sizes, errors);
  FAILED(errors[0], "Invalid argument: ");
  FAILED(errors[1], "Invalid argument: ");
  varve_multi_get(db, plain_read, 2, NULL, key_sizes, values, sizes, errors);
  FAILED(errors[0], "Invalid argument: ");
  FAILED(errors[1], "Invalid argument: ");
  varve_multi_get(db, plain_read, 2, keys, key_sizes, NULL, sizes, errors);
  FAILED(errors[0], "Invalid argument: ");
  FAILED(errors[1], "Invalid argument: ");
  varve_multi_get(db, plain_read, 2, keys, key_sizes, values, sizes, NULL);
  varve_multi_get(db, plain_read, kNoLength, keys, key_sizes, values, sizes,
                  errors);
  varve_multi_get(db, plain_read, 0, NULL, NULL, NULL, NULL, NULL);
  CHECK(varve_property_value(NULL, "varve.stats") == NULL);
  CHECK(varve_property_value(db, NULL) == NULL);
  CHECK(varve_property_int(NULL, "varve.num-snapshots", &number) == -1);
  CHECK(varve_property_int(db, NULL, &number) == -1);
  CHECK(varve_property_int(db, "varve.num-snapshots", NULL) == -1);
  CHECK(varve_get_latest_sequence_number(NULL) == 0);
  varve_approximate_sizes(db, 1, keys, key_sizes, keys, key_sizes, NULL);
  varve_approximate_sizes(db, 1, NULL, key_sizes, keys, key_sizes, &number);
  CHECK(number == 0);
  number = 7;
  varve_approximate_sizes(db, 1, keys + 1, key_sizes, keys, key_sizes, &number);
  CHECK(number == 0);
  varve_approximate_sizes(db, -1, NULL, NULL, NULL, NULL, NULL);
}

static void TestIteratingWithNull(void) {
  varve_readoptions_t* const read = varve_readoptions_create();
  char buffer[8];
  size_t size = 7;
  varve_iterator_t* iterator = varve_create_iterator(NULL, plain_read);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_seek_to_first(iterator);
  CHECK(varve_iter_valid(iterator) == 0);
  varve_iter_destroy(iterator);
  iterator = varve_create_iterator(db, NULL);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  varve_readoptions_set_iterate_upper_bound(read, "k", kNoLength);
  iterator = varve_create_iterator(db, read);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  varve_readoptions_set_iterate_upper_bound(read, NULL, 3);
  iterator = varve_create_iterator(db, read);
  varve_iter_seek_to_first(iterator);
  CHECK(varve_iter_valid(iterator) == 1);
  /* Where there is no entry there is nothing to see, and no way on. */
  varve_iter_seek(iterator, "zzz", 3);
  CHECK(varve_iter_valid(iterator) == 0);
  varve_iter_next(iterator);
  varve_iter_prev(iterator);
  CHECK(varve_iter_key(iterator, &size) == NULL && size == 0);
  CHECK(varve_iter_value(iterator, &size) == NULL && size == 0);
  GOOD(varve_iter_get_error(iterator, &error));
  CHECK(varve_iter_copy_entries(iterator, buffer, 8, NULL) == 0);
  varve_iter_seek_to_first(iterator);
  CHECK(varve_iter_copy_entries(iterator, NULL, 8, &size) == 0 && size == 0);
  CHECK(varve_iter_key(iterator, NULL) != NULL);
  CHECK(varve_iter_value(iterator, NULL) != NULL);
  varve_iter_seek(iterator, NULL, 3);
  CHECK(varve_iter_valid(iterator) == 0);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  iterator = varve_create_iterator(db, plain_read);
  varve_iter_next(iterator);
  varve_iter_prev(iterator);
  CHECK(varve_iter_key(iterator, &size) == NULL);
  varve_iter_seek_for_prev(iterator, "k", kNoLength);
  BAD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  varve_iter_seek(NULL, "k", 1);
  varve_iter_seek_for_prev(NULL, "k", 1);
  varve_iter_seek_to_first(NULL);
  varve_iter_seek_to_last(NULL);
  varve_iter_next(NULL);
  varve_iter_prev(NULL);
  CHECK(varve_iter_valid(NULL) == 0);
  CHECK(varve_iter_key(NULL, &size) == NULL);
  CHECK(varve_iter_value(NULL, &size) == NULL);
  CHECK(varve_iter_copy_entries(NULL, buffer, 8, &size) == 0);
  BAD(varve_iter_get_error(NULL, &error));
  varve_readoptions_destroy(read);
}

static void TestBatchesWithNull(void) {
  varve_writebatch_t* batch = varve_writebatch_create();
  size_t size = 7;
  int i;
  for (i = 0; i < 10; ++i) {
    switch (i) {
      case 0:
        varve_writebatch_put(batch, NULL, 1, "v", 1);
        break;
      case 1:
        varve_writebatch_put(batch, "k", 1, NULL, 1);
        break;
      case 2:
        varve_writebatch_put(batch, "k", kNoLength, "v", 1);
        break;
      case 3:
        varve_writebatch_put(batch, "k", 1, "v", kNoLength);
        break;
      case 4:
        varve_writebatch_delete(batch, NULL, 1);
        break;
      case 5:
        varve_writebatch_singledelete(batch, NULL, 1);
        break;
      case 6:
        varve_writebatch_delete_range(batch, NULL, 1, "l", 1);
        break;
      case 7:
        varve_writebatch_delete_range(batch, "k", 1, NULL, 1);
        break;
      case 8:
        varve_writebatch_put_log_data(batch, NULL, 1);
        break;
      case 9:
        varve_writebatch_put_log_data(batch, "k", kNoLength);
        break;
    }
    varve_writebatch_put(batch, "in", 2, "no", 2);
    BAD(varve_write(db, plain_write, batch, &error));
    varve_writebatch_clear(batch);
  }
  GET(db, plain_read, "in", NULL);
  BAD(varve_writebatch_put_entries(batch, NULL, 1, &error));
  BAD(varve_writebatch_put_entries(batch, "k", kNoLength, &error));
  BAD(varve_writebatch_put_entries(NULL, NULL, 0, &error));
  varve_writebatch_append(batch, NULL);
  varve_writebatch_append(NULL, batch);
  CHECK(varve_writebatch_count(batch) == 0);
  varve_writebatch_iterate(batch, NULL, NULL, NULL);
  CHECK(varve_writebatch_data(batch, NULL) != NULL);
  varve_writebatch_destroy(batch);
  batch = varve_writebatch_create_from(NULL, 12);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_destroy(batch);
  batch = varve_writebatch_create_from("k", kNoLength);
  BAD(varve_write(db, plain_write, batch, &error));
  varve_writebatch_destroy(batch);
  varve_writebatch_clear(NULL);
  varve_writebatch_put(NULL, "k", 1, "v", 1);
  varve_writebatch_delete(NULL, "k", 1);
  varve_writebatch_singledelete(NULL, "k", 1);
  varve_writebatch_delete_range(NULL, "k", 1, "l", 1);
  varve_writebatch_put_log_data(NULL, "k", 1);
  varve_writebatch_iterate(NULL, NULL, NULL, NULL);
  BAD(varve_writebatch_iterate_all(NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                   &error));
  CHECK(varve_writebatch_count(NULL) == 0);
  CHECK(varve_writebatch_data(NULL, &size) == NULL && size == 0);
}

static void TestOtherCallsWithNull(void) {
  const char* const none[] = {NULL};
  const char* const some[] = {"disable_auto_compactions"};
  varve_flushoptions_t* const flush = varve_flushoptions_create();
  varve_compactoptions_t* const compact = varve_compactoptions_create();
  varve_statistics_t* const statistics = varve_statistics_create(99);
  varve_histogram_data_t data;
  varve_checkpoint_t* checkpoint;
  size_t count = 7;
  BAD(varve_flush(NULL, flush, &error));
  BAD(varve_flush(db, NULL, &error));
  BAD(varve_flush_wal(NULL, 0, &error));
  BAD(varve_sync_wal(NULL, &error));
  BAD(varve_compact_range_opt(NULL, compact, NULL, 0, NULL, 0, &error));
  BAD(varve_compact_range_opt(db, NULL, NULL, 0, NULL, 0, &error));
  BAD(varve_compact_range_opt(db, compact, "k", kNoLength, NULL, 0, &error));
  GOOD(varve_compact_range_opt(db, compact, NULL, 3, NULL, 3, &error));
  varve_compact_range(NULL, NULL, 0, NULL, 0);
  varve_compact_range(db, "k", kNoLength, NULL, 0);
  BAD(varve_wait_for_compact(NULL, &error));
  varve_cancel_all_background_work(NULL, 1);
  BAD(varve_set_options(NULL, 0, NULL, NULL, &error));
  BAD(varve_set_db_options(NULL, 0, NULL, NULL, &error));
  BAD(varve_set_db_options(db, 1, NULL, some, &error));
  BAD(varve_set_db_options(db, 1, none, some, &error));
  BAD(varve_set_options(db, 1, NULL, some, &error));
  BAD(varve_set_options(db, 1, some, NULL, &error));
  BAD(varve_set_options(db, 1, none, some, &error));
  BAD(varve_set_options(db, 1, some, none, &error));
  GOOD(varve_set_options(db, -1, NULL, NULL, &error));
  BAD(varve_get_options_from_string(NULL, "", NULL, &error));
  BAD(varve_load_latest_options(NULL, NULL, NULL, NULL, NULL, &error));
  varve_load_latest_options_destroy(NULL, NULL, NULL, 3);
  BAD(varve_resume(NULL, &error));
  BAD(varve_verify_checksum(NULL, &error));
  BAD(CHECK(varve_checkpoint_object_create(NULL, &error) == NULL));
  BAD(varve_checkpoint_create(NULL, "copy", 0, &error));
  GOOD(checkpoint = varve_checkpoint_object_create(db, &error));
  BAD(varve_checkpoint_create(checkpoint, NULL, 0, &error));
  varve_checkpoint_object_destroy(checkpoint);
  CHECK(varve_create_snapshot(NULL) == NULL);
  CHECK(varve_snapshot_get_sequence_number(NULL) == 0);
  CHECK(varve_readtransaction_begin(NULL) == NULL);
  CHECK(varve_readtransaction_snapshot(NULL) == NULL);
  CHECK(varve_env_get_test_directory(NULL) == NULL);
  BAD(CHECK(varve_statistics_get_ticker(NULL, "varve.bytes.written", &error) ==
            0));
  BAD(varve_statistics_get_ticker(statistics, NULL, &error));
  BAD(varve_statistics_get_histogram(NULL, "varve.db.get.micros", &data,
                                     &error));
  BAD(varve_statistics_get_histogram(statistics, NULL, &data, &error));
  BAD(varve_statistics_get_histogram(statistics, "varve.db.get.micros", NULL,
                                     &error));
  CHECK(varve_statistics_get_string(NULL) == NULL);
  CHECK(varve_statistics_get_prometheus(NULL) == NULL);
  varve_statistics_set_level(NULL, 1);
  varve_statistics_set_level(statistics, -1);
  varve_statistics_reset(NULL);
  CHECK(varve_trace_begin(NULL) == NULL);
  CHECK(varve_tracespan_begin(NULL) == NULL);
  BAD(varve_trace_start(NULL, varve_trace_chrome, PathOf("trace"), &error));
  CHECK(varve_cache_get_capacity(NULL) == 0);
  CHECK(varve_cache_get_usage(NULL) == 0);
  CHECK(varve_cache_get_pinned_usage(NULL) == 0);
  varve_cache_set_capacity(NULL, 1);
  BAD(varve_catalog_create_db(NULL, "db", &error));
  BAD(varve_catalog_find(NULL, "db", &error));
  BAD(varve_catalog_drop_db(NULL, "db", &error));
  BAD(varve_catalog_close_idle(NULL, 0, &error));
  CHECK(varve_catalog_list(NULL, &count) == NULL && count == 0);
  varve_statistics_destroy(statistics);
  varve_compactoptions_destroy(compact);
  varve_flushoptions_destroy(flush);
}

static void TestCatalogNamesThatAreNull(void) {
  varve_options_t* const options = varve_options_create();
  varve_catalog_t* catalog;
  varve_options_set_create_if_missing(options, 1);
  GOOD(catalog = varve_catalog_open(options, PathOf("catalog"), &error));
  BAD(varve_catalog_create_db(catalog, NULL, &error));
  BAD(varve_catalog_find(catalog, NULL, &error));
  BAD(varve_catalog_drop_db(catalog, NULL, &error));
  CHECK(varve_catalog_list(catalog, NULL) == NULL);
  GOOD(CHECK(varve_catalog_close(catalog, &error) == 1));
  varve_options_destroy(options);
}

/* ---- Options ---- */

/* Opens a database with these options, which are refused. */
static void ExpectRefused(varve_options_t* options) {
  varve_options_set_create_if_missing(options, 1);
  BAD(CHECK(varve_open(options, PathOf("refused"), &error) == NULL));
  varve_options_destroy(options);
}

static void TestNumbersThatAreNone(void) {
  static const int kNumbers[] = {-2147483647 - 1, -1, 6, 300, 2147483647};
  static const int kTypes[] = {1};
  size_t i;
  for (i = 0; i < sizeof(kNumbers) / sizeof(kNumbers[0]); ++i) {
    varve_options_t* options = varve_options_create();
    varve_options_set_key_case(options, kNumbers[i]);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_compression(options, kNumbers[i]);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_bottommost_compression(options, kNumbers[i]);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_compression_per_level(options, &kNumbers[i], 1);
    ExpectRefused(options);
  }
  {
    varve_options_t* options = varve_options_create();
    varve_options_set_compression_per_level(options, NULL, 3);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_compression_per_level(options, kTypes, kNoLength);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_max_bytes_for_level_multiplier(options, 0.0 / 0.0);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_max_subcompactions(options, 4000000000u);
    ExpectRefused(options);
    options = varve_options_create();
    varve_options_set_comparator(options, NULL);
    ExpectRefused(options);
  }
}

static void TestOptionsThatAreNull(void) {
  CHECK(varve_options_create_copy(NULL) == NULL);
  varve_options_set_comparator(NULL, NULL);
  varve_options_set_filter_policy(NULL, NULL);
  varve_options_set_create_if_missing(NULL, 1);
  varve_options_set_error_if_exists(NULL, 1);
  varve_options_set_paranoid_checks(NULL, 1);
  varve_options_set_env(NULL, NULL);
  varve_options_set_info_log(NULL, NULL);
  varve_options_set_write_buffer_size(NULL, 1);
  varve_options_set_max_open_files(NULL, 1);
  varve_options_set_cache(NULL, NULL);
  varve_options_set_block_size(NULL, 1);
  varve_options_set_block_restart_interval(NULL, 1);
  varve_options_set_max_file_size(NULL, 1);
  varve_options_set_compression(NULL, 1);
  varve_options_set_key_case(NULL, 1);
  varve_options_set_max_write_buffer_number(NULL, 1);
  varve_options_set_max_background_jobs(NULL, 1);
  varve_options_set_max_subcompactions(NULL, 1);
  varve_options_set_num_levels(NULL, 1);
  varve_options_set_target_file_size_base(NULL, 1);
  varve_options_set_max_bytes_for_level_base(NULL, 1);
  varve_options_set_max_bytes_for_level_multiplier(NULL, 1);
  varve_options_set_level_compaction_dynamic_level_bytes(NULL, 1);
  varve_options_set_level0_file_num_compaction_trigger(NULL, 1);
  varve_options_set_level0_slowdown_writes_trigger(NULL, 1);
  varve_options_set_level0_stop_writes_trigger(NULL, 1);
  varve_options_set_disable_auto_compactions(NULL, 1);
  varve_options_set_compression_per_level(NULL, NULL, 0);
  varve_options_set_bottommost_compression(NULL, 1);
  varve_options_set_cache_index_and_filter_blocks(NULL, 1);
  varve_options_set_allow_mmap_reads(NULL, 1);
  varve_options_set_use_direct_reads(NULL, 1);
  varve_options_set_bytes_per_sync(NULL, 1);
  varve_options_set_wal_bytes_per_sync(NULL, 1);
  varve_options_set_manual_wal_flush(NULL, 1);
  varve_options_set_ratelimiter(NULL, NULL);
  varve_options_set_write_buffer_manager(NULL, NULL);
  varve_write_buffer_manager_set_buffer_size(NULL, 1);
  varve_write_buffer_manager_set_allow_stall(NULL, 1);
  CHECK(varve_write_buffer_manager_enabled(NULL) == 0);
  CHECK(varve_write_buffer_manager_cost_to_cache(NULL) == 0);
  CHECK(varve_write_buffer_manager_memory_usage(NULL) == 0);
  CHECK(varve_write_buffer_manager_mutable_memtable_memory_usage(NULL) == 0);
  CHECK(varve_write_buffer_manager_dummy_entries_in_cache_usage(NULL) == 0);
  CHECK(varve_write_buffer_manager_buffer_size(NULL) == 0);
  varve_options_set_statistics(NULL, NULL);
  varve_readoptions_set_verify_checksums(NULL, 1);
  varve_readoptions_set_fill_cache(NULL, 1);
  varve_readoptions_set_snapshot(NULL, NULL);
  varve_readoptions_set_iterate_lower_bound(NULL, "k", 1);
  varve_readoptions_set_iterate_upper_bound(NULL, "k", 1);
  varve_readoptions_set_readahead_size(NULL, 1);
  varve_writeoptions_set_sync(NULL, 1);
  varve_writeoptions_disable_WAL(NULL, 1);
  varve_writeoptions_set_no_slowdown(NULL, 1);
  varve_flushoptions_set_wait(NULL, 1);
  varve_compactoptions_set_exclusive_manual_compaction(NULL, 1);
  varve_compactoptions_set_bottommost_level_compaction(NULL, 1);
  varve_compactoptions_set_target_level(NULL, 1);
  varve_traceoptions_set_sampling(NULL, 1);
  varve_traceoptions_set_slower_than_us(NULL, 1);
  varve_traceoptions_set_short_steps(NULL, 1);
}

/* ---- Callbacks ---- */

static int CompareBytes(void* state, const char* a, size_t alen, const char* b,
                        size_t blen) {
  const int order = memcmp(a, b, alen < blen ? alen : blen);
  (void)state;
  return order != 0 ? order : (alen > blen) - (alen < blen);
}
static const char* NoName(void* state) {
  (void)state;
  return NULL;
}
static const char* Name(void* state) {
  (void)state;
  return "name";
}
static char* MakeFilter(void* state, const char* const* keys,
                        const size_t* key_sizes, int count, size_t* size) {
  (void)state, (void)keys, (void)key_sizes, (void)count;
  *size = 0;
  return NULL;
}
static uint8_t MayMatch(void* state, const char* key, size_t size,
                        const char* filter, size_t filter_size) {
  (void)state, (void)key, (void)size, (void)filter, (void)filter_size;
  return 1;
}

static void TestCallbacksThatAreNull(void) {
  varve_options_t* options = varve_options_create();
  varve_comparator_t* comparator;
  varve_filterpolicy_t* policy;
  varve_t* named;
  CHECK(varve_comparator_create(NULL, NULL, NULL, Name) == NULL);
  CHECK(varve_comparator_create(NULL, NULL, CompareBytes, NULL) == NULL);
  CHECK(varve_filterpolicy_create(NULL, NULL, NULL, MayMatch, Name) == NULL);
  CHECK(varve_filterpolicy_create(NULL, NULL, MakeFilter, NULL, Name) == NULL);
  CHECK(varve_filterpolicy_create(NULL, NULL, MakeFilter, MayMatch, NULL) ==
        NULL);
  CHECK(varve_filterpolicy_create(NULL, NULL, MakeFilter, MayMatch, NoName) ==
        NULL);
  CHECK(varve_logger_create(NULL, NULL, NULL) == NULL);
  /* There is nothing to destroy in a state that is null. */
  comparator = varve_comparator_create(NULL, NULL, CompareBytes, Name);
  policy = varve_filterpolicy_create(NULL, NULL, MakeFilter, MayMatch, Name);
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_comparator(options, comparator);
  varve_options_set_filter_policy(options, policy);
  GOOD(named = varve_open(options, PathOf("named"), &error));
  PUT(named, plain_write, "k", "v");
  varve_close(named);
  varve_filterpolicy_destroy(policy);
  varve_comparator_destroy(comparator);
  varve_options_destroy(options);
  /* A database without a name for its order could not be opened again. */
  comparator = varve_comparator_create(NULL, NULL, CompareBytes, NoName);
  options = varve_options_create();
  varve_options_set_comparator(options, comparator);
  ExpectRefused(options);
  varve_comparator_destroy(comparator);
}

int main(void) {
  BeginTests();
  db = OpenPlain("db");
  TEST(TestOpeningWithNull);
  TEST(TestWritingWithNull);
  TEST(TestReadingWithNull);
  TEST(TestIteratingWithNull);
  TEST(TestBatchesWithNull);
  TEST(TestOtherCallsWithNull);
  TEST(TestCatalogNamesThatAreNull);
  TEST(TestNumbersThatAreNone);
  TEST(TestOptionsThatAreNull);
  TEST(TestCallbacksThatAreNull);
  varve_close(db);
  return EndTests();
}
