/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/* Reads random keys of the database that loops_test.py wrote, and prints the
 * microseconds of processor time that this took, all threads together.
 *
 * usage: read_loop DIRECTORY KEYS READS */

#include <leveldb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t cpu_us(void) {
  return (int64_t)clock() * 1000000 / CLOCKS_PER_SEC;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const uint64_t keys = strtoull(argv[2], NULL, 10);
  const long reads = atol(argv[3]);
  char* error = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_t* db = leveldb_open(options, argv[1], &error);
  if (db == NULL) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  /* The first round fills the caches. */
  int64_t used_us = 0;
  for (int round = 0; round < 2; round++) {
    const int64_t begin_us = cpu_us();
    uint64_t random = 88172645463325252u;
    for (long i = 0; i < reads; i++) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      char key[24];
      const int size = snprintf(key, sizeof(key), "%016llu",
                                (unsigned long long)(random % keys));
      size_t value_size = 0;
      char* value =
          leveldb_get(db, read, key, (size_t)size, &value_size, &error);
      if (value == NULL || value_size != 100) {
        fprintf(stderr, "%s: %s\n", key, error == NULL ? "missing" : error);
        return 1;
      }
      leveldb_free(value);
    }
    used_us = cpu_us() - begin_us;
  }
  printf("%lld\n", (long long)used_us);
  leveldb_close(db);
  leveldb_readoptions_destroy(read);
  leveldb_options_destroy(options);
  return 0;
}
