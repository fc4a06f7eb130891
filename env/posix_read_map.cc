// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/posix_read_map.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "env/posix_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace varve {

namespace {

// One call for many pages costs less than a fault for each of them, or for each
// 16 that the kernel maps around one.
constexpr size_t kLeastPopulatedBytes = size_t{128} << 10;
constexpr uintptr_t kPageMask = 4095;

class PosixReadMap final : public RandomAccessFile {
 public:
  PosixReadMap(std::string path, Slice bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  ~PosixReadMap() override {
    munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  PosixReadMap(const PosixReadMap&) = delete;
  PosixReadMap& operator=(const PosixReadMap&) = delete;

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* /*scratch*/) const override {
    *result = Part(offset, count);
    return result->size() < kLeastPopulatedBytes ? Status()
                                                 : Populate(*result, offset);
  }

  void Prefetch(uint64_t offset, size_t count) const override {
    // A hint: its failure changes nothing.
    static_cast<void>(Advise(Part(offset, count), MADV_WILLNEED));
  }

  Slice Mapping() const override { return bytes_; }

 private:
  Slice Part(uint64_t offset, size_t count) const {
    const auto begin = std::min<uint64_t>(offset, bytes_.size());
    return Slice(bytes_.data() + begin,
                 std::min<uint64_t>(count, bytes_.size() - begin));
  }

  static int Advise(const Slice& part, int advice) {
    const auto begin = reinterpret_cast<uintptr_t>(part.data());
    const uintptr_t page = begin & ~kPageMask;
    return madvise(reinterpret_cast<void*>(page), part.size() + (begin - page),
                   advice);
  }

  Status Populate(const Slice& part, uint64_t offset) const {
    // EFAULT is what would be SIGBUS, and EHWPOISON a failed page of memory. A
    // kernel before 5.14 returns EINVAL; the pages are then read by faults.
    if (Advise(part, MADV_POPULATE_READ) == 0 ||
        (errno != EFAULT && errno != EHWPOISON)) {
      return Status();
    }
    return PosixErrorAt("read the mapping of", path_, offset, EIO);
  }

  const std::string path_;
  const Slice bytes_;
};

}  // namespace

std::unique_ptr<RandomAccessFile> MapPosixFile(const std::string& path,
                                               int descriptor) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || info.st_size <= 0) return nullptr;
  const auto size = static_cast<size_t>(info.st_size);
  void* const memory =
      mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Like pread: a fault reads nothing around its page from the device. It still
  // maps the neighbors that are in the page cache.
  madvise(memory, size, MADV_RANDOM);
  close(descriptor);
  return std::make_unique<PosixReadMap>(
      path, Slice(static_cast<const char*>(memory), size));
}

}  // namespace varve
