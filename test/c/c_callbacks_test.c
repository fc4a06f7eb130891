/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: comparators and filter policies written in C decide as they should,
 * and are let go of once. Method: a program in C with callbacks that count
 * their calls.
 */

#include "test/c/check.h"

#include <ctype.h>

/* ---- Comparators ---- */

struct Counters {
  int destroyed;
  int compared;
  int created;
  int asked;
  int says_no;
  const char* name;
};

static void CountDestruction(void* state) {
  ++((struct Counters*)state)->destroyed;
}

static const char* NameOf(void* state) {
  return ((struct Counters*)state)->name;
}

/* Upper and lower case letters are the same. */
static int CompareWithoutCase(void* state, const char* a, size_t alen,
                              const char* b, size_t blen) {
  const size_t common = alen < blen ? alen : blen;
  size_t i;
  /* By several threads, but nobody reads it before they are done. */
  __atomic_fetch_add(&((struct Counters*)state)->compared, 1, __ATOMIC_RELAXED);
  for (i = 0; i < common; ++i) {
    const int x = tolower((unsigned char)a[i]);
    const int y = tolower((unsigned char)b[i]);
    if (x != y) return x < y ? -1 : 1;
  }
  return alen == blen ? 0 : (alen < blen ? -1 : 1);
}

static void TestComparatorDecidesWhichKeysAreTheSame(void) {
  struct Counters counters = {0, 0, 0, 0, 0, "test.without-case"};
  struct Counters others = {0, 0, 0, 0, 0, "test.other"};
  varve_comparator_t* const comparator = varve_comparator_create(
      &counters, CountDestruction, CompareWithoutCase, NameOf);
  varve_comparator_t* const other = varve_comparator_create(
      &others, CountDestruction, CompareWithoutCase, NameOf);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  int round;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_comparator(options, comparator);
  GOOD(db = varve_open(options, PathOf("comparator"), &error));
  PUT(db, plain_write, "Berlin", "1");
  PUT(db, plain_write, "amsterdam", "2");
  PUT(db, plain_write, "BERLIN", "3");
  PUT(db, plain_write, "Cairo", "4");
  DELETE(db, plain_write, "CAIRO");
  for (round = 0; round < 3; ++round) {
    varve_iterator_t* iterator;
    size_t size = 0;
    const char* key;
    GET(db, plain_read, "berlin", "3");
    GET(db, plain_read, "BERLIN", "3");
    GET(db, plain_read, "Amsterdam", "2");
    GET(db, plain_read, "cairo", NULL);
    iterator = varve_create_iterator(db, plain_read);
    varve_iter_seek_to_first(iterator);
    ExpectEntry(iterator, "amsterdam", "2");
    varve_iter_next(iterator);
    key = varve_iter_key(iterator, &size);
    CHECK(size == 6 && memcmp(key, "BERLIN", 6) == 0);
    varve_iter_next(iterator);
    CHECK(!varve_iter_valid(iterator));
    varve_iter_seek(iterator, "bErLiN", 6);
    CHECK(varve_iter_valid(iterator));
    varve_iter_destroy(iterator);
    if (round == 0) varve_compact_range(db, NULL, 0, NULL, 0);
    if (round == 1) {
      varve_close(db);
      GOOD(db = varve_open(options, PathOf("comparator"), &error));
    }
  }
  CHECK(counters.compared > 0);
  varve_close(db);

  /* Neither another comparator nor the bytes' own order opens it. */
  varve_options_set_comparator(options, other);
  BAD(CHECK(varve_open(options, PathOf("comparator"), &error) == NULL));
  varve_options_destroy(options);
  CHECK(counters.destroyed == 0);
  varve_comparator_destroy(comparator);
  CHECK(counters.destroyed == 1);
  varve_comparator_destroy(other);
  CHECK(others.destroyed == 1);

  {
    varve_options_t* const plain = varve_options_create();
    BAD(CHECK(varve_open(plain, PathOf("comparator"), &error) == NULL));
    varve_options_destroy(plain);
  }
}

/* ---- Filter policies ---- */

/* The filter is the set of first letters of the keys. */
static char* MakeLetters(void* state, const char* const* keys,
                         const size_t* sizes, int count, size_t* filter_size) {
  struct Counters* const counters = state;
  char* const filter = calloc(32, 1);
  int i;
  __atomic_fetch_add(&counters->created, 1, __ATOMIC_RELAXED);
  for (i = 0; i < count; ++i) {
    const unsigned char letter = sizes[i] > 0 ? (unsigned char)keys[i][0] : 0;
    filter[letter / 8] = (char)(filter[letter / 8] | 1 << letter % 8);
  }
  *filter_size = 32;
  return filter;
}

static uint8_t LettersMayMatch(void* state, const char* key, size_t size,
                               const char* filter, size_t filter_size) {
  struct Counters* const counters = state;
  const unsigned char letter = size > 0 ? (unsigned char)key[0] : 0;
  CHECK(filter_size == 32);
  __atomic_fetch_add(&counters->asked, 1, __ATOMIC_RELAXED);
  if (counters->says_no) return 0;
  return (uint8_t)((unsigned char)filter[letter / 8] >> letter % 8 & 1);
}

static void TestFilterPolicyOfOnesOwn(void) {
  struct Counters counters = {0, 0, 0, 0, 0, "test.letters"};
  varve_filterpolicy_t* const policy = varve_filterpolicy_create(
      &counters, CountDestruction, MakeLetters, LettersMayMatch, NameOf);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  int asked;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_filter_policy(options, policy);
  GOOD(db = varve_open(options, PathOf("letters"), &error));
  PUT(db, plain_write, "apple", "1");
  PUT(db, plain_write, "cherry", "2");
  varve_compact_range(db, NULL, 0, NULL, 0);
  CHECK(counters.created > 0);
  GET(db, plain_read, "apple", "1");
  GET(db, plain_read, "cherry", "2");
  GET(db, plain_read, "banana", NULL);
  GET(db, plain_read, "cranberry", NULL); /* The filter lets it through. */
  CHECK(counters.asked >= 3);
  counters.says_no = 1; /* Its answer counts, and for point reads only. */
  GET(db, plain_read, "apple", NULL);
  {
    varve_iterator_t* const iterator = varve_create_iterator(db, plain_read);
    varve_iter_seek(iterator, "apple", 5);
    ExpectEntry(iterator, "apple", "1");
    varve_iter_destroy(iterator);
  }
  counters.says_no = 0;
  GET(db, plain_read, "apple", "1");
  varve_close(db);

  /* Found again under its name, and left alone under another one. */
  GOOD(db = varve_open(options, PathOf("letters"), &error));
  asked = counters.asked;
  GET(db, plain_read, "apple", "1");
  CHECK(counters.asked > asked);
  varve_close(db);
  varve_options_set_filter_policy(options, NULL);
  CHECK(counters.destroyed == 0);
  varve_filterpolicy_destroy(policy);
  CHECK(counters.destroyed == 1);
  asked = counters.asked;
  GOOD(db = varve_open(options, PathOf("letters"), &error));
  GET(db, plain_read, "apple", "1");
  CHECK(counters.asked == asked);
  varve_close(db);
  varve_options_destroy(options);
  CHECK(counters.destroyed == 1);
}

static char* MakeNothing(void* state, const char* const* keys,
                         const size_t* sizes, int count, size_t* filter_size) {
  (void)keys;
  (void)sizes;
  (void)count;
  (void)filter_size;
  __atomic_fetch_add(&((struct Counters*)state)->created, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* No filter answers "maybe", as does a policy that is destroyed too early. */
static void TestFilterPolicyWithoutFilters(void) {
  struct Counters counters = {0, 0, 0, 0, 1, "test.nothing"};
  varve_filterpolicy_t* policy = varve_filterpolicy_create(
      &counters, CountDestruction, MakeNothing, LettersMayMatch, NameOf);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_filter_policy(options, policy);
  GOOD(db = varve_open(options, PathOf("nothing"), &error));
  PUT(db, plain_write, "apple", "1");
  varve_compact_range(db, NULL, 0, NULL, 0);
  CHECK(counters.created > 0);
  GET(db, plain_read, "apple", "1");
  CHECK(counters.asked == 0);
  varve_close(db);
  varve_filterpolicy_destroy(policy);
  CHECK(counters.destroyed == 1);

  policy = varve_filterpolicy_create(&counters, CountDestruction, MakeLetters,
                                     LettersMayMatch, NameOf);
  varve_options_set_filter_policy(options, policy);
  GOOD(db = varve_open(options, PathOf("too early"), &error));
  PUT(db, plain_write, "apple", "1");
  varve_compact_range(db, NULL, 0, NULL, 0);
  GET(db, plain_read, "apple", NULL); /* It says no. */
  varve_filterpolicy_destroy(policy);
  CHECK(counters.destroyed == 2);
  counters.asked = 0;
  counters.created = 0;
  GET(db, plain_read, "apple", "1");
  PUT(db, plain_write, "banana", "2");
  varve_compact_range(db, NULL, 0, NULL, 0);
  GET(db, plain_read, "banana", "2");
  CHECK(counters.asked == 0 && counters.created == 0);
  varve_close(db);
  CHECK(counters.destroyed == 2);
  varve_options_destroy(options);
}

static void TestBloomFilter(void) {
  varve_filterpolicy_t* const policy = varve_filterpolicy_create_bloom(10);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  int i;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_filter_policy(options, policy);
  GOOD(db = varve_open(options, PathOf("bloom"), &error));
  FillNumbers(db, 1000);
  varve_compact_range(db, NULL, 0, NULL, 0);
  for (i = 0; i < 2000; ++i) {
    char key[32];
    char value[64];
    snprintf(key, sizeof(key), "key%06d", i);
    snprintf(value, sizeof(value), "value %d of many", i * 7919);
    GET(db, plain_read, key, i < 1000 ? value : NULL);
  }
  varve_close(db);
  varve_options_destroy(options);
  varve_filterpolicy_destroy(policy);
}

int main(void) {
  BeginTests();
  TEST(TestComparatorDecidesWhichKeysAreTheSame);
  TEST(TestFilterPolicyOfOnesOwn);
  TEST(TestFilterPolicyWithoutFilters);
  TEST(TestBloomFilter);
  return EndTests();
}
