/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
/* A program for launcher_test.py: "write N", "family N", which writes to a new
   column family, or "count". Usage: launcher COMMAND DIRECTORY [N] */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void Check(char* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", error);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  char* error = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, argv[2], &error);
  Check(error);
  rocksdb_writeoptions_t* write = rocksdb_writeoptions_create();
  if (strcmp(argv[1], "write") == 0) {
    for (int i = 0; i < atoi(argv[3]); ++i) {
      rocksdb_put(db, write, (const char*)&i, sizeof(i), "v", 1, &error);
      Check(error);
    }
  } else if (strcmp(argv[1], "family") == 0) {
    rocksdb_column_family_handle_t* family =
        rocksdb_create_column_family(db, options, "family", &error);
    Check(error);
    for (int i = 0; i < atoi(argv[3]); ++i) {
      rocksdb_put_cf(db, write, family, (const char*)&i, sizeof(i), "v", 1,
                     &error);
      Check(error);
    }
    rocksdb_column_family_handle_destroy(family);
  }
  rocksdb_writeoptions_destroy(write);
  rocksdb_readoptions_t* read = rocksdb_readoptions_create();
  rocksdb_iterator_t* it = rocksdb_create_iterator(db, read);
  int count = 0;
  for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it);
       rocksdb_iter_next(it)) {
    ++count;
  }
  printf("%d entries\n", count);
  rocksdb_iter_destroy(it);
  rocksdb_readoptions_destroy(read);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  return 0;
}
