// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/env/cached_file.h"

#include <string>
#include <utility>

#include "compat/leveldb/convert.h"

namespace varve::compat {
namespace {

class CachedFile final : public RandomAccessFile {
 public:
  CachedFile(std::unique_ptr<RandomAccessFile> file, leveldb::Cache* cache)
      : file_(std::move(file)), cache_(cache), id_(cache->NewId()) {}

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    if (count > kMaxBytes) return file_->Read(offset, count, result, scratch);
    const Key key{id_, offset, count};
    const leveldb::Slice name(reinterpret_cast<const char*>(&key), sizeof(key));
    if (leveldb::Cache::Handle* found = cache_->Lookup(name)) {
      const auto* bytes = static_cast<const std::string*>(cache_->Value(found));
      bytes->copy(scratch, bytes->size());
      *result = Slice(scratch, bytes->size());
      cache_->Release(found);
      return Status::OK();
    }
    Status status = file_->Read(offset, count, result, scratch);
    if (!status.ok()) return status;
    auto* bytes = new std::string(result->data(), result->size());
    cache_->Release(cache_->Insert(name, bytes, bytes->size(), &Delete));
    return status;
  }

 private:
  static constexpr size_t kMaxBytes = 64 << 10;
  struct Key {
    uint64_t id;
    uint64_t offset;
    uint64_t count;
  };

  static void Delete(const leveldb::Slice& /*key*/, void* value) {
    delete static_cast<std::string*>(value);
  }

  const std::unique_ptr<RandomAccessFile> file_;
  leveldb::Cache* const cache_;
  const uint64_t id_;
};

}  // namespace

std::unique_ptr<RandomAccessFile> NewCachedFile(
    std::unique_ptr<RandomAccessFile> file, leveldb::Cache* cache) {
  return std::make_unique<CachedFile>(std::move(file), cache);
}

}  // namespace varve::compat
