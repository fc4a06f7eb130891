// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/resumable_reader.h"

#include <utility>

namespace varve::wal {

class ResumableReader::File final : public SequentialFile {
 public:
  explicit File(std::unique_ptr<RandomAccessFile> file)
      : file_(std::move(file)) {}

  Status Read(size_t count, Slice* result, char* scratch) override {
    Status status = file_->Read(position_, count, result, scratch);
    if (status.ok()) position_ += result->size();
    return status;
  }
  Status Skip(uint64_t count) override {
    position_ += count;
    return Status::OK();
  }
  void Seek(uint64_t position) { position_ = position; }

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  uint64_t position_ = 0;
};

ResumableReader::ResumableReader(std::unique_ptr<RandomAccessFile> file,
                                 std::string name, uint64_t number)
    : file_(new File(std::move(file))),
      reader_(std::unique_ptr<File>(file_), std::move(name), number) {}

void ResumableReader::Resume(uint64_t record_end) {
  file_->Seek(reader_.ContinueAt(record_end));
}

}  // namespace varve::wal
