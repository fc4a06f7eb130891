// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/live_files/wal_files.h"

#include <memory>

#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"

namespace varve {

namespace {

class LiveWal final : public WalFile {
 public:
  LiveWal(uint64_t number, uint64_t start, uint64_t bytes)
      : number_(number), start_(start), bytes_(bytes) {}
  std::string PathName() const override { return WalFileName("", number_); }
  uint64_t LogNumber() const override { return number_; }
  WalFileType Type() const override { return WalFileType::kAliveLogFile; }
  uint64_t StartSequence() const override { return start_; }
  uint64_t SizeFileBytes() const override { return bytes_; }

 private:
  const uint64_t number_;
  const uint64_t start_;
  const uint64_t bytes_;
};

// Sets *start to the sequence number of the first update in the first `bytes`
// of the log, or to 0.
Status FindStart(Env* env, const std::string& path, uint64_t number,
                 uint64_t bytes, uint64_t* start) {
  *start = 0;
  std::unique_ptr<SequentialFile> file;
  Status status = env->NewSequentialFile(path, FileOptions(), &file);
  if (!status.ok()) return status;
  wal::Reader reader(std::move(file), path, number);
  Slice record;
  wal::ReadOutcome outcome;
  while ((outcome = reader.ReadRecord(&record)) == wal::ReadOutcome::kRecord) {
    if (reader.RecordEnd() > bytes) return status;  // Written since.
    BatchReader batch;
    status = batch.Init(record);
    if (!status.ok()) return status.Annotate(path);
    // A note about the log before has no updates.
    if (batch.count() == 0) continue;
    *start = batch.sequence();
    return status;
  }
  // The end may be in the middle of a write.
  return outcome == wal::ReadOutcome::kIOError ? reader.status() : status;
}

}  // namespace

Status DescribeWals(Env* env, const std::string& directory,
                    const std::vector<std::pair<uint64_t, uint64_t>>& wals,
                    VectorWalPtr* result) {
  result->clear();
  for (const auto& [number, bytes] : wals) {
    uint64_t start = 0;
    Status status =
        FindStart(env, WalFileName(directory, number), number, bytes, &start);
    if (!status.ok()) {
      result->clear();
      return status;
    }
    result->push_back(std::make_unique<LiveWal>(number, start, bytes));
  }
  return Status::OK();
}

}  // namespace varve
