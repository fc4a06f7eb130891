// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "monitoring/instrumented_file.h"

#include <span>
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
    ++table_file_calls;
    IOStatsContext* const io = GetIOStatsContext();
    PerfTimer io_timer(env_, &io->read_nanos);
    HistogramTimer timer(statistics_, HistogramType::kSstRead, env_);
    Status status = file_->ReadAtLeast(offset, least, count, result, scratch);
    if (status.ok()) Count(result->size());
    return status;
  }

  void MultiRead(ReadRequest* requests, size_t count) const override {
    table_file_calls += count;
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
  Slice Mapping() const override { return file_->Mapping(); }

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

// Records the duration of its scope if that is long. A short one costs two
// reads of the counter, which is little beside a system call.
class WaitTimer {
 public:
  explicit WaitTimer(FileWaits* waits)
      : waits_(waits),
        start_(waits == nullptr ? 0 : ReadClock(ClockKind::kTsc)) {}
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;
  ~WaitTimer() {
    if (waits_ == nullptr) return;
    const uint64_t now = ReadClock(ClockKind::kTsc);
    // Another core's counter may be a little behind.
    if (now - start_ >= FileWaits::kLeastTicks && now > start_) [[unlikely]]
      waits_->Record(now - start_);
  }

 private:
  FileWaits* const waits_;
  const uint64_t start_;
};

class InstrumentedWritableFile final : public WritableFile {
 public:
  InstrumentedWritableFile(std::unique_ptr<WritableFile> file, Env* env,
                           std::shared_ptr<FileWaits> waits)
      : file_(std::move(file)), env_(env), waits_(std::move(waits)) {}

  Status Append(const Slice& data) override {
    if (PerfCounts()) [[unlikely]]
      GetIOStatsContext()->bytes_written += data.size();
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    return file_->Append(data);
  }
  bool TryStore(const Slice* parts, size_t count) override {
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    if (!file_->TryStore(parts, count)) return false;
    CountWritten({parts, count});
    return true;
  }
  Status AppendParts(const Slice* parts, size_t count, bool flush) override {
    const WaitTimer wait(waits_.get());
    CountWritten({parts, count});
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    return file_->AppendParts(parts, count, flush);
  }
  Status Flush() override {
    const WaitTimer wait(waits_.get());
    PerfTimer timer(env_, &GetIOStatsContext()->write_nanos);
    return file_->Flush();
  }
  Status Sync() override {
    const WaitTimer wait(waits_.get());
    PerfTimer timer(env_, &GetIOStatsContext()->fsync_nanos);
    return file_->Sync();
  }
  Status Close() override { return file_->Close(); }
  void Allocate(uint64_t offset, uint64_t length) override {
    const WaitTimer wait(waits_.get());
    file_->Allocate(offset, length);
  }
  Status Reserve(uint64_t offset, uint64_t length) override {
    const WaitTimer wait(waits_.get());
    return file_->Reserve(offset, length);
  }
  void Release() override { file_->Release(); }
  void RangeSync(uint64_t offset, uint64_t length) override {
    const WaitTimer wait(waits_.get());
    file_->RangeSync(offset, length);
  }
  uint64_t Size() const override { return file_->Size(); }
  std::string WritePath() const override { return file_->WritePath(); }

 private:
  static void CountWritten(std::span<const Slice> parts) {
    if (!PerfCounts()) [[likely]]
      return;
    for (const Slice& part : parts) {
      GetIOStatsContext()->bytes_written += part.size();
    }
  }

  const std::unique_ptr<WritableFile> file_;
  Env* const env_;
  const std::shared_ptr<FileWaits> waits_;
};

}  // namespace

constinit thread_local uint64_t table_file_calls = 0;

FileWaits::FileWaits() : begin_(AnchorClock(ClockKind::kTsc)) {}

void FileWaits::Record(uint64_t ticks) {
  const ClockAnchor end = AnchorClock(ClockKind::kTsc);
  // Both are from the same clocks. If the counter stood still, nothing is
  // known.
  const double ns_per_tick =
      end.ticks > begin_.ticks && end.ns > begin_.ns
          ? static_cast<double>(end.ns - begin_.ns) /
                static_cast<double>(end.ticks - begin_.ticks)
          : 0;
  const auto us =
      static_cast<uint64_t>(static_cast<double>(ticks) * ns_per_tick / 1000);
  // relaxed, all: for a report.
  count_.fetch_add(1, std::memory_order_relaxed);
  total_us_.fetch_add(us, std::memory_order_relaxed);
  uint64_t longest = longest_us_.load(std::memory_order_relaxed);
  while (us > longest &&
         // relaxed: as above.
         !longest_us_.compare_exchange_weak(longest, us,
                                            std::memory_order_relaxed)) {
  }
}

std::unique_ptr<RandomAccessFile> NewInstrumentedFile(
    std::unique_ptr<RandomAccessFile> file, StatisticsImpl* statistics,
    Env* env) {
  return std::make_unique<InstrumentedRandomAccessFile>(std::move(file),
                                                        statistics, env);
}

std::unique_ptr<WritableFile> NewInstrumentedFile(
    std::unique_ptr<WritableFile> file, Env* env,
    std::shared_ptr<FileWaits> waits) {
  return std::make_unique<InstrumentedWritableFile>(std::move(file), env,
                                                    std::move(waits));
}

}  // namespace varve
