// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/db_source.h"

#include "db/family/common_errors.h"

namespace varve {

Status DbSource::Look(SequenceNumber wanted, Moment* moment) {
  moment->published = core_.versions->LastSequence();
  if (moment->published < wanted) return Status::OK();
  const uint64_t known = moment->newest_log;
  {
    MutexLock lock(core_.mutex());
    if (core_.control.IsClosedLocked()) return ClosedError();
    moment->newest_log = core_.wals.NewestLocked();
  }
  // The first record of a new log says how much of the one before counts.
  if (!Buffers() || moment->newest_log == known) return Status::OK();
  const Moment seen = *moment;
  Status status = Settle([](const Moment&, uint64_t) {});
  *moment = seen;
  return status;
}

Status DbSource::Settle(
    const std::function<void(const Moment&, uint64_t)>& read) {
  Status status;
  {
    // A child of fork() has no leader that would leave the queue.
    MutexLock lock(core_.mutex());
    if (core_.control.inheritance().is_inherited()) {
      status = core_.control.WritableLocked();
    }
  }
  if (!status.ok()) return status;
  const WriteQueue::Exclusive leader(&core_.write_queue);
  Moment moment;
  {
    MutexLock lock(core_.mutex());
    if (core_.control.IsClosedLocked()) return ClosedError();
    if (Buffers() && !core_.wals.has_failed()) {
      status = flusher_.FlushLogLocked(false);
      if (!status.ok()) return status;
    }
    moment = {core_.versions->LastSequence(), core_.wals.NewestLocked()};
  }
  read(moment, core_.wals.NewestBytes());
  return status;
}

PublicationWatch::Outcome DbSource::Await(SequenceNumber wanted,
                                          uint64_t timeout_us) {
  return core_.publications.Await(*core_.versions->last_sequence(), wanted,
                                  timeout_us);
}

}  // namespace varve
