// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/directory/file_copy.h"

#include <algorithm>
#include <memory>

namespace varve {

namespace {

constexpr uint64_t kCopyBytes = 1 << 20;

}  // namespace

Status CopyFile(Env* env, const std::string& from, const std::string& to,
                uint64_t size, RateLimiter* rate_limiter) {
  std::unique_ptr<SequentialFile> in;
  std::unique_ptr<WritableFile> out;
  Status status = env->NewSequentialFile(from, FileOptions(), &in);
  if (status.ok()) status = env->NewWritableFile(to, FileOptions(), &out);
  const auto scratch =
      std::make_unique<char[]>(static_cast<size_t>(std::min(size, kCopyBytes)));
  while (status.ok() && size > 0) {
    Slice data;
    status = in->Read(static_cast<size_t>(std::min(size, kCopyBytes)), &data,
                      scratch.get());
    if (status.ok() && data.empty()) {
      status = Status::Corruption(from, "is shorter than it was");
    }
    if (status.ok() && rate_limiter != nullptr) {
      rate_limiter->Request(data.size(), RateLimiter::Priority::kLow);
    }
    if (status.ok()) status = out->Append(data);
    size -= data.size();
  }
  if (status.ok()) status = out->Sync();
  if (status.ok()) status = out->Close();
  return status;
}

}  // namespace varve
