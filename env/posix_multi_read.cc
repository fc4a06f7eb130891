// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_multi_read.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "env/direct_io.h"
#include "env/io_ring.h"
#include "util/thread_scratch.h"

namespace varve {

namespace {

// A batch goes in rounds of so many reads, of which so many bytes are read to
// where they are not wanted, because of their alignment.
constexpr size_t kRoundReads = 1024;
constexpr size_t kRoundBounceBytes = size_t{1} << 20;

void ReadPlainly(const RandomAccessFile& file, ReadRequest* request) {
  request->status = file.Read(request->offset, request->length,
                              &request->result, request->scratch);
}

// Whether offset, length and memory are such as the file wants them.
bool IsAligned(const ReadRequest& request, size_t mask) {
  return ((request.offset | request.length |
           reinterpret_cast<uintptr_t>(request.scratch)) &
          mask) == 0;
}

bool IsForRing(const RandomAccessFile& file, const ReadRequest& request) {
  if (file.Descriptor() < 0 || request.length == 0 ||
      request.length > RingRead::kMaxBytes ||
      request.offset > INT64_MAX - RingRead::kMaxBytes) {
    return false;
  }
  const size_t mask = file.RequiredAlignment() - 1;
  return IsAligned(request, mask) ||
         request.length + 2 * mask <= kRoundBounceBytes;
}

// Kept by the thread.
class Round {
 public:
  // Takes a read that is for the ring in. False if this round has no place.
  bool Add(const RandomAccessFile& file, ReadRequest* request);
  // Does what was taken in.
  void Run();

 private:
  // A read that is taken in; its RingRead has the same index.
  struct Entry {
    const RandomAccessFile* file;
    ReadRequest* request;
    size_t lead;  // Bytes before what is wanted.
    bool bounces;
    size_t bounce_offset;
  };

  std::vector<RingRead> reads_;
  std::vector<Entry> entries_;
  size_t alignment_ = 1;
  size_t bounce_bytes_ = 0;
  AlignedBuffer bounce_;
};

bool Round::Add(const RandomAccessFile& file, ReadRequest* request) {
  if (reads_.size() >= kRoundReads) return false;
  const size_t alignment = file.RequiredAlignment();
  const size_t mask = alignment - 1;
  RingRead read;
  read.descriptor = file.Descriptor();
  read.offset = request->offset;
  read.length = request->length;
  read.memory = request->scratch;
  Entry entry{&file, request, 0, false, 0};
  if (!IsAligned(*request, mask)) {
    entry.bounces = true;
    entry.lead = request->offset & mask;
    read.offset -= entry.lead;
    read.length = (entry.lead + request->length + mask) & ~mask;
    entry.bounce_offset = (bounce_bytes_ + mask) & ~mask;
    const size_t end = entry.bounce_offset + read.length;
    if (end > kRoundBounceBytes) return false;
    bounce_bytes_ = end;
    // Files may be on several devices: the largest alignment suits all.
    alignment_ = std::max(alignment_, alignment);
  }
  reads_.push_back(read);
  entries_.push_back(entry);
  return true;
}

void Round::Run() {
  char* bounce = nullptr;
  if (bounce_bytes_ > 0) {
    const size_t mask = alignment_ - 1;
    bounce = bounce_.Reserve(alignment_, (bounce_bytes_ + mask) & ~mask);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].bounces) continue;
      reads_[i].memory = bounce + entries_[i].bounce_offset;
    }
  }
  if (entries_.size() > 1 && (bounce != nullptr || bounce_bytes_ == 0)) {
    ReadInRing(reads_.data(), reads_.size());
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    ReadRequest* const request = entry.request;
    const int64_t wanted = static_cast<int64_t>(entry.lead + request->length);
    if (reads_[i].result < wanted) {
      ReadPlainly(*entry.file, request);
      continue;
    }
    if (entry.bounces) {
      memcpy(request->scratch, reads_[i].memory + entry.lead, request->length);
    }
    request->result = Slice(request->scratch, request->length);
    request->status = Status::OK();
  }
  reads_.clear();
  entries_.clear();
  alignment_ = 1;
  bounce_bytes_ = 0;
}

// `at(i, &file)` gives request i and its file.
template <typename Requests>
void ReadAll(size_t count, const Requests& at) {
  const RandomAccessFile* file = nullptr;
  const bool in_ring = count > 1 && IoRingUsable();
  // First, since the Read of a file that is not of this kind may do anything,
  // even come here.
  size_t left = 0;
  for (size_t i = 0; i < count; ++i) {
    ReadRequest* const request = at(i, &file);
    if (in_ring && IsForRing(*file, *request)) {
      ++left;
    } else {
      ReadPlainly(*file, request);
    }
  }
  if (left == 0) return;
  const ThreadScratch<Round, Round> round;
  for (size_t i = 0; i < count; ++i) {
    ReadRequest* const request = at(i, &file);
    if (!IsForRing(*file, *request) || round->Add(*file, request)) continue;
    round->Run();
    round->Add(*file, request);
  }
  round->Run();
}

}  // namespace

void PosixMultiRead(FileReadRequest* requests, size_t count) {
  ReadAll(count, [requests](size_t i, const RandomAccessFile** file) {
    *file = requests[i].file;
    return &requests[i].read;
  });
}

void PosixMultiRead(const RandomAccessFile& file, ReadRequest* requests,
                    size_t count) {
  ReadAll(count, [&file, requests](size_t i, const RandomAccessFile** each) {
    *each = &file;
    return &requests[i];
  });
}

}  // namespace varve
