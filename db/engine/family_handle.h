// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "db/parts/column_family.h"
#include "db/parts/family_set.h"
#include "util/base/mutex.h"
#include "varve/column_family.h"

namespace varve {

class FamilyHandles;

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

  ColumnFamily* family() const { return family_; }

 private:
  friend class FamilyHandles;

  ColumnFamily* family_;  // Null once the DB was destroyed.
  // Null then, too, but not after Abandon.
  std::shared_ptr<FamilyHandles> owner_;
  const bool is_counted_;
  const std::string name_;
  const uint32_t id_;
  const Comparator* const comparator_;
};

// Returns the family of a handle. Null is the default family.
inline ColumnFamily* FamilyOf(const FamilySet& families,
                              ColumnFamilyHandle* handle) {
  return handle == nullptr ? families.live().front()
                           : static_cast<FamilyHandle*>(handle)->family();
}

// The handles that a DB has given out. After Abandon, the handles that are left
// keep this object. Thread-safety: thread-safe.
class FamilyHandles {
 public:
  // `mutex` is the DB's. `release` is called with it held, to release a
  // family's reference.
  FamilyHandles(Mutex* mutex, std::function<void(ColumnFamily*)> release)
      : mutex_(mutex), release_(std::move(release)) {}
  FamilyHandles(const FamilyHandles&) = delete;
  FamilyHandles& operator=(const FamilyHandles&) = delete;

  // Makes the remaining handles dead.
  void Orphan();
  // Replaces Orphan in a child created by fork(): another thread of the parent
  // may have been adding a handle. Nothing of the DB is used any more.
  void Abandon() { is_abandoned_ = true; }

 private:
  friend class FamilyHandle;

  Mutex* const mutex_;
  const std::function<void(ColumnFamily*)> release_;
  std::unordered_set<FamilyHandle*> handles_;  // Guarded by *mutex_.
  bool is_abandoned_ = false;  // No call overlaps the end of a DB.
};

}  // namespace varve
