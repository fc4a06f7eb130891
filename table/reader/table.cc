// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "monitoring/span.h"
#include "table/block/block.h"
#include "table/cache/block_cache.h"
#include "table/reader/block_batch.h"
#include "table/reader/file_block_iterator.h"
#include "table/reader/part_batch.h"
#include "table/reader/read_limits.h"
#include "table/reader/table_iterator.h"
#include "table/reader/table_opener.h"
#include "table/reader/table_parts.h"
#include "table/reader/table_verifier.h"
#include "util/bytes/short_copy.h"
#include "util/threads/thread_scratch.h"

namespace varve {

Status Table::Open(const TableReaderOptions& options,
                   std::unique_ptr<RandomAccessFile> file,
                   std::unique_ptr<Table>* table) {
  std::unique_ptr<Table> opened(new Table);
  Status s = OpenTable(options, std::move(file), &opened->core_);
  if (!s.ok()) return s;
  // relaxed: the table is not shared yet.
  opened->is_loaded_.store(opened->core_.deferred == nullptr,
                           std::memory_order_relaxed);
  *table = std::move(opened);
  return s;
}

Status Table::Load() {
  MutexLock lock(&load_mutex_);
  // relaxed: it changes under the mutex only.
  if (is_loaded_.load(std::memory_order_relaxed)) return Status();
  const LocalSpan span("index load");
  Status s = LoadDeferred(&core_);
  // T2. release pairs with the acquire in is_loaded.
  if (s.ok()) is_loaded_.store(true, std::memory_order_release);
  return s;
}

inline void Table::Count(const TableProbe& probe, uint64_t unit) {
  probe.result->counts.packed += unit;
}

template <bool kSpans>
Status Table::Get(const ReadOptions& options, const TableLookup& lookup,
                  LookupResult* result) const {
  TableProbe probe;
  probe.options = &options;
  probe.lookup = lookup;
  probe.result = result;
  LocalSpan step("index node", kSpans);
  StartProbe(&probe);
  if (!probe.done) {
    step.Next("filter");
    ProbeFilter(&probe);
  }
  if (!probe.done) {
    step.Next("index");
    FindBlock(&probe, /*finish=*/true);
  }
  if (!probe.done) {
    step.Next("block");
    ProbeBlock(&probe);
  }
  if (!probe.done) FinishProbe(&probe);
  return std::move(probe.status);
}

template Status Table::Get<false>(const ReadOptions&, const TableLookup&,
                                  LookupResult*) const;
template Status Table::Get<true>(const ReadOptions&, const TableLookup&,
                                 LookupResult*) const;

[[gnu::always_inline]] inline bool Table::Conclude(uint64_t trailer,
                                                   TableProbe* probe) const {
  if (core_.filter.asks_whole_keys()) {
    Count(*probe, ReadCounts::kFilterTruePositive);
  }
  if (trailer >> 8 < probe->cover) return false;
  const auto type = static_cast<ValueType>(trailer & 0xFF);
  if (type != ValueType::kValue) [[unlikely]] {
    probe->result->state =
        type == ValueType::kMerge ? LookupState::kMerge : LookupState::kDeleted;
    return false;
  }
  probe->result->state = LookupState::kFound;
  return true;
}

void Table::StartProbe(TableProbe* probe) const {
  probe->table = this;
  probe->done = false;
  probe->cover = 0;
  core_.filter.Prefetch(probe->lookup.hash);
  if (core_.tombstones != nullptr) [[unlikely]] {
    probe->cover = core_.tombstones->MaxCovering(probe->lookup.user_key,
                                                 probe->lookup.sequence);
    // Remains unless a newer version is found.
    if (probe->cover != 0) probe->result->state = LookupState::kDeleted;
  }
  probe->in_node = core_.index.has_prefixes() &&
                   core_.index.FindNode(probe->lookup.user_key, &probe->place,
                                        &probe->block_index);
}

void Table::ProbeIndex(TableProbe* probe) const {
  ProbeFilter(probe);
  if (!probe->done) FindBlock(probe, /*finish=*/false);
}

inline void Table::ProbeFilter(TableProbe* probe) const {
  const TableLookup& lookup = probe->lookup;
  if (!core_.filter.MayMatch(lookup.hash, lookup.user_key)) {
    Count(*probe, ReadCounts::kFilterUseful);
    probe->done = true;
    return;
  }
  if (core_.filter.asks_whole_keys())
    Count(*probe, ReadCounts::kFilterPositive);
}

[[gnu::always_inline]] inline void Table::FindBlock(TableProbe* probe,
                                                    bool finish) const {
  const TableLookup& lookup = probe->lookup;
  if (!core_.index.has_prefixes() ||
      (probe->in_node &&
       !core_.index.FindInNode(probe->place, &probe->block_index))) {
    const LookupKey key(lookup.user_key, lookup.sequence);
    probe->block_index = core_.index.Find(key.internal_key());
  }
  if (probe->block_index >= core_.index.size()) {
    probe->done = true;
    if (core_.parts != nullptr) ProbeParts(probe, finish);
    return;
  }
  // acquire pairs with the release with which the cache fills a slot.
  probe->block =
      core_.index.slot(probe->block_index).load(std::memory_order_acquire);
  if (probe->block != nullptr) probe->block->PrefetchHeader();
}

void Table::ProbePart(TableProbe* probe) const {
  probe->table = this;
  probe->done = false;
  core_.filter.Prefetch(probe->lookup.hash);
  probe->in_node = core_.index.has_prefixes() &&
                   core_.index.FindNode(probe->lookup.user_key, &probe->place,
                                        &probe->block_index);
  ProbeFilter(probe);
  if (!probe->done) FindBlock(probe, /*finish=*/true);
}

[[gnu::noinline]] void Table::ProbeParts(TableProbe* probe, bool finish) const {
  const TableLookup& lookup = probe->lookup;
  const TableParts& parts = *core_.parts;
  const LookupKey key(lookup.user_key, lookup.sequence);
  const size_t i = parts.Find(key.internal_key());
  if (i >= parts.size()) {
    probe->done = true;
    return;
  }
  const Table* const part = parts.FindInMemory(i);
  if (part == nullptr && !finish) {
    probe->done = false;
    probe->block = nullptr;
    probe->block_index = i;
    return;
  }
  ProbeFromPart(i, part, finish, probe);
}

void Table::ProbeFromPart(size_t i, const Table* part, bool finish,
                          TableProbe* probe) const {
  const TableLookup& lookup = probe->lookup;
  const TableParts& parts = *core_.parts;
  LookupState* const state = &probe->result->state;
  // kDeleted if a range deletion covers the key, unless a newer entry is found.
  const LookupState before = std::exchange(*state, LookupState::kNotFound);
  for (; i < parts.size(); ++i, part = nullptr) {
    if (part == nullptr) {
      probe->status = parts.Get(*probe->options, i, &part);
      if (!probe->status.ok()) break;
    }
    part->ProbePart(probe);
    const bool continues = parts.MayContinue(i, lookup.user_key);
    if (!probe->done) {
      if (!finish && !continues) {
        *state = before;
        return;
      }
      part->ProbeBlock(probe);
    }
    if (!probe->done) part->FinishProbe(probe);
    // Older versions must not replace what was found.
    if (*state != LookupState::kNotFound || !probe->status.ok() || !continues) {
      break;
    }
  }
  if (*state == LookupState::kNotFound) *state = before;
  probe->done = true;
}

void Table::ProbeBlock(TableProbe* probe) const {
  Block* const block = probe->block;
  if (block == nullptr) return;
  if (!block->has_fingerprints()) {
    GetFromBlocks(probe);
    return;
  }
  Count(*probe, ReadCounts::kCacheHit);
  block->Touch();
  probe->candidate = block->FindCandidate(probe->lookup.hash, 0);
  if (probe->candidate < block->EntryCount()) {
    block->PrefetchEntry(probe->candidate);
  } else {
    NotInBlock(probe);
  }
}

void Table::FinishProbe(TableProbe* probe) const {
  Block* const block = probe->block;
  if (block == nullptr) {
    GetFromBlocks(probe);
    return;
  }
  const TableLookup& lookup = probe->lookup;
  const Slice prefix = block->Prefix();
  if (StartsWithShort(lookup.user_key, prefix)) {
    Slice rest = lookup.user_key;
    rest.remove_prefix(prefix.size());
    const uint32_t count = block->EntryCount();
    for (uint32_t i = probe->candidate; i < count;
         i = block->FindCandidate(lookup.hash, i + 1)) {
      const Block::Entry entry = block->EntryAt(i);
      // Versions are sorted newest first.
      if (entry.trailer >> 8 > lookup.sequence ||
          entry.rest.size() != rest.size() ||
          !ShortEqual(entry.rest.data(), rest.data(), rest.size())) {
        continue;
      }
      probe->done = true;
      if (Conclude(entry.trailer, probe)) {
        probe->result->target->SetFromCached(entry.value, block);
      }
      return;
    }
  }
  NotInBlock(probe);
}

void Table::NotInBlock(TableProbe* probe) const {
  if (core_.index.MayContinue(probe->block_index, probe->lookup.user_key)) {
    ++probe->block_index;
    GetFromBlocks(probe);
    return;
  }
  probe->done = true;
}

void Table::GetFromBlocks(TableProbe* probe) const {
  const TableLookup& lookup = probe->lookup;
  probe->done = true;
  BlockRef block;
  FileBody body;
  for (size_t i = probe->block_index; i < core_.index.size(); ++i) {
    if (core_.filter.MayMatchInBlock(lookup.user_key,
                                     core_.index.handle(i).offset)) {
      probe->status =
          core_.ReadDataBlock(*probe->options, i, nullptr, &block, &body);
      if (!probe->status.ok()) return;
      if (block ? FindInBlock(&block, probe)
                : FindInBody(body.contents, i, probe)) {
        return;
      }
    } else {
      Count(*probe, ReadCounts::kFilterUseful);
    }
    // The versions of one key may continue in the next block.
    if (!core_.index.MayContinue(i, lookup.user_key)) return;
  }
  // The probe waited for a part.
  if (core_.parts != nullptr) ProbeParts(probe, /*finish=*/true);
}

void Table::LookIn(BlockRef* block, const Slice& body,
                   TableProbe* probe) const {
  const size_t i = probe->block_index;
  if ((*block ? FindInBlock(block, probe) : FindInBody(body, i, probe)) ||
      !core_.index.MayContinue(i, probe->lookup.user_key)) {
    probe->done = true;
  } else {
    ++probe->block_index;
  }
}

size_t Table::ReadParts(TableProbe** probes, size_t count, Env* env) {
  // Only a table that has parts waits for one: its own index is empty.
  TableProbe** const blocks_end =
      std::partition(probes, probes + count, [](const TableProbe* probe) {
        return probe->table->core().parts == nullptr;
      });
  size_t blocks = static_cast<size_t>(blocks_end - probes);
  if (blocks == count) return count;
  const ThreadScratch<PartBatch, PartBatch> batch;
  std::array<size_t, kMaxReadBlocks> read_of;
  for (size_t begin = blocks, end = begin; begin < count; begin = end) {
    batch->Clear();
    for (; end < count; ++end) {
      const TableProbe& probe = *probes[end];
      const PartBatch::Added added = batch->Add(
          *probe.table->core().parts, probe.block_index, &read_of[end]);
      if (added == PartBatch::Added::kFull) break;
      // FinishProbe reads it.
      if (added == PartBatch::Added::kRefused) read_of[end] = SIZE_MAX;
    }
    batch->Read(env);
    for (size_t j = begin; j < end; ++j) {
      if (read_of[j] == SIZE_MAX) continue;
      TableProbe* const probe = probes[j];
      const Table* part = nullptr;
      probe->status = batch->Take(read_of[j], &part);
      if (!probe->status.ok()) {
        probe->done = true;
        continue;
      }
      probe->table->ProbeFromPart(probe->block_index, part, /*finish=*/false,
                                  probe);
      if (!probe->done) probe->table->ProbeBlock(probe);
      if (probe->Waits()) probes[blocks++] = probe;
    }
  }
  return blocks;
}

void Table::ReadBlocks(TableProbe** probes, size_t count) {
  if (count == 0) return;
  Env* const env = probes[0]->table->core().options.env;
  // FinishProbe returns the error.
  if (env == nullptr || !MayReadFile(*probes[0]->options, env).ok()) return;
  count = ReadParts(probes, count, env);
  const ThreadScratch<BlockBatch, BlockBatch> batch;
  std::array<size_t, kMaxReadBlocks> read_of;
  constexpr size_t kNone = SIZE_MAX;
  BlockRef block;
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    batch->Clear();
    for (; end < count; ++end) {
      TableProbe* const probe = probes[end];
      const TableCore& core = probe->table->core();
      const size_t i = probe->block_index;
      read_of[end] = kNone;
      // Then the next block decides, which FinishProbe finds.
      if (!core.filter.MayMatchInBlock(probe->lookup.user_key,
                                       core.index.handle(i).offset)) {
        continue;
      }
      const BlockBatch::Added added =
          batch->Add(*probe->options, core, i, &read_of[end], &block);
      if (added == BlockBatch::Added::kFull) break;
      if (added == BlockBatch::Added::kRead) continue;
      read_of[end] = kNone;
      if (added == BlockBatch::Added::kCached) {
        probe->table->LookIn(&block, Slice(), probe);
      }
    }
    if (batch->empty()) continue;
    batch->Read([&](size_t read) {
      Slice body;
      block.Reset();
      const Status status = batch->Take(read, &block, &body);
      bool again = false;
      for (size_t j = begin; j < end; ++j) {
        if (read_of[j] != read) continue;
        TableProbe* const probe = probes[j];
        if (!status.ok()) {
          probe->status = status;
          probe->done = true;
        } else if (!again || batch->TakeAgain(read, &block)) {
          probe->table->LookIn(&block, body, probe);
        }
        again = true;
      }
    });
  }
}

bool Table::FindInBlock(BlockRef* block, TableProbe* probe) const {
  const TableLookup& lookup = probe->lookup;
  const InternalKeyComparator& comparator = *core_.options.comparator;
  const Block& found_in = *block->get();
  const uint32_t found = found_in.LowerBound(comparator, lookup.user_key,
                                             SeekTrailer(lookup.sequence));
  if (found == found_in.EntryCount()) return false;
  // The entry is the first at or after the target. Check that it has the key.
  const Block::Entry entry = found_in.EntryAt(found);
  Slice rest = lookup.user_key;
  const Slice prefix = found_in.Prefix();
  if (!rest.starts_with(prefix)) return true;
  rest.remove_prefix(prefix.size());
  if (comparator.CompareUser(entry.rest, rest) == 0 &&
      Conclude(entry.trailer, probe)) {
    probe->result->target->SetFromRef(entry.value, block);
  }
  return true;
}

bool Table::FindInBody(const Slice& body, size_t i, TableProbe* probe) const {
  const TableLookup& lookup = probe->lookup;
  const InternalKeyComparator& comparator = *core_.options.comparator;
  IteratorPosition entry;
  FileBlockIterator iterator(&entry);
  iterator.Reset(body, &comparator, core_.global_sequence);
  if (iterator.status().ok()) {
    const LookupKey key(lookup.user_key, lookup.sequence);
    iterator.Seek(key.internal_key());
  }
  if (!iterator.status().ok()) {
    probe->status = iterator.status().Annotate(
        core_.loader->Describe(core_.index.handle(i)));
    return true;
  }
  if (!entry.valid) return false;
  if (comparator.CompareUser(ExtractUserKey(entry.key), lookup.user_key) == 0 &&
      Conclude(ExtractTrailer(entry.key), probe)) {
    if (core_.loader->IsMapped(body)) {
      probe->result->target->SetFromMapping(entry.value, core_.file);
    } else {
      probe->result->target->SetCopy(entry.value);
    }
  }
  return true;
}

std::unique_ptr<InternalIterator> Table::NewIterator(
    const ReadOptions& options) const {
  return std::make_unique<TableIterator>(options, &core_, nullptr);
}

std::unique_ptr<InternalIterator> Table::NewIterator(
    const ReadOptions& options, std::shared_ptr<const Table> table) {
  const TableCore* core = &table->core_;
  return std::make_unique<TableIterator>(options, core, std::move(table));
}

uint64_t Table::ApproximateOffsetOf(const Slice& internal_key) const {
  const TableIndex& index = core_.index;
  if (core_.parts != nullptr) return ApproximateOffsetInParts(internal_key);
  const size_t i = index.Search(internal_key);
  if (i < index.size()) return index.handle(i).offset;
  if (i == 0) return 0;
  const BlockHandle& last = index.handle(i - 1);
  return last.offset + last.size + kBlockTrailerSize;
}

uint64_t Table::ApproximateOffsetInParts(const Slice& internal_key) const {
  const TableParts& parts = *core_.parts;
  const uint64_t data_size =
      std::min(core_.properties.data_size, core_.options.file_size);
  const size_t i = parts.Find(internal_key);
  if (i == parts.size()) return data_size;
  std::shared_ptr<const TablePart> part;
  // Otherwise parts are about equal.
  return parts.Pin(ReadOptions(), i, &part).ok()
             ? part->table().ApproximateOffsetOf(internal_key)
             : data_size / parts.size() * i;
}

void Table::AppendPartAnchors(size_t count,
                              std::vector<TableAnchor>* anchors) const {
  const TableParts& parts = *core_.parts;
  const size_t step = (parts.size() + count - 1) / count;
  const uint64_t part_bytes =
      parts.size() == 0
          ? 0
          : std::min(core_.properties.data_size, core_.options.file_size) /
                parts.size();
  size_t begin = 0;
  while (begin < parts.size()) {
    const size_t end = std::min(begin + step, parts.size());
    anchors->push_back({parts.SeparatorUserKey(end - 1).ToString(),
                        part_bytes * (end - begin)});
    begin = end;
  }
}

void Table::AppendAnchors(size_t count,
                          std::vector<TableAnchor>* anchors) const {
  if (core_.parts != nullptr) return AppendPartAnchors(count, anchors);
  const TableIndex& index = core_.index;
  const size_t step = (index.size() + count - 1) / count;
  size_t begin = 0;
  while (begin < index.size()) {
    const size_t last = std::min(begin + step, index.size()) - 1;
    const BlockHandle& end = index.handle(last);
    const uint64_t end_offset = end.offset + end.size + kBlockTrailerSize;
    const uint64_t offset = index.handle(begin).offset;
    // Blocks need not be in the order of their keys.
    anchors->push_back({index.SeparatorUserKey(last).ToString(),
                        end_offset > offset ? end_offset - offset : 0});
    begin = last + 1;
  }
}

Status Table::VerifyChecksum() const { return VerifyTable(core_); }

}  // namespace varve
