/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: merge operators and compaction filters written in C, and the built-in
 * operators, decide what is read, and are destroyed once, after their last use.
 * Method: callbacks that count their calls; every function of varve/c_merge.h;
 * and the calls with which the program balboa-rocksdb uses RocksDB.
 */

#include "test/c/check.h"

#define MERGE(db, key, operand) Merge(__LINE__, db, key, operand)

struct Counters {
  int destroyed;
  int full;
  int partial;
  int freed;
  int filtered;
  int created;
  int full_compactions;
  int manual_compactions;
  const char* name;
};

/* Callbacks run on several threads. */
static void Count(int* counter) {
  __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

static int CountOf(int* counter) {
  return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static void CountDestruction(void* state) {
  Count(&((struct Counters*)state)->destroyed);
}

static const char* NameOf(void* state) {
  return ((struct Counters*)state)->name;
}

static void Merge(int line, varve_t* db, const char* key, const char* operand) {
  varve_merge(db, plain_write, key, strlen(key), operand, strlen(operand),
              &error);
  if (error != NULL) Fail(error, line, key);
}

static void Flush(varve_t* db) {
  varve_flushoptions_t* const options = varve_flushoptions_create();
  GOOD(varve_flush(db, options, &error));
  varve_flushoptions_destroy(options);
}

/* ---- An operator that joins operands with '|', and fails on "bad" ---- */

static char* Join3(const char* existing, size_t existing_size,
                   const char* const* operands, const size_t* sizes, int count,
                   uint8_t* success, size_t* size) {
  size_t most = existing_size + 1;
  char* joined;
  int i;
  for (i = 0; i < count; ++i) {
    most += sizes[i] + 1;
    if (sizes[i] == 3 && memcmp(operands[i], "bad", 3) == 0) {
      *success = 0;
      *size = 0;
      return NULL;
    }
  }
  joined = malloc(most);
  *size = 0;
  if (existing != NULL) {
    memcpy(joined, existing, existing_size);
    *size = existing_size;
  }
  for (i = 0; i < count; ++i) {
    if (existing != NULL || i > 0) joined[(*size)++] = '|';
    memcpy(joined + *size, operands[i], sizes[i]);
    *size += sizes[i];
  }
  *success = 1;
  return joined;
}

static char* FullJoin(void* state, const char* key, size_t key_length,
                      const char* existing, size_t existing_length,
                      const char* const* operands, const size_t* sizes,
                      int count, uint8_t* success, size_t* new_length) {
  CHECK(key != NULL && key_length > 0 && count >= 1);
  if (state != NULL) Count(&((struct Counters*)state)->full);
  return Join3(existing, existing_length, operands, sizes, count, success,
               new_length);
}

static char* PartialJoin(void* state, const char* key, size_t key_length,
                         const char* const* operands, const size_t* sizes,
                         int count, uint8_t* success, size_t* new_length) {
  CHECK(key != NULL && key_length > 0 && count >= 2);
  if (state != NULL) Count(&((struct Counters*)state)->partial);
  return Join3(NULL, 0, operands, sizes, count, success, new_length);
}

static void FreeValue(void* state, const char* value, size_t value_length) {
  CHECK(value != NULL && value_length > 0);
  Count(&((struct Counters*)state)->freed);
  free((char*)value);
}

static void TestOperatorOfOnesOwn(void) {
  struct Counters counters = {0, 0, 0, 0, 0, 0, 0, 0, "test.join"};
  varve_mergeoperator_t* const join = varve_mergeoperator_create(
      &counters, CountDestruction, FullJoin, PartialJoin, FreeValue, NameOf);
  varve_options_t* options = varve_options_create();
  varve_options_t* copy;
  varve_t* db;
  int round;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_merge_operator(options, join);
  copy = varve_options_create_copy(options);
  /* Options and databases keep it. */
  varve_mergeoperator_destroy(join);
  GOOD(db = varve_open(options, PathOf("own"), &error));
  varve_options_destroy(options);
  PUT(db, plain_write, "with", "v");
  PUT(db, plain_write, "empty", "");
  for (round = 0; round < 3; ++round) {
    MERGE(db, "with", "a");
    MERGE(db, "with", "b");
    MERGE(db, "without", "a");
    MERGE(db, "empty", "a");
    if (round < 2) Flush(db);
  }
  DELETE(db, plain_write, "deleted");
  MERGE(db, "deleted", "new");
  for (round = 0; round < 3; ++round) {
    varve_iterator_t* iterator;
    GET(db, plain_read, "with", "v|a|b|a|b|a|b");
    GET(db, plain_read, "without", "a|a|a");
    GET(db, plain_read, "empty", "|a|a|a");
    GET(db, plain_read, "deleted", "new");
    iterator = varve_create_iterator(db, plain_read);
    varve_iter_seek_to_first(iterator);
    ExpectEntry(iterator, "deleted", "new");
    varve_iter_next(iterator);
    ExpectEntry(iterator, "empty", "|a|a|a");
    varve_iter_seek_to_last(iterator);
    ExpectEntry(iterator, "without", "a|a|a");
    varve_iter_prev(iterator);
    ExpectEntry(iterator, "with", "v|a|b|a|b|a|b");
    varve_iter_destroy(iterator);
    if (round == 0) varve_compact_range(db, NULL, 0, NULL, 0);
    if (round == 1) {
      varve_close(db);
      GOOD(db = varve_open(copy, PathOf("own"), &error));
    }
  }
  CHECK(CountOf(&counters.full) > 0);
  CHECK(CountOf(&counters.freed) ==
        CountOf(&counters.full) + CountOf(&counters.partial));
  varve_options_destroy(copy);
  CHECK(CountOf(&counters.destroyed) == 0);
  varve_close(db);
  CHECK(CountOf(&counters.destroyed) == 1);
}

static void TestOperatorThatFails(void) {
  struct Counters counters = {0, 0, 0, 0, 0, 0, 0, 0, "test.join"};
  varve_mergeoperator_t* const join = varve_mergeoperator_create(
      &counters, CountDestruction, FullJoin, PartialJoin, FreeValue, NameOf);
  varve_options_t* const options = varve_options_create();
  size_t size = 7;
  varve_t* db;
  int round;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_merge_operator(options, join);
  GOOD(db = varve_open(options, PathOf("fails"), &error));
  PUT(db, plain_write, "key", "v");
  MERGE(db, "key", "a");
  MERGE(db, "key", "bad");
  MERGE(db, "other", "a");
  for (round = 0; round < 2; ++round) {
    FAILS(CHECK(varve_get(db, plain_read, "key", 3, &size, &error) == NULL),
          "Corruption: ");
    CHECK(size == 0);
    GET(db, plain_read, "other", "a");
    varve_compact_range(db, NULL, 0, NULL, 0);
  }
  /* A value hides what failed. */
  PUT(db, plain_write, "key", "new");
  MERGE(db, "kept", "a");
  GET(db, plain_read, "key", "new");
  varve_close(db);

  /* Without an operator, operands are neither written nor read. */
  varve_options_set_merge_operator(options, NULL);
  GOOD(db = varve_open(options, PathOf("fails"), &error));
  FAILS(varve_merge(db, plain_write, "other", 5, "a", 1, &error),
        "Not supported: ");
  BAD(CHECK(varve_get(db, plain_read, "kept", 4, &size, &error) == NULL));
  GET(db, plain_read, "key", "new");
  varve_close(db);
  varve_options_destroy(options);
  varve_mergeoperator_destroy(join);
  CHECK(CountOf(&counters.destroyed) == 1);
}

/* ---- The calls of balboa-rocksdb ---- */

/* How often something was seen, and when: added up, first and last. */
struct Observation {
  uint32_t count;
  uint32_t first;
  uint32_t last;
};

static void Observe(struct Observation* total, const char* bytes, size_t size) {
  struct Observation seen;
  CHECK(size == sizeof(seen));
  memcpy(&seen, bytes, sizeof(seen));
  if (total->count == 0 || seen.first < total->first) total->first = seen.first;
  if (total->count == 0 || seen.last > total->last) total->last = seen.last;
  total->count += seen.count;
}

static char* TakeObservation(const struct Observation* total, uint8_t* success,
                             size_t* size) {
  char* const bytes = malloc(sizeof(*total));
  memcpy(bytes, total, sizeof(*total));
  *success = 1;
  *size = sizeof(*total);
  return bytes;
}

static char* FullObserve(void* state, const char* key, size_t key_length,
                         const char* existing, size_t existing_length,
                         const char* const* operands, const size_t* sizes,
                         int count, uint8_t* success, size_t* new_length) {
  struct Observation total = {0, 0, 0};
  int i;
  CHECK(state == NULL && key != NULL && key_length > 0);
  if (existing != NULL) Observe(&total, existing, existing_length);
  for (i = 0; i < count; ++i) Observe(&total, operands[i], sizes[i]);
  return TakeObservation(&total, success, new_length);
}

static char* PartialObserve(void* state, const char* key, size_t key_length,
                            const char* const* operands, const size_t* sizes,
                            int count, uint8_t* success, size_t* new_length) {
  return FullObserve(state, key, key_length, NULL, 0, operands, sizes, count,
                     success, new_length);
}

static int observe_destroyed;

static void DestroyObserve(void* state) {
  CHECK(state == NULL);
  Count(&observe_destroyed);
}

static const char* ObserveName(void* state) {
  CHECK(state == NULL);
  return "observation-mergeop";
}

static void ExpectObservation(const char* bytes, size_t size, uint32_t count,
                              uint32_t first, uint32_t last) {
  struct Observation found;
  CHECK(bytes != NULL && size == sizeof(found));
  memcpy(&found, bytes, sizeof(found));
  CHECK(found.count == count && found.first == first && found.last == last);
}

static void TestCallsOfBalboa(void) {
  /* No state, and values that free releases. */
  varve_mergeoperator_t* const observe = varve_mergeoperator_create(
      NULL, DestroyObserve, FullObserve, PartialObserve, NULL, ObserveName);
  varve_options_t* const options = varve_options_create();
  const struct Observation base = {5, 1000, 1000};
  varve_iterator_t* iterator;
  size_t size = 0;
  char* value;
  varve_t* db;
  uint32_t i;
  CHECK(observe != NULL);
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_merge_operator(options, observe);
  GOOD(db = varve_open(options, PathOf("balboa"), &error));
  GOOD(varve_put(db, plain_write, "based", 5, (const char*)&base, sizeof(base),
                 &error));
  for (i = 0; i < 1000; ++i) {
    struct Observation seen = {1, 0, 0};
    seen.first = seen.last = 500 + i;
    GOOD(varve_merge(db, plain_write, i % 2 == 0 ? "based" : "new",
                     i % 2 == 0 ? 5 : 3, (const char*)&seen, sizeof(seen),
                     &error));
    if (i % 300 == 299) Flush(db);
  }
  GOOD(value = varve_get(db, plain_read, "based", 5, &size, &error));
  ExpectObservation(value, size, 505, 500, 1498);
  varve_free(value);
  iterator = varve_create_iterator(db, plain_read);
  varve_iter_seek(iterator, "n", 1);
  CHECK(varve_iter_valid(iterator));
  value = (char*)varve_iter_value(iterator, &size);
  ExpectObservation(value, size, 500, 501, 1499);
  varve_iter_next(iterator);
  CHECK(!varve_iter_valid(iterator));
  GOOD(varve_iter_get_error(iterator, &error));
  varve_iter_destroy(iterator);
  /* In its order. */
  varve_close(db);
  varve_options_destroy(options);
  CHECK(observe_destroyed == 0);
  varve_mergeoperator_destroy(observe);
  CHECK(observe_destroyed == 1);
}

/* ---- Built-in operators, batches and families ---- */

static void TestBuiltInOperators(void) {
  static const char kOne[8] = {1, 0, 0, 0, 0, 0, 0, 0};
  varve_options_t* const options = varve_options_create();
  int kind;
  varve_options_set_create_if_missing(options, 1);
  CHECK(varve_options_get_max_successive_merges(options) == 0);
  varve_options_set_max_successive_merges(options, 3);
  CHECK(varve_options_get_max_successive_merges(options) == 3);
  for (kind = 0; kind < 3; ++kind) {
    varve_mergeoperator_t* adds = NULL;
    varve_t* db;
    size_t size = 0;
    char* value;
    int i;
    if (kind == 0) varve_options_set_uint64add_merge_operator(options);
    if (kind == 1) adds = varve_mergeoperator_create_uint64add();
    if (kind == 2) adds = varve_mergeoperator_create_builtin("uint64add");
    if (adds != NULL) varve_options_set_merge_operator(options, adds);
    varve_mergeoperator_destroy(adds);
    GOOD(db = varve_open(options, PathOf("add"), &error));
    for (i = 0; i < 20; ++i) {
      GOOD(varve_merge(db, plain_write, "sum", 3, kOne, sizeof(kOne), &error));
    }
    GOOD(value = varve_get(db, plain_read, "sum", 3, &size, &error));
    CHECK(size == 8 && value[0] == 20 * (kind + 1) && value[1] == 0);
    varve_free(value);
    varve_close(db);
  }
  varve_options_destroy(options);
}

static void OnUpdate(void* state, const char* kind, uint32_t family,
                     const char* k, size_t klen, const char* v, size_t vlen) {
  char* const lines = state;
  sprintf(lines + strlen(lines), "%s %u %.*s %.*s;", kind, (unsigned)family,
          (int)klen, k, (int)vlen, v);
}

static void OnPut(void* state, uint32_t family, const char* k, size_t klen,
                  const char* v, size_t vlen) {
  OnUpdate(state, "put", family, k, klen, v, vlen);
}

static void OnMerge(void* state, uint32_t family, const char* k, size_t klen,
                    const char* v, size_t vlen) {
  OnUpdate(state, "merge", family, k, klen, v, vlen);
}

static void OnDeleted(void* state, uint32_t family, const char* k,
                      size_t klen) {
  OnUpdate(state, "delete", family, k, klen, "", 0);
}

static void OnPlainPut(void* state, const char* k, size_t klen, const char* v,
                       size_t vlen) {
  OnUpdate(state, "put", 0, k, klen, v, vlen);
}

static void OnPlainDeleted(void* state, const char* k, size_t klen) {
  OnUpdate(state, "delete", 0, k, klen, "", 0);
}

static void TestBatchesAndFamilies(void) {
  static const char* const kNames[] = {"default", "red"};
  varve_mergeoperator_t* const slash =
      varve_mergeoperator_create_stringappend("/", 1);
  varve_mergeoperator_t* const none =
      varve_mergeoperator_create_stringappend(NULL, 0);
  varve_options_t* const options = varve_options_create();
  varve_options_t* const red_options = varve_options_create();
  const varve_options_t* all[2];
  varve_column_family_handle_t* handles[2];
  varve_writebatch_t* batch = varve_writebatch_create();
  char lines[1000] = "";
  size_t size = 0;
  char* value;
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_create_missing_column_families(options, 1);
  varve_options_set_merge_operator(options, none);
  varve_options_set_merge_operator(red_options, slash);
  varve_mergeoperator_destroy(none);
  varve_mergeoperator_destroy(slash);
  all[0] = options;
  all[1] = red_options;
  GOOD(db = varve_open_column_families(options, PathOf("batch"), 2, kNames, all,
                                       handles, &error));
  varve_writebatch_put(batch, "k", 1, "v", 1);
  varve_writebatch_merge(batch, "k", 1, "a", 1);
  varve_writebatch_merge_cf(batch, handles[0], "k", 1, "b", 1);
  varve_writebatch_merge_cf(batch, handles[1], "k", 1, "c", 1);
  varve_writebatch_merge_cf(batch, handles[1], "k", 1, "d", 1);
  varve_writebatch_delete(batch, "x", 1);
  CHECK(varve_writebatch_count(batch) == 6);
  GOOD(varve_write(db, plain_write, batch, &error));
  GOOD(varve_merge_cf(db, plain_write, handles[1], "k", 1, "e", 1, &error));
  GET(db, plain_read, "k", "vab");
  GOOD(value = varve_get_cf(db, plain_read, handles[1], "k", 1, &size, &error));
  SAME(value, size, "c/d/e");
  varve_free(value);

  varve_writebatch_iterate_cf(batch, lines, OnPut, OnDeleted, OnMerge);
  CHECK(strcmp(lines,
               "put 0 k v;merge 0 k a;merge 0 k b;merge 1 k c;merge 1 k d;"
               "delete 0 x ;") == 0);
  lines[0] = '\0';
  varve_writebatch_iterate_cf(batch, lines, OnPut, OnDeleted, NULL);
  CHECK(strcmp(lines, "put 0 k v;delete 0 x ;") == 0);
  lines[0] = '\0';
  GOOD(varve_writebatch_iterate_updates_cf(batch, lines, OnPut, OnDeleted, NULL,
                                           NULL, OnMerge, NULL, &error));
  CHECK(strcmp(lines,
               "put 0 k v;merge 0 k a;merge 0 k b;merge 1 k c;merge 1 k d;"
               "delete 0 x ;") == 0);
  /* A copy of all updates without the merges would be another batch. */
  lines[0] = '\0';
  FAILS(varve_writebatch_iterate_all_cf(batch, lines, OnPut, OnDeleted, NULL,
                                        NULL, NULL, &error),
        "Not supported: ");
  CHECK(strcmp(lines, "put 0 k v;") == 0);
  varve_writebatch_clear(batch);
  lines[0] = '\0';
  varve_writebatch_merge(batch, "k", 1, "a", 1);
  varve_writebatch_put(batch, "k", 1, "v", 1);
  varve_writebatch_iterate(batch, lines, OnPlainPut, OnPlainDeleted);
  CHECK(strcmp(lines, "put 0 k v;") == 0);
  FAILS(varve_writebatch_iterate_all(batch, lines, OnPlainPut, OnPlainDeleted,
                                     NULL, NULL, NULL, &error),
        "Not supported: ");

  varve_writebatch_destroy(batch);
  varve_column_family_handle_destroy(handles[0]);
  varve_column_family_handle_destroy(handles[1]);
  varve_close(db);
  varve_options_destroy(options);
  varve_options_destroy(red_options);
}

/* ---- Compaction filters ---- */

/* Removes "drop...", and replaces values of "change..." and "clear...". */
static uint8_t Filter(void* state, int level, const char* key, size_t size,
                      const char* value, size_t value_size, char** new_value,
                      size_t* new_value_size, uint8_t* value_changed) {
  static char changed[] = "changed";
  CHECK(level >= 0 && value != NULL);
  Count(&((struct Counters*)state)->filtered);
  if (size >= 4 && memcmp(key, "drop", 4) == 0) return 1;
  if (size >= 6 && memcmp(key, "change", 6) == 0) {
    *new_value = changed;
    *new_value_size = value_size > 0 ? strlen(changed) : 0;
    *value_changed = 1;
  }
  if (size >= 5 && memcmp(key, "clear", 5) == 0) *value_changed = 1;
  return 0;
}

static void FillForFilter(varve_t* db) {
  PUT(db, plain_write, "change", "old");
  PUT(db, plain_write, "clear", "old");
  PUT(db, plain_write, "drop1", "old");
  PUT(db, plain_write, "drop2", "old");
  PUT(db, plain_write, "keep", "old");
  Flush(db);
  GET(db, plain_read, "drop1", "old");
}

static void ExpectFiltered(varve_t* db) {
  GET(db, plain_read, "change", "changed");
  GET(db, plain_read, "clear", "");
  GET(db, plain_read, "drop1", NULL);
  GET(db, plain_read, "drop2", NULL);
  GET(db, plain_read, "keep", "old");
}

static void TestCompactionFilter(void) {
  struct Counters counters = {0, 0, 0, 0, 0, 0, 0, 0, "test.filter"};
  varve_compactionfilter_t* const filter = varve_compactionfilter_create(
      &counters, CountDestruction, Filter, NameOf);
  varve_options_t* const options = varve_options_create();
  const varve_snapshot_t* snapshot;
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_compaction_filter(options, filter);
  GOOD(db = varve_open(options, PathOf("filter"), &error));
  FillForFilter(db);
  /* Versions that a snapshot needs are kept. */
  snapshot = varve_create_snapshot(db);
  varve_compact_range(db, NULL, 0, NULL, 0);
  GET(db, plain_read, "drop1", "old");
  varve_release_snapshot(db, snapshot);
  PUT(db, plain_write, "keep", "old");
  varve_compact_range(db, NULL, 0, NULL, 0);
  ExpectFiltered(db);
  CHECK(CountOf(&counters.filtered) >= 5);
  varve_close(db);
  varve_options_destroy(options);
  CHECK(CountOf(&counters.destroyed) == 0);
  varve_compactionfilter_destroy(filter);
  CHECK(CountOf(&counters.destroyed) == 1);
}

static varve_compactionfilter_t* CreateFilter(
    void* state, varve_compactionfiltercontext_t* context) {
  struct Counters* const counters = state;
  Count(&counters->created);
  if (varve_compactionfiltercontext_is_full_compaction(context)) {
    Count(&counters->full_compactions);
  }
  if (varve_compactionfiltercontext_is_manual_compaction(context)) {
    Count(&counters->manual_compactions);
  }
  return varve_compactionfilter_create(counters, CountDestruction, Filter,
                                       NameOf);
}

static varve_compactionfilter_t* CreateNothing(
    void* state, varve_compactionfiltercontext_t* context) {
  CHECK(context != NULL);
  Count(&((struct Counters*)state)->created);
  return NULL;
}

static void TestCompactionFilterFactory(void) {
  struct Counters counters = {0, 0, 0, 0, 0, 0, 0, 0, "test.factory"};
  struct Counters others = {0, 0, 0, 0, 0, 0, 0, 0, "test.other-factory"};
  varve_compactionfilterfactory_t* factory =
      varve_compactionfilterfactory_create(&others, CountDestruction,
                                           CreateNothing, NameOf);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_compaction_filter_factory(options, factory);
  varve_compactionfilterfactory_destroy(factory);
  GOOD(db = varve_open(options, PathOf("factory"), &error));
  FillForFilter(db);
  varve_compact_range(db, NULL, 0, NULL, 0);
  GET(db, plain_read, "drop1", "old");
  CHECK(CountOf(&others.created) > 0 && CountOf(&others.filtered) == 0);
  varve_close(db);

  factory = varve_compactionfilterfactory_create(&counters, CountDestruction,
                                                 CreateFilter, NameOf);
  varve_options_set_compaction_filter_factory(options, factory);
  CHECK(CountOf(&others.destroyed) == 1);
  varve_compactionfilterfactory_destroy(factory);
  GOOD(db = varve_open(options, PathOf("factory"), &error));
  PUT(db, plain_write, "keep", "old");
  varve_compact_range(db, NULL, 0, NULL, 0);
  ExpectFiltered(db);
  CHECK(CountOf(&counters.created) > 0);
  CHECK(CountOf(&counters.manual_compactions) > 0);
  CHECK(CountOf(&counters.full_compactions) > 0);
  CHECK(CountOf(&counters.filtered) >= 5);
  /* The database destroys the filters. */
  CHECK(CountOf(&counters.destroyed) == CountOf(&counters.created));
  varve_close(db);
  varve_options_destroy(options);
  CHECK(CountOf(&counters.destroyed) == CountOf(&counters.created) + 1);
}

static void TestCompactionsByAge(void) {
  varve_options_t* const options = varve_options_create();
  CHECK(varve_options_get_ttl(options) == 0);
  CHECK(varve_options_get_periodic_compaction_seconds(options) == 0);
  varve_options_set_ttl(options, 3600);
  varve_options_set_periodic_compaction_seconds(options, 7200);
  CHECK(varve_options_get_ttl(options) == 3600);
  CHECK(varve_options_get_periodic_compaction_seconds(options) == 7200);
  varve_options_destroy(options);
}

int main(void) {
  BeginTests();
  TEST(TestOperatorOfOnesOwn);
  TEST(TestOperatorThatFails);
  TEST(TestCallsOfBalboa);
  TEST(TestBuiltInOperators);
  TEST(TestBatchesAndFamilies);
  TEST(TestCompactionFilter);
  TEST(TestCompactionFilterFactory);
  TEST(TestCompactionsByAge);
  return EndTests();
}
