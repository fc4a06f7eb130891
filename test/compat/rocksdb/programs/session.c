/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/* One session on a database, through RocksDB's C interface. The number of the
 * session decides what it changes and by which options, so that sessions with
 * the same numbers give the same contents with each library.
 *
 * Usage: session DIRECTORY NUMBER CHANGES
 *
 * Prints "before COUNT HASH" and "after COUNT HASH": the number of entries in
 * all families, and a hash of them. Every third session ends without closing
 * the database.
 */

#include <rocksdb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kFamilies = 3, kKeys = 5000, kLargestValue = 6000 };
static const char* const kNames[kFamilies] = {"default", "reverse", "third"};

static char* error = NULL;

static void Check(const char* what) {
  if (error != NULL) {
    fprintf(stderr, "%s: %s\n", what, error);
    exit(1);
  }
}

static void Fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

/* Random numbers: xorshift64*. */
static uint64_t state;
static uint32_t Random(uint32_t below) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)((state * 2685821657736338717u) >> 33) % below;
}

static uint64_t Hash(uint64_t hash, const void* bytes, size_t size) {
  const unsigned char* at = bytes;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ at[i]) * 1099511628211u;
  }
  return (hash ^ size) * 1099511628211u;
}

/* The comparator of the second family: bytewise, largest first. */
static int CompareReverse(void* arg, const char* a, size_t a_size,
                          const char* b, size_t b_size) {
  (void)arg;
  const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
  if (order != 0) {
    return -order;
  }
  return a_size < b_size ? 1 : a_size > b_size ? -1 : 0;
}
static const char* ReverseName(void* arg) {
  (void)arg;
  return "varve.test.reverse";
}
static void Nothing(void* arg) { (void)arg; }

/* The merge operator: appends operands, with a comma before each. */
static char* Append(const char* existing, size_t existing_size,
                    const char* const* operands, const size_t* sizes, int count,
                    size_t* new_size) {
  size_t size = existing_size;
  for (int i = 0; i < count; ++i) {
    size += sizes[i] + 1;
  }
  char* result = malloc(size + 1);
  memcpy(result, existing == NULL ? "" : existing, existing_size);
  char* at = result + existing_size;
  for (int i = 0; i < count; ++i) {
    *at++ = ',';
    memcpy(at, operands[i], sizes[i]);
    at += sizes[i];
  }
  *new_size = size;
  return result;
}
static char* FullMerge(void* arg, const char* key, size_t key_size,
                       const char* existing, size_t existing_size,
                       const char* const* operands, const size_t* sizes,
                       int count, unsigned char* success, size_t* new_size) {
  (void)arg, (void)key, (void)key_size;
  *success = 1;
  return Append(existing, existing == NULL ? 0 : existing_size, operands, sizes,
                count, new_size);
}
static char* PartialMerge(void* arg, const char* key, size_t key_size,
                          const char* const* operands, const size_t* sizes,
                          int count, unsigned char* success, size_t* new_size) {
  (void)arg, (void)key, (void)key_size;
  *success = 1;
  char* result = Append(operands[0], sizes[0], operands + 1, sizes + 1,
                        count - 1, new_size);
  return result;
}
static const char* MergeName(void* arg) {
  (void)arg;
  return "varve.test.append";
}
static void FreeValue(void* arg, const char* value, size_t size) {
  (void)arg, (void)size;
  free((char*)value);
}

/* The options of a family in a session. */
static rocksdb_options_t* MakeOptions(int number, int family) {
  static const int kCompressions[] = {
      rocksdb_no_compression, rocksdb_snappy_compression,
      rocksdb_lz4_compression, rocksdb_zstd_compression,
      rocksdb_zlib_compression};
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_create_missing_column_families(options, 1);
  rocksdb_options_set_write_buffer_size(options, 64 << (10 + number % 3));
  rocksdb_options_set_target_file_size_base(options, 1 << 17);
  rocksdb_options_set_max_bytes_for_level_base(options, 1 << 19);
  rocksdb_options_set_compression(options, kCompressions[number % 5]);
  rocksdb_options_set_merge_operator(
      options,
      rocksdb_mergeoperator_create(NULL, Nothing, FullMerge, PartialMerge,
                                   FreeValue, MergeName));
  rocksdb_block_based_table_options_t* table =
      rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_size(table, 1024 << number % 4);
  if (number % 4 != 0) {
    rocksdb_block_based_options_set_filter_policy(
        table, number % 4 == 1 ? rocksdb_filterpolicy_create_ribbon(10)
                               : rocksdb_filterpolicy_create_bloom_full(10));
  }
  if (number % 6 == 5) {
    rocksdb_block_based_options_set_index_type(
        table, rocksdb_block_based_table_index_type_two_level_index_search);
    rocksdb_block_based_options_set_partition_filters(table, 1);
  }
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_block_based_options_destroy(table);
  if (family == 1) {
    static rocksdb_comparator_t* comparator = NULL;
    if (comparator == NULL) {
      comparator =
          rocksdb_comparator_create(NULL, Nothing, CompareReverse, ReverseName);
    }
    rocksdb_options_set_comparator(options, comparator);
  } else if (family == 2) {
    rocksdb_options_set_prefix_extractor(
        options, rocksdb_slicetransform_create_fixed_prefix(3));
  }
  return options;
}

typedef struct {
  rocksdb_t* db;
  rocksdb_column_family_handle_t* families[kFamilies];
  rocksdb_readoptions_t* read;
  rocksdb_writeoptions_t* write;
} Database;

/* Reads all families in both directions, and a part of the keys by Get. */
static void Dump(Database* database, const char* when) {
  uint64_t hash = 14695981039346656037u, count = 0;
  for (int family = 0; family < kFamilies; ++family) {
    uint64_t backward = 0, forward = 0;
    rocksdb_iterator_t* iterator = rocksdb_create_iterator_cf(
        database->db, database->read, database->families[family]);
    for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator);
         rocksdb_iter_next(iterator)) {
      size_t key_size, value_size, got_size;
      const char* key = rocksdb_iter_key(iterator, &key_size);
      const char* value = rocksdb_iter_value(iterator, &value_size);
      hash = Hash(Hash(hash, key, key_size), value, value_size);
      forward += Hash(Hash(1, key, key_size), value, value_size);
      if (++count % 5 == 0) {
        char* got = rocksdb_get_cf(database->db, database->read,
                                   database->families[family], key, key_size,
                                   &got_size, &error);
        Check("get");
        if (got == NULL || got_size != value_size ||
            memcmp(got, value, value_size) != 0) {
          Fail("Get has another value than the iterator");
        }
        free(got);
      }
    }
    rocksdb_iter_get_error(iterator, &error);
    Check("iterate");
    for (rocksdb_iter_seek_to_last(iterator); rocksdb_iter_valid(iterator);
         rocksdb_iter_prev(iterator)) {
      size_t key_size, value_size;
      const char* key = rocksdb_iter_key(iterator, &key_size);
      const char* value = rocksdb_iter_value(iterator, &value_size);
      backward += Hash(Hash(1, key, key_size), value, value_size);
    }
    rocksdb_iter_get_error(iterator, &error);
    Check("iterate backward");
    rocksdb_iter_destroy(iterator);
    if (forward != backward) {
      Fail("the directions of an iterator have different entries");
    }
    hash = Hash(hash, kNames[family], strlen(kNames[family]));
  }
  printf("%s %llu %016llx\n", when, (unsigned long long)count,
         (unsigned long long)hash);
}

static size_t MakeKey(char* key) {
  return (size_t)sprintf(key, "%05u", Random(kKeys));
}

static char bytes[kLargestValue + 1];
static size_t MakeValue(void) {
  const size_t size = Random(20) == 0 ? Random(kLargestValue) : Random(100);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = i % 3 != 0 ? 'a' : (char)Random(256);
  }
  return size;
}

static void ChangeBatch(Database* database) {
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  char key[16];
  const int count = (int)Random(30);
  for (int i = 0; i < count; ++i) {
    rocksdb_column_family_handle_t* family =
        database->families[Random(kFamilies)];
    const size_t size = MakeKey(key);
    if (Random(4) == 0) {
      rocksdb_writebatch_delete_cf(batch, family, key, size);
    } else {
      const size_t value_size = MakeValue();
      rocksdb_writebatch_put_cf(batch, family, key, size, bytes, value_size);
    }
  }
  rocksdb_write(database->db, database->write, batch, &error);
  Check("write");
  rocksdb_writebatch_destroy(batch);
}

static void Change(Database* database) {
  char key[16], end[16];
  const int which = (int)Random(kFamilies);
  rocksdb_column_family_handle_t* family = database->families[which];
  const size_t size = MakeKey(key);
  const uint32_t kind = Random(100);
  if (kind < 50) {
    const size_t value_size = MakeValue();
    rocksdb_put_cf(database->db, database->write, family, key, size, bytes,
                   value_size, &error);
  } else if (kind < 65) {
    rocksdb_delete_cf(database->db, database->write, family, key, size, &error);
  } else if (kind < 80) {
    rocksdb_merge_cf(database->db, database->write, family, key, size, key + 3,
                     2, &error);
  } else if (kind < 97) {
    ChangeBatch(database);
  } else if (kind < 99) {
    /* Ten neighbours, in the order of the family's comparator. */
    const unsigned first = (unsigned)strtoul(key, NULL, 10);
    sprintf(which == 1 ? key : end, "%05u", first + 10);
    sprintf(which == 1 ? end : key, "%05u", first);
    rocksdb_delete_range_cf(database->db, database->write, family, key, 5, end,
                            5, &error);
  } else if (Random(4) == 0) {
    rocksdb_compact_range_cf(database->db, family, NULL, 0, NULL, 0);
  } else {
    rocksdb_flushoptions_t* options = rocksdb_flushoptions_create();
    rocksdb_flush_cf(database->db, options, family, &error);
    rocksdb_flushoptions_destroy(options);
  }
  Check("change");
}

int main(int argc, char** argv) {
  if (argc != 4) {
    Fail("usage: session DIRECTORY NUMBER CHANGES");
  }
  const int number = atoi(argv[2]), changes = atoi(argv[3]);
  state = 88172645463325252u + (uint64_t)number * 1000003u;
  const rocksdb_options_t* options[kFamilies];
  for (int family = 0; family < kFamilies; ++family) {
    options[family] = MakeOptions(number, family);
  }
  Database database;
  database.db = rocksdb_open_column_families(
      options[0], argv[1], kFamilies, (const char* const*)kNames, options,
      database.families, &error);
  Check("open");
  database.read = rocksdb_readoptions_create();
  rocksdb_readoptions_set_total_order_seek(database.read, 1);
  database.write = rocksdb_writeoptions_create();
  Dump(&database, "before");
  for (int i = 0; i < changes; ++i) {
    Change(&database);
  }
  Dump(&database, "after");
  fflush(stdout);
  if (number % 3 == 2) {
    _exit(0); /* As if killed: the next session has to read the log. */
  }
  for (int family = 0; family < kFamilies; ++family) {
    rocksdb_column_family_handle_destroy(database.families[family]);
  }
  rocksdb_close(database.db);
  for (int family = 0; family < kFamilies; ++family) {
    rocksdb_options_destroy((rocksdb_options_t*)options[family]);
  }
  rocksdb_readoptions_destroy(database.read);
  rocksdb_writeoptions_destroy(database.write);
  return 0;
}
