// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The bytes of a write batch, as WriteBatch takes them from outside. If one
// reader accepts a batch, all do, and it can be applied and written again.

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "db/memtable/memtable.h"
#include "db/write/write_batch_internal.h"
#include "test/fuzz/fuzz.h"
#include "varve/comparator.h"
#include "varve/write_batch.h"

namespace varve::fuzz {
namespace {

// Counts the updates, and adds them to another batch.
class Copier : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    Add(0, ValueType::kValue, key, value).IgnoreError();
  }
  void Delete(const Slice& key) override {
    Add(0, ValueType::kDeletion, key, Slice()).IgnoreError();
  }
  void Merge(const Slice& key, const Slice& operand) override {
    Add(0, ValueType::kMerge, key, operand).IgnoreError();
  }
  void DeleteRange(const Slice& begin, const Slice& end) override {
    Add(0, ValueType::kRangeDeletion, begin, end).IgnoreError();
  }
  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    return Add(family, ValueType::kValue, key, value);
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    return Add(family, ValueType::kDeletion, key, Slice());
  }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override {
    return Add(family, ValueType::kSingleDeletion, key, Slice());
  }
  Status MergeCF(uint32_t family, const Slice& key,
                 const Slice& operand) override {
    return Add(family, ValueType::kMerge, key, operand);
  }
  Status DeleteRangeCF(uint32_t family, const Slice& begin,
                       const Slice& end) override {
    return Add(family, ValueType::kRangeDeletion, begin, end);
  }

  WriteBatch copy;
  // Except the default one.
  std::set<uint32_t> families;
  uint32_t count = 0;
  size_t bytes = 0;

 private:
  Status Add(uint32_t family, ValueType type, const Slice& key,
             const Slice& value) {
    ++count;
    bytes += key.size() + value.size();
    if (family != 0) families.insert(family);
    WriteBatchInternal::Add(&copy, family, type, key, value);
    return Status::OK();
  }
};

// The default family and two others, one of which was dropped.
class Memtables : public MemTableChooser {
 public:
  explicit Memtables(const InternalKeyComparator* comparator) {
    for (MemTable*& memtable : memtables_) {
      memtable = new MemTable(comparator, 1, 64 << 10);
    }
  }
  ~Memtables() {
    for (MemTable* memtable : memtables_) {
      if (memtable->Unref()) delete memtable;
    }
  }
  MemTable* Choose(uint32_t family) override {
    return family % 3 == 2 ? nullptr : memtables_[family % 3];
  }

 private:
  std::array<MemTable*, 2> memtables_;
};

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  static const InternalKeyComparator comparator(BytewiseComparator());
  const WriteBatch batch(Bytes(data, size).ToString());
  Copier first;
  const bool whole = batch.Iterate(&first).ok();
  Require(first.bytes <= size, "no byte is seen twice");
  Memtables memtables(&comparator);
  const bool inserted = InsertBatch(batch.Data(), &memtables).ok();
  if (!whole) return 0;
  Require(inserted, "what can be read can be applied");
  Copier second;
  Require(first.copy.Iterate(&second).ok(), "it reads what it writes");
  Require(second.count == first.count && second.bytes == first.bytes &&
              second.families == first.families,
          "and the same");
  Require(second.copy.Data() == first.copy.Data(), "to the byte");
  std::set<uint32_t> counted;
  for (const auto& [id, bytes] : WriteBatchInternal::Families(first.copy)) {
    Require(counted.insert(id).second, "no family is counted twice");
  }
  Require(counted == first.families, "each family is counted");
  return 0;
}
