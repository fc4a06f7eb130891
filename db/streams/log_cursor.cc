// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/log_cursor.h"

#include <utility>

#include "db/wal/wal_format.h"

namespace varve {

namespace {

// The rest of a file.
class FileRest final : public SequentialFile {
 public:
  FileRest(const RandomAccessFile* file, uint64_t offset)
      : file_(file), offset_(offset) {}
  Status Read(size_t count, Slice* result, char* scratch) override {
    Status status = file_->Read(offset_, count, result, scratch);
    if (status.ok()) offset_ += result->size();
    return status;
  }
  Status Skip(uint64_t count) override {
    offset_ += count;
    return Status::OK();
  }

 private:
  const RandomAccessFile* const file_;
  uint64_t offset_;
};

}  // namespace

LogCursor::LogCursor(std::unique_ptr<RandomAccessFile> file, std::string name,
                     uint64_t number)
    : file_(std::move(file)), name_(std::move(name)), number_(number) {
  Restart();
}

wal::ReadOutcome LogCursor::Read(Slice* record) {
  const wal::ReadOutcome outcome = reader_->ReadRecord(record);
  if (outcome == wal::ReadOutcome::kRecord) {
    previous_end_ = std::exchange(end_, reader_->RecordEnd());
  }
  return outcome;
}

void LogCursor::Restart() {
  reader_ = std::make_unique<wal::Reader>(
      std::make_unique<FileRest>(file_.get(), end_ - end_ % wal::kBlockSize),
      name_, number_, end_);
}

void LogCursor::StepBack() {
  end_ = previous_end_;
  Restart();
}

}  // namespace varve
