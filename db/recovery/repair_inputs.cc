// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/repair_inputs.h"

#include <algorithm>
#include <iterator>
#include <queue>

#include "env/file_names.h"
#include "table/block/merging_iterator.h"

namespace varve {

namespace {

// Memory limit of one merge. Each run needs memory for its open table, a block
// and the readahead. The table's index takes about this fraction of the file's
// size.
constexpr size_t kMaxMergeBytes = size_t{36} << 20;
constexpr size_t kIndexPart = 32;
constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr size_t kReadaheadBytes = size_t{128} << 10;

constexpr uint64_t kTemporaryTableBytes = uint64_t{16} << 20;

}  // namespace

// Walks a run, and opens each input when it gets there.
class RepairInputs::RunCursor {
 public:
  RunCursor(RepairInputs* inputs, Run run)
      : inputs_(inputs), run_(std::move(run)) {}

  // To the first or next entry. False at the end, and on an error.
  bool Next() {
    if (iterator_ != nullptr) iterator_->Next();
    while (iterator_ == nullptr || !iterator_->Valid()) {
      if (iterator_ != nullptr) status_ = iterator_->status();
      if (!status_.ok() || next_ == run_.size()) return false;
      status_ = inputs_->OpenInput(*run_[next_++], &iterator_);
      if (!status_.ok()) return false;
      iterator_->SeekToFirst();
    }
    return true;
  }
  const IteratorPosition* position() const { return iterator_->position(); }
  Slice key() const { return iterator_->key(); }
  uint64_t rank() const { return run_[next_ - 1]->rank; }
  const Status& status() const { return status_; }

 private:
  RepairInputs* const inputs_;
  const Run run_;
  size_t next_ = 0;
  std::unique_ptr<InternalIterator> iterator_;
  Status status_;
};

class RepairInputs::Merge final : public InternalIterator {
 public:
  Merge(RepairInputs* inputs, std::vector<Run> runs)
      : comparator_(*inputs->context_.comparator), heap_(Later{&comparator_}) {
    for (Run& run : runs) {
      cursors_.push_back(std::make_unique<RunCursor>(inputs, std::move(run)));
    }
  }

  void SeekToFirst() override {
    for (const auto& cursor : cursors_) Advance(cursor.get());
    ShowFirst();
  }
  void Next() override {
    last_key_.assign(key().data(), key().size());
    do {
      RunCursor* const first = heap_.top();
      heap_.pop();
      Advance(first);
    } while (status_.ok() && !heap_.empty() && heap_.top()->key() == last_key_);
    ShowFirst();
  }
  void SeekToLast() override { ShowNothing(); }
  void Seek(const Slice&) override { ShowNothing(); }
  void SeekForPrev(const Slice&) override { ShowNothing(); }
  void Prev() override { ShowNothing(); }
  Status status() const override { return status_; }

 private:
  struct Later {
    bool operator()(const RunCursor* a, const RunCursor* b) const {
      const int r = comparator->Compare(a->key(), b->key());
      return r != 0 ? r > 0 : a->rank() < b->rank();
    }
    const InternalKeyComparator* comparator;
  };

  void Advance(RunCursor* cursor) {
    if (cursor->Next()) {
      heap_.push(cursor);
    } else if (status_.ok()) {
      status_ = cursor->status();
    }
  }
  void ShowFirst() {
    if (!status_.ok() || heap_.empty()) {
      ShowNothing();
    } else {
      Show(heap_.top()->position());
    }
  }

  const InternalKeyComparator& comparator_;
  std::vector<std::unique_ptr<RunCursor>> cursors_;
  std::priority_queue<RunCursor*, std::vector<RunCursor*>, Later> heap_;
  std::string last_key_;
  Status status_;
};

RepairInputs::RepairInputs(const TableOutputContext& context,
                           const TableReaderOptions& table_options,
                           FilePool* pool, uint64_t* next_number)
    : options_(*context.options),
      context_(context),
      table_options_(table_options),
      next_number_(next_number),
      pool_(pool) {
  options_.filter_policy = nullptr;
  context_.options = &options_;
  context_.temporary_names = true;
  context_.sync = false;
  table_options_.filter_policy = nullptr;
  table_options_.env = context.env;
}

RepairInputs::~RepairInputs() {
  for (const Input& input : inputs_) RemoveFile(input);
}

void RepairInputs::RemoveFile(const Input& input) const {
  if (!input.temporary) return;
  // If it stays, the next repair or Open removes it.
  context_.env->RemoveFile(input.path).IgnoreError();
}

Status RepairInputs::OpenTable(const std::string& path, const TableFile& file,
                               std::shared_ptr<Table>* table) {
  std::unique_ptr<RandomAccessFile> opened;
  Status status = pool_->Open(path, &opened);
  if (!status.ok()) return status;
  TableReaderOptions options = table_options_;
  options.file_name = path;
  options.file_size = file.size;
  options.manifest_largest_sequence = file.largest_sequence;
  std::unique_ptr<Table> made;
  status = Table::Open(options, std::move(opened), &made);
  *table = std::move(made);
  return status;
}

void RepairInputs::AddTable(const std::string& path, const TableFile& file,
                            uint64_t rank, std::string smallest,
                            std::string largest) {
  Input input;
  input.rank = rank;
  input.smallest = std::move(smallest);
  input.largest = std::move(largest);
  input.path = path;
  input.file = file;
  inputs_.push_back(std::move(input));
}

void RepairInputs::AddMemTable(std::unique_ptr<MemTable> memtable,
                               uint64_t rank) {
  Input input;
  input.rank = rank;
  const auto iterator = memtable->NewIterator();
  iterator->SeekToFirst();
  if (!iterator->Valid()) return;
  input.smallest = iterator->key().ToString();
  iterator->SeekToLast();
  input.largest = iterator->key().ToString();
  memtable_bytes_ += memtable->ApproximateMemoryUsage();
  input.memtable = std::move(memtable);
  inputs_.push_back(std::move(input));
}

Status RepairInputs::WriteMemTables() {
  for (Input& input : inputs_) {
    if (input.memtable == nullptr) continue;
    Status status = WriteMemTable(&input);
    if (!status.ok()) return status;
  }
  memtable_bytes_ = 0;
  return Status::OK();
}

// All versions stay: an older one may be needed beside what other inputs have.
Status RepairInputs::WriteMemTable(Input* input) {
  TableOutput output(context_, (*next_number_)++, options_.compression,
                     RateLimiter::Priority::kHigh);
  Status status = output.Open();
  const auto iterator = input->memtable->NewIterator();
  for (iterator->SeekToFirst(); status.ok() && iterator->Valid();
       iterator->Next()) {
    status = output.Add(iterator->key(), iterator->value());
  }
  if (status.ok()) status = FinishOutput(&output, input->rank, input);
  if (!status.ok()) {
    output.Abandon();
    return status;
  }
  input->memtable.reset();
  return status;
}

Status RepairInputs::FinishOutput(TableOutput* output, uint64_t rank,
                                  Input* input) {
  Status status = output->Finish();
  if (!status.ok()) return status;
  const FileMetaData& metadata = output->metadata();
  input->rank = rank;
  input->smallest = metadata.smallest;
  input->largest = metadata.largest;
  input->file = TableFile{metadata.number, metadata.file_size, 0, 0};
  input->path = TempFileName(context_.db_path, metadata.number);
  input->temporary = true;
  return status;
}

Status RepairInputs::OpenInput(const Input& input,
                               std::unique_ptr<InternalIterator>* iterator) {
  if (input.memtable != nullptr) {
    *iterator = input.memtable->NewIterator();
    return Status::OK();
  }
  ReadOptions read_options;
  read_options.fill_cache = false;
  read_options.readahead_size = kReadaheadBytes;
  std::shared_ptr<Table> table;
  Status status = OpenTable(input.path, input.file, &table);
  if (!status.ok()) return status;
  *iterator = Table::NewIterator(read_options, std::move(table));
  return status;
}

std::vector<RepairInputs::Run> RepairInputs::MakeRuns(size_t begin,
                                                      size_t end) const {
  const InternalKeyComparator& comparator = *context_.comparator;
  Run sorted;
  for (size_t i = begin; i < end; ++i) sorted.push_back(&inputs_[i]);
  std::sort(sorted.begin(), sorted.end(), [&](const Input* a, const Input* b) {
    return comparator.Compare(a->smallest, b->smallest) < 0;
  });
  // A run that ended before the input begins takes it, the one that ended
  // first.
  std::vector<Run> runs;
  const auto ends_later = [&](size_t a, size_t b) {
    return comparator.Compare(runs[a].back()->largest,
                              runs[b].back()->largest) > 0;
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(ends_later)> by_end(
      ends_later);
  for (const Input* input : sorted) {
    size_t run = runs.size();
    if (!by_end.empty() &&
        comparator.Compare(runs[by_end.top()].back()->largest,
                           input->smallest) < 0) {
      run = by_end.top();
      by_end.pop();
    } else {
      runs.emplace_back();
    }
    runs[run].push_back(input);
    by_end.push(run);
  }
  return runs;
}

size_t RepairInputs::MergeBytes(const std::vector<Run>& runs) {
  size_t bytes = 0;
  for (const Run& run : runs) {
    size_t largest = 0;
    for (const Input* input : run) {
      if (input->memtable != nullptr) continue;
      largest = std::max<size_t>(largest, kBlockBytes + kReadaheadBytes +
                                              input->file.size / kIndexPart);
    }
    bytes += largest;
  }
  return bytes;
}

Status RepairInputs::Reduce() {
  std::stable_sort(
      inputs_.begin(), inputs_.end(),
      [](const Input& a, const Input& b) { return a.rank < b.rank; });
  const auto fits = [this](size_t begin, size_t end) {
    const auto runs = MakeRuns(begin, end);
    return runs.size() < 2 || MergeBytes(runs) <= kMaxMergeBytes;
  };
  size_t begin = 0;
  while (!fits(0, inputs_.size())) {
    if (begin == inputs_.size()) begin = 0;
    Status status = WriteMemTables();
    if (!status.ok()) return status;
    // Only neighbours by rank are merged, so that the result's rank is between
    // the ranks of the others. As many as fit, found by halving.
    size_t low = begin + 1;
    size_t high = inputs_.size();
    while (low < high) {
      const size_t middle = low + (high - low + 1) / 2;
      if (fits(begin, middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    size_t end = low;
    // But two runs at least, so that they become fewer.
    while (end < inputs_.size() && MakeRuns(begin, end).size() < 2) ++end;
    size_t count = end - begin;
    if (MakeRuns(begin, end).size() >= 2) {
      status = MergeSome(begin, end, &count);
      if (!status.ok()) return status;
    }
    begin += count;
  }
  return Status::OK();
}

Status RepairInputs::MergeSome(size_t begin, size_t end, size_t* count) {
  std::vector<Input> merged;
  const uint64_t rank = inputs_[end - 1].rank;
  Status status;
  {
    Merge input(this, MakeRuns(begin, end));
    input.SeekToFirst();
    while (status.ok() && input.Valid()) {
      TableOutput output(context_, (*next_number_)++, options_.compression,
                         RateLimiter::Priority::kHigh);
      status = output.Open();
      for (; status.ok() && input.Valid() &&
             output.EstimatedFileSize() < kTemporaryTableBytes;
           input.Next()) {
        status = output.Add(input.key(), input.value());
      }
      if (status.ok()) status = input.status();
      Input made;
      if (status.ok()) status = FinishOutput(&output, rank, &made);
      if (status.ok()) {
        merged.push_back(std::move(made));
      } else {
        output.Abandon();
      }
    }
    if (status.ok()) status = input.status();
  }
  if (!status.ok()) {
    for (const Input& made : merged) RemoveFile(made);
    return status;
  }
  *count = merged.size();
  const auto first = inputs_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = inputs_.begin() + static_cast<std::ptrdiff_t>(end);
  std::for_each(first, last, [this](const Input& old) { RemoveFile(old); });
  const auto place = inputs_.erase(first, last);
  inputs_.insert(place, std::make_move_iterator(merged.begin()),
                 std::make_move_iterator(merged.end()));
  return status;
}

std::unique_ptr<InternalIterator> RepairInputs::NewIterator() {
  Status status = Reduce();
  if (!status.ok()) return NewEmptyIterator(std::move(status));
  return std::make_unique<Merge>(this, MakeRuns(0, inputs_.size()));
}

}  // namespace varve
