// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_multi_read.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "env/direct_io.h"
#include "env/io_ring.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

// A batch is split into rounds. These limit a round's reads, and the bytes that
// it reads into a bounce buffer because of their alignment.
constexpr size_t kRoundReads = 1024;
constexpr size_t kRoundBounceBytes = size_t{1} << 20;

void ReadPlainly(const RandomAccessFile& file, ReadRequest* request) {
  request->status = file.Read(request->offset, request->length,
                              &request->result, request->scratch);
}

// Returns true if offset, length and memory have the file's alignment.
bool IsAligned(const ReadRequest& request, size_t mask) {
  return ((request.offset | request.length |
           reinterpret_cast<uintptr_t>(request.scratch)) &
          mask) == 0;
}

bool IsForRing(const ReadRequest& request) {
  return request.length > 0 && request.length <= RingRead::kMaxBytes &&
         request.offset <= INT64_MAX - RingRead::kMaxBytes;
}

// Kept by the thread.
class Round {
 public:
  bool empty() const { return entries_.empty(); }

  // Adds a read. Returns false if this round is full, or the file has no
  // descriptor.
  bool Add(const RandomAccessFile& file, ReadRequest* request, size_t index);
  // Performs the added reads. Calls done(index), if it is not null, for each.
  void Run(const std::function<void(size_t)>& done);

 private:
  // An added read. Its RingRead has the same index.
  struct Entry {
    const RandomAccessFile* file;
    ReadRequest* request;
    size_t index;   // The caller's.
    bool finished;  // The descriptor has been released.
    bool is_read;
    size_t lead;  // Bytes before the requested range.
    bool bounces;
    size_t bounce_offset;
  };

  void Finish(size_t i);
  // Completes the request from the ring's result. Returns false if the ring did
  // not do all of it.
  bool FinishFromRing(size_t i);

  std::vector<RingRead> reads_;
  std::vector<Entry> entries_;
  size_t alignment_ = 1;
  size_t bounce_bytes_ = 0;
  AlignedBuffer bounce_;
};

bool Round::Add(const RandomAccessFile& file, ReadRequest* request,
                size_t index) {
  if (!IsForRing(*request) || reads_.size() >= kRoundReads) return false;
  RingRead read;
  read.descriptor = file.AcquireDescriptor();
  if (read.descriptor < 0) return false;
  read.offset = request->offset;
  read.length = request->length;
  read.memory = request->scratch;
  Entry entry{&file, request, index, false, false, 0, false, 0};
  const size_t alignment = file.RequiredAlignment();
  const size_t mask = alignment - 1;
  if (!IsAligned(*request, mask)) {
    entry.bounces = true;
    entry.lead = request->offset & mask;
    read.offset -= entry.lead;
    read.length = (entry.lead + request->length + mask) & ~mask;
    entry.bounce_offset = (bounce_bytes_ + mask) & ~mask;
    const size_t end = entry.bounce_offset + read.length;
    if (end > kRoundBounceBytes) {
      file.ReleaseDescriptor(0);
      return false;
    }
    bounce_bytes_ = end;
    // Files may be on several devices: the largest alignment suits all.
    alignment_ = std::max(alignment_, alignment);
  }
  reads_.push_back(read);
  entries_.push_back(entry);
  return true;
}

void Round::Finish(size_t i) {
  Entry& entry = entries_[i];
  entry.finished = true;
  entry.is_read = FinishFromRing(i);
  entry.file->ReleaseDescriptor(entry.is_read ? entry.request->length : 0);
}

bool Round::FinishFromRing(size_t i) {
  const Entry& entry = entries_[i];
  ReadRequest* const request = entry.request;
  const int64_t wanted = static_cast<int64_t>(entry.lead + request->length);
  if (reads_[i].result < wanted) return false;
  if (entry.bounces) {
    memcpy(request->scratch, reads_[i].memory + entry.lead, request->length);
  }
  request->result = Slice(request->scratch, request->length);
  request->status = Status::OK();
  return true;
}

void Round::Run(const std::function<void(size_t)>& done) {
  char* bounce = nullptr;
  if (bounce_bytes_ > 0) {
    const size_t mask = alignment_ - 1;
    bounce = bounce_.Reserve(alignment_, (bounce_bytes_ + mask) & ~mask);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].bounces) continue;
      reads_[i].memory = bounce + entries_[i].bounce_offset;
    }
  }
  const auto finish = [this, &done](size_t i) {
    Finish(i);
    if (entries_[i].is_read && done) done(entries_[i].index);
  };
  if (entries_.size() > 1 && (bounce != nullptr || bounce_bytes_ == 0)) {
    std::function<void(size_t)> each;
    if (done || bounce != nullptr) each = finish;
    ReadInRing(reads_.data(), reads_.size(), each);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].finished) finish(i);
  }
  // Last, when the round holds no descriptor: a Read may wait for one, and so
  // may the other threads that hold some.
  for (const Entry& entry : entries_) {
    if (entry.is_read) continue;
    ReadPlainly(*entry.file, entry.request);
    if (done) done(entry.index);
  }
  reads_.clear();
  entries_.clear();
  alignment_ = 1;
  bounce_bytes_ = 0;
}

// `at(i, &file)` gives request i and its file.
template <typename Requests>
void ReadAll(size_t count, const Requests& at,
             const std::function<void(size_t)>& done) {
  const RandomAccessFile* file = nullptr;
  const auto read_plainly = [&](size_t i) {
    ReadRequest* const request = at(i, &file);
    ReadPlainly(*file, request);
    if (done) done(i);
  };
  if (count < 2 || !IoRingUsable()) {
    for (size_t i = 0; i < count; ++i) read_plainly(i);
    return;
  }
  // These are read last, when the ring is idle and no descriptor is held. The
  // Read of a foreign file may do anything, even call this function. The Read
  // of a native file may wait for a descriptor.
  std::vector<size_t> plain;
  {
    const ThreadScratch<Round, Round> round;
    for (size_t i = 0; i < count; ++i) {
      ReadRequest* const request = at(i, &file);
      if (round->Add(*file, request, i)) continue;
      // The current round may be the obstacle. Run it and try again.
      if (!round->empty() && IsForRing(*request)) {
        round->Run(done);
        if (round->Add(*file, request, i)) continue;
      }
      plain.push_back(i);
    }
    round->Run(done);
  }
  for (const size_t i : plain) read_plainly(i);
}

}  // namespace

void PosixMultiRead(FileReadRequest* requests, size_t count,
                    const Env::ReadDone& done) {
  std::function<void(size_t)> each;
  if (done) each = [requests, &done](size_t i) { done(&requests[i]); };
  ReadAll(
      count,
      [requests](size_t i, const RandomAccessFile** file) {
        *file = requests[i].file;
        return &requests[i].read;
      },
      each);
}

void PosixMultiRead(const RandomAccessFile& file, ReadRequest* requests,
                    size_t count) {
  ReadAll(
      count,
      [&file, requests](size_t i, const RandomAccessFile** each) {
        *each = &file;
        return &requests[i];
      },
      nullptr);
}

}  // namespace varve
