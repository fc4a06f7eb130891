/* Varve: a key-value storage engine. MIT licence, see LICENSE. */

/*
 * Goal: statistics, traces, logs and catalogs work from C as they do from C++.
 * Method: a program in C that uses each function and looks at what comes out.
 */

#include "test/c/check.h"

/* ---- Statistics ---- */

static void TestStatistics(void) {
  varve_statistics_t* const statistics =
      varve_statistics_create(varve_statistics_level_all);
  varve_options_t* const options = varve_options_create();
  varve_histogram_data_t histogram;
  char* text;
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_statistics(options, statistics);
  GOOD(db = varve_open(options, PathOf("statistics"), &error));
  FillNumbers(db, 100);
  GET(db, plain_read, "key000000", "value 0 of many");
  GET(db, plain_read, "none", NULL);
  CHECK(varve_statistics_get_ticker(statistics, "varve.number.keys.written",
                                    &error) == 100);
  GOOD(CHECK(varve_statistics_get_ticker(statistics, "varve.number.keys.read",
                                         &error) == 2));
  FAILS(varve_statistics_get_ticker(statistics, "none", &error), "NotFound: ");
  GOOD(varve_statistics_get_histogram(statistics, "varve.db.get.micros",
                                      &histogram, &error));
  CHECK(histogram.count == 2);
  CHECK(histogram.min <= histogram.average);
  CHECK(histogram.average <= histogram.max);
  FAILS(varve_statistics_get_histogram(statistics, "none", &histogram, &error),
        "NotFound: ");
  CHECK(histogram.count == 0);

  text = varve_statistics_get_string(statistics);
  CHECK(text != NULL);
  CHECK(strstr(text, "varve.number.keys.written COUNT : 100") != NULL);
  varve_free(text);
  text = varve_statistics_get_prometheus(statistics);
  CHECK(text != NULL && strstr(text, "# TYPE") != NULL);
  varve_free(text);

  varve_statistics_reset(statistics);
  CHECK(varve_statistics_get_ticker(statistics, "varve.number.keys.written",
                                    &error) == 0);
  varve_statistics_set_level(statistics, varve_statistics_level_disable_all);
  PUT(db, plain_write, "k", "v");
  GOOD(CHECK(varve_statistics_get_ticker(
                 statistics, "varve.number.keys.written", &error) == 0));
  varve_statistics_destroy(statistics); /* The database keeps them. */
  PUT(db, plain_write, "k", "v");
  varve_close(db);
  varve_options_destroy(options);
}

/* ---- Traces ---- */

static void TestTraceOfARequest(void) {
  varve_t* const db = OpenPlain("request");
  varve_trace_t* trace;
  varve_tracespan_t* span;
  char name[] = "load \"cart\"";
  char* json;
  PUT(db, plain_write, "k", "v");
  trace = varve_trace_begin("checkout");
  span = varve_tracespan_begin(name);
  memset(name, 'x', strlen(name)); /* It is kept. */
  GET(db, plain_read, "k", "v");
  varve_tracespan_end(span);
  json = varve_trace_end(trace);
  CHECK(json != NULL && json[0] == '[');
  CHECK(strstr(json, "\"parent\":0,\"name\":\"checkout\"") != NULL);
  CHECK(strstr(json, "\"parent\":1,\"name\":\"load \\\"cart\\\"\"") != NULL);
  CHECK(strstr(json, "\"parent\":2,") != NULL); /* The engine's own. */
  CHECK(strcmp(json + strlen(json) - 3, "}]\n") == 0);
  varve_free(json);
  /* A span of a thread that is not traced does nothing. */
  span = varve_tracespan_begin("nothing");
  varve_tracespan_end(span);
  varve_close(db);
}

static char* ReadWholeFile(const char* path) {
  FILE* const file = fopen(path, "rb");
  char* const text = malloc(1 << 20);
  size_t size;
  CHECK(file != NULL && text != NULL);
  size = fread(text, 1, (1 << 20) - 1, file);
  text[size] = '\0';
  fclose(file);
  return text;
}

static void TestTraceOfEverything(void) {
  varve_t* const db = OpenPlain("everything");
  int format;
  for (format = varve_trace_chrome; format <= varve_trace_otlp; ++format) {
    varve_traceoptions_t* const options = varve_traceoptions_create();
    char* text;
    varve_traceoptions_set_sampling(options, 1);
    varve_traceoptions_set_slower_than_us(options, 0);
    varve_traceoptions_set_short_steps(options, 1);
    GOOD(varve_trace_start(options, format, PathOf("trace"), &error));
    PUT(db, plain_write, "k", "v");
    GET(db, plain_read, "k", "v");
    GOOD(varve_trace_flush(&error));
    /* A refused start does not touch the file. */
    FAILS(varve_trace_start(options, format, PathOf("trace"), &error),
          "Busy: ");
    GET(db, plain_read, "k", "v");
    GOOD(varve_trace_stop(&error));
    varve_trace_stop(&error); /* Nothing is under way. */
    OK(error);
    text = ReadWholeFile(PathOf("trace"));
    CHECK(strstr(text, "\"name\":\"") != NULL);
    /* It is whole. */
    CHECK(strcmp(text + strlen(text) - 2, "}\n") == 0);
    free(text);

    BAD(varve_trace_start(options, 7, PathOf("trace"), &error));
    FAILS(
        varve_trace_start(options, format, PathOf("no/such/directory"), &error),
        "");
    varve_traceoptions_set_sampling(options, 2);
    BAD(varve_trace_start(options, format, PathOf("trace"), &error));
    text = ReadWholeFile(PathOf("trace"));
    CHECK(*text != '\0'); /* It is the trace from above. */
    free(text);
    varve_traceoptions_destroy(options);
  }
  varve_close(db);
}

/* ---- Catalogs ---- */

static void TestCatalog(void) {
  varve_options_t* const options = varve_options_create();
  varve_catalog_t* catalog;
  const char** names;
  size_t count = 7;
  varve_t* db;
  varve_t* same;
  BAD(CHECK(varve_catalog_open(options, PathOf("catalog"), &error) == NULL));
  varve_options_set_create_if_missing(options, 1);
  GOOD(catalog = varve_catalog_open(options, PathOf("catalog"), &error));
  varve_options_destroy(options);
  names = varve_catalog_list(catalog, &count);
  CHECK(names != NULL && count == 0);
  varve_free((void*)names);

  GOOD(varve_catalog_create_db(catalog, "Shard 1", &error));
  GOOD(varve_catalog_create_db(catalog, "accounts", &error));
  BAD(varve_catalog_create_db(catalog, "SHARD 1", &error));
  BAD(varve_catalog_create_db(catalog, "no/name", &error));
  names = varve_catalog_list(catalog, &count);
  CHECK(count == 2);
  CHECK(strcmp(names[0], "accounts") == 0 && strcmp(names[1], "shard 1") == 0);
  varve_free((void*)names);

  CHECK(varve_catalog_find(catalog, "none", &error) == NULL && error == NULL);
  BAD(CHECK(varve_catalog_find(catalog, "a/b", &error) == NULL));
  db = varve_catalog_find(catalog, "shard 1", &error);
  GOOD(same = varve_catalog_find(catalog, "SHARD 1", &error));
  PUT(db, plain_write, "k", "v");
  GET(same, plain_read, "k", "v");
  GOOD(CHECK(varve_close_checked(same, &error) == 1));
  FAILS(CHECK(varve_catalog_close(catalog, &error) == 0), "Busy: ");
  GET(db, plain_read, "k", "v");
  varve_close(db);

  GOOD(CHECK(varve_catalog_close_idle(catalog, 0, &error) > 0));
  db = varve_catalog_find(catalog, "Shard 1", &error); /* Opened again. */
  OK(error);
  GET(db, plain_read, "k", "v");
  varve_close(db);
  GOOD(varve_catalog_drop_db(catalog, "shard 1", &error));
  FAILS(varve_catalog_drop_db(catalog, "shard 1", &error), "NotFound: ");
  GOOD(CHECK(varve_catalog_close(catalog, &error) == 1));
}

/* ---- Logs ---- */

struct Lines {
  int lines;
  int destroyed;
};

static void CountLine(void* state, int level, const char* line, size_t length) {
  struct Lines* const lines = state;
  CHECK(level >= 0 && level <= 3);
  CHECK(strlen(line) == length);
  __atomic_fetch_add(&lines->lines, 1, __ATOMIC_RELAXED);
}

static void CountEnd(void* state) { ++((struct Lines*)state)->destroyed; }

static void TestLogger(void) {
  struct Lines lines = {0, 0};
  varve_logger_t* const logger =
      varve_logger_create(&lines, CountEnd, CountLine);
  varve_options_t* const options = varve_options_create();
  varve_t* db;
  varve_options_set_create_if_missing(options, 1);
  varve_options_set_info_log(options, logger);
  varve_logger_destroy(logger);
  GOOD(db = varve_open(options, PathOf("logged"), &error));
  varve_options_destroy(options);
  PUT(db, plain_write, "k", "v");
  CHECK(lines.destroyed == 0);
  varve_close(db);
  CHECK(__atomic_load_n(&lines.lines, __ATOMIC_RELAXED) > 0);
  CHECK(lines.destroyed == 1);
}

int main(void) {
  BeginTests();
  TEST(TestStatistics);
  TEST(TestTraceOfARequest);
  TEST(TestTraceOfEverything);
  TEST(TestCatalog);
  TEST(TestLogger);
  return EndTests();
}
