// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: as session_store.cc, for merge operators and compaction filters.
// Compiled twice; what differs is in #ifdef VARVE_MOVED.
//
// Usage: counters DIRECTORY

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <memory>
#include <string>

#ifdef VARVE_MOVED
#include "varve/rocksdb.h"
#else
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#endif

using namespace ROCKSDB_NAMESPACE;

namespace {

class AddNumbers : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice& /*key*/, const Slice* existing_value,
             const Slice& value, std::string* new_value,
             Logger* /*logger*/) const override {
    uint64_t base = 0;
    if (existing_value != nullptr && !Decode(*existing_value, &base))
      return false;
    uint64_t operand = 0;
    if (!Decode(value, &operand)) return false;
    *new_value = Encode(base + operand);
    return true;
  }
  const char* Name() const override { return "AddNumbers"; }

  static std::string Encode(uint64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  static bool Decode(const Slice& slice, uint64_t* number) {
    if (slice.size() != sizeof(*number)) return false;
    std::memcpy(number, slice.data(), sizeof(*number));
    return true;
  }
};

// Keeps the last `limit` operands as a list.
class LastOnes : public MergeOperator {
 public:
  explicit LastOnes(size_t limit) : limit_(limit) {}
  bool FullMergeV2(const MergeOperationInput& merge_in,
                   MergeOperationOutput* merge_out) const override {
    std::deque<std::string> items;
    if (merge_in.existing_value != nullptr)
      Split(merge_in.existing_value->ToString(), &items);
    for (const Slice& operand : merge_in.operand_list)
      Split(operand.ToString(), &items);
    merge_out->new_value = Join(items);
    return true;
  }
  bool PartialMergeMulti(const Slice& /*key*/,
                         const std::deque<Slice>& operand_list,
                         std::string* new_value,
                         Logger* /*logger*/) const override {
    std::deque<std::string> items;
    for (const Slice& operand : operand_list) Split(operand.ToString(), &items);
    *new_value = Join(items);
    return true;
  }
  const char* Name() const override { return "LastOnes"; }

 private:
  void Split(const std::string& text, std::deque<std::string>* items) const {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      items->push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    while (items->size() > limit_) items->pop_front();
  }
  std::string Join(const std::deque<std::string>& items) const {
    std::string out;
    for (const std::string& item : items)
      out += (out.empty() ? "" : "\n") + item;
    return out;
  }
  const size_t limit_;
};

// Removes entries whose value ends in an expiry before `now`.
class Expire : public CompactionFilter {
 public:
  explicit Expire(uint64_t now) : now_(now) {}
  Decision FilterV2(int /*level*/, const Slice& key, ValueType value_type,
                    const Slice& existing_value, std::string* new_value,
                    std::string* /*skip_until*/) const override {
    if (value_type != ValueType::kValue || !key.starts_with("cache/"))
      return Decision::kKeep;
    uint64_t expiry = 0;
    if (existing_value.size() < sizeof(expiry)) return Decision::kRemove;
    std::memcpy(&expiry, existing_value.data(), sizeof(expiry));
    if (expiry < now_) return Decision::kRemove;
    if (existing_value.size() > 100) {
      new_value->assign(existing_value.data(), 100);
      return Decision::kChangeValue;
    }
    return Decision::kKeep;
  }
  const char* Name() const override { return "Expire"; }

 private:
  const uint64_t now_;
};

class ExpireFactory : public CompactionFilterFactory {
 public:
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& context) override {
    if (context.is_manual_compaction) ++manual;
    return std::make_unique<Expire>(now);
  }
  const char* Name() const override { return "ExpireFactory"; }

  uint64_t now = 0;
  int manual = 0;
};

int Fail(const Status& status) {
  std::cerr << "error: " << status.ToString() << "\n";
  return 1;
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const std::string path = argv[1];
  Options options;
  options.create_if_missing = true;
  options.merge_operator.reset(new AddNumbers);
  auto factory = std::make_shared<ExpireFactory>();
  options.compaction_filter_factory = factory;
  options.max_successive_merges = 100;
  options.compaction_pri = kMinOverlappingRatio;
#ifndef VARVE_MOVED
  options.env->SetBackgroundThreads(2, Env::Priority::LOW);
#endif
  if (Status s = DestroyDB(path, options); !s.ok()) return Fail(s);

  DB* raw = nullptr;
  Status s = DB::Open(options, path, &raw);
  if (!s.ok()) return Fail(s);
  std::unique_ptr<DB> db(raw);

  for (int i = 0; i < 100; ++i) {
    s = db->Merge(WriteOptions(), "counter/" + std::to_string(i % 4),
                  AddNumbers::Encode(i));
    if (!s.ok()) return Fail(s);
  }
  for (int i = 0; i < 4; ++i) {
    std::string value;
    uint64_t number = 0;
    s = db->Get(ReadOptions(), "counter/" + std::to_string(i), &value);
    if (!s.ok()) return Fail(s);
    if (!AddNumbers::Decode(value, &number)) return 1;
    std::cout << "counter " << i << " = " << number << "\n";
  }

  ColumnFamilyOptions list_options(options);
  list_options.merge_operator = std::make_shared<LastOnes>(3);
  list_options.compaction_filter_factory.reset();
  ColumnFamilyHandle* lists = nullptr;
  s = db->CreateColumnFamily(list_options, "lists", &lists);
  if (!s.ok()) return Fail(s);
  for (int i = 0; i < 10; ++i) {
    s = db->Merge(WriteOptions(), lists, "recent", "page " + std::to_string(i));
    if (!s.ok()) return Fail(s);
    if (i == 5) s = db->Flush(FlushOptions(), lists);
    if (!s.ok()) return Fail(s);
  }
  PinnableSlice recent;
  s = db->Get(ReadOptions(), lists, "recent", &recent);
  if (!s.ok()) return Fail(s);
  std::cout << recent.ToString() << "\n";
  recent.Reset();

  for (uint64_t expiry = 1; expiry <= 20; ++expiry) {
    s = db->Put(WriteOptions(), "cache/" + std::to_string(expiry),
                AddNumbers::Encode(expiry) + std::string(200, 'x'));
    if (!s.ok()) return Fail(s);
  }
  factory->now = 11;
  s = db->CompactRange(CompactRangeOptions(), nullptr, nullptr);
  if (!s.ok()) return Fail(s);
  int left = 0;
  size_t bytes = 0;
  std::unique_ptr<Iterator> it(db->NewIterator(ReadOptions()));
  for (it->Seek("cache/"); it->Valid() && it->key().starts_with("cache/");
       it->Next()) {
    ++left;
    bytes += it->value().size();
  }
  if (!it->status().ok()) return Fail(it->status());
  it.reset();
  std::cout << left << " entries, " << bytes
            << " bytes, filtered: " << (factory->manual > 0) << "\n";

  s = db->DestroyColumnFamilyHandle(lists);
  if (!s.ok()) return Fail(s);
  s = db->Close();
  if (!s.ok()) return Fail(s);
  db.reset();
  return 0;
}
