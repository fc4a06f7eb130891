// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/instrumented_file.h"

#include <utility>

#include "monitoring/measured_operation.h"

namespace varve {

namespace {

class InstrumentedRandomAccessFile final : public RandomAccessFile {
 public:
  InstrumentedRandomAccessFile(std::unique_ptr<RandomAccessFile> file,
                               StatisticsImpl* statistics, Env* env)
      : file_(std::move(file)), statistics_(statistics), env_(env) {}

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    return ReadAtLeast(offset, count, count, result, scratch);
  }

  Status ReadAtLeast(uint64_t offset, size_t least, size_t count, Slice* result,
                     char* scratch) const override {
    IOStatsContext* const io = GetIOStatsContext();
    PerfTimer io_timer(env_, &io->read_nanos);
    HistogramTimer timer(statistics_, HistogramType::kSstRead, env_);
    Status status = file_->ReadAtLeast(offset, least, count, result, scratch);
    if (status.ok()) Count(result->size());
    return status;
  }

  void MultiRead(ReadRequest* requests, size_t count) const override {
    IOStatsContext* const io = GetIOStatsContext();
    PerfTimer io_timer(env_, &io->read_nanos);
    HistogramTimer timer(statistics_, HistogramType::kSstRead, env_);
    file_->MultiRead(requests, count);
    for (size_t i = 0; i < count; ++i) {
      if (requests[i].status.ok()) Count(requests[i].result.size());
    }
  }

  void Prefetch(uint64_t offset, size_t count) const override {
    file_->Prefetch(offset, count);
  }
  size_t RequiredAlignment() const override {
    return file_->RequiredAlignment();
  }
  // The duration of reads by other threads is not known here.
  int AcquireDescriptor() const override { return file_->AcquireDescriptor(); }
  void ReleaseDescriptor(size_t bytes_read) const override {
    if (bytes_read > 0) Count(bytes_read);
    file_->ReleaseDescriptor(bytes_read);
  }

 private:
  void Count(size_t bytes) const {
    RecordTick(statistics_, Ticker::kTableReadBytes, bytes);
    if (PerfCounts()) [[unlikely]]
      GetIOStatsContext()->bytes_read += bytes;
  }

  const std::unique_ptr<RandomAccessFile> file_;
  StatisticsImpl* const statistics_;
  Env* const env_;
};

class InstrumentedWritableFile final : public WritableFile {
 public:
  InstrumentedWritableFile(std::unique_ptr<WritableFile> file, Env* env)
      : file_(std::move(file)), env_(env) {}

  Status Append(const Slice& data) override {
    if (PerfCounts()) [[unlikely]]
      GetIOStatsContext()->bytes_written += data.size();
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    return file_->Append(data);
  }
  Status AppendParts(std::span<const Slice> parts, bool flush) override {
    if (PerfCounts()) [[unlikely]] {
      for (const Slice& part : parts) {
        GetIOStatsContext()->bytes_written += part.size();
      }
    }
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    return file_->AppendParts(parts, flush);
  }
  Status Flush() override {
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    return file_->Flush();
  }
  Status Sync() override {
    PerfTimer timer(env_, &GetIOStatsContext()->fsync_nanos);
    return file_->Sync();
  }
  Status Close() override { return file_->Close(); }
  void Allocate(uint64_t offset, uint64_t length) override {
    file_->Allocate(offset, length);
  }
  Status Reserve(uint64_t offset, uint64_t length) override {
    return file_->Reserve(offset, length);
  }
  void Release() override { file_->Release(); }
  void RangeSync(uint64_t offset, uint64_t length) override {
    file_->RangeSync(offset, length);
  }
  uint64_t Size() const override { return file_->Size(); }
  std::string WritePath() const override { return file_->WritePath(); }

 private:
  const std::unique_ptr<WritableFile> file_;
  Env* const env_;
};

}  // namespace

std::unique_ptr<RandomAccessFile> NewInstrumentedFile(
    std::unique_ptr<RandomAccessFile> file, StatisticsImpl* statistics,
    Env* env) {
  return std::make_unique<InstrumentedRandomAccessFile>(std::move(file),
                                                        statistics, env);
}

std::unique_ptr<WritableFile> NewInstrumentedFile(
    std::unique_ptr<WritableFile> file, Env* env) {
  return std::make_unique<InstrumentedWritableFile>(std::move(file), env);
}

}  // namespace varve
