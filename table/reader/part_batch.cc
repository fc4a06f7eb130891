// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/part_batch.h"

namespace varve {

void PartBatch::Clear() {
  parts_.clear();
  reads_.Clear();
  owners_.clear();
}

PartBatch::Added PartBatch::Add(const TableParts& table, size_t i,
                                size_t* index) {
  for (*index = 0; *index < parts_.size(); ++*index) {
    const Waiting& other = parts_[*index];
    if (other.i == i && other.table == &table) return Added::kAdded;
  }
  Waiting waiting{.table = &table,
                  .i = i,
                  .ranges = table.RangesOf(i),
                  .first_read = reads_.size(),
                  .missing = 0,
                  .status = Status(),
                  .part = table.FindInMemory(i)};
  if (waiting.part == nullptr) {
    const RandomAccessFile& file = table.file();
    // The second range must not be refused once the first one was added.
    size_t bytes = 0;
    for (const TableParts::Range& range : waiting.ranges.all()) {
      if (!ReadBatch::CanHold(file, range.size)) return Added::kRefused;
      bytes += range.size + 2 * file.RequiredAlignment();
    }
    if (!ReadBatch::CanHold(file, bytes)) return Added::kRefused;
    if (!reads_.Fits(file, 0, bytes)) return Added::kFull;
    for (const TableParts::Range& range : waiting.ranges.all()) {
      reads_.Add(file, range.offset, range.size);
      owners_.push_back(parts_.size());
      ++waiting.missing;
    }
  }
  parts_.push_back(std::move(waiting));
  return Added::kAdded;
}

void PartBatch::Read(Env* env) {
  if (reads_.size() == 0) return;
  reads_.Read(env, [this](size_t read) {
    Waiting* const waiting = &parts_[owners_[read]];
    if (--waiting->missing == 0) Finish(waiting);
  });
}

void PartBatch::Finish(Waiting* waiting) const {
  Slice bytes[TableParts::Ranges::kMaxCount];
  for (size_t k = 0; k < waiting->ranges.count; ++k) {
    const size_t read = waiting->first_read + k;
    waiting->status = reads_.status(read);
    if (!waiting->status.ok()) return;
    bytes[k] = reads_.bytes(read);
  }
  waiting->status =
      waiting->table->Take(waiting->i, waiting->ranges, bytes, &waiting->part);
}

}  // namespace varve
