// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A DB that follows the process which writes its database, and may take its
// place.

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/follower/follower.h"
#include "db/follower/takeover.h"
#include "monitoring/span.h"

namespace varve {

void DBImpl::Follow() {
  core_.follows = true;
  follower_ = std::make_unique<Follower>(core_);
}

Status DBImpl::TryCatchUpWithPrimary() {
  const RequestSpan span("DB::TryCatchUpWithPrimary");
  if (follower_ == nullptr) return DB::TryCatchUpWithPrimary();
  const MutexLock alone(&follower_mutex_);
  if (IsClosed()) return ClosedError();
  return core_.follows ? follower_->CatchUp() : Status::OK();
}

Status DBImpl::Promote() {
  const RequestSpan span("DB::Promote");
  if (follower_ == nullptr) return DB::Promote();
  const MutexLock alone(&follower_mutex_);
  if (IsClosed()) return ClosedError();
  if (!core_.follows) {
    return Status::NotSupported(core_.directory.path(), "is promoted already");
  }
  Status status = core_.directory.LockForWriting();
  if (status.ok()) status = follower_->CatchUpToEnd();
  Takeover takeover(core_, *follower_);
  if (status.ok()) status = takeover.Prepare();
  if (status.ok()) {
    const MutexLock files(&options_files_mutex_);
    options_files_.Found(takeover.TakeOptionsFiles());
  }
  if (status.ok()) status = BecomeWritable(&takeover);
  if (!status.ok()) {
    core_.directory.Unlock().IgnoreError();  // It has failed already.
    return status;
  }
  follower_->Close();
  UpdateOptionsFile();
  MutexLock lock(core_.mutex());
  StartBackgroundLocked();
  Log(LogLevel::kInfo, &core_.log, "promoted: it is open for writing");
  return status;
}

Status DBImpl::BecomeWritable(Takeover* takeover) {
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  Status status = takeover->InstallLocked();
  if (!status.ok()) return status;
  takeover->RemoveLeftoversLocked();
  reader_.NoteWaste();
  core_.follows = false;
  // From here on, there are writers.
  core_.is_read_only = false;
  return status;
}

}  // namespace varve
