// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "test/testing/db/random_options.h"
#include "test/testing/engines/engine.h"
#include "test/testing/seed.h"
#include "varve/column_family.h"
#include "varve/convert.h"
#include "varve/external_files.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/slice_transform.h"
#include "varve/sst_file_writer.h"

namespace varve::test {

class VarveEngine : public Engine {
 public:
  explicit VarveEngine(Rng* random) : random_(*random) {}
  ~VarveEngine() override {
    for (const auto& [name, handle] : handles_) delete handle;
  }

  std::vector<std::string> List(const std::string& path) override {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(DB::ListColumnFamilies({}, path, &names)));
    return names;
  }
  void Open(const std::string& path, const Setting& setting,
            const std::vector<std::string>& names) override {
    setting_ = setting;
    DBOptions options = TinyOptions();
    std::map<std::string, ColumnFamilyOptions> loaded;
    if (setting.loads_options) loaded = Load(path, &options);
    options.atomic_flush = setting.atomic_flush;
    options.max_total_wal_size = setting.max_total_wal_size;
    options.max_subcompactions = random_.Between(1, 3);
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, RandomOptions(name));
      if (const auto found = loaded.find(name); found != loaded.end()) {
        found->second.prefix_extractor =
            families.back().options.prefix_extractor;
        families.back().options = found->second;
      }
    }
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(
        Ok(setting.read_only
               ? DB::OpenForReadOnly(options, path, families, &handles, &db_)
               : DB::Open(options, path, families, &handles, &db_)));
    for (size_t i = 0; i < names.size(); ++i) handles_[names[i]] = handles[i];
  }
  void Close() override {
    for (const auto& [name, handle] : handles_) {
      EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handle)));
    }
    handles_.clear();
    EXPECT_TRUE(Ok(db_->Close()));
    db_.reset();
  }
  uint32_t Create(const std::string& name) override {
    ColumnFamilyHandle* handle = nullptr;
    EXPECT_TRUE(
        Ok(db_->CreateColumnFamily(RandomOptions(name), name, &handle)));
    if (handle == nullptr) return 0;
    handles_[name] = handle;
    return handle->GetID();
  }
  void Drop(const std::string& name) override {
    EXPECT_TRUE(Ok(db_->DropColumnFamily(handles_.at(name))));
    EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handles_.at(name))));
    handles_.erase(name);
  }
  uint32_t Id(const std::string& name) override {
    return handles_.at(name)->GetID();
  }
  void Write(const std::vector<Update>& batch, bool disable_wal) override {
    WriteBatch bytes;
    for (const auto& [kind, key, value, name] : batch) {
      ColumnFamilyHandle* const family = handles_.at(name);
      using enum Update::Kind;
      if (kind == kPut) bytes.Put(family, key, value);
      if (kind == kMerge) bytes.Merge(family, key, value);
      if (kind == kDelete) bytes.Delete(family, key);
      if (kind == kSingleDelete) bytes.SingleDelete(family, key);
      if (kind == kDeleteRange) bytes.DeleteRange(family, key, value);
    }
    EXPECT_TRUE(Ok(db_->Write({.disable_wal = disable_wal}, &bytes)));
  }
  void Flush(const std::vector<std::string>& names) override {
    std::vector<ColumnFamilyHandle*> families;
    for (const std::string& name : names) families.push_back(handles_.at(name));
    EXPECT_TRUE(Ok(db_->Flush({}, families)));
  }
  void WriteTable(const std::string& name, const std::string& file,
                  const std::vector<Update>& updates) override {
    SstFileWriter writer(Options(DBOptions(), RandomOptions(name)));
    ASSERT_TRUE(Ok(writer.Open(file)));
    for (const auto& [kind, key, value, family] : updates) {
      using enum Update::Kind;
      EXPECT_TRUE(Ok(kind == kPut      ? writer.Put(key, value)
                     : kind == kMerge  ? writer.Merge(key, value)
                     : kind == kDelete ? writer.Delete(key)
                                       : writer.DeleteRange(key, value)));
    }
    EXPECT_TRUE(Ok(writer.Finish()));
  }
  void Ingest(const std::string& name, const std::vector<std::string>& files,
              bool moves) override {
    IngestExternalFileOptions options;
    options.move_files = moves;
    options.link_files = !moves && random_.OneIn(2);
    options.verify_checksums_before_ingest = random_.OneIn(2);
    EXPECT_TRUE(Ok(db_->IngestExternalFile(handles_.at(name), files, options)));
  }
  void Compact(const std::string& name, const std::string* begin,
               const std::string* end) override {
    const Slice first = begin == nullptr ? Slice() : Slice(*begin);
    const Slice last = end == nullptr ? Slice() : Slice(*end);
    EXPECT_TRUE(Ok(db_->CompactRange(
        {.rewrite_bottommost_level = random_.OneIn(2)}, handles_.at(name),
        begin == nullptr ? nullptr : &first,
        end == nullptr ? nullptr : &last)));
  }
  void CompactSome(const std::string& name, const std::string& first,
                   const std::string& last) override {
    ColumnFamilyHandle* const family = handles_.at(name);
    if (random_.OneIn(2)) {
      const Slice begin(first);
      const Slice end(last);
      EXPECT_TRUE(Ok(db_->SuggestCompactRange(family, &begin, &end)));
      return;
    }
    std::vector<LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    const int level = random_.OneIn(3) ? 0 : random_.Between(1, 6);
    std::vector<std::string> inputs;
    for (const LiveFileMetaData& table : tables) {
      if (table.column_family_name == name && table.level <= level &&
          table.smallestkey <= last && table.largestkey >= first) {
        inputs.push_back(table.name);
      }
    }
    if (inputs.empty()) return;
    // Another compaction may have taken or removed one of them.
    const Status s = db_->CompactFiles({}, family, inputs, level);
    EXPECT_TRUE(s.ok() || s.IsAborted() || s.IsInvalidArgument())
        << s.ToString();
  }
  void DeleteFiles(const std::string& name, const std::string& first,
                   const std::string& last) override {
    const Slice begin(first);
    const Slice end(last);
    const RangePtr range{&begin, &end};
    EXPECT_TRUE(Ok(db_->DeleteFilesInRanges(handles_.at(name), &range, 1)));
  }
  void SetOptions(const std::string& name,
                  const std::map<std::string, std::string>& changes) override {
    if (random_.OneIn(2)) {
      const std::string jobs = std::to_string(random_.Between(2, 8));
      EXPECT_TRUE(Ok(db_->SetDBOptions({{"max_background_jobs", jobs}})));
    }
    EXPECT_TRUE(Ok(db_->SetOptions(handles_.at(name), changes)));
  }
  size_t StoredBufferSize(const std::string& path,
                          const std::string& name) override {
    DBOptions unused;
    return Load(path, &unused)[name].write_buffer_size;
  }
  const void* TakeSnapshot() override { return db_->GetSnapshot(); }
  void ReleaseSnapshot(const void* snapshot) override {
    db_->ReleaseSnapshot(static_cast<const Snapshot*>(snapshot));
  }
  EntryList Scan(const std::string& name, const void* snapshot) override {
    EntryList entries;
    const auto it = db_->NewIterator(At(snapshot), handles_.at(name));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      entries.emplace_back(it->key().ToString(), it->value().ToString());
    }
    EXPECT_TRUE(Ok(it->status()));
    return entries;
  }
  EntryList ScanBackward(const std::string& name,
                         const void* snapshot) override {
    EntryList entries;
    const auto it = db_->NewIterator(At(snapshot), handles_.at(name));
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      entries.emplace_back(it->key().ToString(), it->value().ToString());
    }
    EXPECT_TRUE(Ok(it->status()));
    std::reverse(entries.begin(), entries.end());
    return entries;
  }
  EntryList ScanPrefix(const std::string& name,
                       const std::string& target) override {
    EntryList entries;
    const auto it =
        db_->NewIterator({.prefix_same_as_start = true}, handles_.at(name));
    for (it->Seek(target); it->Valid(); it->Next()) {
      entries.emplace_back(it->key().ToString(), it->value().ToString());
    }
    EXPECT_TRUE(Ok(it->status()));
    return entries;
  }
  std::string Get(const std::string& name, const std::string& key,
                  const void* snapshot) override {
    std::string value;
    Status s;
    if (random_.OneIn(2)) {
      s = db_->Get(At(snapshot), handles_.at(name), key, &value);
    } else {
      const Slice keys[] = {key};
      db_->MultiGet(At(snapshot), handles_.at(name), 1, keys, &value, &s);
    }
    return s.ok() ? value : s.IsNotFound() ? "NotFound" : s.ToString();
  }

 private:
  static ReadOptions At(const void* snapshot) {
    return {.snapshot = static_cast<const Snapshot*>(snapshot)};
  }
  // Returns the families' options of the newest OPTIONS file, if there is one,
  // and stores those of the database.
  static std::map<std::string, ColumnFamilyOptions> Load(
      const std::string& path, DBOptions* options) {
    std::vector<ColumnFamilyDescriptor> families;
    const Status s = LoadLatestOptions({}, path, options, &families);
    EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    std::map<std::string, ColumnFamilyOptions> by_name;
    for (auto& [name, family] : families) by_name[name] = family;
    return by_name;
  }
  ColumnFamilyOptions RandomOptions(const std::string& name) {
    Options options = TinyOptions();
    if (IsDescending(name)) options.comparator = ReverseBytewiseComparator();
    if (!setting_.merge_operator.empty()) {
      options.merge_operator = FindMergeOperator(setting_.merge_operator);
      EXPECT_NE(options.merge_operator, nullptr);
      options.max_successive_merges = random_.Pick<size_t>({0, 0, 1, 5});
    }
    options.target_file_size_base = random_.Pick<uint64_t>({4096, 64 << 10});
    options.compression = DrawCompression(&random_);
    if (random_.OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
    EXPECT_TRUE(
        Ok(SetOption("prefix_extractor", setting_.prefix_extractor, &options)));
    options.whole_key_filtering = random_.OneIn(2);
    options.memtable_prefix_bloom_size_ratio = random_.Pick({0.0, 0.1});
    options.partition_filters = random_.OneIn(3);
    if (options.partition_filters) {
      options.index_type = IndexType::kTwoLevelIndexSearch;
      options.metadata_block_size = 1 << 10;
    }
    options.block_size = random_.Pick<size_t>({256, 1 << 10, 4 << 10});
    return options;
  }

  Rng& random_;
  Setting setting_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
};

}  // namespace varve::test
