// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/rocksdb/flags.h"

#include <gflags/gflags.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "db/options/option_table.h"
#include "tools/db_bench/workload.h"

namespace varve {

namespace {

// RocksDB's names of flags that set an option of another name. With `text`, the
// flag is a boolean, and sets the option to that text.
constexpr struct {
  const char* flag;
  const char* option;
  const char* text = nullptr;
} kRenamed[] = {
    {"partition_index", "index_type", "kTwoLevelIndexSearch"},
    {"use_hash_search", "index_type", "kHashSearch"},
    {"ttl_seconds", "ttl"},
    {"wal_ttl_seconds", "WAL_ttl_seconds"},
    {"wal_size_limit_MB", "WAL_size_limit_MB"},
    {"memtable_bloom_size_ratio", "memtable_prefix_bloom_size_ratio"},
    {"rate_limiter_bytes_per_sec", "rate_limiter"},
};

// Flags of db_bench.cc that set an option. With --options_file, those that were
// given are applied to the file's options.
constexpr struct {
  const char* flag;
  const char* option;
  const char* before;  // In front of the value.
} kDefined[] = {
    {"write_buffer_size", "write_buffer_size", ""},
    {"max_write_buffer_number", "max_write_buffer_number", ""},
    {"subcompactions", "max_subcompactions", ""},
    {"open_files", "max_open_files", ""},
    {"target_file_size_base", "target_file_size_base", ""},
    {"use_direct_reads", "use_direct_reads", ""},
    {"mmap_read", "allow_mmap_reads", ""},
    {"cache_index_and_filter_blocks", "cache_index_and_filter_blocks", ""},
    {"metadata_block_size", "metadata_block_size", ""},
    {"manual_wal_flush", "manual_wal_flush", ""},
    {"block_size", "block_size", ""},
    {"max_background_jobs", "max_background_jobs", ""},
    {"compression_type", "compression", ""},
    {"wal_write", "wal_write", ""},
    {"bloom_bits", "filter_policy", "bloomfilter:"},
};

// Flags of RocksDB's db_bench that db_bench.cc defines, of which some have the
// name of an option. The names that are options alone follow from the table of
// options, so they are not here.
constexpr const char* kDefinedNames =
    "auto_prefix_mode backup_dir backup_rate_limit batch_size "
    "benchmark_read_rate_limit "
    "benchmark_write_rate_limit benchmarks "
    "block_size bloom_bits cache_index_and_filter_blocks cache_size "
    "compression_ratio compression_type confidence_interval_only "
    "cost_write_buffer_to_cache db "
    "db_write_buffer_size deletepercent deletes disable_wal "
    "disposable_entries_batch_size disposable_entries_delete_delay "
    "disposable_entries_value_size "
    "duration expand_range_tombstones expire_style finish_after_writes "
    "histogram ingest_external_file_batch_size "
    "ingest_external_file_num_batches iter_k iter_sigma iter_theta "
    "key_dist_a key_dist_b key_id_range key_size keyrange_dist_a "
    "keyrange_dist_b "
    "keyrange_dist_c keyrange_dist_d keyrange_num keys_per_prefix "
    "manual_wal_flush max_background_compactions max_background_flushes "
    "max_background_jobs max_num_range_tombstones max_scan_distance "
    "max_write_buffer_number merge_keys "
    "merge_operator mergereadpercent metadata_block_size min_level_to_compress "
    "mix_get_ratio mix_max_scan_len mix_max_value_size mix_put_ratio "
    "mix_seek_ratio mmap_read mmap_write multiread_stride num "
    "num_column_families num_deletion_threads "
    "numdistinct open_files optimistic_transaction_db options_file "
    "overwrite_probability overwrite_window_size "
    "partition_index_and_filters persistent_entries_batch_size "
    "persistent_entries_value_size prefix_same_as_start prefix_size "
    "progress_reports range_tombstone_width read_random_exp_range "
    "readahead_size readonly reads readwritepercent "
    "report_file report_interval_seconds report_open_timing restore_dir "
    "restore_rate_limit "
    "reverse_iterator same_value_percentage seed seek_missing_prefix "
    "seek_nexts seek_nexts_to_delete sine_a sine_b sine_c sine_d "
    "sine_mix_rate sine_mix_rate_interval_milliseconds sine_mix_rate_noise "
    "sine_write_rate sine_write_rate_interval_milliseconds "
    "statistics stats_interval stats_interval_seconds stats_level "
    "stats_per_interval stddev subcompactions sync target_file_size_base "
    "threads time_range "
    "total_order_seek transaction_db transaction_lock_timeout "
    "transaction_set_snapshot transaction_sets transaction_sleep truth_db "
    "use_direct_reads use_existing_db use_existing_keys use_keep_filter "
    "use_single_deletes use_stderr_info_logger use_tailing_iterator value_k "
    "value_sigma value_size value_size_distribution_type value_size_max "
    "value_size_min value_theta verify_checksum write_buffer_size writes "
    "writes_before_delete_range writes_per_range_tombstone";

enum class Lack : uint8_t {
  // The flag tunes how the engine does its work. The run does and stores the
  // same without it.
  kAccepted,
  // Without the feature another workload would run, or other files be written.
  kRefused,
};

// Flags of features that Varve lacks. Each is NAME=VALUE with the value that
// asks for nothing, which is taken without a word. "*" means that each value
// does, since the flag only qualifies one that is refused, or that RocksDB
// ignores it, too. A value of true or false makes it a flag of that type.
constexpr struct {
  Lack lack;
  const char* reason;
  const char* flags;
} kLacking[] = {
    // ---- Compaction ----
    {Lack::kRefused, "Varve's compaction is leveled only",
     "compaction_style=0 universal_size_ratio=* universal_min_merge_width=* "
     "universal_max_merge_width=* universal_max_size_amplification_percent=* "
     "universal_compression_size_percent=* universal_max_read_amp=* "
     "universal_allow_trivial_move=true|* universal_incremental=true|* "
     "universal_reduce_file_locking=true|* universal_stop_style=* "
     "fifo_compaction_max_table_files_size_mb=* "
     "fifo_compaction_allow_compaction=true|* fifo_compaction_ttl=* "
     "fifo_age_for_warm=* fifo_compaction_max_data_files_size_mb=* "
     "fifo_compaction_use_kv_ratio_compaction=true|*"},
    {Lack::kAccepted, "Varve picks the tables of a compaction by itself",
     "compaction_pri=* max_compaction_trigger_wakeup_seconds=* "
     "read_triggered_compaction_threshold=0"},
    {Lack::kAccepted,
     "Varve starts as many threads as max_background_jobs says",
     "num_bottom_pri_threads=0 num_high_pri_threads=0 num_low_pri_threads=0"},
    {Lack::kAccepted, "compactions choose their readahead by themselves",
     "compaction_readahead_size=* compaction_fadvice=*"},
    {Lack::kAccepted, "each level has the same table size and fanout",
     "target_file_size_multiplier=1 "
     "max_bytes_for_level_multiplier_additional="},
    {Lack::kAccepted, "background work runs at the program's own priority",
     "enable_io_prio=false enable_cpu_prio=false"},
    {Lack::kAccepted,
     "the rate limiter has one setting, for writes of background work",
     "rate_limiter_refill_period_us=100000 rate_limiter_auto_tuned=false "
     "rate_limiter_single_burst_bytes=0 rate_limit_bg_reads=false "
     "rate_limit_user_ops=false rate_limit_auto_wal_flush=false "
     "delayed_write_rate=*"},
    {Lack::kRefused, "Varve keeps no times of keys for the last level",
     "preclude_last_level_data_seconds=0 preserve_internal_time_seconds=0"},
    {Lack::kRefused, "Varve has no remote compaction",
     "openandcompact_allow_resumption=false "
     "openandcompact_test_cancel_on_odd=false "
     "openandcompact_cancel_after_millseconds=*"},

    // ---- Memory ----
    {Lack::kAccepted, "Varve has one memtable, a skip list that all write to",
     "memtablerep=skip_list skip_list_lookahead=0 hash_bucket_count=* "
     "allow_concurrent_memtable_write=true inplace_update_support=false "
     "inplace_update_num_locks=* memtable_insert_with_hint_prefix_size=0 "
     "memtable_whole_key_filtering=false memtable_use_huge_page=false "
     "memtable_batch_lookup_optimization=false arena_block_size=* "
     "experimental_mempurge_threshold=0 paranoid_memory_checks=false "
     "memtable_verify_per_key_checksum_on_seek=false "
     "memtable_op_scan_flush_trigger=0 min_tombstones_for_range_conversion=0"},
    {Lack::kAccepted, "Varve flushes each memtable as soon as it is full",
     "min_write_buffer_number_to_merge=1 max_write_buffer_number_to_maintain=0 "
     "max_write_buffer_size_to_maintain=0"},
    {Lack::kAccepted, "Varve's block cache has no such setting",
     "cache_numshardbits=-1 cache_high_pri_pool_ratio=0 "
     "cache_low_pri_pool_ratio=0 cache_type=* "
     "pin_l0_filter_and_index_blocks_in_cache=false "
     "pin_top_level_index_and_filter=true|* "
     "use_cache_jemalloc_no_dump_allocator=false "
     "use_cache_memkind_kmem_allocator=false uncache_aggressiveness=0 "
     "charge_compression_dictionary_building_buffer=false "
     "charge_filter_construction=false charge_table_reader=false "
     "charge_file_metadata=false charge_blob_cache=false "
     "table_cache_numshardbits=*"},
    {Lack::kRefused, "Varve has no cache beside the block cache",
     "row_cache_size=0 compressed_cache_size=-1 simcache_size=-1 "
     "use_compressed_secondary_cache=false use_tiered_cache=false "
     "compressed_secondary_cache_size=* "
     "compressed_secondary_cache_numshardbits=* "
     "compressed_secondary_cache_high_pri_pool_ratio=* "
     "compressed_secondary_cache_low_pri_pool_ratio=* "
     "compressed_secondary_cache_compression_type=* "
     "compressed_secondary_cache_compression_level=* "
     "compressed_secondary_cache_compress_format_version=* "
     "tiered_adm_policy=* secondary_cache_uri= cache_uri= read_cache_path= "
     "read_cache_size=* read_cache_direct_write=true|* "
     "read_cache_direct_read=true|*"},
    {Lack::kAccepted, "flushes do not fill Varve's block cache",
     "prepopulate_block_cache=0"},

    // ---- Tables ----
    {Lack::kRefused, "Varve writes block-based tables only",
     "use_plain_table=false use_cuckoo_table=false cuckoo_hash_ratio=* "
     "identity_as_first_hash=true|*"},
    {Lack::kRefused, "Varve writes tables of one form (docs/format.md)",
     "format_version=5 checksum_type=4 index_block_restart_interval=1 "
     "enable_index_compression=true block_align=false "
     "super_block_alignment_size=0 "
     "super_block_alignment_space_overhead_ratio=* "
     "separate_key_value_in_data_block=false use_data_block_hash_index=false "
     "data_block_hash_table_util_ratio=* index_shortening_mode=* "
     "index_with_first_key=false use_trie_index=false "
     "decouple_partitioned_filters=false "
     "use_ribbon_filter=false file_checksum=false"},
    {Lack::kAccepted, "Varve searches the blocks of an index in its own way",
     "index_block_search_type=* uniform_cv_threshold=*"},
    {Lack::kAccepted, "Varve's filters have no such setting",
     "bloom_locality=0 optimize_filters_for_memory=true|* "
     "optimize_filters_for_hits=false"},
    {Lack::kRefused, "Varve compresses without a dictionary",
     "compression_max_dict_bytes=0 compression_zstd_max_train_bytes=* "
     "compression_max_dict_buffer_bytes=* "
     "compression_use_zstd_dict_trainer=true|*"},
    {Lack::kRefused, "Varve has no other compressors than --compression_type",
     "compression_manager=none"},
    {Lack::kAccepted, "a table is compressed by the thread that writes it",
     "compression_parallel_threads=1 sample_for_compression=0 "
     "verify_compression=false"},
    {Lack::kAccepted, "reads are not counted by block",
     "read_amp_bytes_per_bit=0"},
    {Lack::kRefused, "Varve has no blob files",
     "use_blob_db=false enable_blob_files=false enable_blob_direct_write=false "
     "blob_db_enable_gc=true|* blob_db_gc_cutoff=* blob_db_is_fifo=true|* "
     "blob_db_min_blob_size=* blob_db_bytes_per_sync=* "
     "blob_db_compression_type=* blob_db_max_db_size=* "
     "blob_db_max_ttl_range=* blob_db_ttl_range_secs=* blob_db_file_size=* "
     "blob_direct_write_partitions=* min_blob_size=* blob_file_size=* "
     "blob_compression_type=* enable_blob_garbage_collection=true|* "
     "blob_garbage_collection_age_cutoff=* "
     "blob_garbage_collection_force_threshold=* "
     "blob_compaction_readahead_size=* blob_file_starting_level=* "
     "use_blob_cache=true|* use_shared_block_and_blob_cache=true|* "
     "blob_cache_size=* blob_cache_numshardbits=* prepopulate_blob_cache=*"},
    {Lack::kRefused, "Varve has no entities with columns",
     "embedded_blob_min_size=* num_wide_columns=* num_short_wide_columns=*"},

    // ---- Files ----
    {Lack::kRefused, "Varve keeps logs in the database's directory",
     "wal_dir="},
    {Lack::kRefused, "Varve does not compress logs", "wal_compression=none"},
    {Lack::kAccepted, "flushes and compactions use the page cache",
     "use_direct_io_for_flush_and_compaction=false "
     "use_direct_io_for_compaction_reads=false"},
    {Lack::kAccepted, "Varve reads and writes files in its own way",
     "advise_random_on_open=true|* random_access_max_buffer_size=* "
     "writable_file_max_buffer_size=* log_readahead_size=0 use_fsync=false "
     "file_opening_threads=* open_files_async=false io_uring_enabled=true "
     "async_io=false optimize_multiget_for_io=true|* multiread_batched=true "
     "initial_auto_readahead_size=* max_auto_readahead_size=* "
     "num_file_reads_for_auto_readahead=* auto_readahead_size=false "
     "adaptive_readahead=false async_wal_precreate=false"},
    {Lack::kRefused, "db_bench has the system's files only",
     "env_uri= fs_uri= simulate_hybrid_fs_file= "
     "simulate_hybrid_hdd_multipliers=* simulate_hdd=false "
     "fault_injection_read_after_reads=0"},
    {Lack::kAccepted, "Varve's MANIFEST has no such setting",
     "max_manifest_file_size=* max_manifest_space_amp_pct=* "
     "verify_manifest_content_on_close=false "
     "skip_stats_update_on_db_open=false avoid_flush_during_recovery=false"},
    {Lack::kRefused, "Varve does not note logs in the MANIFEST",
     "track_and_verify_wals_in_manifest=false track_and_verify_wals=false"},
    {Lack::kAccepted, "Varve always checks what it writes and reads",
     "force_consistency_checks=true check_flush_compaction_key_order=true "
     "write_batch_protection_bytes_per_key=0 "
     "memtable_protection_bytes_per_key=0 block_protection_bytes_per_key=0"},

    // ---- Writes ----
    {Lack::kAccepted, "Varve has one way to write, with commit groups",
     "enable_pipelined_write=true|* unordered_write=false "
     "enable_write_thread_adaptive_yield=true|* write_thread_max_yield_usec=* "
     "write_thread_slow_yield_usec=* use_adaptive_mutex=true|* "
     "strict_max_successive_merges=false"},
    {Lack::kRefused, "keys have no timestamps",
     "user_timestamp_size=0 "
     "read_with_latest_user_timestamp=true|*"},

    // ---- The workload ----
    {Lack::kRefused, "db_bench runs on one database", "num_multi_db=0"},
    {Lack::kRefused, "the default family's keys come in turn with the others'",
     "num_hot_column_families=0 column_family_distribution="},
    {Lack::kRefused, "keys are compared as bytes",
     "use_uint64_comparator=false"},
    {Lack::kAccepted, "iterators see one state of the database as it is",
     "explicit_snapshot=false auto_refresh_iterator_with_snapshot=false"},
    {Lack::kAccepted, "the clock is read every 64 operations",
     "ops_between_duration_checks=*"},
    {Lack::kAccepted, "threads run where the system puts them",
     "enable_numa=false"},
    {Lack::kRefused, "the benchmark of this flag is missing",
     "multiscan_size=* multiscan_stride=* use_multiscan=true|* "
     "multiscan_coalesce_threshold=* multiscan_use_async_io=true|* "
     "multiscan_max_prefetch_size=* io_dispatcher_max_prefetch_memory_bytes=* "
     "coro_jobs_per_thread=* "
     "trace_replay_fast_forward=* trace_replay_threads=*"},
    {Lack::kAccepted, "an ingestion opens and reads tables in its own way",
     "ingest_external_file_file_opening_threads=* "
     "ingest_external_file_use_file_info=false "
     "ingest_external_file_fill_cache=true|* "
     "ingest_external_file_prefetch_lmax_index_and_filter_blocks=true|*"},
    {Lack::kRefused, "db_bench opens the database itself, as the one writer",
     "use_secondary_db=false secondary_path=* secondary_update_interval=* "
     "open_as_follower=false leader_path=*"},
    {Lack::kRefused, "Varve does not record operations to replay",
     "trace_file= block_cache_trace_file= "
     "block_cache_trace_sampling_frequency=* "
     "block_cache_trace_max_trace_file_size_in_bytes=*"},

    // ---- Reports ----
    {Lack::kAccepted, "Varve has no such report",
     "thread_status_per_interval=0 "
     "perf_level=* print_malloc_stats=false dump_malloc_stats=true "
     "show_table_properties=false report_file_operations=false "
     "report_bg_io_stats=false stats_dump_period_sec=* "
     "stats_persist_period_sec=* stats_history_buffer_size=* slow_usecs=* "
     "statistics_string= build_info=false allow_data_in_errors=false "
     "fatal_shutdown_watchdog_seconds=* "
     "tolerate_io_errors_for_remote_dbs=false"},
    {Lack::kRefused, "Varve keeps no history of statistics",
     "persist_stats_to_disk=false"},
    {Lack::kAccepted, "RocksDB ignores it, too",
     "mix_accesses=* delete_obsolete_files_period_micros=* "
     "disable_seek_compaction=*"},
};

// Benchmarks of RocksDB's db_bench that Varve's lacks.
constexpr struct {
  const char* reason;
  const char* names;
} kLackingBenchmarks[] = {
    {"the shape of the levels cannot be given",
     "fillseqdeterministic filluniquerandomdeterministic"},
    {"Varve has no cache of rows", "readtorowcache"},
    {"Varve has no entities with columns, nor blob files",
     "readrandomentity multireadentity fillembeddedentity fillembeddedblob"},
    {"Varve has no coroutines", "readrandomcoroutine multireadrandomcoroutine"},
    {"Varve has no scans of several ranges at once",
     "multiscan multiscanrandom"},
    {"Varve records no operations to replay", "replay"},
    {"Varve has no such report",
     "block_cache_entry_stats cache_report_problems stats_history "
     "approximatememtablestats"},
    {"Varve's tables have no checksum of the whole file",
     "verifyfilechecksums"},
    {"Varve has no remote compaction", "openandcompact"},
};

constexpr char kOurFile[] = "tools/db_bench/rocksdb/flags.cc";

// Calls visit(name, neutral) for each word NAME=NEUTRAL.
template <typename Visit>
void ForEachFlag(std::string_view words, Visit visit) {
  while (!words.empty()) {
    const size_t space = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, space);
    words.remove_prefix(std::min(space + 1, words.size()));
    const size_t equals = std::min(word.find('='), word.size());
    visit(std::string(word.substr(0, equals)),
          std::string(word.substr(std::min(equals + 1, word.size()))));
  }
}

bool IsDefined(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(name.c_str(), &info);
}

// The names of flags in the program's arguments.
std::set<std::string, std::less<>>& Named() {
  static std::set<std::string, std::less<>> names;
  return names;
}

// The flags library knows only whether a value differs from the default.
bool IsGiven(const gflags::CommandLineFlagInfo& flag) {
  return !flag.is_default || Named().contains(flag.name) ||
         Named().contains("no" + flag.name);
}

// Registers a flag, unless there is one of this name. The library keeps
// pointers to all of it, so nothing of it is ever freed.
template <typename T>
void Register(const std::string& name, T value, const std::string& help) {
  if (IsDefined(name)) return;
  struct Stored {
    std::string name;
    std::string help;
    T value;
    T default_value;
  };
  static std::deque<Stored>* const all = new std::deque<Stored>;
  Stored& flag = all->emplace_back(Stored{name, help, value, value});
  gflags::FlagRegisterer(flag.name.c_str(), flag.help.c_str(), kOurFile,
                         &flag.value, &flag.default_value);
}

void RegisterOption(const std::string& flag, const OptionRow& row) {
  const std::string help = std::string("Sets the option ") + row.name;
  if (std::holds_alternative<OptionField<bool>>(row.field)) {
    Register(flag,
             std::get<OptionField<bool>>(row.field).member != nullptr &&
                 Options().*std::get<OptionField<bool>>(row.field).member,
             help);
  } else {
    Register(flag, std::string(), help);
  }
}

const OptionRow* FindOption(std::string_view name) {
  for (const OptionRow& row : kOptionTable) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// Whether `value` asks for nothing.
bool IsNeutral(const std::string& value, const std::string& neutral) {
  if (neutral.ends_with('*') || value == neutral) return true;
  if (neutral.empty() || value.empty()) return false;
  char* end = nullptr;
  char* neutral_end = nullptr;
  const double number = strtod(value.c_str(), &end);
  const double neutral_number = strtod(neutral.c_str(), &neutral_end);
  return *end == '\0' && *neutral_end == '\0' && number == neutral_number;
}

// Stores the value of a flag of this file, if it was given.
bool GetGiven(const std::string& name, std::string* value) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(name.c_str(), &info)) return false;
  if (info.filename != kOurFile || !IsGiven(info)) return false;
  *value = info.current_value;
  return true;
}

// With `text`, the flag is a boolean.
void AppendGiven(const std::string& flag, const std::string& option,
                 const char* text, OptionList* options, std::string* notes) {
  // With this level, RocksDB leaves it to the compression library.
  constexpr char kDefaultLevel[] = "32767";
  std::string value;
  if (!GetGiven(flag, &value)) return;
  if (text != nullptr) {
    if (value != "true") return;
    value = text;
  }
  if (option == "compression_level" && value == kDefaultLevel) value = "0";
  if (option == "num_levels" && atoi(value.c_str()) > kNumLevels) {
    notes->append("--num_levels=" + value + ": Varve has " +
                  std::to_string(kNumLevels) + " levels at most, and uses " +
                  "these\n");
    value = std::to_string(kNumLevels);
  }
  options->emplace_back(option, value);
}

// --wal_dir may name the place where the log is in any case.
bool IsDatabaseDirectory(const std::string& directory) {
  std::string database;
  gflags::GetCommandLineOption("db", &database);
  const auto trim = [](std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
  };
  return !database.empty() && trim(directory) == trim(database);
}

}  // namespace

void RegisterFlags(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with('-')) continue;
    const size_t start = argument.find_first_not_of('-');
    if (start == std::string_view::npos) continue;
    const size_t end = argument.find('=', start);
    Named().emplace(argument.substr(start, end - start));
  }
  for (const auto& renamed : kRenamed) {
    if (renamed.text != nullptr) {
      Register(renamed.flag, false, renamed.option);
    } else {
      RegisterOption(renamed.flag, *FindOption(renamed.option));
    }
  }
  for (const OptionRow& row : kOptionTable) RegisterOption(row.name, row);
  for (const auto& group : kLacking) {
    const char* const reason = group.reason;
    ForEachFlag(group.flags,
                [reason](const std::string& name, const std::string& neutral) {
                  const bool is_true = neutral.starts_with("true");
                  if (is_true || neutral == "false") {
                    Register(name, is_true, reason);
                  } else {
                    Register(name, std::string(), reason);
                  }
                });
  }
}

Status CollectFlags(OptionList* options, std::string* notes) {
  for (const auto& renamed : kRenamed) {
    AppendGiven(renamed.flag, renamed.option, renamed.text, options, notes);
  }
  for (const OptionRow& row : kOptionTable) {
    AppendGiven(row.name, row.name, nullptr, options, notes);
  }
  Status status;
  for (const auto& group : kLacking) {
    ForEachFlag(group.flags, [&](const std::string& name,
                                 const std::string& neutral) {
      std::string value;
      if (!GetGiven(name, &value) || IsNeutral(value, neutral)) return;
      if (name == "wal_dir" && IsDatabaseDirectory(value)) return;
      const std::string given = "--" + name + "=" + value + ": " + group.reason;
      if (group.lack == Lack::kRefused) {
        if (status.ok()) status = Status::NotSupported(given);
      } else {
        notes->append(given + "; the flag has no effect\n");
      }
    });
  }
  return status;
}

void CollectDefinedFlags(OptionList* options) {
  for (const auto& defined : kDefined) {
    gflags::CommandLineFlagInfo info;
    if (!gflags::GetCommandLineFlagInfo(defined.flag, &info) ||
        !IsGiven(info)) {
      continue;
    }
    options->emplace_back(defined.option, defined.before + info.current_value);
  }
}

OptionList GivenFlags() {
  std::vector<gflags::CommandLineFlagInfo> all;
  gflags::GetAllFlags(&all);
  OptionList given;
  for (const gflags::CommandLineFlagInfo& flag : all) {
    std::string value;
    if (GetGiven(flag.name, &value)) given.emplace_back(flag.name, value);
  }
  return given;
}

const char* ReasonOfLack(const std::string& benchmark) {
  const char* reason = nullptr;
  for (const auto& group : kLackingBenchmarks) {
    ForEachFlag(group.names, [&](const std::string& name, const std::string&) {
      if (name == benchmark) reason = group.reason;
    });
  }
  return reason;
}

std::string DescribeRocksDbFlags() {
  std::string names;
  const auto add = [&names](const std::string& name) {
    names.append(names.empty() ? "`" : ", `").append(name).append("`");
  };
  std::string text = "| flags | | how, or why not |\n|---|---|---|\n";
  const auto end_row = [&](const char* state, const std::string& how) {
    if (names.empty()) return;
    text.append("| " + names + " | " + state + " | " + how + " |\n");
    names.clear();
  };
  ForEachFlag(kDefinedNames, [&](const std::string& name, const std::string&) {
    add(IsDefined(name) ? name : name + " is MISSING");
  });
  end_row("works", "`varve-bench --help`");
  for (const auto& renamed : kRenamed) {
    add(renamed.flag);
    end_row("works", std::string("the option `") + renamed.option + "`");
  }
  for (const OptionRow& row : kOptionTable) {
    gflags::CommandLineFlagInfo info;
    if (gflags::GetCommandLineFlagInfo(row.name, &info) &&
        info.filename == kOurFile) {
      add(row.name);
    }
  }
  end_row("works", "the option of this name");
  for (const auto& group : kLacking) {
    const bool refused = group.lack == Lack::kRefused;
    ForEachFlag(group.flags,
                [&](const std::string& name, const std::string& neutral) {
                  if (!neutral.ends_with('*')) add(name + "=" + neutral);
                });
    end_row(refused ? "refused with another value"
                    : "accepted; another value has no effect",
            group.reason);
    ForEachFlag(group.flags,
                [&](const std::string& name, const std::string& neutral) {
                  if (neutral.ends_with('*')) add(name);
                });
    end_row("accepted; has no effect", group.reason);
  }
  text += "\n| benchmarks | | how, or why not |\n|---|---|---|\n";
  for (const std::string& name : BenchmarkNames()) add(name);
  end_row("works", "`varve-bench --help`");
  for (const auto& group : kLackingBenchmarks) {
    ForEachFlag(group.names, [&](const std::string& name, const std::string&) {
      add(name);
    });
    end_row("refused", group.reason);
  }
  return text;
}

}  // namespace varve
