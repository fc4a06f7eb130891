// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The logs of an open database that is written to.
// Thread-safety: owned by one thread at a time.

#include <string>

#include "db/jobs/db_core.h"
#include "db/jobs/flusher.h"
#include "db/streams/stream_source.h"

namespace varve {

class DbSource final : public StreamSource {
 public:
  // Both must outlive this object.
  DbSource(DbCore& core, Flusher& flusher) : core_(core), flusher_(flusher) {}

  Env* env() const override { return core_.env; }
  const std::string& path() const override { return core_.directory.path(); }
  bool KnowsPublished() const override { return true; }
  bool Buffers() const override { return core_.options.manual_wal_flush; }
  Status Look(SequenceNumber wanted, Moment* moment) override;
  Status Settle(
      const std::function<void(const Moment&, uint64_t)>& read) override;
  PublicationWatch::Outcome Await(SequenceNumber wanted,
                                  uint64_t timeout_us) override;

 private:
  DbCore& core_;
  Flusher& flusher_;
};

}  // namespace varve
