// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The bytes of a write batch, as WriteBatch takes them from outside. If one
// reader accepts a batch, all do, and it can be applied.

#include <string>

#include "db/memtable/memtable.h"
#include "db/write/write_batch_internal.h"
#include "test/fuzz/fuzz.h"
#include "varve/comparator.h"
#include "varve/write_batch.h"

namespace varve::fuzz {
namespace {

class Counter : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    ++count;
    bytes += key.size() + value.size();
  }
  void Delete(const Slice& key) override {
    ++count;
    bytes += key.size();
  }
  void DeleteRange(const Slice& begin, const Slice& end) override {
    ++count;
    bytes += begin.size() + end.size();
  }
  uint32_t count = 0;
  size_t bytes = 0;
};

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  static const InternalKeyComparator comparator(BytewiseComparator());
  const WriteBatch batch(Bytes(data, size).ToString());
  Counter counter;
  const bool whole = batch.Iterate(&counter).ok();
  Require(counter.bytes <= size, "no byte is seen twice");
  auto* const memtable = new MemTable(&comparator, 1, 64 << 10);
  const bool inserted = InsertBatchInto(batch.Data(), memtable).ok();
  if (whole) Require(inserted, "what can be read can be applied");
  if (memtable->Unref()) delete memtable;
  return 0;
}
