// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experimental/ablation.h"
#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/engine_lsm.h"
#include "tools/db_bench/rocksdb/stats_text.h"
#include "tools/db_bench/workload_data.h"
#include "varve/backup_engine.h"
#include "varve/catalog.h"
#include "varve/compaction_filter.h"
#include "varve/convert.h"
#include "varve/db.h"
#include "varve/merge_operator.h"
#include "varve/metadata.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/sst_file_writer.h"
#include "varve/statistics.h"
#include "varve/transaction_db.h"
#include "varve/version.h"
#include "varve/write_buffer_manager.h"

namespace varve {

namespace {

struct VarveApi {
  using DB = varve::DB;
  using Iterator = varve::Iterator;
  using ReadOptions = varve::ReadOptions;
  using WriteOptions = varve::WriteOptions;
  using WriteBatch = varve::WriteBatch;
  using Value = PinnableSlice;
  using Status = varve::Status;
  using Family = ColumnFamilyHandle*;

  struct Keys {
    static const Slice* From(const std::vector<Slice>& keys) {
      return keys.data();
    }
  };

  static const Slice& ToSlice(const Slice& slice) { return slice; }
  static Slice FromSlice(const Slice& slice) { return slice; }
  static const Status& FromStatus(const Status& status) { return status; }
  static std::unique_ptr<Iterator> NewIterator(DB* db,
                                               const ReadOptions& options,
                                               Family family) {
    return family == nullptr ? db->NewIterator(options)
                             : db->NewIterator(options, family);
  }
  static Status Get(DB* db, const ReadOptions& options, Family family,
                    const Slice& key, Value* value) {
    return family == nullptr ? db->Get(options, key, value)
                             : db->Get(options, family, key, value);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       const Slice* keys, Value* values, Status* statuses) {
    db->MultiGet(options, count, keys, values, statuses);
  }
  static void MultiGet(DB* db, const ReadOptions& options, size_t count,
                       const Family* families, const Slice* keys, Value* values,
                       Status* statuses) {
    db->MultiGet(options, count, families, keys, values, statuses);
  }
  static void Clear(Value* value) { value->Reset(); }
  static void Put(WriteBatch* batch, Family family, const Slice& key,
                  const Slice& value) {
    if (family == nullptr) {
      batch->Put(key, value);
    } else {
      batch->Put(family, key, value);
    }
  }
  static void Delete(WriteBatch* batch, Family family, const Slice& key) {
    if (family == nullptr) {
      batch->Delete(key);
    } else {
      batch->Delete(family, key);
    }
  }
  static void SingleDelete(WriteBatch* batch, Family family, const Slice& key) {
    batch->SingleDelete(family, key);
  }
  static void DeleteRange(WriteBatch* batch, Family family, const Slice& begin,
                          const Slice& end) {
    batch->DeleteRange(family, begin, end);
  }
  static Status ApproximateSize(DB* db, Family family, const Slice& begin,
                                const Slice& end, uint64_t* bytes) {
    const Range range(begin, end);
    return family == nullptr
               ? db->GetApproximateSizes(&range, 1, bytes)
               : db->GetApproximateSizes(family, &range, 1, bytes);
  }
  static void Merge(WriteBatch* batch, Family family, const Slice& key,
                    const Slice& operand) {
    if (family == nullptr) {
      batch->Merge(key, operand);
    } else {
      batch->Merge(family, key, operand);
    }
  }
};

// Begins a transaction, and uses the memory of `old`, which may be null, again.
using BeginTransaction = std::function<Transaction*(
    const WriteOptions& options, bool set_snapshot, Transaction* old)>;

class VarveSession final : public LsmMultiGetSession<VarveApi> {
 public:
  // `catalog` and `begin` may be null.
  VarveSession(DB* db, Catalog* catalog, BeginTransaction begin,
               const ReadOptions& read_options,
               const WriteOptions& write_options,
               const std::vector<ColumnFamilyHandle*>& families)
      : LsmMultiGetSession(db, read_options, write_options, families),
        catalog_(catalog),
        begin_(std::move(begin)),
        transaction_options_(write_options) {}

  Lookup FindDatabase(const Slice& name) override {
    if (catalog_ == nullptr) return EngineSession::FindDatabase(name);
    DatabaseRef ref;
    Status status = catalog_->Find(name, &ref);
    if (status.ok()) return Lookup::kFound;
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = std::move(status);
    return Lookup::kError;
  }

  Lookup GetOperands(
      const Slice& key,
      const std::function<void(const Slice& operand)>& visit) override {
    constexpr int kMostOperands = 1000;
    if (operands_.empty())
      operands_ = std::vector<PinnableSlice>(kMostOperands);
    GetMergeOperandsOptions limits;
    limits.expected_max_number_of_operands = kMostOperands;
    int found = 0;
    Status status = db_->GetMergeOperands(read_options_, family(), key,
                                          operands_.data(), &limits, &found);
    for (int i = 0; i < std::min(found, kMostOperands); ++i) {
      PinnableSlice& operand = operands_[static_cast<size_t>(i)];
      if (status.ok()) visit(operand);
      operand.Reset();
    }
    if (status.ok()) return Lookup::kFound;
    if (status.IsNotFound()) return Lookup::kMissing;
    error_ = std::move(status);
    return Lookup::kError;
  }

  Status AddToEach(const std::vector<std::string>& keys, uint64_t increment,
                   bool set_snapshot,
                   const std::function<void()>& pause) override {
    if (begin_ == nullptr) {
      return EngineSession::AddToEach(keys, increment, set_snapshot, pause);
    }
    transaction_.reset(
        begin_(transaction_options_, set_snapshot, transaction_.release()));
    Status status;
    for (const std::string& key : keys) {
      status = AddTo(key, increment, pause);
      if (!status.ok()) break;
    }
    if (status.ok()) return transaction_->Commit();
    transaction_->Rollback().IgnoreError();  // It has an error already.
    return status;
  }

 private:
  Status AddTo(const std::string& key, uint64_t increment,
               const std::function<void()>& pause) {
    number_.clear();
    Status status = transaction_->GetForUpdate(read_options_, key, &number_);
    if (!status.ok() && !status.IsNotFound()) return status;
    uint64_t number = 0;
    const char* const end = number_.data() + number_.size();
    if (std::from_chars(number_.data(), end, number).ptr != end) {
      return Status::Corruption(key, "not a number");
    }
    pause();
    return transaction_->Put(nullptr, key, std::to_string(number + increment));
  }

  Catalog* const catalog_;
  const BeginTransaction begin_;
  const WriteOptions transaction_options_;
  std::unique_ptr<Transaction> transaction_;
  std::string number_;
  std::vector<PinnableSlice> operands_;
};

// The newest operand is the value. RocksDB's operator of this name is for its
// db_bench, too.
class PutOperator final : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice& /*key*/, const Slice* /*existing_value*/,
             const Slice& value, std::string* new_value) const override {
    new_value->assign(value.data(), value.size());
    return true;
  }
  const char* Name() const override { return "PutOperator"; }
};

// Operands are ascending numbers between commas, and so is the value. RocksDB's
// operator of this name is for getmergeoperands, too.
class SortListOperator final : public MergeOperator {
 public:
  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    std::vector<int> numbers;
    const auto add = [&numbers](const Slice& list) {
      const std::vector<int> more = SortedNumbers(list);
      const auto count = static_cast<ptrdiff_t>(numbers.size());
      numbers.insert(numbers.end(), more.begin(), more.end());
      std::inplace_merge(numbers.begin(), numbers.begin() + count,
                         numbers.end());
    };
    if (input.existing_value != nullptr) add(*input.existing_value);
    for (const Slice& operand : input.operands) add(operand);
    for (const int number : numbers) {
      if (!new_value->empty()) new_value->push_back(',');
      new_value->append(std::to_string(number));
    }
    return true;
  }
  const char* Name() const override { return "MergeSortOperator"; }
};

std::shared_ptr<MergeOperator> FindOperator(const std::string& name) {
  if (name == "put") return std::make_shared<PutOperator>();
  if (name == "sortlist") return std::make_shared<SortListOperator>();
  return FindMergeOperator(name);
}

class StderrLogger final : public Logger {
 public:
  void Logv(LogLevel /*level*/, const char* format,
            va_list arguments) override {
    char line[1024];
    vsnprintf(line, sizeof(line), format, arguments);
    fprintf(stderr, "%s\n", line);
  }
};

class DropKeys final : public CompactionFilter {
 public:
  explicit DropKeys(std::function<bool(const Slice& key)> drops)
      : drops_(std::move(drops)) {}
  bool Filter(int /*level*/, const Slice& key, const Slice& /*value*/,
              std::string* /*new_value*/,
              bool* /*value_changed*/) const override {
    return drops_(key);
  }
  const char* Name() const override { return "DropKeys"; }

 private:
  const std::function<bool(const Slice& key)> drops_;
};

class VarveEngine final : public Engine {
 public:
  std::string Version() const override { return VersionString(); }

  Status Check(const EngineConfig& config) const override {
    Options options;
    if (!config.merge_operator.empty() &&
        FindOperator(config.merge_operator) == nullptr) {
      return Status::InvalidArgument("merge_operator",
                                     "varve has no " + config.merge_operator);
    }
    return MakeOptions(config, &options);
  }

  std::string IoPath() override {
    std::string value;
    return db_->GetProperty("varve.io-path", &value) ? value : "pread";
  }

  Status Destroy(const EngineConfig& config) override {
    return DestroyDB(config.path, Options());
  }

  Status Open(const EngineConfig& config) override {
    Options options;
    Status status = MakeOptions(config, &options);
    if (!status.ok()) return status;
    CacheOptions cache_options;
    cache_options.capacity_bytes = config.cache_bytes;
    if (options.block_cache == nullptr) {
      options.block_cache =
          NewBlockCache(config.ablation.block_cache, cache_options);
    }
    options.experiment = NewExperiment(config.ablation);
    if (config.log_to_stderr) {
      options.info_log = std::make_shared<StderrLogger>();
    }
    filter_.reset();
    if (config.drops != nullptr) {
      filter_ = std::make_unique<DropKeys>(config.drops);
      options.compaction_filter = filter_.get();
    }
    if (config.all_write_buffers_bytes > 0 || config.charge_write_buffers) {
      options.write_buffer_manager = std::make_shared<WriteBufferManager>(
          config.all_write_buffers_bytes,
          config.charge_write_buffers ? options.block_cache : nullptr);
    }
    config_ = config;
    base_ = StatsBase();
    if (config.statistics) {
      if (statistics_ == nullptr) {
        statistics_ = CreateDBStatistics(
            config.ablation.statistics,
            {.level = static_cast<StatsLevel>(config.stats_level)});
      }
      options.statistics = statistics_;
    }
    read_options_.verify_checksums = config.verify_checksums;
    read_options_.readahead_size = config.readahead_bytes;
    read_options_.total_order_seek = config.total_order_seek;
    read_options_.prefix_same_as_start = config.prefix_same_as_start;
    read_options_.auto_prefix_mode = config.auto_prefix_mode;
    read_options_.tailing = config.tailing;
    write_options_.sync = config.sync;
    write_options_.disable_wal = config.disable_wal;
    const std::vector<ColumnFamilyDescriptor> families =
        FindFamilies(config, options);
    status = OpenWith(config, options, families);
    opened_ = std::chrono::steady_clock::now();
    if (!status.ok() || families_.size() > 1) return status;
    // The default one needs no handle.
    for (ColumnFamilyHandle* const family : families_) delete family;
    families_.clear();
    return status;
  }

  uint32_t CountFamilies(const EngineConfig& config) override {
    std::vector<std::string> names;
    if (!DB::ListColumnFamilies(Options(), config.path, &names).ok()) return 1;
    uint32_t count = 1;
    while (std::find(names.begin(), names.end(), FamilyName(count)) !=
           names.end()) {
      ++count;
    }
    return count;
  }

  Status OpenCatalog(const EngineConfig& config,
                     const std::vector<std::string>& names) override {
    if (catalog_ != nullptr) return Status::OK();
    CatalogOptions options;
    options.create_if_missing = true;
    options.options.experiment = NewExperiment(config.ablation);
    Status status = Catalog::Open(options, config.path + "_catalog", &catalog_);
    std::vector<std::string> there;
    if (status.ok()) catalog_->List(&there);
    for (const std::string& name : names) {
      const bool known =
          std::find(there.begin(), there.end(), name) != there.end();
      if (status.ok() && !known) status = catalog_->Create(name);
    }
    return status;
  }

  Status Close() override {
    ReleaseSnapshot();
    catalog_.reset();
    for (ColumnFamilyHandle* const family : families_) delete family;
    families_.clear();
    Status status = db_->Close();
    begin_ = nullptr;
    db_.reset();
    return status;
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<VarveSession>(db_.get(), catalog_.get(), begin_,
                                          read_options_, write_options_,
                                          families_);
  }

  Status TakeSnapshot() override {
    ReleaseSnapshot();
    snapshot_ = db_->GetSnapshot();
    return Status::OK();
  }
  void ReleaseSnapshot() override {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }

  std::unique_ptr<Engine> NewSame() const override {
    return std::make_unique<VarveEngine>();
  }

  Status WriteTable(const std::string& path, const NextEntry& next) override {
    SstFileWriter writer(db_->GetOptions());
    Status status = writer.Open(path);
    Slice key;
    Slice value;
    while (status.ok() && next(&key, &value)) status = writer.Put(key, value);
    return status.ok() ? writer.Finish() : status;
  }
  Status IngestTables(const std::vector<std::string>& paths) override {
    IngestExternalFileOptions options;
    options.move_files = true;
    return db_->IngestExternalFile(paths, options);
  }

  Status Backup() override {
    BackupEngineOptions options(config_.backup_dir);
    options.destroy_old_data = true;
    options.backup_rate_limit = config_.backup_bytes_per_second;
    std::unique_ptr<BackupEngine> backups;
    const Status status = BackupEngine::Open(options, nullptr, &backups);
    return status.ok()
               ? backups->CreateNewBackup(CreateBackupOptions(), db_.get())
               : status;
  }
  Status Restore() override {
    BackupEngineOptions options(config_.backup_dir);
    options.restore_rate_limit = config_.restore_bytes_per_second;
    std::unique_ptr<BackupEngineReadOnly> backups;
    const Status status =
        BackupEngineReadOnly::Open(options, nullptr, &backups);
    return status.ok()
               ? backups->RestoreDBFromLatestBackup(
                     RestoreOptions(), config_.restore_dir, config_.restore_dir)
               : status;
  }

  Status ResetStatistics() override {
    if (statistics_ != nullptr) statistics_->Reset();
    db_->GetMapProperty("varve.cfstats", &base_.cfstats);
    db_->GetProperty("varve.dbstats", &base_.dbstats);
    opened_ = std::chrono::steady_clock::now();
    return Status::OK();
  }

  Status Flush() override {
    return families_.empty() ? db_->Flush(FlushOptions())
                             : db_->Flush(FlushOptions(), families_);
  }
  Status Compact() override {
    Status status;
    for (size_t i = 0; i < std::max<size_t>(1, families_.size()); ++i) {
      if (!status.ok()) break;
      status = db_->CompactRange(CompactRangeOptions(),
                                 families_.empty() ? nullptr : families_[i],
                                 nullptr, nullptr);
    }
    return status;
  }
  Status WaitForCompaction() override { return db_->WaitForCompact(); }
  Status VerifyChecksum() override { return db_->VerifyChecksum(); }

  Status CompactLevel0() override {
    return CompactLevel([](int base) { return std::pair(0, base); });
  }
  Status CompactLevel1() override {
    return CompactLevel([](int base) { return std::pair(base, base + 1); });
  }

  bool Property(const std::string& name, std::string* value) override {
    if (name == "memstats") {
      value->clear();
      for (const char* const part :
           {"num-entries-active-mem-table", "num-entries-imm-mem-tables",
            "num-immutable-mem-table", "cur-size-active-mem-table",
            "cur-size-all-mem-tables", "mem-table-flush-pending"}) {
        std::string number;
        db_->GetProperty(std::string("varve.") + part, &number);
        value->append(part).append(": ").append(number).append("\n");
      }
      return true;
    }
    if (!db_->GetProperty("varve." + name, value)) return false;
    if (name != "stats") return true;
    std::map<std::string, std::string> cfstats;
    std::string dbstats;
    db_->GetMapProperty("varve.cfstats", &cfstats);
    db_->GetProperty("varve.dbstats", &dbstats);
    const std::chrono::duration<double> uptime =
        std::chrono::steady_clock::now() - opened_;
    value->append(
        FormatRocksDbStats({cfstats, dbstats}, base_, uptime.count()));
    return true;
  }
  std::string StatisticsText() override {
    return statistics_ == nullptr ? "" : statistics_->ToString();
  }

 private:
  // Sets the options that are no objects of this engine.
  static Status MakeOptions(const EngineConfig& config, Options* options) {
    Status status;
    if (config.options_file.empty()) {
      status = SetFields(config, options);
    } else {
      DBOptions db_options;
      std::vector<ColumnFamilyDescriptor> families;
      status = LoadOptionsFromFile(ConfigOptions(), config.options_file,
                                   &db_options, &families);
      if (status.ok()) *options = Options(db_options, families[0].options);
    }
    options->create_if_missing = config.create_if_missing;
    options->create_missing_column_families = config.create_if_missing;
    options->stats_level = static_cast<StatsLevel>(config.stats_level);
    if (config.case_insensitive_keys) options->key_case = KeyCase::kInsensitive;
    if (!config.merge_operator.empty()) {
      options->merge_operator = FindOperator(config.merge_operator);
    }
    for (const auto& [name, text] : config.options) {
      if (!status.ok()) break;
      status = SetOption(name, text, options);
      if (!status.ok()) status = status.Annotate("--" + name);
    }
    return status;
  }

  static Status SetFields(const EngineConfig& config, Options* options) {
    options->write_buffer_size = config.write_buffer_bytes;
    options->max_write_buffer_number = config.max_write_buffers;
    options->max_subcompactions = config.subcompactions;
    options->max_open_files = config.open_files;
    options->target_file_size_base = config.target_file_bytes;
    options->use_direct_reads = config.use_direct_reads;
    options->allow_mmap_reads = config.mmap_read;
    options->cache_index_and_filter_blocks = config.cache_metadata;
    if (config.partition_metadata) {
      options->index_type = IndexType::kTwoLevelIndexSearch;
      options->partition_filters = true;
    }
    options->metadata_block_size = config.metadata_block_bytes;
    options->manual_wal_flush = config.manual_wal_flush;
    options->block_size = config.block_bytes;
    options->max_background_jobs = config.max_background_jobs;
    if (config.bloom_bits >= 1) {
      options->filter_policy = NewBloomFilterPolicy(config.bloom_bits);
    }
    const Status status = SetOption("compression", config.compression, options);
    return status.ok() ? SetOption("wal_write", config.wal_write, options)
                       : status;
  }

  // Returns those with db_bench's names first. An existing database has others,
  // with options of their own, and maybe a merge operator.
  static std::vector<ColumnFamilyDescriptor> FindFamilies(
      const EngineConfig& config, Options options) {
    std::vector<std::string> names;
    std::vector<ColumnFamilyDescriptor> stored;
    if (!config.create_if_missing) {
      // Opening the database returns the error, if there is one.
      DB::ListColumnFamilies(options, config.path, &names).IgnoreError();
      DBOptions db_options;
      LoadLatestOptions(ConfigOptions(), config.path, &db_options, &stored)
          .IgnoreError();
    }
    const auto stored_options = [&](const std::string& name) {
      for (const ColumnFamilyDescriptor& family : stored) {
        if (family.name == name) return &family.options;
      }
      return static_cast<const ColumnFamilyOptions*>(nullptr);
    };
    std::vector<ColumnFamilyDescriptor> families;
    for (uint32_t i = 0; i < config.column_families; ++i) {
      const std::string name = FamilyName(i);
      families.emplace_back(name, options);
      const ColumnFamilyOptions* const own = stored_options(name);
      if (own != nullptr && options.merge_operator == nullptr) {
        families.back().options.merge_operator = own->merge_operator;
      }
      std::erase(names, name);
    }
    for (const std::string& name : names) {
      const ColumnFamilyOptions* const own = stored_options(name);
      families.emplace_back(name, own != nullptr ? *own : options);
      families.back().options.block_cache = options.block_cache;
    }
    return families;
  }

  Status OpenWith(const EngineConfig& config, const Options& options,
                  const std::vector<ColumnFamilyDescriptor>& families) {
    if (config.read_only) {
      return DB::OpenForReadOnly(options, config.path, families, &families_,
                                 &db_);
    }
    Status status;
    if (config.transactions == TransactionKind::kLocking) {
      TransactionDBOptions transaction_options;
      transaction_options.transaction_lock_timeout = config.lock_timeout_ms;
      std::unique_ptr<TransactionDB> db;
      status = TransactionDB::Open(options, transaction_options, config.path,
                                   families, &families_, &db);
      begin_ = [db = db.get()](const WriteOptions& write_options,
                               bool set_snapshot, Transaction* old) {
        TransactionOptions transaction;
        transaction.set_snapshot = set_snapshot;
        return db->BeginTransaction(write_options, transaction, old);
      };
      db_ = std::move(db);
    } else if (config.transactions == TransactionKind::kOptimistic) {
      std::unique_ptr<OptimisticTransactionDB> db;
      status = OptimisticTransactionDB::Open(options, config.path, families,
                                             &families_, &db);
      begin_ = [db = db.get()](const WriteOptions& write_options,
                               bool set_snapshot, Transaction* old) {
        OptimisticTransactionOptions transaction;
        transaction.set_snapshot = set_snapshot;
        return db->BeginTransaction(write_options, transaction, old);
      };
      db_ = std::move(db);
    } else {
      status = DB::Open(options, config.path, families, &families_, &db_);
    }
    return status;
  }

  // Compacts the tables of a level of each family into another. `choose`
  // returns both, for the number of the level that level 0 is compacted into.
  template <typename Choose>
  Status CompactLevel(Choose choose) {
    Status status;
    for (size_t i = 0; i < std::max<size_t>(1, families_.size()); ++i) {
      if (!status.ok()) break;
      ColumnFamilyHandle* const family =
          families_.empty() ? db_->DefaultColumnFamily() : families_[i];
      do {
        status = db_->WaitForCompact();
        uint64_t base = 0;
        db_->GetIntProperty(family, "varve.base-level", &base);
        const auto [from, to] = choose(static_cast<int>(base));
        std::vector<std::string> names;
        ColumnFamilyMetaData metadata;
        db_->GetColumnFamilyMetaData(family, &metadata);
        for (const LevelMetaData& level : metadata.levels) {
          if (level.level != from) continue;
          for (const SstFileMetaData& file : level.files) {
            names.push_back(file.name);
          }
        }
        const bool below = to < db_->GetOptions(family).num_levels;
        if (!status.ok() || names.empty() || !below) break;
        status = db_->CompactFiles(CompactionOptions(), family, names, to);
        // Another compaction took one of them first.
      } while (status.IsAborted());
    }
    return status;
  }

  std::unique_ptr<DropKeys> filter_;
  EngineConfig config_;
  StatsBase base_;
  BeginTransaction begin_;
  std::chrono::steady_clock::time_point opened_;
  ReadOptions read_options_;
  WriteOptions write_options_;
  std::shared_ptr<Statistics> statistics_;
  std::unique_ptr<DB> db_;
  // Empty if there is only the default one.
  std::vector<ColumnFamilyHandle*> families_;
  std::unique_ptr<Catalog> catalog_;
  const Snapshot* snapshot_ = nullptr;
};

}  // namespace

std::unique_ptr<Engine> NewVarveEngine() {
  return std::make_unique<VarveEngine>();
}

}  // namespace varve
