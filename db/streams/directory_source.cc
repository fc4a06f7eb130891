// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/directory_source.h"

#include <algorithm>
#include <vector>

#include "db/wal/wal_archive.h"

namespace varve {

namespace {

constexpr uint64_t kPollUs = 10000;
// Nothing can come.
constexpr uint64_t kIdleUs = 100000;

}  // namespace

Status DirectorySource::Look(SequenceNumber /*wanted*/, Moment* moment) {
  moment->published = published_;
  std::vector<uint64_t> numbers;
  Status status = ListLogs(env_, path_, &numbers);
  if (status.ok() && numbers.empty()) {
    status = ListArchive(env_, path_, &numbers);
  }
  moment->newest_log = numbers.empty() ? 0 : numbers.back();
  return status;
}

Status DirectorySource::Settle(
    const std::function<void(const Moment&, uint64_t)>& read) {
  Moment moment;
  Status status = Look(published_, &moment);
  if (status.ok()) read(moment, 0);
  return status;
}

PublicationWatch::Outcome DirectorySource::Await(SequenceNumber /*wanted*/,
                                                 uint64_t timeout_us) {
  const uint64_t sleep_us =
      std::min(timeout_us, KnowsPublished() ? kIdleUs : kPollUs);
  env_->SleepForMicroseconds(sleep_us);
  return timeout_us == sleep_us ? PublicationWatch::Outcome::kTimeout
                                : PublicationWatch::Outcome::kPublished;
}

}  // namespace varve
