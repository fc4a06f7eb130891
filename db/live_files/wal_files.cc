// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/live_files/wal_files.h"

#include <algorithm>
#include <memory>

#include "db/wal/wal_archive.h"
#include "db/wal/wal_reader.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"

namespace varve {

namespace {

class DescribedWal final : public WalFile {
 public:
  DescribedWal(uint64_t number, WalFileType type, uint64_t start,
               uint64_t bytes)
      : number_(number), type_(type), start_(start), bytes_(bytes) {}
  std::string PathName() const override {
    return type_ == WalFileType::kAliveLogFile
               ? WalFileName("", number_)
               : ArchivedWalFileName("", number_);
  }
  uint64_t LogNumber() const override { return number_; }
  WalFileType Type() const override { return type_; }
  uint64_t StartSequence() const override { return start_; }
  uint64_t SizeFileBytes() const override { return bytes_; }

 private:
  const uint64_t number_;
  const WalFileType type_;
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
                    const std::vector<uint64_t>& archived,
                    const std::vector<std::pair<uint64_t, uint64_t>>& wals,
                    VectorWalPtr* result) {
  result->clear();
  Status status;
  const auto describe = [&](WalFileType type, const std::string& path,
                            uint64_t number, uint64_t bytes) {
    uint64_t start = 0;
    status = FindStart(env, path, number, bytes, &start);
    if (!status.ok()) return;
    result->push_back(
        std::make_unique<DescribedWal>(number, type, start, bytes));
  };
  for (const uint64_t number : archived) {
    const bool is_live =
        std::any_of(wals.begin(), wals.end(),
                    [number](const auto& wal) { return wal.first == number; });
    if (is_live) continue;
    const std::string path = ArchivedWalFileName(directory, number);
    uint64_t bytes = 0;
    status = env->GetFileSize(path, &bytes);
    if (status.ok()) {
      describe(WalFileType::kArchivedLogFile, path, number, bytes);
    }
    if (!status.ok() && !status.IsNotFound()) break;
    status = Status::OK();
  }
  for (const auto& [number, bytes] : wals) {
    if (!status.ok()) break;
    std::string path = WalFileName(directory, number);
    // An obsolete one may be on its way to the archive.
    const bool moved = env->FileExists(path).IsNotFound();
    if (moved) path = ArchivedWalFileName(directory, number);
    describe(moved ? WalFileType::kArchivedLogFile : WalFileType::kAliveLogFile,
             path, number, bytes);
  }
  if (!status.ok()) result->clear();
  return status;
}

}  // namespace varve
