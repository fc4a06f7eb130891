// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "test/testing/directory.h"
#include "test/testing/engines/engine.h"
#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"

namespace varve::test {

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
    void* options = NewOptions(text);
    std::map<std::string, void*> loaded;
    if (setting.loads_options) loaded = Load(path, &options);
    std::vector<const char*> texts;
    std::vector<void*> family_options;
    for (const std::string& name : names) {
      texts.push_back(name.c_str());
      family_options.push_back(
          loaded.count(name) == 0
              ? NewFamilyOptions(name)
              : NewOptions(
                    "prefix_extractor=" + setting.prefix_extractor +
                        (setting.has_ranges ? ";max_successive_merges=0" : ""),
                    loaded[name]));
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
    // Walks leave the prefix of their first key.
    Call<void>("readoptions_set_total_order_seek", read_options_,
               static_cast<unsigned char>(1));
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
  void CompactSome(const std::string& name, const std::string& first,
                   const std::string& last) override {
    CallChecked<void>("suggest_compact_range_cf", db_, handles_.at(name),
                      first.data(), first.size(), last.data(), last.size());
  }
  void DeleteFiles(const std::string& name, const std::string& first,
                   const std::string& last) override {
    CallChecked<void>("delete_file_in_range_cf", db_, handles_.at(name),
                      first.data(), first.size(), last.data(), last.size());
  }
  void SetOptions(const std::string& name,
                  const std::map<std::string, std::string>& changes) override {
    std::vector<const char*> names;
    std::vector<const char*> values;
    for (const auto& [option, value] : changes) {
      names.push_back(option.c_str());
      values.push_back(value.c_str());
    }
    CallChecked<void>("set_options_cf", db_, handles_.at(name),
                      static_cast<int>(names.size()), names.data(),
                      values.data());
  }
  size_t StoredBufferSize(const std::string& path,
                          const std::string& name) override {
    void* unused = nullptr;
    const size_t size = Call<size_t>("options_get_write_buffer_size",
                                     Load(path, &unused)[name]);
    DeleteOptions();
    return size;
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
  EntryList ScanPrefix(const std::string& name,
                       const std::string& target) override {
    void* const options = Call<void*>("readoptions_create");
    Call<void>("readoptions_set_prefix_same_as_start", options,
               static_cast<unsigned char>(1));
    void* const it =
        Call<void*>("create_iterator_cf", db_, options, handles_.at(name));
    Call<void>("iter_seek", it, target.data(), target.size());
    EntryList entries = Rest(it, "iter_next");
    Call<void>("readoptions_destroy", options);
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
    Call<void>("readoptions_set_snapshot", read_options_, snapshot);
    void* const it = Call<void*>("create_iterator_cf", db_, read_options_,
                                 handles_.at(name));
    Call<void>(seek, it);
    return Rest(it, step);
  }
  // Returns the entries from the place on, and destroys the iterator.
  EntryList Rest(void* it, const char* step) {
    EntryList entries;
    for (; Call<unsigned char>("iter_valid", it) != 0; Call<void>(step, it)) {
      entries.emplace_back(Text("iter_key", it), Text("iter_value", it));
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    return entries;
  }
  // Starts from `base`, or the defaults. The options live until DeleteOptions.
  void* NewOptions(const std::string& text, const void* base = nullptr) {
    void* const options = Call<void*>("options_create");
    all_options_.push_back(options);
    CallChecked<void>("get_options_from_string",
                      base == nullptr ? options : base, text.c_str(), options);
    return options;
  }
  // Returns the families' options of the newest OPTIONS file, if there is one,
  // and stores those of the database. They live until DeleteOptions.
  std::map<std::string, void*> Load(const std::string& path, void** options) {
    if (FilesStartingWith(path, "OPTIONS-").empty()) return {};
    void* const env = Call<void*>("create_default_env");
    CallChecked<void>("load_latest_options", path.c_str(), env,
                      /*ignore_unknown_options=*/false,
                      static_cast<void*>(nullptr), &loaded_.database,
                      &loaded_.count, &loaded_.names, &loaded_.families);
    Call<void>("env_destroy", env);
    *options = loaded_.database;
    std::map<std::string, void*> by_name;
    for (size_t i = 0; i < loaded_.count; ++i) {
      by_name[loaded_.names[i]] = loaded_.families[i];
    }
    return by_name;
  }
  void DeleteOptions() {
    for (void* options : all_options_) Call<void>("options_destroy", options);
    all_options_.clear();
    if (loaded_.count == 0) return;
    Call<void>("load_latest_options_destroy", loaded_.database, loaded_.names,
               loaded_.families, loaded_.count);
    loaded_ = {};
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
    text += "prefix_extractor=" + setting_.prefix_extractor;
    if (random_.OneIn(2)) text += ";memtable_prefix_bloom_size_ratio=0.1";
    text += ";target_file_size_base=";
    text += std::to_string(random_.Pick({4096, 65536}));
    text += ";compression=";
    text += random_.Pick<const char*>(
        {"kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"});
    text += ";block_based_table_factory={block_size=";
    text += std::to_string(random_.Pick({256, 1024, 4096}));
    text += ";format_version=" + std::to_string(random_.Between(2, 5));
    text += random_.OneIn(2) ? ";filter_policy=bloomfilter:10:false" : "";
    text += random_.OneIn(2) ? ";whole_key_filtering=false" : "";
    if (random_.OneIn(3)) {
      text +=
          ";index_type=kTwoLevelIndexSearch;partition_filters=true;"
          "metadata_block_size=1024";
    }
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
  struct {
    void* database = nullptr;
    size_t count = 0;
    char** names = nullptr;
    void** families = nullptr;
  } loaded_;
};

}  // namespace varve::test
