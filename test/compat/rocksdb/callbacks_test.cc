// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a program's comparator, merge operator, compaction filter, listener and
// logger are called as RocksDB calls them, and their states are destroyed once.
// Method: databases that use each of them.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "test/compat/rocksdb/database.h"

namespace rocksdb_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The states of the callbacks below count their destructions.
struct State {
  int destroyed = 0;
  std::vector<std::string> calls;
};

void Destroy(void* state) { ++static_cast<State*>(state)->destroyed; }

const char* Name(void* /*state*/) { return "test"; }

char* Copy(const std::string& text, size_t* size) {
  *size = text.size();
  auto* const copy = static_cast<char*>(malloc(text.size() + 1));
  memcpy(copy, text.data(), text.size());
  return copy;
}

// ---- Comparator ----

int CompareReversed(void* /*state*/, const char* a, size_t a_size,
                    const char* b, size_t b_size) {
  return std::string(b, b_size).compare(std::string(a, a_size));
}

TEST(RocksDbComparatorTest, OrdersKeys) {
  State state;
  rocksdb_comparator_t* const comparator =
      rocksdb_comparator_create(&state, Destroy, CompareReversed, Name);
  {
    Database database;
    rocksdb_options_set_comparator(database.options(), comparator);
    database.Open();
    for (const char* key : {"b", "a", "c"}) database.Put(key, "value");
    database.Flush();
    EXPECT_EQ(database.Scan(), "c=value b=value a=value ");
  }
  EXPECT_EQ(state.destroyed, 0);
  rocksdb_comparator_destroy(comparator);
  EXPECT_EQ(state.destroyed, 1);
}

int CompareNever(void* state, const char* /*a*/, size_t /*a_size*/,
                 const char* /*b*/, size_t /*b_size*/) {
  static_cast<State*>(state)->calls.push_back("compare");
  return 0;
}

TEST(RocksDbComparatorTest, IsNotCalledForOneKey) {
  State state;
  rocksdb_comparator_t* const comparator =
      rocksdb_comparator_create(&state, Destroy, CompareNever, Name);
  {
    Database database;
    rocksdb_options_set_comparator(database.options(), comparator);
    database.Open();
    database.Put("key", "value");
    database.Flush();
  }
  rocksdb_comparator_destroy(comparator);
  EXPECT_THAT(state.calls, ElementsAre());
}

// ---- Merge operators ----

// Appends operands, and notes whether there was a value.
char* FullMerge(void* state, const char* /*key*/, size_t /*key_length*/,
                const char* existing, size_t existing_length,
                const char* const* operands, const size_t* operand_lengths,
                int count, unsigned char* success, size_t* new_length) {
  std::string value =
      existing == nullptr ? "none:" : std::string(existing, existing_length);
  for (int i = 0; i < count; ++i) value.append(operands[i], operand_lengths[i]);
  static_cast<State*>(state)->calls.push_back("full");
  *success = 1;
  return Copy(value, new_length);
}

char* PartialMerge(void* state, const char* /*key*/, size_t /*key_length*/,
                   const char* const* operands, const size_t* operand_lengths,
                   int count, unsigned char* success, size_t* new_length) {
  std::string value;
  for (int i = 0; i < count; ++i) value.append(operands[i], operand_lengths[i]);
  static_cast<State*>(state)->calls.push_back("partial");
  *success = 1;
  return Copy(value, new_length);
}

char* FailFullMerge(void* /*state*/, const char* /*key*/, size_t /*key_length*/,
                    const char* /*existing*/, size_t /*existing_length*/,
                    const char* const* /*operands*/,
                    const size_t* /*operand_lengths*/, int /*count*/,
                    unsigned char* success, size_t* new_length) {
  *success = 0;
  *new_length = 0;
  return nullptr;
}

void DeleteValue(void* state, const char* value, size_t /*length*/) {
  static_cast<State*>(state)->calls.push_back("delete");
  free(const_cast<char*>(value));
}

TEST(RocksDbMergeOperatorTest, MergesAndDeletesItsValues) {
  State state;
  {
    Database database;
    rocksdb_options_set_merge_operator(
        database.options(),
        rocksdb_mergeoperator_create(&state, Destroy, FullMerge, PartialMerge,
                                     DeleteValue, Name));
    database.Open();
    database.Merge("without", "a");
    database.Merge("without", "b");
    database.Put("empty", "");
    database.Merge("empty", "a");
    EXPECT_EQ(database.Get("without"), "none:ab");
    EXPECT_EQ(database.Get("empty"), "a");
    database.Flush();
    database.Compact();
    EXPECT_EQ(database.Get("without"), "none:ab");
  }
  EXPECT_EQ(state.destroyed, 1);
  EXPECT_THAT(state.calls, testing::Contains("full"));
  EXPECT_EQ(std::count(state.calls.begin(), state.calls.end(), "delete"),
            static_cast<ptrdiff_t>(state.calls.size() / 2));
}

TEST(RocksDbMergeOperatorTest, ReportsAFailureAsRocksDbDoes) {
  State state;
  {
    Database database;
    rocksdb_options_set_merge_operator(
        database.options(),
        rocksdb_mergeoperator_create(&state, Destroy, FailFullMerge,
                                     PartialMerge, nullptr, Name));
    database.Open();
    database.Merge("key", "a");
    EXPECT_THAT(database.Get("key"), HasSubstr("Merge operator failed"));
  }
  EXPECT_EQ(state.destroyed, 1);
}

TEST(RocksDbMergeOperatorTest, AddsNumbers) {
  Database database;
  rocksdb_options_set_uint64add_merge_operator(database.options());
  database.Open();
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  database.Merge("key", one);
  database.Merge("key", one);
  EXPECT_EQ(database.Get("key"), std::string("\2\0\0\0\0\0\0\0", 8));
}

// ---- Compaction filters ----

// Removes the values "remove", and changes the values "change".
unsigned char Filter(void* /*state*/, int /*level*/, const char* /*key*/,
                     size_t /*key_length*/, const char* value,
                     size_t value_length, char** new_value, size_t* new_length,
                     unsigned char* changed) {
  static char text[] = "changed";
  const std::string existing(value, value_length);
  if (existing == "remove") return 1;
  if (existing == "change") {
    *new_value = text;
    *new_length = sizeof(text) - 1;
    *changed = 1;
  }
  return 0;
}

void ExpectFiltered(Database* database) {
  database->Put("a", "keep");
  database->Put("b", "remove");
  database->Put("c", "change");
  database->Flush();
  database->Compact();
  EXPECT_EQ(database->Get("a"), "keep");
  EXPECT_EQ(database->Get("b"), "null");
  EXPECT_EQ(database->Get("c"), "changed");
}

TEST(RocksDbCompactionFilterTest, FiltersCompactions) {
  State state;
  rocksdb_compactionfilter_t* const filter =
      rocksdb_compactionfilter_create(&state, Destroy, Filter, Name);
  rocksdb_compactionfilter_set_ignore_snapshots(filter, 1);
  {
    Database database;
    rocksdb_options_set_compaction_filter(database.options(), filter);
    database.Open();
    ExpectFiltered(&database);
  }
  EXPECT_EQ(state.destroyed, 0);
  rocksdb_compactionfilter_destroy(filter);
  EXPECT_EQ(state.destroyed, 1);
}

struct FactoryState : State {
  State filters;
  int created = 0;
  bool is_manual = false;
};

rocksdb_compactionfilter_t* CreateFilter(
    void* state, rocksdb_compactionfiltercontext_t* context) {
  auto* const factory = static_cast<FactoryState*>(state);
  ++factory->created;
  factory->is_manual |=
      rocksdb_compactionfiltercontext_is_manual_compaction(context) != 0;
  static_cast<void>(
      rocksdb_compactionfiltercontext_is_full_compaction(context));
  return rocksdb_compactionfilter_create(&factory->filters, Destroy, Filter,
                                         Name);
}

TEST(RocksDbCompactionFilterTest, FactoryCreatesAFilterForEachJob) {
  FactoryState state;
  {
    Database database;
    rocksdb_options_set_compaction_filter_factory(
        database.options(),
        rocksdb_compactionfilterfactory_create(static_cast<State*>(&state),
                                               Destroy, CreateFilter, Name));
    database.Open();
    ExpectFiltered(&database);
  }
  EXPECT_EQ(state.destroyed, 1);
  EXPECT_GT(state.created, 0);
  EXPECT_EQ(state.filters.destroyed, state.created);
  EXPECT_TRUE(state.is_manual);
}

// ---- Filter policies ----

TEST(RocksDbFilterPolicyTest, AllKindsFilterReads) {
  const std::vector<rocksdb_filterpolicy_t*> policies = {
      rocksdb_filterpolicy_create_bloom(10),
      rocksdb_filterpolicy_create_bloom_full(10),
      rocksdb_filterpolicy_create_ribbon(10),
      rocksdb_filterpolicy_create_ribbon_hybrid(10, 1),
      rocksdb_filterpolicy_create_bloom(0)};
  for (rocksdb_filterpolicy_t* const policy : policies) {
    Database database;
    rocksdb_block_based_table_options_t* const table =
        rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_filter_policy(table, policy);
    rocksdb_options_set_block_based_table_factory(database.options(), table);
    rocksdb_options_enable_statistics(database.options());
    database.Open();
    for (int i = 0; i < 100; ++i) database.Put(std::to_string(2 * i), "v");
    database.Flush();
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(database.Get(std::to_string(i)), i % 2 == 0 ? "v" : "null");
    }
    const uint64_t useful = rocksdb_options_statistics_get_ticker_count(
        database.options(), 35);  // BLOOM_FILTER_USEFUL
    if (policy == policies.back()) {
      EXPECT_EQ(useful, 0U);
    } else {
      EXPECT_GT(useful, 80U);
    }
    rocksdb_block_based_options_destroy(table);
  }
  rocksdb_filterpolicy_destroy(rocksdb_filterpolicy_create_bloom(10));
}

// ---- Listeners ----

struct ListenerState : State {
  uint64_t sequence = 0;  // Of the database, at the last event.
  std::string flushed_file;
  std::string family;
  uint64_t file_number = 0;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  uint64_t output_number = 0;
  int output_info_level = -1;
  int output_level = -1;
  uint32_t reason = 0;
  bool is_manual = false;
};

ListenerState* Listener(void* state) {
  return static_cast<ListenerState*>(static_cast<State*>(state));
}

void OnFlushBegin(void* state, rocksdb_t* /*db*/,
                  const rocksdb_flushjobinfo_t* /*info*/) {
  Listener(state)->calls.push_back("flush begins");
}

void OnFlushCompleted(void* state, rocksdb_t* db,
                      const rocksdb_flushjobinfo_t* info) {
  ListenerState* const listener = Listener(state);
  listener->calls.push_back("flush ends");
  listener->sequence = rocksdb_get_latest_sequence_number(db);
  size_t size = 0;
  const char* text = rocksdb_flushjobinfo_file_path(info, &size);
  listener->flushed_file = std::string(text, size);
  text = rocksdb_flushjobinfo_cf_name(info, &size);
  listener->family = std::string(text, size);
  listener->file_number = rocksdb_flushjobinfo_file_number(info);
  EXPECT_EQ(rocksdb_flushjobinfo_cf_id(info), 0U);
}

void OnCompactionBegin(void* state, rocksdb_t* /*db*/,
                       const rocksdb_compactionjobinfo_t* info) {
  Listener(state)->calls.push_back("compaction begins");
  EXPECT_EQ(rocksdb_compactionjobinfo_output_files_count(info), 0U);
}

void OnCompactionCompleted(void* state, rocksdb_t* db,
                           const rocksdb_compactionjobinfo_t* info) {
  ListenerState* const listener = Listener(state);
  listener->calls.push_back("compaction ends");
  EXPECT_EQ(rocksdb_get_latest_sequence_number(db), listener->sequence);
  Error error;
  rocksdb_compactionjobinfo_status(info, error);
  EXPECT_EQ(error.Take(), "OK");
  size_t size = 0;
  for (size_t i = 0; i < rocksdb_compactionjobinfo_input_files_count(info);
       ++i) {
    const char* const file =
        rocksdb_compactionjobinfo_input_file_at(info, i, &size);
    listener->inputs.emplace_back(file, size);
  }
  for (size_t i = 0; i < rocksdb_compactionjobinfo_output_files_count(info);
       ++i) {
    const char* const file =
        rocksdb_compactionjobinfo_output_file_at(info, i, &size);
    listener->outputs.emplace_back(file, size);
  }
  const rocksdb_compaction_file_info_t* const file =
      rocksdb_compactionjobinfo_output_file_info_at(info, 0);
  listener->output_number = rocksdb_compaction_file_info_file_number(file);
  listener->output_info_level = rocksdb_compaction_file_info_level(file);
  listener->output_level = rocksdb_compactionjobinfo_output_level(info);
  listener->reason = rocksdb_compactionjobinfo_compaction_reason(info);
  const rocksdb_compaction_job_stats_t* const stats =
      rocksdb_compactionjobinfo_stats(info);
  listener->is_manual =
      rocksdb_compaction_job_stats_is_manual_compaction(stats) != 0;
  EXPECT_EQ(rocksdb_compaction_job_stats_num_input_files(stats),
            rocksdb_compactionjobinfo_num_input_files(info));
  EXPECT_EQ(rocksdb_compaction_job_stats_num_output_files(stats),
            rocksdb_compactionjobinfo_output_file_infos_count(info));
  EXPECT_GT(rocksdb_compactionjobinfo_total_input_bytes(info), 0U);
  EXPECT_GT(rocksdb_compaction_job_stats_total_output_bytes(stats), 0U);
}

// RocksDB requires all callbacks; these events do not happen here.
void OnSubcompaction(void* /*state*/,
                     const rocksdb_subcompactionjobinfo_t* /*info*/) {}
void OnIngested(void* /*state*/, rocksdb_t* /*db*/,
                const rocksdb_externalfileingestioninfo_t* /*info*/) {}
void OnError(void* /*state*/, uint32_t /*reason*/,
             rocksdb_status_ptr_t* /*status*/) {}
void OnStall(void* /*state*/, const rocksdb_writestallinfo_t* /*info*/) {}
void OnSealed(void* /*state*/, const rocksdb_memtableinfo_t* /*info*/) {}

TEST(RocksDbListenerTest, IsToldOfFlushesAndCompactions) {
  ListenerState state;
  {
    Database database;
    rocksdb_options_set_disable_auto_compactions(database.options(), 1);
    rocksdb_options_add_eventlistener(
        database.options(),
        rocksdb_eventlistener_create(static_cast<State*>(&state), Destroy,
                                     OnFlushBegin, OnFlushCompleted,
                                     OnCompactionBegin, OnCompactionCompleted,
                                     OnSubcompaction, OnSubcompaction,
                                     OnIngested, OnError, OnStall, OnSealed));
    database.Open();
    for (int i = 0; i < 2; ++i) {
      database.Put("a", "value");
      database.Put("b", "value");
      database.Flush();
    }
    EXPECT_EQ(state.sequence, 4U);
    EXPECT_EQ(state.family, "default");
    char name[32];
    snprintf(name, sizeof(name), "/%06llu.sst",
             static_cast<unsigned long long>(state.file_number));  // NOLINT
    EXPECT_EQ(state.flushed_file, database.path() + name);
    database.Compact();
    EXPECT_THAT(
        state.calls,
        ElementsAre("flush begins", "flush ends", "flush begins", "flush ends",
                    "compaction begins", "compaction ends"));
    EXPECT_EQ(state.inputs.size(), 2U);
    EXPECT_THAT(state.inputs, testing::Contains(state.flushed_file));
    ASSERT_EQ(state.outputs.size(), 1U);
    EXPECT_THAT(state.outputs[0],
                HasSubstr(std::to_string(state.output_number) + ".sst"));
    EXPECT_EQ(state.output_info_level, state.output_level);
    EXPECT_EQ(state.reason, 9U);  // Manual.
    EXPECT_TRUE(state.is_manual);
  }
  EXPECT_EQ(state.destroyed, 1);
}

TEST(RocksDbListenerTest, CompactionInfosOfAProgramAreEmpty) {
  rocksdb_compactionjobinfo_t* const info = rocksdb_compactionjobinfo_create();
  size_t size = 1;
  EXPECT_STREQ(rocksdb_compactionjobinfo_cf_name(info, &size), "");
  EXPECT_EQ(size, 0U);
  EXPECT_EQ(rocksdb_compactionjobinfo_input_file_at(info, 0, &size), nullptr);
  EXPECT_EQ(rocksdb_compactionjobinfo_output_file_info_at(info, 0), nullptr);
  Error error;
  rocksdb_compactionjobinfo_status(info, error);
  EXPECT_EQ(error.Take(), "OK");
  rocksdb_compactionjobinfo_destroy(info);
}

// ---- Loggers ----

struct LogState {
  std::vector<std::string> lines;
  unsigned lowest_level = 100;
};

void LogLine(void* state, unsigned level, char* message, size_t length) {
  auto* const log = static_cast<LogState*>(state);
  log->lines.emplace_back(message, length);
  log->lowest_level = std::min(log->lowest_level, level);
}

TEST(RocksDbLoggerTest, CallsTheProgramFromItsLevelOn) {
  for (const int level : {1, 3}) {
    LogState state;
    {
      rocksdb_logger_t* const logger =
          rocksdb_logger_create_callback_logger(level, LogLine, &state);
      Database database;
      rocksdb_options_set_info_log(database.options(), logger);
      rocksdb_logger_destroy(logger);
      database.Open();
      database.Close();
    }
    if (level == 1) {
      EXPECT_EQ(state.lowest_level, 1U);
      EXPECT_FALSE(state.lines.empty());
    } else {
      EXPECT_THAT(state.lines, ElementsAre());
    }
  }
}

TEST(RocksDbLoggerTest, WritesToStderr) {
  testing::internal::CaptureStderr();
  {
    rocksdb_logger_t* const logger =
        rocksdb_logger_create_stderr_logger(1, "prefix ");
    Database database;
    rocksdb_options_set_info_log(database.options(), logger);
    rocksdb_logger_destroy(logger);
    database.Open();
  }
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, testing::ContainsRegex("[0-9]{4}/[0-9/:.-]+ [0-9a-f]+ "
                                             "prefix "));
}

// ---- Wrong calls ----

TEST(RocksDbCallbacksTest, MissingCallbacksCreateNothing) {
  State state;
  EXPECT_EQ(rocksdb_comparator_create(&state, Destroy, nullptr, Name), nullptr);
  EXPECT_EQ(rocksdb_mergeoperator_create(&state, Destroy, nullptr, PartialMerge,
                                         nullptr, Name),
            nullptr);
  EXPECT_EQ(rocksdb_compactionfilter_create(&state, Destroy, nullptr, Name),
            nullptr);
  EXPECT_EQ(
      rocksdb_compactionfilterfactory_create(&state, Destroy, nullptr, Name),
      nullptr);
  EXPECT_EQ(state.destroyed, 0);
}

}  // namespace
}  // namespace rocksdb_test
