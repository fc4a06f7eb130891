// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: as session_store.cc, for column families, a comparator of the program's
// own, and iterators over several families.
// Compiled twice; what differs is in #ifdef VARVE_MOVED.
//
// Usage: event_store DIRECTORY

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef VARVE_MOVED
#include "varve/rocksdb.h"
#else
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/table.h>
#endif

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::Iterator;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

namespace events {

void ThrowIfBad(const Status& status, const std::string& what) {
  if (!status.ok()) throw std::runtime_error(what + ": " + status.ToString());
}

// Orders 8-byte big numbers descending, so the newest event comes first.
class NewestFirst : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "events.NewestFirst"; }
  int Compare(const Slice& a, const Slice& b) const override {
    return -a.compare(b);
  }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

std::string EncodeNumber(uint64_t number) {
  std::string out(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8)
    out[i] = static_cast<char>(number & 0xff);
  return out;
}

class EventStore {
 public:
  explicit EventStore(const std::string& path) : path_(path) {
    DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.max_open_files = -1;
    options.use_fsync = false;
    options.max_total_wal_size = 256 << 20;
    options.env = rocksdb::Env::Default();
    options.enable_pipelined_write = true;
    options.max_subcompactions = 2;
    options.db_write_buffer_size = 128 << 20;

    std::vector<std::string> names;
    Status status = DB::ListColumnFamilies(options, path, &names);
    if (!status.ok()) names = {rocksdb::kDefaultColumnFamilyName};
    for (const char* needed : {"events", "by_user", "meta"}) {
      if (std::find(names.begin(), names.end(), needed) == names.end())
        names.push_back(needed);
    }
    std::vector<ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : names)
      descriptors.emplace_back(name, OptionsOf(name));
    std::vector<ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    ThrowIfBad(DB::Open(options, path, descriptors, &handles, &db), "open");
    db_.reset(db);
    for (ColumnFamilyHandle* handle : handles)
      handles_[handle->GetName()] = handle;
  }

  ~EventStore() {
    rocksdb::CancelAllBackgroundWork(db_.get(), true);
    for (auto& [name, handle] : handles_) {
      (void)db_->DestroyColumnFamilyHandle(handle);
    }
    db_.reset();
  }

  void Add(uint64_t time, const std::string& user, const std::string& text) {
    WriteBatch batch;
    batch.Merge(handles_["meta"], "unused", "x");
    batch.Clear();
    batch.Put(handles_["events"], EncodeNumber(time), user + ":" + text);
    batch.Put(handles_["by_user"], user + "/" + EncodeNumber(time), Slice());
    batch.Put(handles_["meta"], "last", EncodeNumber(time));
    WriteOptions options;
    options.sync = false;
    options.no_slowdown = false;
    options.low_pri = false;
    ThrowIfBad(db_->Write(options, &batch), "write");
  }

  std::vector<std::string> Newest(size_t limit) {
    std::vector<std::string> out;
    ReadOptions options;
    options.readahead_size = 2 << 20;
    options.async_io = true;
    std::unique_ptr<Iterator> it(db_->NewIterator(options, handles_["events"]));
    for (it->SeekToFirst(); it->Valid() && out.size() < limit; it->Next()) {
      out.push_back(it->value().ToString());
    }
    ThrowIfBad(it->status(), "scan");
    return out;
  }

  size_t CountOf(const std::string& user) {
    rocksdb::ManagedSnapshot snapshot(db_.get());
    ReadOptions options;
    options.snapshot = snapshot.snapshot();
    std::vector<Iterator*> iterators;
    ThrowIfBad(
        db_->NewIterators(options, {handles_["by_user"], handles_["meta"]},
                          &iterators),
        "iterators");
    size_t count = 0;
    const std::string prefix = user + "/";
    for (iterators[0]->Seek(prefix);
         iterators[0]->Valid() && iterators[0]->key().starts_with(prefix);
         iterators[0]->Next()) {
      ++count;
    }
    for (Iterator* it : iterators) delete it;
    return count;
  }

  bool Has(uint64_t time) {
    std::string value;
    bool found = false;
    const std::string key = EncodeNumber(time);
    if (!db_->KeyMayExist(ReadOptions(), handles_["events"], key, &value,
                          &found))
      return false;
    if (found) return true;
    const Status status =
        db_->Get(ReadOptions(), handles_["events"], key, &value);
    if (status.code() ==
#ifdef VARVE_MOVED
        Status::Code::kNotFound
#else
        Status::kNotFound
#endif
    )
      return false;
    ThrowIfBad(status, "get");
    return true;
  }

  std::vector<std::string> Read(const std::vector<uint64_t>& times) {
    std::vector<std::string> keys;
    for (uint64_t time : times) keys.push_back(EncodeNumber(time));
    std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet(ReadOptions(), handles_["events"], slices.size(),
                  slices.data(), values.data(), statuses.data(),
                  /*sorted_input=*/false);
    std::vector<std::string> out;
    for (size_t i = 0; i < keys.size(); ++i) {
      out.push_back(statuses[i].ok() ? values[i].ToString() : "?");
    }
    return out;
  }

  void DropOlderThan(uint64_t time) {
    // Newest first, so that older events are after this key.
    ThrowIfBad(db_->DeleteRange(WriteOptions(), handles_["events"],
                                EncodeNumber(time), EncodeNumber(0)),
               "delete range");
    ThrowIfBad(db_->Flush(rocksdb::FlushOptions(),
                          {handles_["events"], handles_["by_user"]}),
               "flush");
    const std::string end = EncodeNumber(0);
    const Slice last(end);
    ThrowIfBad(db_->CompactRange(rocksdb::CompactRangeOptions(),
                                 handles_["events"], nullptr, &last),
               "compact");
    ThrowIfBad(db_->SetOptions(handles_["events"],
                               {{"disable_auto_compactions", "true"}}),
               "options");
    ThrowIfBad(db_->EnableAutoCompaction({handles_["events"]}), "enable");
#ifndef VARVE_MOVED
    ThrowIfBad(db_->SetDBOptions({{"max_background_jobs", "3"}}),
               "database options");
#endif
  }

  void AddTemporary() {
    ColumnFamilyHandle* handle = nullptr;
    ThrowIfBad(
        db_->CreateColumnFamily(ColumnFamilyOptions(), "temporary", &handle),
        "create");
    ThrowIfBad(db_->Put(WriteOptions(), handle, "a", "b"), "put");
    ThrowIfBad(db_->DropColumnFamily(handle), "drop");
    ThrowIfBad(db_->DestroyColumnFamilyHandle(handle), "release");
  }

 private:
  static ColumnFamilyOptions OptionsOf(const std::string& name) {
    static const NewestFirst newest_first;
    ColumnFamilyOptions options;
    options.write_buffer_size = 4 << 20;
    options.num_levels = 6;
    options.compression_per_level = {rocksdb::kNoCompression,
                                     rocksdb::kNoCompression,
                                     rocksdb::kSnappyCompression};
    options.memtable_prefix_bloom_size_ratio = 0.1;
    options.compaction_style = rocksdb::kCompactionStyleLevel;
    options.min_write_buffer_number_to_merge = 1;
    if (name == "events") options.comparator = &newest_first;
    if (name == "by_user")
      options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(4));
    if (name == "meta") options.OptimizeForPointLookup(8);
    return options;
  }

  const std::string path_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
};

}  // namespace events

int main(int /*argc*/, char** argv) {
  const std::string path = argv[1];
  events::ThrowIfBad(rocksdb::DestroyDB(path, rocksdb::Options()), "destroy");
  for (int session = 0; session < 2; ++session) {
    events::EventStore store(path);
    for (uint64_t i = 0; i < 500; ++i) {
      store.Add(session * 500 + i, i % 3 == 0 ? "anna" : "boris",
                "event " + std::to_string(i));
    }
    for (const std::string& event : store.Newest(3)) std::cout << event << "\n";
    std::cout << store.CountOf("anna") << " " << store.Has(7) << store.Has(7777)
              << "\n";
    for (const std::string& event : store.Read({1, 2, 40000}))
      std::cout << event << "\n";
    store.DropOlderThan(session * 500 + 100);
    store.AddTemporary();
    std::cout << store.Has(7) << store.Has(session * 500 + 101) << "\n";
  }
  return 0;
}
