// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/table_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "monitoring/span.h"
#include "table/cache/readahead_buffer.h"
#include "table/reader/read_limits.h"
#include "util/threads/epoch.h"

namespace varve {

namespace {

// Both partitions of a part are read at once if the gap between them is at most
// this large.
constexpr uint64_t kMaxGapBytes = uint64_t{16} << 10;
constexpr uint64_t kMaxRunBytes = uint64_t{1} << 20;

uint64_t EndOf(const BlockHandle& handle) {
  return handle.offset + handle.size + kBlockTrailerSize;
}

}  // namespace

TableParts::TableParts(const TableCore* whole, std::shared_ptr<PartCache> cache)
    : whole_(*whole), cache_(std::move(cache)) {}

TableParts::~TableParts() {
  if (slots_ != nullptr) cache_->Erase({slots_.get(), size()});
}

Status TableParts::Init(BlockContents index_names) {
  const TableReaderOptions& options = whole_.options;
  Status s = names_.Decode(std::move(index_names),
                           TableIndex::FormOfPartitionNames(whole_.properties),
                           options.file_size, options.comparator,
                           /*binary_search=*/false);
  if (!s.ok()) return s;
  for (size_t i = 1; i < size(); ++i) {
    if (options.comparator->CompareUser(names_.SeparatorUserKey(i - 1),
                                        names_.SeparatorUserKey(i)) > 0) {
      return Status::Corruption("index", "the partitions are out of order");
    }
  }
  slots_ = std::make_unique<PartSlot[]>(size());
  return s;
}

bool TableParts::SetFilters(BlockContents filter_names) {
  const TableReaderOptions& options = whole_.options;
  TableIndex names;
  if (!names
           .Decode(std::move(filter_names),
                   TableIndex::FormOfPartitionNames(whole_.properties),
                   options.file_size, options.comparator,
                   /*binary_search=*/false)
           .ok() ||
      names.size() != size()) {
    return false;
  }
  for (size_t i = 0; i < size(); ++i) {
    if (!names.HasSeparatorOf(names_, i)) return false;
  }
  filters_.reserve(size());
  for (size_t i = 0; i < size(); ++i) filters_.push_back(names.handle(i));
  return true;
}

TablePart* TableParts::FindLoaded(size_t i) const {
  // T2 of PartCache. acquire pairs with the release of T1.
  TablePart* const part = slots_[i].load(std::memory_order_acquire);
  if (part != nullptr) part->Touch();
  return part;
}

Status TableParts::Get(const ReadOptions& options, size_t i,
                       const Table** part) const {
  TablePart* const loaded = FindLoaded(i);
  if (loaded != nullptr) [[likely]] {
    *part = &loaded->table();
    return Status();
  }
  // If it is evicted, it lives until the section ends.
  std::shared_ptr<TablePart> kept;
  Status s = LoadAndKeep(options, i, &kept);
  if (s.ok()) *part = &kept->table();
  return s;
}

Status TableParts::Pin(const ReadOptions& options, size_t i,
                       std::shared_ptr<const TablePart>* part) const {
  const EpochGuard guard;
  TablePart* const loaded = FindLoaded(i);
  if (loaded != nullptr) {
    *part = loaded->shared_from_this();
    return Status();
  }
  std::shared_ptr<TablePart> kept;
  Status s = LoadAndKeep(options, i, &kept);
  *part = std::move(kept);
  return s;
}

Status TableParts::LoadAndKeep(const ReadOptions& options, size_t i,
                               std::shared_ptr<TablePart>* part) const {
  Status s = MayReadFile(options, whole_.options.env);
  if (s.ok()) s = Load(i, part);
  if (s.ok()) *part = cache_->Insert(&slots_[i], std::move(*part));
  return s;
}

TableParts::Ranges TableParts::RangesOf(size_t i) const {
  const auto range_of = [](const BlockHandle& handle) {
    return Range{handle.offset,
                 static_cast<size_t>(handle.size) + kBlockTrailerSize};
  };
  const BlockHandle index = names_.handle(i);
  if (filters_.empty()) return {{range_of(index)}, 1};
  const BlockHandle filter = filters_[i];
  const uint64_t begin = std::min(filter.offset, index.offset);
  const uint64_t end = std::max(EndOf(filter), EndOf(index));
  const uint64_t used = filter.size + index.size + 2 * kBlockTrailerSize;
  if (end - begin <= kMaxRunBytes && end - begin <= used + kMaxGapBytes) {
    return {{{begin, static_cast<size_t>(end - begin)}}, 1};
  }
  return {{range_of(filter), range_of(index)}, 2};
}

Status TableParts::Load(size_t i, std::shared_ptr<TablePart>* part) const {
  const LocalSpan span("partition load");
  ReadaheadBuffer run(whole_.file.get(), whole_.options.file_size, 0);
  const Ranges ranges = RangesOf(i);
  Status s;
  if (!filters_.empty() && ranges.count == 1) {
    s = run.Fill(ranges.ranges[0].offset, ranges.ranges[0].size);
  }
  return s.ok() ? Make(i, &run, &run, part) : s;
}

Status TableParts::Take(size_t i, const Ranges& ranges, const Slice* bytes,
                        const Table** part) const {
  const LocalSpan span("partition load");
  ReadaheadBuffer runs[Ranges::kMaxCount] = {{0, nullptr}, {0, nullptr}};
  for (size_t k = 0; k < ranges.count; ++k) {
    runs[k].Open(whole_.file.get(), whole_.options.file_size);
    runs[k].Use(ranges.ranges[k].offset, bytes[k]);
  }
  std::shared_ptr<TablePart> made;
  Status s = Make(i, &runs[0], &runs[ranges.count - 1], &made);
  if (!s.ok()) return s;
  // If it is evicted, it lives until the section ends.
  *part = &cache_->Insert(&slots_[i], std::move(made))->table();
  return s;
}

Status TableParts::Make(size_t i, ReadaheadBuffer* filter,
                        ReadaheadBuffer* index,
                        std::shared_ptr<TablePart>* part) const {
  auto loaded = std::make_shared<TablePart>();
  loaded->cache_ = cache_;
  TableCore* const core = &loaded->table_.core_;
  const TableReaderOptions& options = whole_.options;
  core->options.comparator = options.comparator;
  core->options.block_cache = options.block_cache;
  core->options.statistics = options.statistics;
  core->options.info_log = options.info_log;
  core->options.env = options.env;
  core->options.file_size = options.file_size;
  // Without ownership, both: who reads a part keeps the table. A retired part
  // may outlive the database, and so the FilePool, which must outlive its
  // files. But a value in the file's mapping, whose file is not of a pool, may
  // outlive the table.
  core->file = whole_.file->Mapping().data() != nullptr
                   ? whole_.file
                   : std::shared_ptr<RandomAccessFile>(std::shared_ptr<void>(),
                                                       whole_.file.get());
  core->loader = {std::shared_ptr<void>(), whole_.loader.get()};
  core->global_sequence = whole_.global_sequence;
  Status s;
  if (!filters_.empty()) s = ReadFilter(i, filter, core);
  if (s.ok()) s = ReadIndex(i, index, core);
  if (!s.ok()) return s;
  core->AccountMemory();
  if (options.block_cache != nullptr) {
    core->cache_id = options.block_cache->NewTableId();
  }
  loaded->bytes_ = sizeof(TablePart) + core->accounted_bytes();
  // relaxed: the part is not shared yet.
  loaded->table_.is_loaded_.store(true, std::memory_order_relaxed);
  *part = std::move(loaded);
  return s;
}

Status TableParts::ReadIndex(size_t i, ReadaheadBuffer* run,
                             TableCore* core) const {
  const BlockHandle handle = names_.handle(i);
  const auto body = std::make_unique<FileBody>();
  Status s = whole_.loader->ReadMetaBlock(
      BlockLoader::MetaKind::kIndexPartition, handle, run, body.get());
  if (!s.ok()) return s;
  s = core->index.Decode(body->TakeContents(),
                         TableIndex::FormOfPartitionNames(whole_.properties),
                         whole_.options.file_size, whole_.options.comparator,
                         /*binary_search=*/false);
  if (s.ok() && !core->index.IsPartOf(names_, i)) {
    s = Status::Corruption("index", "the keys are not inside the partition");
  }
  return s.ok() ? s : s.Annotate(whole_.loader->Describe(handle));
}

Status TableParts::ReadFilter(size_t i, ReadaheadBuffer* run,
                              TableCore* core) const {
  const auto body = std::make_unique<FileBody>();
  Status s = whole_.loader->ReadMetaBlock(BlockLoader::MetaKind::kOther,
                                          filters_[i], run, body.get());
  if (s.IsCorruption() || s.IsNotSupported()) {
    Log(LogLevel::kWarn, whole_.options.info_log,
        "reading without a partition of the filter, which is damaged: %s",
        s.ToString().c_str());
    return Status();
  }
  if (!s.ok()) return s;
  core->filter_contents = body->TakeContents();
  core->filter.Init(kFullBloomBlockName, core->filter_contents.AsSlice(),
                    nullptr);
  core->DivideFilter(whole_.prefix_extractor,
                     whole_.properties.whole_key_filtering);
  return s;
}

size_t TableParts::ApproximateMemoryUsage() const {
  return sizeof(*this) + names_.ApproximateMemoryUsage() +
         filters_.capacity() * sizeof(filters_[0]) + size() * sizeof(PartSlot);
}

}  // namespace varve
