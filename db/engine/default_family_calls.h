// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "varve/db.h"

namespace varve {

// Makes a call of DB without a column family a call with the default one, whose
// handle is null here. Get, Put and Delete are not among them: DBImpl has its
// own, which are faster. Thread-safety: as the calls that these forward to.
class DefaultFamilyCalls : public DB {
 public:
  using DB::CompactRange;
  using DB::DeleteRange;
  using DB::Flush;
  using DB::GetApproximateSizes;
  using DB::GetIntProperty;
  using DB::GetProperty;
  using DB::Merge;
  using DB::MultiGet;
  using DB::NewIterator;
  using DB::SetOptions;
  using DB::SingleDelete;

  Status SingleDelete(const WriteOptions& options, const Slice& key) final {
    return SingleDelete(options, kDefault, key);
  }
  Status Merge(const WriteOptions& options, const Slice& key,
               const Slice& operand) final {
    return Merge(options, kDefault, key, operand);
  }
  Status DeleteRange(const WriteOptions& options, const Slice& begin,
                     const Slice& end) final {
    return DeleteRange(options, kDefault, begin, end);
  }
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                PinnableSlice* values, Status* statuses) final {
    MultiGet(options, kDefault, count, keys, values, statuses);
  }
  void MultiGet(const ReadOptions& options, size_t count, const Slice* keys,
                std::string* values, Status* statuses) final {
    MultiGet(options, kDefault, count, keys, values, statuses);
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) final {
    return NewIterator(options, kDefault);
  }
  bool GetProperty(const Slice& property, std::string* value) final {
    return GetProperty(kDefault, property, value);
  }
  bool GetIntProperty(const Slice& property, uint64_t* value) final {
    return GetIntProperty(kDefault, property, value);
  }
  Status GetApproximateSizes(const Range* ranges, size_t count,
                             uint64_t* sizes) final {
    return GetApproximateSizes(kDefault, ranges, count, sizes);
  }
  Status Flush(const FlushOptions& options) final {
    return Flush(options, kDefault);
  }
  Status CompactRange(const CompactRangeOptions& options, const Slice* begin,
                      const Slice* end) final {
    return CompactRange(options, kDefault, begin, end);
  }
  Status SetOptions(const std::map<std::string, std::string>& changes) final {
    return SetOptions(kDefault, changes);
  }

 private:
  static constexpr ColumnFamilyHandle* kDefault = nullptr;
};

}  // namespace varve
