/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
/* Goal: a program that was built for RocksDB 7.8 runs. Method: compiled with
   Debian's header, it calls each function whose signature changed since, with
   librocksdb.so.7.8. Usage: for_7_8 DIRECTORY */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int destroyed = 0;

static void Destroy(void* state) {
  (void)state;
  ++destroyed;
}
static char* Transform(void* state, const char* key, size_t length,
                       size_t* result_length) {
  (void)state;
  *result_length = length < 1 ? length : 1;
  return (char*)key;
}
static unsigned char InDomain(void* state, const char* key, size_t length) {
  (void)state;
  (void)key;
  return length >= 1;
}
static unsigned char InRange(void* state, const char* key, size_t length) {
  (void)state;
  (void)key;
  return length == 1;
}
static const char* Name(void* state) {
  (void)state;
  return "FirstByte";
}

static void Expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

int main(int argc, char** argv) {
  Expect(argc == 2, "one argument");
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_prefix_extractor(
      options, rocksdb_slicetransform_create(NULL, Destroy, Transform, InDomain,
                                             InRange, Name));
  rocksdb_t* db = rocksdb_open(options, argv[1], &error);
  Expect(error == NULL, "open");
  rocksdb_writeoptions_t* write = rocksdb_writeoptions_create();
  rocksdb_put(db, write, "a1", 2, "1", 1, &error);
  rocksdb_put(db, write, "a2", 2, "2", 1, &error);
  rocksdb_put(db, write, "b1", 2, "3", 1, &error);
  Expect(error == NULL, "put");
  rocksdb_readoptions_t* read = rocksdb_readoptions_create();
  rocksdb_readoptions_set_prefix_same_as_start(read, 1);
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, read);
  int count = 0;
  for (rocksdb_iter_seek(it, "a", 1); rocksdb_iter_valid(it);
       rocksdb_iter_next(it)) {
    ++count;
  }
  Expect(count == 2, "the keys of a prefix");
  rocksdb_iter_destroy(it);

  rocksdb_enable_file_deletions(db, 1, &error);
  free(error); /* An error or none, but no wrong pointer. */

  rocksdb_options_t* plain = rocksdb_options_create();
  rocksdb_options_set_plain_table_factory(plain, 8, 10, 0.75, 16);
  rocksdb_options_destroy(plain);

  rocksdb_readoptions_destroy(read);
  rocksdb_writeoptions_destroy(write);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  Expect(destroyed == 1, "the transform is destroyed");
  printf("passed\n");
  return 0;
}
