// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/streams/directory_source.h"

#include <algorithm>
#include <vector>

#include "db/wal/wal_archive.h"
#include "env/file_names.h"

namespace varve {

namespace {

constexpr uint64_t kPollUs = 10000;
// Nothing can come.
constexpr uint64_t kIdleUs = 100000;

}  // namespace

Status DirectorySource::Look(SequenceNumber /*wanted*/, Moment* moment) {
  moment->published = published_;
  moment->newest_log = 0;
  std::vector<std::string> names;
  Status status = env_->GetChildren(path_, &names);
  if (!status.ok()) return status;
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind kind;
    if (ParseFileName(name, &number, &kind) && kind == FileKind::kWal) {
      moment->newest_log = std::max(moment->newest_log, number);
    }
  }
  if (moment->newest_log != 0) return status;
  std::vector<uint64_t> archived;
  status = ListArchive(env_, path_, &archived);
  if (!archived.empty()) moment->newest_log = archived.back();
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
