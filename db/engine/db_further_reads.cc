// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Reads of one key that return something else than its value.

#include <string>
#include <vector>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"

namespace varve {

bool DBImpl::KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* handle,
                         const Slice& key, std::string* value,
                         bool* value_found) {
  if (value_found != nullptr) *value_found = false;
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return true;
  ReadOptions in_memory = options;
  in_memory.read_tier = ReadTier::kBlockCacheTier;
  PinnableSlice found;
  const Status status = Get(in_memory, handle, key, &found);
  if (status.ok()) {
    if (value != nullptr) value->assign(found.data(), found.size());
    if (value_found != nullptr) *value_found = true;
  }
  return !status.IsNotFound();
}

Status DBImpl::GetMergeOperands(const ReadOptions& options,
                                ColumnFamilyHandle* handle, const Slice& key,
                                PinnableSlice* operands,
                                GetMergeOperandsOptions* limits, int* count) {
  *count = 0;
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  if (limits == nullptr) {
    return Status::InvalidArgument("GetMergeOperandsOptions are missing");
  }
  MergeOperands versions;
  Status status = reader_.ReadVersions(family, options, key, &versions);
  if (!status.ok()) return status;
  std::vector<Slice> found;
  if (versions.has_base()) found.push_back(versions.base());
  for (const Slice& operand : versions.OldestFirst()) found.push_back(operand);
  if (found.empty()) return Status::NotFound();
  *count = static_cast<int>(found.size());
  if (*count > limits->expected_max_number_of_operands) {
    return Status::Incomplete(
        Status::Subcode::kMergeOperandsInsufficientCapacity,
        "the key has " + std::to_string(*count) + " operands");
  }
  for (size_t i = 0; i < found.size(); ++i) operands[i].PinSelf(found[i]);
  return status;
}

}  // namespace varve
