// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "db/family/family_set.h"
#include "db/jobs/db_core.h"
#include "db/options/db_mutex.h"
#include "db/write/write_batch_internal.h"
#include "util/bytes/key_fold.h"
#include "varve/column_family.h"

namespace varve {

class DBImpl;
class FamilyHandles;
class MergeOperator;

// A handle that a DB gave out. A read finds its family by one load.
class FamilyHandle final : public ColumnFamilyHandle {
 public:
  // Without `is_counted`, it is the DB's own and holds no reference.
  FamilyHandle(ColumnFamily* family, std::shared_ptr<FamilyHandles> owner,
               bool is_counted);
  ~FamilyHandle() override;

  const std::string& GetName() const override { return name_; }
  uint32_t GetID() const override { return id_; }
  const Comparator* GetComparator() const override { return comparator_; }
  Status GetDescriptor(ColumnFamilyDescriptor* descriptor) override;

  // Returns the handle's family, or the default one for null. Returns null if
  // the handle is not of the DB of these families, or is dead.
  static ColumnFamily* FamilyOf(const FamilySet& families,
                                ColumnFamilyHandle* handle) {
    if (handle == nullptr) return families.default_family();
    // Never equal for an object of another class.
    if (handle->db_number_ != families.db_number()) [[unlikely]]
      return nullptr;
    return static_cast<FamilyHandle*>(handle)->family_;
  }
  // Returns how the keys of a handle's family are folded, and its merge
  // operator, which lives as long as the handle, or null. Neither is known of
  // an object of another class.
  static KeyFolding FoldingOf(const ColumnFamilyHandle& handle) {
    return handle.db_number_ == 0
               ? KeyFolding::kNone
               : static_cast<const FamilyHandle&>(handle).folding_;
  }
  static const MergeOperator* OperatorOf(const ColumnFamilyHandle& handle) {
    return handle.db_number_ == 0
               ? nullptr
               : static_cast<const FamilyHandle&>(handle).merge_operator_;
  }
  // Returns the DB of a handle, or null for a dead handle and for an object of
  // another class.
  static DBImpl* EngineOf(const ColumnFamilyHandle& handle);
  // Returns whether the handles are of two DBs. A dead handle is of none.
  static bool AreOfTwoDbs(const ColumnFamilyHandle& a,
                          const ColumnFamilyHandle& b) {
    return a.db_number_ != b.db_number_ && IsAlive(a) && IsAlive(b);
  }

 private:
  friend class FamilyHandles;

  // The number of a dead handle, which is of no DB. A batch that it was used
  // for is refused.
  static constexpr uint64_t kDead = WriteBatchInternal::kMixedDbs;

  // Makes the handle dead, without its reference.
  void Die() {
    db_number_ = kDead;
    merge_operator_ = nullptr;
    family_ = nullptr;
    owner_ = nullptr;
  }
  static bool IsAlive(const ColumnFamilyHandle& handle) {
    return handle.db_number_ != 0 && handle.db_number_ != kDead;
  }

  ColumnFamily* family_;  // Null once the DB was destroyed.
  // Null then, too, but not after Abandon.
  std::shared_ptr<FamilyHandles> owner_;
  const bool is_counted_;
  const std::string name_;
  const uint32_t id_;
  const Comparator* const comparator_;
  const KeyFolding folding_;
  const MergeOperator* merge_operator_;  // Null once the DB was destroyed.
};

// The handles that a DB has given out. After Abandon, the handles that are left
// keep this object. Thread-safety: thread-safe.
class FamilyHandles {
 public:
  // Both must outlive this object, unless Orphan or Abandon was called.
  FamilyHandles(DBImpl* engine, DbCore* core) : engine_(engine), core_(core) {}
  FamilyHandles(const FamilyHandles&) = delete;
  FamilyHandles& operator=(const FamilyHandles&) = delete;

  // Makes the remaining handles dead.
  void Orphan();
  // Replaces Orphan in a child created by fork(): another thread of the parent
  // may have been adding a handle. Nothing of the DB is used any more.
  void Abandon() { is_abandoned_ = true; }

 private:
  friend class FamilyHandle;

  // Releases a handle's reference to its family.
  void ReleaseLocked(ColumnFamily* family) VARVE_REQUIRES(kDbMutex);

  DBImpl* const engine_;
  DbCore* const core_;
  std::unordered_set<FamilyHandle*> handles_ VARVE_GUARDED_BY(kDbMutex);
  bool is_abandoned_ = false;  // No call overlaps the end of a DB.
};

}  // namespace varve
