// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A log. Reading ends, and so does reading each record as a batch. Updates of
// column families that do not exist are ignored, whatever they are.

#include <memory>
#include <string>

#include "db/wal/wal_predecessor.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "test/fuzz/fuzz.h"
#include "test/fuzz/string_sequential_file.h"

namespace varve::fuzz {
namespace {

// No family exists.
class NoMemtable : public MemTableChooser {
 public:
  MemTable* Choose(uint32_t /*family*/) override { return nullptr; }
};

}  // namespace
}  // namespace varve::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  wal::Reader reader(std::make_unique<StringSequentialFile>(Bytes(data, size)),
                     "log", 7);
  Slice record;
  wal::ReadOutcome outcome;
  uint64_t end = 0;
  while ((outcome = reader.ReadRecord(&record)) == wal::ReadOutcome::kRecord) {
    Require(reader.RecordEnd() > end && reader.RecordEnd() <= size,
            "each record ends behind the one before");
    end = reader.RecordEnd();
    static_cast<void>(WalPredecessor::Decode(record));
    BatchReader batch;
    if (!batch.Init(record).ok()) continue;
    BatchRecord update;
    bool done = false;
    Status s;
    while ((s = batch.Next(&update, &done)).ok() && !done) {
      if (update.unsupported != nullptr) {
        Require(update.family != 0, "the default family was not dropped");
      }
    }
    NoMemtable none;
    if (s.ok()) {
      Require(InsertBatch(record, &none).ok(), "what is dropped is ignored");
    }
  }
  static_cast<void>(reader.EndIsTorn(outcome));
  Require(outcome == wal::ReadOutcome::kEnd || !reader.status().ok(),
          "what stopped it is said");
  return 0;
}
