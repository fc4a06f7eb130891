// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Varve and RocksDB under one interface, for tests in which one opens what the
// other left. Errors fail the test.

#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/tools.h"
#include "varve/column_family.h"
#include "varve/external_files.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"
#include "varve/sst_file_writer.h"

namespace varve::test {

// Families of these names have keys in descending order.
inline bool IsDescending(const std::string& name) {
  return name.starts_with("descending");
}

// Ors the bytes of two strings, of which the shorter one ends with zeros.
inline std::string Or(std::string value, const std::string& operand) {
  value.resize(std::max(value.size(), operand.size()));
  for (size_t i = 0; i < operand.size(); ++i) {
    value[i] = static_cast<char>(value[i] | operand[i]);
  }
  return value;
}

struct Update {
  enum class Kind { kPut, kMerge, kDelete, kSingleDelete, kDeleteRange };

  Kind kind = Kind::kPut;
  std::string key;
  std::string value;  // The value, the operand, or the end of a range.
  std::string family = kDefaultColumnFamilyName;
};

// The options of a session.
struct Setting {
  bool read_only = false;  // The logs are kept.
  bool atomic_flush = false;
  uint64_t max_total_wal_size = 0;
  std::string merge_operator;
  // The database may have range deletions. RocksDB 7.8 splits the versions of a
  // key between two files of a level. If the first one has an older range
  // deletion of the key, its Get does not look into the second. So it only
  // reads operands by iterators, and not at all in Merge.
  bool has_ranges = false;
};

// One of the two engines, with a database open or not.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::vector<std::string> List(const std::string& path) = 0;
  virtual void Open(const std::string& path, const Setting& setting,
                    const std::vector<std::string>& names) = 0;
  virtual void Close() = 0;
  // Returns the family's id.
  virtual uint32_t Create(const std::string& name) = 0;
  virtual void Drop(const std::string& name) = 0;
  virtual uint32_t Id(const std::string& name) = 0;
  virtual void Write(const std::vector<Update>& batch, bool disable_wal) = 0;
  virtual void Flush(const std::vector<std::string>& names) = 0;
  // Writes a table for the family, by an SstFileWriter. The updates are in the
  // order of the keys, but for range deletions.
  virtual void WriteTable(const std::string& name, const std::string& file,
                          const std::vector<Update>& updates) = 0;
  // Ingests the files. With `moves`, they are gone afterwards.
  virtual void Ingest(const std::string& name,
                      const std::vector<std::string>& files, bool moves) = 0;
  // Null for all keys.
  virtual void Compact(const std::string& name, const std::string* begin,
                       const std::string* end) = 0;
  virtual const void* TakeSnapshot() = 0;
  virtual void ReleaseSnapshot(const void* snapshot) = 0;
  // At a snapshot, or null for now.
  virtual EntryList Scan(const std::string& name, const void* snapshot) = 0;
  // Backwards, but the list is in order.
  virtual EntryList ScanBackward(const std::string& name,
                                 const void* snapshot) = 0;
  // Returns the value, or "NotFound".
  virtual std::string Get(const std::string& name, const std::string& key,
                          const void* snapshot) = 0;
};

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
    options.atomic_flush = setting.atomic_flush;
    options.max_total_wal_size = setting.max_total_wal_size;
    options.max_subcompactions = random_.Between(1, 3);
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, RandomOptions(name));
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
  ColumnFamilyOptions RandomOptions(const std::string& name) {
    Options options = TinyOptions();
    if (IsDescending(name)) options.comparator = ReverseBytewiseComparator();
    if (!setting_.merge_operator.empty()) {
      options.merge_operator = FindMergeOperator(setting_.merge_operator);
      EXPECT_NE(options.merge_operator, nullptr);
      options.max_successive_merges = random_.Pick<size_t>({0, 0, 1, 5});
    }
    options.target_file_size_base = random_.Pick<uint64_t>({4096, 64 << 10});
    options.compression =
        AllCompressions()[random_.Below(AllCompressions().size())].second;
    if (random_.OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
    options.block_size = random_.Pick<size_t>({256, 1 << 10, 4 << 10});
    return options;
  }

  Rng& random_;
  Setting setting_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
};

// RocksDB has no operator BytesOR, and gets this one.
class RocksDbBytesOr {
 public:
  static void* New(const RocksDbLibrary& library) {
    void* const null = nullptr;
    return library.Call<void*>("mergeoperator_create", null, &FreeNothing,
                               &Fully, &Partially, null, &Name);
  }

 private:
  // Ors operands, also into an existing value, in memory for free().
  static char* All(std::string value, const char* const* operands,
                   const size_t* operand_sizes, int operand_count,
                   unsigned char* success, size_t* size) {
    for (int i = 0; i < operand_count; ++i) {
      value = Or(std::move(value), std::string(operands[i], operand_sizes[i]));
    }
    *success = 1;
    *size = value.size();
    char* const copy = static_cast<char*>(malloc(value.size() + 1));
    memcpy(copy, value.data(), value.size());
    return copy;
  }
  static char* Fully(void* /*state*/, const char* /*key*/, size_t /*key_size*/,
                     const char* existing, size_t existing_size,
                     const char* const* operands, const size_t* operand_sizes,
                     int operand_count, unsigned char* success, size_t* size) {
    return All(existing == nullptr ? "" : std::string(existing, existing_size),
               operands, operand_sizes, operand_count, success, size);
  }
  static char* Partially(void* /*state*/, const char* /*key*/,
                         size_t /*key_size*/, const char* const* operands,
                         const size_t* operand_sizes, int operand_count,
                         unsigned char* success, size_t* size) {
    return All("", operands, operand_sizes, operand_count, success, size);
  }
  static void FreeNothing(void* /*state*/) {}
  static const char* Name(void* /*state*/) { return "BytesOR"; }
};

class RocksDbEngine : public Engine, public RocksDbLibrary {
 public:
  explicit RocksDbEngine(Rng* random) : random_(*random) {}

  std::vector<std::string> List(const std::string& path) override {
    size_t count = 0;
    char** const list = CallChecked<char**>(
        "list_column_families", NewOptions(""), path.c_str(), &count);
    if (list == nullptr) return {};
    std::vector<std::string> names(list, list + count);
    Call<void>("list_column_families_destroy", list, count);
    DeleteOptions();
    return names;
  }
  void Open(const std::string& path, const Setting& setting,
            const std::vector<std::string>& names) override {
    setting_ = setting;
    std::string text = "create_if_missing=true;";
    if (setting.atomic_flush) text += "atomic_flush=true;";
    // Keeps the logs that it recovered instead of flushing them.
    if (random_.OneIn(2)) text += "avoid_flush_during_recovery=true;";
    text += "max_total_wal_size=" + std::to_string(setting.max_total_wal_size);
    void* const options = NewOptions(text);
    std::vector<const char*> texts;
    std::vector<void*> family_options;
    for (const std::string& name : names) {
      texts.push_back(name.c_str());
      family_options.push_back(NewFamilyOptions(name));
    }
    std::vector<void*> handles(names.size());
    const int count = static_cast<int>(names.size());
    db_ = setting.read_only
              ? CallChecked<void*>("open_for_read_only_column_families",
                                   options, path.c_str(), count, texts.data(),
                                   family_options.data(), handles.data(),
                                   static_cast<unsigned char>(0))
              : CallChecked<void*>("open_column_families", options,
                                   path.c_str(), count, texts.data(),
                                   family_options.data(), handles.data());
    ASSERT_NE(db_, nullptr) << text;
    for (size_t i = 0; i < names.size(); ++i) handles_[names[i]] = handles[i];
    read_options_ = Call<void*>("readoptions_create");
  }
  void Close() override {
    for (const auto& [name, handle] : handles_) {
      Call<void>("column_family_handle_destroy", handle);
    }
    handles_.clear();
    Call<void>("close", db_);
    db_ = nullptr;
    Call<void>("readoptions_destroy", read_options_);
    DeleteOptions();
  }
  uint32_t Create(const std::string& name) override {
    void* const handle = CallChecked<void*>(
        "create_column_family", db_, NewFamilyOptions(name), name.c_str());
    if (handle == nullptr) return 0;
    handles_[name] = handle;
    return Id(name);
  }
  void Drop(const std::string& name) override {
    CallChecked<void>("drop_column_family", db_, handles_.at(name));
    Call<void>("column_family_handle_destroy", handles_.at(name));
    handles_.erase(name);
  }
  uint32_t Id(const std::string& name) override {
    return Call<uint32_t>("column_family_handle_get_id", handles_.at(name));
  }
  void Write(const std::vector<Update>& batch, bool disable_wal) override {
    void* const bytes = Call<void*>("writebatch_create");
    for (const auto& [kind, key, value, name] : batch) {
      void* const family = handles_.at(name);
      const auto add = [&, &k = key](const char* call, auto... end) {
        Call<void>(call, bytes, family, k.data(), k.size(), end...);
      };
      using enum Update::Kind;
      const char* const end = value.data();
      const size_t end_size = value.size();
      if (kind == kPut) add("writebatch_put_cf", end, end_size);
      if (kind == kMerge) add("writebatch_merge_cf", end, end_size);
      if (kind == kDelete) add("writebatch_delete_cf");
      if (kind == kSingleDelete) add("writebatch_singledelete_cf");
      if (kind == kDeleteRange) {
        add("writebatch_delete_range_cf", end, end_size);
      }
    }
    void* const options = Call<void*>("writeoptions_create");
    Call<void>("writeoptions_disable_WAL", options, disable_wal ? 1 : 0);
    CallChecked<void>("write", db_, options, bytes);
    Call<void>("writeoptions_destroy", options);
    Call<void>("writebatch_destroy", bytes);
  }
  // The C interface flushes one at a time. Full memtables of several are
  // flushed together if flushes are atomic.
  void Flush(const std::vector<std::string>& names) override {
    void* const options = Call<void*>("flushoptions_create");
    for (const std::string& name : names) {
      CallChecked<void>("flush_cf", db_, options, handles_.at(name));
    }
    Call<void>("flushoptions_destroy", options);
  }
  void WriteTable(const std::string& name, const std::string& file,
                  const std::vector<Update>& updates) override {
    void* const env_options = Call<void*>("envoptions_create");
    void* const writer = Call<void*>("sstfilewriter_create", env_options,
                                     NewFamilyOptions(name));
    CallChecked<void>("sstfilewriter_open", writer, file.c_str());
    for (const auto& [kind, key, value, family] : updates) {
      const auto add = [&, &k = key](const char* call, auto... end) {
        CallChecked<void>(call, writer, k.data(), k.size(), end...);
      };
      using enum Update::Kind;
      const char* const end = value.data();
      const size_t end_size = value.size();
      if (kind == kPut) add("sstfilewriter_put", end, end_size);
      if (kind == kMerge) add("sstfilewriter_merge", end, end_size);
      if (kind == kDelete) add("sstfilewriter_delete");
      if (kind == kDeleteRange) {
        add("sstfilewriter_delete_range", end, end_size);
      }
    }
    CallChecked<void>("sstfilewriter_finish", writer);
    Call<void>("sstfilewriter_destroy", writer);
    Call<void>("envoptions_destroy", env_options);
  }
  void Ingest(const std::string& name, const std::vector<std::string>& files,
              bool moves) override {
    std::vector<const char*> texts;
    for (const std::string& file : files) texts.push_back(file.c_str());
    void* const options = Call<void*>("ingestexternalfileoptions_create");
    Call<void>("ingestexternalfileoptions_set_move_files", options,
               static_cast<unsigned char>(moves));
    CallChecked<void>("ingest_external_file_cf", db_, handles_.at(name),
                      texts.data(), texts.size(), options);
    Call<void>("ingestexternalfileoptions_destroy", options);
  }
  void Compact(const std::string& name, const std::string* begin,
               const std::string* end) override {
    const char* const none = nullptr;
    Call<void>("compact_range_cf", db_, handles_.at(name),
               begin == nullptr ? none : begin->data(),
               begin == nullptr ? size_t{0} : begin->size(),
               end == nullptr ? none : end->data(),
               end == nullptr ? size_t{0} : end->size());
  }
  const void* TakeSnapshot() override {
    return Call<const void*>("create_snapshot", db_);
  }
  void ReleaseSnapshot(const void* snapshot) override {
    Call<void>("release_snapshot", db_, snapshot);
  }
  EntryList Scan(const std::string& name, const void* snapshot) override {
    return Walk(name, snapshot, "iter_seek_to_first", "iter_next");
  }
  EntryList ScanBackward(const std::string& name,
                         const void* snapshot) override {
    EntryList entries = Walk(name, snapshot, "iter_seek_to_last", "iter_prev");
    std::reverse(entries.begin(), entries.end());
    return entries;
  }
  std::string Get(const std::string& name, const std::string& key,
                  const void* snapshot) override {
    Call<void>("readoptions_set_snapshot", read_options_, snapshot);
    if (setting_.has_ranges) return Find(name, key);
    size_t size = 0;
    char* const value =
        CallChecked<char*>("get_cf", db_, read_options_, handles_.at(name),
                           key.data(), key.size(), &size);
    if (value == nullptr) return "NotFound";
    std::string copy(value, size);
    Call<void>("free", value);
    return copy;
  }

 private:
  std::string Text(const char* call, void* it) {
    size_t size = 0;
    const char* const bytes = Call<const char*>(call, it, &size);
    return std::string(bytes, size);
  }
  std::string Find(const std::string& name, const std::string& key) {
    void* const it = Call<void*>("create_iterator_cf", db_, read_options_,
                                 handles_.at(name));
    Call<void>("iter_seek", it, key.data(), key.size());
    std::string value = "NotFound";
    if (Call<unsigned char>("iter_valid", it) != 0 &&
        Text("iter_key", it) == key) {
      value = Text("iter_value", it);
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    return value;
  }
  EntryList Walk(const std::string& name, const void* snapshot,
                 const char* seek, const char* step) {
    EntryList entries;
    Call<void>("readoptions_set_snapshot", read_options_, snapshot);
    void* const it = Call<void*>("create_iterator_cf", db_, read_options_,
                                 handles_.at(name));
    for (Call<void>(seek, it); Call<unsigned char>("iter_valid", it) != 0;
         Call<void>(step, it)) {
      entries.emplace_back(Text("iter_key", it), Text("iter_value", it));
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    return entries;
  }
  // The options live until DeleteOptions.
  void* NewOptions(const std::string& text) {
    void* const defaults = Call<void*>("options_create");
    void* const options = Call<void*>("options_create");
    CallChecked<void>("get_options_from_string", defaults, text.c_str(),
                      options);
    all_options_.push_back(defaults);
    all_options_.push_back(options);
    return options;
  }
  void DeleteOptions() {
    for (void* options : all_options_) Call<void>("options_destroy", options);
    all_options_.clear();
  }
  void* NewFamilyOptions(const std::string& name) {
    std::string text =
        "write_buffer_size=65536;max_bytes_for_level_base=131072;";
    const std::string& merges = setting_.merge_operator;
    if (!merges.empty() && merges != "bytesor") {
      text += "merge_operator=" + merges + ";";
    }
    if (!merges.empty() && !setting_.has_ranges) {
      text +=
          "max_successive_merges=" + std::to_string(random_.Pick({0, 0, 5})) +
          ";";
    }
    if (IsDescending(name)) {
      text += "comparator=rocksdb.ReverseBytewiseComparator;";
    }
    text += "target_file_size_base=";
    text += std::to_string(random_.Pick({4096, 65536}));
    text += ";compression=";
    text += random_.Pick<const char*>(
        {"kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"});
    text += ";block_based_table_factory={block_size=";
    text += std::to_string(random_.Pick({256, 1024, 4096}));
    text += ";format_version=" + std::to_string(random_.Between(2, 5));
    text += random_.OneIn(2) ? ";filter_policy=bloomfilter:10:false" : "";
    void* const options = NewOptions(text + "};");
    if (merges == "bytesor") {
      Call<void>("options_set_merge_operator", options,
                 RocksDbBytesOr::New(*this));
    }
    return options;
  }

  Rng& random_;
  Setting setting_;
  void* db_ = nullptr;
  void* read_options_ = nullptr;
  std::map<std::string, void*> handles_;
  std::vector<void*> all_options_;
};

// The two engines in the order of a session: which writes, and which reads.
struct EnginePair {
  explicit EnginePair(Rng* random) : varve(random), rocksdb(random) {}

  std::pair<Engine*, Engine*> Shuffled(Rng* random) {
    if (random->OneIn(2)) return {&varve, &rocksdb};
    return {&rocksdb, &varve};
  }
  const char* WriterName(const Engine* writer) const {
    return writer == &varve ? "Varve wrote" : "RocksDB wrote";
  }

  VarveEngine varve;
  RocksDbEngine rocksdb;
};

}  // namespace varve::test
