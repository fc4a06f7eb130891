/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/* layers DIRECTORY: writes down some layers of sediment and reads them back. */

#include <stdio.h>
#include <string.h>
#include <varve/c.h>

/* Says what an error was, if it is one. */
static int failed(char* error) {
  if (error == NULL) return 0;
  fprintf(stderr, "layers: %s\n", error);
  varve_free(error);
  return 1;
}

static void print(varve_t* db, char** error) {
  varve_readoptions_t* reading = varve_readoptions_create();
  varve_iterator_t* iterator = varve_create_iterator(db, reading);
  for (varve_iter_seek_to_first(iterator); varve_iter_valid(iterator);
       varve_iter_next(iterator)) {
    size_t key_bytes, value_bytes;
    const char* key = varve_iter_key(iterator, &key_bytes);
    const char* value = varve_iter_value(iterator, &value_bytes);
    printf("%.*s %.*s\n", (int)key_bytes, key, (int)value_bytes, value);
  }
  varve_iter_get_error(iterator, error);
  varve_iter_destroy(iterator);
  varve_readoptions_destroy(reading);
}

int main(int argc, char** argv) {
  char* error = NULL;
  varve_options_t* options;
  varve_writeoptions_t* safe;
  varve_writebatch_t* batch;
  varve_t* db;

  if (argc != 2) {
    fprintf(stderr, "usage: layers DIRECTORY\n");
    return 2;
  }
  options = varve_options_create();
  varve_options_set_create_if_missing(options, 1);
  db = varve_open(options, argv[1], &error);
  varve_options_destroy(options);
  if (failed(error)) return 1;

  /* Several updates at once, safe when the call returns. */
  safe = varve_writeoptions_create();
  varve_writeoptions_set_sync(safe, 1);
  batch = varve_writebatch_create();
  varve_writebatch_put(batch, "2024", 4, "silt", 4);
  varve_writebatch_put(batch, "2025", 4, "clay", 4);
  varve_write(db, safe, batch, &error);
  varve_writebatch_destroy(batch);
  varve_writeoptions_destroy(safe);

  if (error == NULL) print(db, &error);
  varve_close(db);
  return failed(error);
}
