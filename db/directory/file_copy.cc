// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/directory/file_copy.h"

#include <algorithm>
#include <memory>

namespace varve {

namespace {

constexpr size_t kCopyBytes = 1 << 20;

}  // namespace

Status ReadPieces(SequentialFile* file, const std::string& path, uint64_t size,
                  size_t piece_bytes,
                  const std::function<Status(const Slice&)>& use) {
  piece_bytes = static_cast<size_t>(std::min<uint64_t>(size, piece_bytes));
  const auto scratch = std::make_unique_for_overwrite<char[]>(piece_bytes);
  Status status;
  for (uint64_t left = size; status.ok() && left > 0;) {
    Slice data;
    status =
        file->Read(static_cast<size_t>(std::min<uint64_t>(left, piece_bytes)),
                   &data, scratch.get());
    if (status.ok() && data.empty()) {
      return size == kWholeFile
                 ? status
                 : Status::Corruption(path, "is shorter than it was");
    }
    if (status.ok()) status = use(data);
    left -= data.size();
  }
  return status;
}

Status CopyFile(Env* env, const std::string& from, const std::string& to,
                uint64_t size, RateLimiter* rate_limiter) {
  std::unique_ptr<SequentialFile> in;
  std::unique_ptr<WritableFile> out;
  Status status = env->NewSequentialFile(from, FileOptions(), &in);
  if (status.ok()) status = env->NewWritableFile(to, FileOptions(), &out);
  if (status.ok()) {
    status =
        ReadPieces(in.get(), from, size, kCopyBytes, [&](const Slice& data) {
          if (rate_limiter != nullptr) {
            rate_limiter->Request(data.size(), RateLimiter::Priority::kLow);
          }
          return out->Append(data);
        });
  }
  if (status.ok()) status = out->Sync();
  if (status.ok()) status = out->Close();
  return status;
}

}  // namespace varve
