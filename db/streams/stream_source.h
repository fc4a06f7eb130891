// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Where a stream of updates has them from: an open database, or a directory
// that another process may be writing.

#include <cstdint>
#include <functional>
#include <string>

#include "db/write/publication_watch.h"
#include "table/block/internal_key.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class StreamSource {
 public:
  struct Moment {
    // The last update that is visible. All updates up to it that were logged
    // are in the logs up to `newest_log`.
    SequenceNumber published = 0;
    uint64_t newest_log = 0;
  };

  virtual ~StreamSource() = default;

  virtual Env* env() const = 0;
  virtual const std::string& path() const = 0;
  // Returns false if `published` is not known: it is then the largest number.
  virtual bool KnowsPublished() const = 0;
  // Returns true if published updates may be in a buffer of the writer. Settle
  // writes them.
  virtual bool Buffers() const = 0;
  // Stores the moment. If less than `wanted` is published, `newest_log` may be
  // left as it is.
  virtual Status Look(SequenceNumber wanted, Moment* moment) = 0;
  // Calls `read` while nobody writes, with the bytes of the newest log.
  virtual Status Settle(
      const std::function<void(const Moment&, uint64_t newest_bytes)>&
          read) = 0;
  // Waits until that number is published, or may be.
  virtual PublicationWatch::Outcome Await(SequenceNumber wanted,
                                          uint64_t timeout_us) = 0;
};

}  // namespace varve
