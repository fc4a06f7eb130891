// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/space/sst_file_manager_impl.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "env/stopwatch.h"

namespace varve {

namespace {

// Waits by the time of an Env.
class EnvClock final : public RateLimiterClock {
 public:
  explicit EnvClock(Env* env) : env_(env) {}
  uint64_t NowMicros() override { return MonotonicMicros(env_); }
  void WaitFor(CondVar* wake, Mutex* mutex, uint64_t time_us) override
      VARVE_REQUIRES(mutex) {
    static_cast<void>(wake->WaitFor(mutex, time_us));
  }

 private:
  Env* const env_;
};

}  // namespace

std::shared_ptr<SstFileManager> NewSstFileManager(Env* env,
                                                  int64_t rate_bytes_per_sec,
                                                  double max_trash_db_ratio) {
  return std::make_shared<SstFileManagerImpl>(
      rate_bytes_per_sec, max_trash_db_ratio, std::make_unique<EnvClock>(env));
}

SstFileManagerImpl::SstFileManagerImpl(int64_t delete_rate,
                                       double max_trash_ratio,
                                       std::unique_ptr<RateLimiterClock> clock)
    : clock_(std::move(clock)),
      delete_rate_(delete_rate),
      max_trash_ratio_(max_trash_ratio) {}

SstFileManagerImpl::~SstFileManagerImpl() {
  {
    MutexLock lock(&mutex_);
    is_ending_ = true;
    wake_.SignalAll();
  }
  pool_.EndThreads();
}

void SstFileManagerImpl::SetMaxAllowedSpaceUsage(uint64_t max_allowed_space) {
  MutexLock lock(&mutex_);
  max_bytes_ = max_allowed_space;
}

void SstFileManagerImpl::SetCompactionBufferSize(uint64_t bytes) {
  MutexLock lock(&mutex_);
  compaction_buffer_ = bytes;
}

bool SstFileManagerImpl::FitsLocked(uint64_t bytes) const {
  return max_bytes_ == 0 ||
         (total_bytes_ <= max_bytes_ && bytes <= max_bytes_ - total_bytes_);
}

bool SstFileManagerImpl::IsMaxAllowedSpaceReached() {
  MutexLock lock(&mutex_);
  return !FitsLocked(1);
}

bool SstFileManagerImpl::IsMaxAllowedSpaceReachedIncludingCompactions() {
  MutexLock lock(&mutex_);
  return !FitsLocked(reserved_bytes_ + 1);
}

uint64_t SstFileManagerImpl::GetTotalSize() {
  MutexLock lock(&mutex_);
  return total_bytes_;
}

std::unordered_map<std::string, uint64_t>
SstFileManagerImpl::GetTrackedFiles() {
  MutexLock lock(&mutex_);
  return tables_;
}

int64_t SstFileManagerImpl::GetDeleteRateBytesPerSecond() {
  MutexLock lock(&mutex_);
  return delete_rate_;
}

void SstFileManagerImpl::SetDeleteRateBytesPerSecond(int64_t delete_rate) {
  MutexLock lock(&mutex_);
  delete_rate_ = delete_rate;
  wake_.SignalAll();
}

double SstFileManagerImpl::GetMaxTrashDBRatio() {
  MutexLock lock(&mutex_);
  return max_trash_ratio_;
}

void SstFileManagerImpl::SetMaxTrashDBRatio(double ratio) {
  MutexLock lock(&mutex_);
  max_trash_ratio_ = ratio;
}

uint64_t SstFileManagerImpl::GetTotalTrashSize() {
  MutexLock lock(&mutex_);
  return trash_bytes_;
}

void SstFileManagerImpl::Add(const std::string& path, uint64_t bytes) {
  MutexLock lock(&mutex_);
  uint64_t& counted = tables_[path];
  total_bytes_ += bytes - std::exchange(counted, bytes);
}

void SstFileManagerImpl::ForgetLocked(const std::string& path) {
  const auto place = tables_.find(path);
  if (place == tables_.end()) return;
  total_bytes_ -= place->second;
  tables_.erase(place);
}

void SstFileManagerImpl::Forget(const std::string& path) {
  MutexLock lock(&mutex_);
  ForgetLocked(path);
}

bool SstFileManagerImpl::HasRoom(uint64_t bytes) {
  MutexLock lock(&mutex_);
  if (FitsLocked(bytes)) return true;
  is_hurried_ = !trash_.empty();
  wake_.SignalAll();
  return false;
}

bool SstFileManagerImpl::Reserve(uint64_t bytes) {
  if (!HasRoom(0)) return false;
  MutexLock lock(&mutex_);
  if (!FitsLocked(reserved_bytes_ + bytes + compaction_buffer_)) return false;
  reserved_bytes_ += bytes;
  return true;
}

void SstFileManagerImpl::Unreserve(uint64_t bytes) {
  MutexLock lock(&mutex_);
  reserved_bytes_ -= bytes;
}

// Returns whether a table of that size may wait for its removal.
bool SstFileManagerImpl::MayWaitLocked(uint64_t bytes) const {
  return delete_rate_ > 0 && !is_ending_ && FitsLocked(0) &&
         static_cast<double>(trash_bytes_ + bytes) <=
             max_trash_ratio_ * static_cast<double>(total_bytes_);
}

Status SstFileManagerImpl::Remove(Env* env, const std::string& path) {
  uint64_t bytes = 0;
  bool waits = false;
  {
    MutexLock lock(&mutex_);
    const auto place = tables_.find(path);
    if (place != tables_.end()) bytes = place->second;
    waits = place != tables_.end() && MayWaitLocked(bytes);
  }
  if (waits) {
    const std::string renamed = path + kTrashSuffix;
    Status status = env->RenameFile(path, renamed);
    if (status.IsNotFound()) Forget(path);
    if (!status.ok()) return status;
    MutexLock lock(&mutex_);
    ForgetLocked(path);
    tables_[renamed] = bytes;
    total_bytes_ += bytes;
    trash_.push_back({env, renamed, bytes});
    trash_bytes_ += bytes;
    // Without a thread, as in a child made by fork(), Finish removes it.
    if (!is_running_) is_running_ = pool_.Schedule([this] { Run(); }).ok();
    return status;
  }
  Status status = env->RemoveFile(path);
  if (status.ok() || status.IsNotFound()) Forget(path);
  return status;
}

void SstFileManagerImpl::RemoveTrashLocked(const Trash& trash) {
  removing_.push_back(&trash);
  mutex_.Unlock();
  // A file that stays is removed by the next Open.
  trash.env->RemoveFile(trash.path).IgnoreError();
  mutex_.Lock();
  ForgetLocked(trash.path);
  trash_bytes_ -= trash.bytes;
  std::erase(removing_, &trash);
  removed_.SignalAll();
}

void SstFileManagerImpl::PauseLocked(uint64_t bytes) {
  const uint64_t begin_us = clock_->NowMicros();
  for (;;) {
    if (delete_rate_ <= 0 || is_hurried_ || is_ending_) return;
    const auto pause_us = static_cast<uint64_t>(
        static_cast<double>(bytes) * 1e6 / static_cast<double>(delete_rate_));
    const uint64_t waited_us = clock_->NowMicros() - begin_us;
    if (waited_us >= pause_us) return;
    clock_->WaitFor(&wake_, &mutex_, pause_us - waited_us);
  }
}

void SstFileManagerImpl::Run() {
  MutexLock lock(&mutex_);
  while (!trash_.empty() && !is_ending_) {
    const Trash trash = std::move(trash_.front());
    trash_.pop_front();
    RemoveTrashLocked(trash);
    PauseLocked(trash.bytes);
    if (trash_.empty()) is_hurried_ = false;
  }
  is_running_ = false;
}

void SstFileManagerImpl::Finish(Env* env, const std::string& directory) {
  // Directories in it may be other databases'.
  const auto has = [prefix = directory + "/"](const std::string& path) {
    return path.starts_with(prefix) &&
           path.find('/', prefix.size()) == std::string::npos;
  };
  MutexLock lock(&mutex_);
  const auto is_there = [&](const Trash& trash) {
    return trash.env == env && has(trash.path);
  };
  std::vector<Trash> mine;
  std::copy_if(trash_.begin(), trash_.end(), std::back_inserter(mine),
               is_there);
  std::erase_if(trash_, is_there);
  wake_.SignalAll();
  for (const Trash& trash : mine) RemoveTrashLocked(trash);
  // The thread may use the Env.
  while (std::any_of(removing_.begin(), removing_.end(),
                     [&](const Trash* trash) { return is_there(*trash); })) {
    removed_.Wait(&mutex_);
  }
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : tables_) {
    if (has(path)) paths.push_back(path);
  }
  for (const std::string& path : paths) ForgetLocked(path);
}

}  // namespace varve
