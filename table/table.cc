// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/table.h"

#include <utility>

#include "monitoring/statistics.h"
#include "table/block.h"
#include "table/block_cache.h"
#include "table/table_core.h"
#include "table/table_iterator.h"
#include "table/table_opener.h"
#include "table/table_verifier.h"

namespace varve {

struct Table::Rep {
  TableCore core;
};

namespace {

// What an entry means for a lookup. Takes the block away for a value.
LookupState Conclude(const BlockIterator& entry, BlockRef* block,
                     PinnableSlice* value) {
  if (ExtractValueType(entry.key()) != ValueType::kValue) {
    return LookupState::kDeleted;
  }
  value->PinSlice(entry.value(), BlockRef::Release, block->Detach());
  return LookupState::kFound;
}

}  // namespace

Table::Table(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

Table::~Table() = default;

Status Table::Open(const TableReaderOptions& options,
                   std::unique_ptr<RandomAccessFile> file,
                   std::unique_ptr<Table>* table) {
  auto rep = std::make_unique<Rep>();
  Status s = OpenTable(options, std::move(file), &rep->core);
  if (s.ok()) table->reset(new Table(std::move(rep)));
  return s;
}

Status Table::Get(const ReadOptions& options, const Slice& internal_key,
                  uint64_t user_key_hash, LookupState* state,
                  PinnableSlice* value) const {
  const TableCore& core = rep_->core;
  const Slice user_key = ExtractUserKey(internal_key);
  *state = LookupState::kNotFound;
  core.filter.Prefetch(user_key_hash);
  if (!core.filter.MayMatch(user_key_hash, user_key)) {
    RecordTick(core.options.statistics, Ticker::kBloomFilterUseful, 1);
    return Status();
  }
  BlockRef block;
  BlockIterator entry;
  for (size_t i = core.index.Find(internal_key); i < core.index.size(); ++i) {
    const BlockHandle& handle = core.index.handle(i);
    if (core.filter.MayMatchInBlock(user_key, handle.offset)) {
      Status s = core.ReadDataBlock(options, handle, nullptr, &block);
      if (!s.ok()) return s;
      entry.Reset(block.get(), core.options.comparator, core.global_sequence);
      entry.Seek(internal_key);
      if (entry.Valid()) {
        if (core.options.comparator->CompareUser(ExtractUserKey(entry.key()),
                                                 user_key) == 0) {
          *state = Conclude(entry, &block, value);
        }
        return s;
      }
    } else {
      RecordTick(core.options.statistics, Ticker::kBloomFilterUseful, 1);
    }
    // The versions of one key may go on in the next block.
    if (!core.index.MayContinue(i, user_key)) break;
  }
  return Status();
}

std::unique_ptr<InternalIterator> Table::NewIterator(
    const ReadOptions& options) const {
  return std::make_unique<TableIterator>(options, &rep_->core, nullptr);
}

std::unique_ptr<InternalIterator> Table::NewIterator(
    const ReadOptions& options, std::shared_ptr<const Table> table) {
  const TableCore* core = &table->rep_->core;
  return std::make_unique<TableIterator>(options, core, std::move(table));
}

uint64_t Table::ApproximateOffsetOf(const Slice& internal_key) const {
  const TableIndex& index = rep_->core.index;
  const size_t i = index.Find(internal_key);
  if (i < index.size()) return index.handle(i).offset;
  if (i == 0) return 0;
  const BlockHandle& last = index.handle(i - 1);
  return last.offset + last.size + kBlockTrailerSize;
}

Status Table::VerifyChecksum() const { return VerifyTable(rep_->core); }

const TableProperties& Table::properties() const {
  return rep_->core.properties;
}

size_t Table::ApproximateMemoryUsage() const {
  return sizeof(*this) + rep_->core.ApproximateMemoryUsage();
}

}  // namespace varve
