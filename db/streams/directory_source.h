// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The logs of a directory without a lock, beside a process that may write it. A
// record counts once it is complete. Without the writer's published number, a
// record may be read that the writer has not acknowledged, and takes back when
// its sync fails.
// Thread-safety: owned by one thread at a time.

#include <string>

#include "db/streams/stream_source.h"

namespace varve {

class DirectorySource final : public StreamSource {
 public:
  // `env` must outlive this object. `published`: the last update that counts,
  // or kMaxSequenceNumber if it is not known.
  DirectorySource(Env* env, std::string path,
                  SequenceNumber published = kMaxSequenceNumber)
      : env_(env), path_(std::move(path)), published_(published) {}

  Env* env() const override { return env_; }
  const std::string& path() const override { return path_; }
  bool KnowsPublished() const override {
    return published_ != kMaxSequenceNumber;
  }
  bool Buffers() const override { return false; }
  Status Look(SequenceNumber wanted, Moment* moment) override;
  Status Settle(
      const std::function<void(const Moment&, uint64_t)>& read) override;
  // Looks again after some milliseconds.
  PublicationWatch::Outcome Await(SequenceNumber wanted,
                                  uint64_t timeout_us) override;

 private:
  Env* const env_;
  const std::string path_;
  const SequenceNumber published_;
};

}  // namespace varve
