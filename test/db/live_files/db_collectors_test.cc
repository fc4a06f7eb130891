// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: collectors see the entries of each new table and add properties to it,
// their marks lead to compactions, and a collector that fails harms nothing.
// Method: collectors that count; some that fail, throw or claim the names of
// other properties.

#include <map>
#include <memory>
#include <stdexcept>

#include "test/testing/db_helpers.h"
#include "varve/listener.h"
#include "varve/merge_operator.h"
#include "varve/slice_transform.h"

namespace varve::test {
namespace {

// Counts entries by type; has marks for tables with the key "mark".
class Counting : public TablePropertiesCollector {
 public:
  explicit Counting(TablePropertiesCollectorFactory::Context context)
      : context_(context) {}
  Status AddUserKey(const Slice& key, const Slice& value, EntryType type,
                    uint64_t sequence, uint64_t file_size) override {
    EXPECT_GE(file_size, last_size_);
    EXPECT_GT(sequence + 1, 0u);
    last_size_ = file_size;
    ++counts_[type];
    bytes_ += key.size() + value.size();
    if (key == Slice("mark")) marked_ = true;
    return Status::OK();
  }
  void BlockAdd(uint64_t bytes, uint64_t /*fast*/, uint64_t /*slow*/) override {
    EXPECT_GT(bytes, 0u);
    ++blocks_;
  }
  Status Finish(UserCollectedProperties* properties) override {
    std::string counts;
    for (const auto& [type, count] : counts_) {
      counts += std::to_string(static_cast<int>(type)) + ":" +
                std::to_string(count) + " ";
    }
    (*properties)["test.counts"] = counts;
    (*properties)["test.blocks"] = std::to_string(blocks_);
    (*properties)["test.level"] = std::to_string(context_.level_at_creation);
    (*properties)["test.bytes"] = std::string("a\0b\xff", 4);
    return Status::OK();
  }
  UserCollectedProperties GetReadableProperties() const override {
    return {{"blocks", std::to_string(blocks_)}};
  }
  const char* Name() const override { return "Counting"; }
  bool NeedCompact() const override { return marked_; }

 private:
  const TablePropertiesCollectorFactory::Context context_;
  std::map<EntryType, int> counts_;
  uint64_t last_size_ = 0;
  uint64_t bytes_ = 0;
  int blocks_ = 0;
  bool marked_ = false;
};

// Creates collectors by a function.
template <typename Collector>
class Factory final : public TablePropertiesCollectorFactory {
 public:
  explicit Factory(const char* name) : name_(name) {}
  TablePropertiesCollector* CreateTablePropertiesCollector(
      Context context) override {
    return new Collector(context);
  }
  const char* Name() const override { return name_; }

 private:
  const char* const name_;
};

// Fails at the given call.
template <int kCall, bool kThrows>
class Failing final : public Counting {
 public:
  explicit Failing(TablePropertiesCollectorFactory::Context context)
      : Counting(context) {}
  Status AddUserKey(const Slice& key, const Slice& value, EntryType type,
                    uint64_t sequence, uint64_t size) override {
    if (kCall == 0) return Fail();
    return Counting::AddUserKey(key, value, type, sequence, size);
  }
  Status Finish(UserCollectedProperties* properties) override {
    Status status = Counting::Finish(properties);
    return kCall == 1 ? Fail() : status;
  }
  bool NeedCompact() const override {
    if (kCall == 2) Fail().IgnoreError();
    return true;
  }

 private:
  static Status Fail() {
    if (kThrows) throw std::runtime_error("thrown");
    return Status::Corruption("failed");
  }
};

// Claims the names of the table's own properties.
class Claiming final : public Counting {
 public:
  using Counting::Counting;
  Status Finish(UserCollectedProperties* properties) override {
    (*properties)["rocksdb.num.entries"] = "x";
    (*properties)["rocksdb.comparator"] = "claimed";
    (*properties)["rocksdb.merge.operator"] = "claimed";
    (*properties)["rocksdb.property.collectors"] = "claimed";
    (*properties)[""] = "empty";
    (*properties)["zzz"] = "last";
    return Status::OK();
  }
};

// Adds names that together take more memory than a reader permits.
class Enormous final : public Counting {
 public:
  using Counting::Counting;
  Status Finish(UserCollectedProperties* properties) override {
    const std::string prefix(60000, 'p');
    for (int i = 0; i < 800; ++i) {
      (*properties)[prefix + std::to_string(i)] = "";
    }
    return Status::OK();
  }
};

class DbCollectorsTest : public DbTestBase {
 protected:
  template <typename Collector>
  void Add(const char* name) {
    options_.table_properties_collector_factories.push_back(
        std::make_shared<Factory<Collector>>(name));
  }
  // Returns the properties of the newest table.
  TableProperties Properties() {
    TablePropertiesCollection all;
    EXPECT_TRUE(Ok(db_->GetPropertiesOfAllTables(nullptr, &all)));
    EXPECT_FALSE(all.empty());
    std::map<std::string, std::shared_ptr<const TableProperties>> sorted(
        all.begin(), all.end());
    if (sorted.empty()) return {};
    EXPECT_TRUE(sorted.rbegin()->first.starts_with(path_ + "/"));
    return *sorted.rbegin()->second;
  }
  std::string Own(const std::string& name) {
    const TableProperties properties = Properties();
    const auto found = properties.user_collected_properties.find(name);
    return found != properties.user_collected_properties.end() ? found->second
                                                               : "none";
  }
};

TEST_F(DbCollectorsTest, CollectorsSeeEveryEntry) {
  Add<Counting>("Counting");
  options_.merge_operator = NewStringAppendOperator();
  options_.disable_auto_compactions = true;
  Open();
  // The next table deletes and merges these.
  Do("put c 0, put d 0, put x 0, flush");
  Do("put a 1, put b 1, single_delete c, merge d 1, delete_range x z, flush");
  const TableProperties properties = Properties();
  EXPECT_EQ(properties.property_collectors_names, "[Counting]");
  EXPECT_EQ(properties.num_range_deletions, 1u);
  EXPECT_EQ(properties.num_merge_operands, 1u);
  EXPECT_EQ(properties.column_family_name, kDefaultColumnFamilyName);
  EXPECT_EQ(properties.comparator_name, BytewiseComparator()->Name());
  EXPECT_EQ(properties.merge_operator_name, options_.merge_operator->Name());
  EXPECT_GT(properties.creation_time, 0u);
  EXPECT_TRUE(Contains(properties.ToString(), "# merge operands=1; "));
  EXPECT_EQ(Own("test.counts").substr(0, 4), "0:2 ");
  EXPECT_TRUE(Contains(Own("test.counts"), "2:1 3:1 4:1 "));
  EXPECT_EQ(Own("test.blocks"), "1");
  EXPECT_EQ(Own("test.level"), "0");
  EXPECT_EQ(Own("test.bytes"), std::string("a\0b\xff", 4));
  CompactAll();
  EXPECT_EQ(Own("test.level"), std::to_string(options_.num_levels - 1));
  Reopen();
  EXPECT_EQ(Own("test.bytes"), std::string("a\0b\xff", 4));
}

TEST_F(DbCollectorsTest, TablesOfARangeAreFound) {
  options_.disable_auto_compactions = true;
  Open();
  Do("put a 1, put c 1, flush, put d 1, put f 1, flush, put c 1, put e 1, "
     "flush");
  const auto count = [&](const char* begin, const char* end) {
    const Range range{begin, end};
    TablePropertiesCollection found;
    EXPECT_TRUE(
        Ok(db_->GetPropertiesOfTablesInRange(nullptr, &range, 1, &found)));
    return found.size();
  };
  EXPECT_EQ(count("a", "b"), 1u);
  EXPECT_EQ(count("a", "c"), 2u);
  EXPECT_EQ(count("d", "d"), 2u);
  EXPECT_EQ(count("f", "z"), 1u);
  EXPECT_EQ(count("g", "z"), 0u);
  const Range ranges[] = {{"a", "b"}, {"f", "g"}};
  TablePropertiesCollection found;
  ASSERT_TRUE(
      Ok(db_->GetPropertiesOfTablesInRange(nullptr, ranges, 2, &found)));
  EXPECT_EQ(found.size(), 2u);
}

TEST_F(DbCollectorsTest, FailuresEndTheCollectorOnly) {
  Add<Failing<0, false>>("A");
  Add<Failing<0, true>>("B");
  Add<Failing<1, false>>("C");
  Add<Failing<1, true>>("D");
  Add<Failing<2, true>>("E");
  Open();
  Do("put a 1, flush");
  EXPECT_EQ(Own("test.counts"), "none");
  EXPECT_EQ(Properties().property_collectors_names, "[A,B,C,D,E]");
  EXPECT_EQ(Get("a"), "1");
  Reopen();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(DbCollectorsTest, NamesOfTheTableAreItsOwn) {
  Add<Claiming>("Claiming");
  options_.prefix_extractor = NewFixedPrefixTransform(3);
  Open();
  Do("put a 1, flush");
  const TableProperties properties = Properties();
  EXPECT_EQ(properties.num_entries, 1u);
  EXPECT_EQ(properties.comparator_name, BytewiseComparator()->Name());
  EXPECT_EQ(properties.merge_operator_name, "nullptr");
  EXPECT_EQ(properties.prefix_extractor_name, "rocksdb.FixedPrefix.3");
  EXPECT_EQ(properties.property_collectors_names, "[Claiming]");
  EXPECT_EQ(Own(""), "empty");
  EXPECT_EQ(Own("zzz"), "last");
  Reopen();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(DbCollectorsTest, PropertiesThatNoReaderAcceptsAreLeftOut) {
  Add<Enormous>("Enormous");
  Open();
  Do("put a 1, flush");
  Reopen();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Properties().property_collectors_names, "[]");
}

// The mark survives a reopen, and a move to another level.
TEST_F(DbCollectorsTest, MarksLeadToCompactions) {
  Add<Counting>("Counting");
  options_.disable_auto_compactions = true;
  Open();
  Do("put a 1, put z 1, flush");
  std::vector<LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  ASSERT_TRUE(Ok(db_->CompactFiles({}, nullptr, {tables[0].name}, 5)));
  Do("put mark 1, flush");
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 1u);
  options_.disable_auto_compactions = false;
  options_.level0_file_num_compaction_trigger = 10;
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  EXPECT_EQ(TablesAt(0), 0u);
  EXPECT_EQ(TablesAt(5), 1u);
  // The output is marked again, which has no effect in the deepest level.
  db_->GetLiveFilesMetaData(&tables);
  ASSERT_EQ(tables.size(), 1u);
  const std::string name = tables[0].name;
  Reopen();
  ASSERT_TRUE(Ok(db_->WaitForCompact()));
  db_->GetLiveFilesMetaData(&tables);
  EXPECT_EQ(tables[0].name, name);
}

// Tells whether the collector for tables with many deletions marks a table with
// these entries: a letter each, 'd' and 's' for deletions and single deletions.
bool Marks(size_t window, size_t trigger, double ratio,
           const std::string& entries) {
  const auto factory =
      NewCompactOnDeletionCollectorFactory(window, trigger, ratio);
  const std::unique_ptr<TablePropertiesCollector> collector(
      factory->CreateTablePropertiesCollector({}));
  for (const char entry : entries) {
    const EntryType type = entry == 'd'   ? EntryType::kEntryDelete
                           : entry == 's' ? EntryType::kEntrySingleDelete
                           : entry == 'r' ? EntryType::kEntryRangeDeletion
                                          : EntryType::kEntryPut;
    EXPECT_TRUE(Ok(collector->AddUserKey("k", "v", type, 1, 0)));
  }
  UserCollectedProperties properties;
  EXPECT_TRUE(Ok(collector->Finish(&properties)));
  EXPECT_TRUE(properties.empty());
  return collector->NeedCompact();
}

TEST(DeletionCollectorTest, MarksAWindowOrAShareOfDeletions) {
  const std::string run = std::string(40, 'p') + std::string(10, 'd') +
                          std::string(10, 's') + std::string(40, 'p');
  EXPECT_TRUE(Marks(20, 20, 0, run));
  EXPECT_FALSE(Marks(19, 20, 0, run));
  EXPECT_FALSE(Marks(100, 21, 0, run));
  EXPECT_FALSE(Marks(0, 1, 0, run));
  EXPECT_TRUE(Marks(0, 0, 0.2, run));
  EXPECT_FALSE(Marks(0, 0, 0.21, run));
  EXPECT_FALSE(Marks(0, 0, 1.5, run));
  EXPECT_TRUE(Marks(3, 2, 0, "pppdpdppp"));
  EXPECT_FALSE(Marks(2, 2, 0, "pppdpdppp"));
  EXPECT_FALSE(Marks(10, 0, 0, "pppp"));
  EXPECT_TRUE(Marks(10, 0, 0, "ppdp"));
  EXPECT_FALSE(Marks(10, 1, 0.1, "rrrr"));
  EXPECT_FALSE(Marks(10, 1, 0.1, ""));
}

// Events have the properties of the new tables, and of a compaction's inputs.
TEST_F(DbCollectorsTest, EventsCarryProperties) {
  class Recorder final : public EventListener {
   public:
    void OnFlushCompleted(const FlushJobInfo& info) override {
      flushed = info.table_properties;
    }
    void OnCompactionCompleted(const CompactionJobInfo& info) override {
      compacted = info;
    }
    void OnTableFileCreated(const TableFileInfo& info) override {
      ASSERT_NE(info.table_properties, nullptr);
      created.push_back(*info.table_properties);
    }
    TableProperties flushed;
    CompactionJobInfo compacted;
    std::vector<TableProperties> created;
  };
  const auto recorder = std::make_shared<Recorder>();
  options_.listeners = {recorder};
  Add<Counting>("Counting");
  Open();
  Do("put a 1, put b 1, flush");
  EXPECT_EQ(recorder->flushed.num_entries, 2u);
  EXPECT_GT(recorder->flushed.data_size, 0u);
  EXPECT_EQ(recorder->flushed.readable_properties.at("blocks"), "1");
  EXPECT_EQ(recorder->flushed.user_collected_properties.at("test.blocks"), "1");
  ASSERT_EQ(recorder->created.size(), 1u);
  EXPECT_EQ(recorder->created[0].num_entries, 2u);
  CompactAll();
  const CompactionJobInfo& info = recorder->compacted;
  ASSERT_EQ(info.input_files.size(), 1u);
  ASSERT_EQ(info.output_files.size(), 1u);
  EXPECT_EQ(info.table_properties.size(), 2u);
  for (const auto& [path, properties] : info.table_properties) {
    EXPECT_TRUE(path.starts_with(path_ + "/")) << path;
    EXPECT_EQ(properties->num_entries, 2u);
  }
}

}  // namespace
}  // namespace varve::test
