// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/reader/file_pool.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "monitoring/instrumented_file.h"
#include "monitoring/span.h"
#include "monitoring/statistics.h"
#include "util/base/probe.h"

namespace varve {

namespace {

// After how many opens at the bound it is raised; see Descriptors.
constexpr size_t kProbeOpens = 64;

constexpr char kRemovedMessage[] =
    "another process has removed or replaced the file since the database was "
    "opened for reading; open it again";

// Tells a file from another one of the same name. Links and reads do not change
// it.
struct FileStamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t seconds = 0;
  int64_t nanos = 0;
  bool operator==(const FileStamp&) const = default;
};

// All zero for a file without a descriptor.
FileStamp StampOf(const RandomAccessFile& file) {
  FileStamp stamp;
  struct stat info;
  const int descriptor = file.AcquireDescriptor();
  if (descriptor < 0) return stamp;
  if (fstat(descriptor, &info) == 0) {
    stamp = {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
             info.st_mtim.tv_nsec};
  }
  file.ReleaseDescriptor(0);
  return stamp;
}

}  // namespace

Status FilePool::RemovedError(const std::string& path) {
  return Status::IOError(path, kRemovedMessage);
}

bool FilePool::IsRemovedError(const Status& status) {
  return status.IsIOError() &&
         status.message().ToStringView().ends_with(kRemovedMessage);
}

class FilePool::PooledFile final : public RandomAccessFile {
 public:
  PooledFile(FilePool* pool, Env* env, std::string path)
      : pool_(pool), env_(env), path_(std::move(path)) {}
  ~PooledFile() override { pool_->Forget(this); }
  PooledFile(const PooledFile&) = delete;
  PooledFile& operator=(const PooledFile&) = delete;

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    return ReadAtLeast(offset, count, count, result, scratch);
  }

  Status ReadAtLeast(uint64_t offset, size_t least, size_t count, Slice* result,
                     char* scratch) const override {
    Status s = Pin();
    if (!s.ok()) return s;
    CountCalls(1);
    s = target_->ReadAtLeast(offset, least, count, result, scratch);
    KeepResult(result, scratch);
    Unpin();
    return s;
  }

  void MultiRead(ReadRequest* requests, size_t count) const override {
    Status s = Pin();
    if (!s.ok()) {
      for (size_t i = 0; i < count; ++i) requests[i].status = s;
      return;
    }
    CountCalls(count);
    target_->MultiRead(requests, count);
    for (size_t i = 0; i < count; ++i) {
      KeepResult(&requests[i].result, requests[i].scratch);
    }
    Unpin();
  }

  void Prefetch(uint64_t offset, size_t count) const override {
    if (!Pin().ok()) return;
    CountCalls(1);
    target_->Prefetch(offset, count);
    Unpin();
  }

  int AcquireDescriptor() const override {
    if (!Pin(false).ok()) return -1;
    const int descriptor = target_->AcquireDescriptor();
    if (descriptor < 0) Unpin();
    return descriptor;
  }
  void ReleaseDescriptor(size_t bytes_read) const override {
    CountCalls(1);
    target_->ReleaseDescriptor(bytes_read);
    Unpin();
  }

  size_t RequiredAlignment() const override {
    // relaxed: it is the same each time.
    return alignment_.load(std::memory_order_relaxed);
  }

 private:
  friend class FilePool;

  static constexpr uint32_t kOpen = 1u << 31;

  // Returns Busy if `waits` is false and it would have to wait.
  Status Pin(bool waits = true) const {
    // T1. acquire pairs with the release of T2: target_ is seen.
    const uint32_t before = state_.fetch_add(1, std::memory_order_acquire);
    if ((before & kOpen) == 0) [[unlikely]] {
      Unpin();
      Status s = pool_->OpenPinned(const_cast<PooledFile*>(this), waits);
      if (!s.ok() && !s.IsBusy())
        RecordTick(pool_->statistics_, Ticker::kNoFileErrors, 1);
      // The file existed before. NotFound would mean that the key does not
      // exist.
      if (s.IsNotFound()) {
        s = pool_->other_writers_
                ? RemovedError(path_)
                : Status::Corruption(path_, "the file has gone");
      }
      return s;
    }
    // relaxed, both: a hint for the clock.
    if (!referenced_.load(std::memory_order_relaxed)) {
      referenced_.store(true, std::memory_order_relaxed);
    }
    return Status();
  }
  void Unpin() const {
    // T3, B2. seq_cst, both: a waiting thread sees that the pin is released, or
    // is seen to wait. As a release it pairs with the acquire of T4.
    const uint32_t before = state_.fetch_sub(1, std::memory_order_seq_cst);
    if ((before & ~kOpen) == 1 &&
        pool_->waiting_.load(std::memory_order_seq_cst) > 0) [[unlikely]] {
      MutexLock lock(&pool_->mu_);
      pool_->changed_.SignalAll();
    }
  }
  // T4. Returns false if the file is pinned.
  bool TakeOpenBit() {
    uint32_t expected = kOpen;
    // seq_cst: as an acquire it pairs with the release of T3; B2.
    return state_.compare_exchange_strong(expected, 0,
                                          std::memory_order_seq_cst);
  }

  // For the probe file_close.
  void CountCalls(size_t count) const {
    // relaxed, both: the count orders nothing. Of reads at the same time it may
    // lose some; a locked instruction would cost every read more than that.
    calls_.store(
        calls_.load(std::memory_order_relaxed) + static_cast<uint32_t>(count),
        std::memory_order_relaxed);
  }
  // relaxed: as above.
  uint32_t calls() const { return calls_.load(std::memory_order_relaxed); }

  // The result may point into memory of the target, which may be closed soon.
  static void KeepResult(Slice* result, char* scratch) {
    if (result->empty() || result->data() == scratch) return;
    memmove(scratch, result->data(), result->size());
    *result = Slice(scratch, result->size());
  }

  FilePool* const pool_;
  Env* const env_;
  const std::string path_;
  mutable std::atomic<uint32_t> state_{0};
  // About how many system calls the target has got. In the line of state_,
  // which each read writes anyway.
  mutable std::atomic<uint32_t> calls_{0};
  mutable std::atomic<bool> referenced_{false};
  mutable std::atomic<size_t> alignment_{1};
  std::unique_ptr<RandomAccessFile> target_;

  // The stamp of the first target. Used only with other_writers_, and by the
  // thread that opens the file.
  std::optional<FileStamp> stamp_;

  // Guarded by the pool's mutex.
  bool opening_ = false;
  size_t ring_index_ = 0;
};

namespace {

size_t BoundOf(int max_open_files) {
  return max_open_files < 0 ? SIZE_MAX
                            : static_cast<size_t>(std::max(max_open_files, 1));
}

}  // namespace

FilePool::FilePool(Env* env, const FileOptions& file_options,
                   int max_open_files, StatisticsImpl* statistics)
    : env_(env),
      file_options_(file_options),
      statistics_(statistics),
      max_open_files_(BoundOf(max_open_files)),
      bound_(max_open_files_) {
  RefreshDescriptorLimit();
  AddDescriptorOwner(this);
}

FilePool::~FilePool() { RemoveDescriptorOwner(this); }

void FilePool::SetMaxOpenFiles(int max_open_files) {
  const size_t bound = BoundOf(max_open_files);
  size_t excess = 0;
  {
    MutexLock lock(&mu_);
    if (bound == max_open_files_) return;
    max_open_files_ = bound;
    // If descriptors are short, the next open lowers it again.
    bound_ = bound;
    excess = places_ - std::min(places_, bound);
    changed_.SignalAll();
  }
  if (excess > 0) GiveBack(excess, bound);
}

size_t FilePool::open_files() const {
  MutexLock lock(&mu_);
  return places_;
}

Status FilePool::Open(const std::string& path,
                      std::unique_ptr<RandomAccessFile>* file, Env* env) {
  // The program may have changed it.
  RefreshDescriptorLimit();
  if (env == nullptr) env = env_;
  if (file_options_.use_mmap_reads) {
    std::unique_ptr<RandomAccessFile> mapped;
    Status s = OpenUnpooled(env, path, &mapped);
    // An Env that does not map files returns one with a descriptor.
    if (!s.ok() || mapped->Mapping().data() != nullptr) {
      *file = std::move(mapped);
      return s;
    }
  }
  auto pooled = std::make_unique<PooledFile>(this, env, path);
  Status s = OpenPinned(pooled.get(), true);
  if (!s.ok()) return s;
  pooled->Unpin();
  *file = std::move(pooled);
  return s;
}

Status FilePool::OpenUnpooled(Env* env, const std::string& path,
                              std::unique_ptr<RandomAccessFile>* file) {
  const LocalSpan span("open file");
  Status s = env->NewRandomAccessFile(path, file_options_, file);
  ++table_file_calls;
  VARVE_PROBE(file_open, path.c_str(), s.ok());
  if (s.ok()) RecordTick(statistics_, Ticker::kNoFileOpens, 1);
  return s;
}

Status FilePool::OpenPinned(PooledFile* file, bool waits) {
  std::unique_ptr<RandomAccessFile> victim;
  std::unique_ptr<RandomAccessFile> excess;
  {
    MutexLock lock(&mu_);
    for (;;) {
      // relaxed: the bit changes under the mutex only.
      if ((file->state_.load(std::memory_order_relaxed) & PooledFile::kOpen) !=
          0) {
        // acquire: as in T1, although the mutex has ordered it already.
        file->state_.fetch_add(1, std::memory_order_acquire);
        return Status();
      }
      if (!file->opening_) {
        if (TakePlace()) break;
        victim = TakeVictim();  // The victim's place is now this file's.
        if (victim != nullptr) break;
        if (!waits) return Status::Busy("no place for another file");
        // B2. seq_cst: see Unpin.
        waiting_.fetch_add(1, std::memory_order_seq_cst);
        victim = TakeVictim();
        if (victim == nullptr) changed_.Wait(&mu_);
        // relaxed: an unneeded signal does no harm.
        waiting_.fetch_sub(1, std::memory_order_relaxed);
        if (victim != nullptr) break;
        continue;
      }
      if (!waits) return Status::Busy("it is being opened");
      changed_.Wait(&mu_);
    }
    file->opening_ = true;
    if (places_ > bound_) [[unlikely]] {
      // The bound was lowered while reads pinned more files.
      excess = TakeVictim();
      if (excess != nullptr) --places_;
    }
  }
  excess.reset();
  victim.reset();
  Status s = OpenTarget(file, waits);
  if (s.ok()) RecordTick(statistics_, Ticker::kNoFileOpens, 1);
  MutexLock lock(&mu_);
  file->opening_ = false;
  if (s.ok()) {
    // relaxed: a hint.
    file->referenced_.store(true, std::memory_order_relaxed);
    AddToRing(file);
    // T2. release pairs with the acquire of T1. Added, since others may have
    // a pin on it for a moment.
    file->state_.fetch_add(PooledFile::kOpen + 1, std::memory_order_release);
  } else {
    --places_;
  }
  changed_.SignalAll();
  return s;
}

bool FilePool::TakePlace() {
  if (places_ >= bound_) {
    if (bound_ == max_open_files_ || ++opens_at_bound_ % kProbeOpens != 0) {
      return false;
    }
    RefreshDescriptorLimit();
    bound_ = std::min(max_open_files_, bound_ + bound_ / 4 + 1);
    if (places_ >= bound_) return false;
  }
  ++places_;
  return true;
}

Status FilePool::OpenTarget(PooledFile* file, bool waits) {
  const LocalSpan span("open file");
  // The env has called all pools already. This loop is for an env that does
  // not.
  for (;;) {
    std::optional<NoDescriptorWait> no_wait;
    if (!waits) no_wait.emplace();
    Status s = file->env_->NewRandomAccessFile(file->path_, file_options_,
                                               &file->target_);
    ++table_file_calls;
    VARVE_PROBE(file_open, file->path_.c_str(), s.ok());
    if (s.ok()) {
      // relaxed: no other thread counts until the file is open.
      file->calls_.store(1, std::memory_order_relaxed);
      // relaxed: it is the same each time.
      file->alignment_.store(file->target_->RequiredAlignment(),
                             std::memory_order_relaxed);
    }
    if (s.ok() && other_writers_) [[unlikely]] {
      ++table_file_calls;
      const FileStamp stamp = StampOf(*file->target_);
      if (!file->stamp_) file->stamp_ = stamp;
      if (*file->stamp_ != stamp) {
        file->target_.reset();
        return RemovedError(file->path_);
      }
    }
    if (!IsOutOfDescriptors(s)) return s;
    std::unique_ptr<RandomAccessFile> victim;
    {
      MutexLock lock(&mu_);
      victim = TakeVictim();
      if (victim == nullptr) return s;
    }
    victim.reset();
    GivePlacesBack(1);
  }
}

size_t FilePool::Held() const {
  // relaxed: it may be out of date.
  return held_.load(std::memory_order_relaxed);
}

DescriptorOwner::CloseResult FilePool::GiveBack(size_t count, size_t keep) {
  std::vector<std::unique_ptr<RandomAccessFile>> victims;
  CloseResult result;
  {
    MutexLock lock(&mu_);
    // Not places_: other calls may be closing files that it still counts.
    if (ring_.size() <= keep) return result;
    count = std::min(count, ring_.size() - keep);
    while (victims.size() < count) {
      victims.push_back(TakeVictim());
      if (victims.back() != nullptr) continue;
      victims.pop_back();
      break;
    }
    result.closed = victims.size();
    const size_t left = places_ - victims.size();
    result.more_soon = left > 0;
    bound_ = std::min(bound_, std::max<size_t>(left, 1));
    opens_at_bound_ = 0;
  }
  victims.clear();
  GivePlacesBack(result.closed);
  return result;
}

void FilePool::GivePlacesBack(size_t count) {
  MutexLock lock(&mu_);
  places_ -= count;
  changed_.SignalAll();
}

std::unique_ptr<RandomAccessFile> FilePool::TakeVictim() {
  // Files lose their mark in the first turn and are closed in the second.
  for (size_t looks = 2 * ring_.size() + 1; looks > 0 && !ring_.empty();
       --looks) {
    if (hand_ >= ring_.size()) hand_ = 0;
    PooledFile* const file = ring_[hand_];
    // The newest file takes the place of an evicted one, which the hand has
    // passed.
    ++hand_;
    // relaxed: a hint.
    if (file->referenced_.load(std::memory_order_relaxed)) {
      file->referenced_.store(false, std::memory_order_relaxed);
      continue;
    }
    if (!file->TakeOpenBit()) continue;
    RemoveFromRing(file);
    VARVE_PROBE(file_close, file->path_.c_str(), file->calls());
    return std::move(file->target_);
  }
  return nullptr;
}

void FilePool::AddToRing(PooledFile* file) {
  file->ring_index_ = ring_.size();
  ring_.push_back(file);
  // relaxed: see Held.
  held_.store(ring_.size(), std::memory_order_relaxed);
}

void FilePool::RemoveFromRing(PooledFile* file) {
  PooledFile* const last = ring_.back();
  ring_[file->ring_index_] = last;
  last->ring_index_ = file->ring_index_;
  ring_.pop_back();
  // relaxed: see Held.
  held_.store(ring_.size(), std::memory_order_relaxed);
}

void FilePool::Forget(PooledFile* file) {
  {
    MutexLock lock(&mu_);
    // relaxed: no thread reads the file any more.
    if ((file->state_.load(std::memory_order_relaxed) & PooledFile::kOpen) ==
        0) {
      return;
    }
    RemoveFromRing(file);
  }
  VARVE_PROBE(file_close, file->path_.c_str(), file->calls());
  file->target_.reset();
  GivePlacesBack(1);
}

}  // namespace varve
