// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A whole table. It is refused, or can be walked both ways and asked; what
// verification takes, a walk gets through.

#include <memory>
#include <string>

#include "table/block/internal_iterator.h"
#include "table/reader/table.h"
#include "test/fuzz/fuzz.h"
#include "test/testing/env/string_random_access_file.h"
#include "varve/comparator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  using namespace varve::fuzz;
  static const InternalKeyComparator comparator(BytewiseComparator());
  TableReaderOptions options;
  options.comparator = &comparator;
  options.file_name = "f";
  options.file_size = size;
  std::unique_ptr<Table> table;
  const Status opened =
      Table::Open(options,
                  std::make_unique<testing::StringRandomAccessFile>(
                      Bytes(data, size).ToString()),
                  &table);
  if (!opened.ok()) return 0;
  const bool verified = table->VerifyChecksum().ok();
  const auto iterator = table->NewIterator(ReadOptions());
  uint64_t count = 0;
  std::string last;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    last = iterator->key().ToString();
    Require(++count <= size, "an entry has a byte");
  }
  if (verified) Require(iterator->status().ok(), "what is verified is read");
  if (!last.empty()) {
    iterator->Seek(last);
    for (int i = 0; i < 3 && iterator->Valid(); ++i) iterator->Prev();
    static_cast<void>(table->ApproximateOffsetOf(last));
  }
  iterator->SeekToLast();
  return 0;
}
