/* Varve: a key-value storage engine. MIT licence, see LICENSE. */
#pragma once

/*
 * Shared code of the test programs in C. A program includes it once and first.
 * A failed check prints its place and ends the program.
 */

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "varve/c.h"

static const char* current_test = "";

static inline void Fail(const char* file, int line, const char* text) {
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, current_test, text);
  exit(1);
}

#define FAIL(text) Fail(__FILE__, __LINE__, text)

#define CHECK(condition)                \
  do {                                  \
    if (!(condition)) FAIL(#condition); \
  } while (0)

/* That a call left no error. */
#define OK(error)                     \
  do {                                \
    if ((error) != NULL) FAIL(error); \
  } while (0)

/* That a call failed with such a message, which is then gone. */
#define FAILED(error, beginning)                                            \
  do {                                                                      \
    if ((error) == NULL) Fail("no error", __LINE__, beginning);             \
    if (strncmp((error), (beginning), strlen(beginning)) != 0) FAIL(error); \
    varve_free(error);                                                      \
    (error) = NULL;                                                         \
  } while (0)

/* The error of calls. Between them there is none. */
static char* error;

#define GOOD(call) \
  do {             \
    call;          \
    OK(error);     \
  } while (0)
#define FAILS(call, beginning) \
  do {                         \
    call;                      \
    FAILED(error, beginning);  \
  } while (0)
#define BAD(call) FAILS(call, "Invalid argument: ")

#define SAME(bytes, size, text) ExpectSame(__LINE__, bytes, size, text)
/* The value of a key, or its absence by NULL. */
#define GET(db, options, key, expected) \
  ExpectGet(__LINE__, db, options, key, expected)
#define PUT(db, options, key, value) Put(__LINE__, db, options, key, value)
#define DELETE(db, options, key) Delete(__LINE__, db, options, key)

#define TEST(function)                           \
  do {                                           \
    current_test = #function;                    \
    fprintf(stderr, "[ RUN  ] %s\n", #function); \
    function();                                  \
  } while (0)

static inline void ExpectSame(int line, const char* bytes, size_t size,
                              const char* text) {
  if (bytes == NULL) Fail("null", line, text);
  if (size != strlen(text) || memcmp(bytes, text, size) != 0) {
    Fail("not the same", line, text);
  }
}

static inline void ExpectGet(int line, varve_t* db,
                             const varve_readoptions_t* options,
                             const char* key, const char* expected) {
  char* error = NULL;
  size_t size = 12345;
  char* const value = varve_get(db, options, key, strlen(key), &size, &error);
  if (error != NULL) Fail(error, line, key);
  if (expected != NULL) {
    ExpectSame(line, value, size, expected);
  } else if (value != NULL || size != 0) {
    Fail("is there", line, key);
  }
  varve_free(value);
}

static inline void Put(int line, varve_t* db,
                       const varve_writeoptions_t* options, const char* key,
                       const char* value) {
  char* error = NULL;
  varve_put(db, options, key, strlen(key), value, strlen(value), &error);
  if (error != NULL) Fail(error, line, key);
}

static inline void Delete(int line, varve_t* db,
                          const varve_writeoptions_t* options,
                          const char* key) {
  char* error = NULL;
  varve_delete(db, options, key, strlen(key), &error);
  if (error != NULL) Fail(error, line, key);
}

/* Default options. */
static varve_readoptions_t* plain_read;
static varve_writeoptions_t* plain_write;

/* Of all databases of the program. */
enum { kPathBytes = 4096 };
static char test_root[kPathBytes];

static inline void Join(char* path, const char* directory, const char* name) {
  CHECK(snprintf(path, kPathBytes, "%s/%s", directory, name) < kPathBytes);
}

static inline void MakeTestRoot(void) {
  const char* const parent = getenv("TEST_TMPDIR");
  Join(test_root, parent != NULL ? parent : "/tmp", "varve-c-XXXXXX");
  CHECK(mkdtemp(test_root) != NULL);
}

/* `path` and all that is in it. */
static inline void RemoveTree(const char* path) {
  DIR* const directory = opendir(path);
  struct dirent* entry;
  if (directory == NULL) {
    unlink(path);
    return;
  }
  while ((entry = readdir(directory)) != NULL) {
    char child[kPathBytes];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    Join(child, path, entry->d_name);
    RemoveTree(child);
  }
  closedir(directory);
  rmdir(path);
}

/* The path of a database, until the next call. */
static inline const char* PathOf(const char* name) {
  static char path[kPathBytes];
  Join(path, test_root, name);
  return path;
}

static inline int Exists(const char* path) {
  struct stat status;
  return stat(path, &status) == 0;
}

/* A database of default options, made if it is missing. */
static inline varve_t* OpenPlain(const char* name) {
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  GOOD(db = varve_open(options, PathOf(name), &error));
  CHECK(db != NULL);
  varve_options_destroy(options);
  return db;
}

/* Keys from key000000 on. */
static inline void FillNumbers(varve_t* db, int count) {
  int i;
  for (i = 0; i < count; ++i) {
    char key[32];
    char value[64];
    snprintf(key, sizeof(key), "key%06d", i);
    snprintf(value, sizeof(value), "value %d of many", i * 7919);
    PUT(db, plain_write, key, value);
  }
}

static inline void ExpectEntry(const varve_iterator_t* iterator,
                               const char* key, const char* value) {
  size_t size = 0;
  const char* bytes;
  CHECK(varve_iter_valid(iterator) == 1);
  bytes = varve_iter_key(iterator, &size);
  SAME(bytes, size, key);
  bytes = varve_iter_value(iterator, &size);
  SAME(bytes, size, value);
}

static inline void BeginTests(void) {
  MakeTestRoot();
  plain_read = varve_readoptions_create();
  plain_write = varve_writeoptions_create();
}

static inline int EndTests(void) {
  varve_readoptions_destroy(plain_read);
  varve_writeoptions_destroy(plain_write);
  RemoveTree(test_root);
  return 0;
}
