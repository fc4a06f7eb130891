// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/sst_file_reader.h"

#include <utility>

#include "db/engine/db_iterator.h"
#include "db/engine/iterator_state.h"
#include "db/merge/merge_all.h"
#include "db/version/range_tombstone_filter.h"
#include "table/block/public_properties.h"
#include "table/reader/merge_operands.h"
#include "table/reader/table.h"
#include "util/bytes/hash.h"
#include "util/threads/epoch.h"

namespace varve {

namespace {

Status NoFileError() { return Status::InvalidArgument("no file is open"); }

}  // namespace

struct SstFileReader::Rep {
  explicit Rep(const Options& its_options)
      : options(its_options), comparator(options.comparator) {}

  const Options options;
  const InternalKeyComparator comparator;
  std::shared_ptr<const Table> table;
};

namespace {

// Keeps the file and the options as long as an iterator.
class FileOwner final : public IteratorOwner {
 public:
  explicit FileOwner(std::shared_ptr<const void> file)
      : file_(std::move(file)) {}

  Status BeginIterator(ColumnFamily* /*family*/, const ReadOptions& /*options*/,
                       IteratorState* /*reused*/,
                       DbIteratorParts* /*parts*/) override {
    return Status::NotSupported("a file has no other state");
  }
  void ReleaseSuperVersion(const DbIteratorParts& /*parts*/) override {}
  void EndIterator(const DbIteratorParts& /*parts*/) override { delete this; }

 private:
  ~FileOwner() = default;

  const std::shared_ptr<const void> file_;
};

}  // namespace

SstFileReader::SstFileReader(const Options& options)
    : rep_(std::make_shared<Rep>(options)) {}

SstFileReader::~SstFileReader() = default;

Status SstFileReader::Open(const std::string& file_path) {
  Rep* const r = rep_.get();
  if (r->table != nullptr) {
    return Status::InvalidArgument("another file is open");
  }
  TableReaderOptions options;
  options.comparator = &r->comparator;
  options.filter_policy = r->options.filter_policy;
  options.prefix_extractor = r->options.prefix_extractor;
  options.statistics = StatisticsImpl::Of(r->options.statistics.get());
  options.other_properties = OtherProperties::kKept;
  options.file_name = file_path;
  std::unique_ptr<RandomAccessFile> file;
  Status status = r->options.env->GetFileSize(file_path, &options.file_size);
  if (status.ok()) {
    status =
        r->options.env->NewRandomAccessFile(file_path, FileOptions(), &file);
  }
  std::unique_ptr<Table> table;
  if (status.ok()) status = Table::Open(options, std::move(file), &table);
  r->table = std::move(table);
  return status;
}

std::unique_ptr<Iterator> SstFileReader::NewIterator(
    const ReadOptions& options) {
  const Rep& r = *rep_;
  if (r.table == nullptr) return NewErrorIterator(NoFileError());
  DbIteratorParts parts;
  parts.comparator = &r.comparator;
  parts.state = IteratorState::Take(/*fresh=*/true, {});
  RangeTombstoneFilters filters(&r.comparator, kMaxSequenceNumber, nullptr);
  const auto* const deletions = &r.table->core().tombstones;
  parts.state->SetTree(
      filters.Wrap(Table::NewIterator(options, r.table),
                   {deletions, *deletions == nullptr ? size_t{0} : 1}));
  parts.sequence = kMaxSequenceNumber;
  parts.statistics = StatisticsImpl::Of(r.options.statistics.get());
  parts.merge_operator = r.options.merge_operator.get();
  parts.env = r.options.env;
  parts.owner = new FileOwner(rep_);
  return NewDbIterator(parts, options);
}

Status SstFileReader::Get(const ReadOptions& options, const Slice& key,
                          std::string* value) {
  const Rep& r = *rep_;
  value->clear();
  if (r.table == nullptr) return NoFileError();
  TableLookup lookup;
  lookup.user_key = key;
  lookup.hash = PreviewXxh3(key);
  lookup.sequence = kMaxSequenceNumber;
  MergeOperands operands;
  Status status;
  {
    const EpochGuard guard;
    status = r.table->ReadVersions(options, lookup, &operands);
  }
  if (!status.ok()) return status;
  if (!operands.empty()) {
    return MergeAll(r.options.merge_operator.get(), key, operands,
                    StatisticsImpl::Of(r.options.statistics.get()), value);
  }
  if (!operands.has_base()) return Status::NotFound();
  *value = operands.base().ToString();
  return status;
}

std::vector<Status> SstFileReader::MultiGet(const ReadOptions& options,
                                            const std::vector<Slice>& keys,
                                            std::vector<std::string>* values) {
  std::vector<Status> statuses;
  values->resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    statuses.push_back(Get(options, keys[i], &(*values)[i]));
  }
  return statuses;
}

std::shared_ptr<const TableProperties> SstFileReader::GetTableProperties()
    const {
  if (rep_->table == nullptr) return nullptr;
  return std::make_shared<const TableProperties>(
      ToTableProperties(rep_->table->core().properties));
}

Status SstFileReader::VerifyChecksum(const ReadOptions& /*options*/) {
  return rep_->table == nullptr ? NoFileError() : rep_->table->VerifyChecksum();
}

Status SstFileReader::VerifyNumEntries(const ReadOptions& /*options*/) {
  // That also compares the order and the number of the entries.
  return VerifyChecksum();
}

}  // namespace varve
