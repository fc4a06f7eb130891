// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/family_handle.h"

#include <utility>

#include "db/folding/key_case.h"

namespace varve {

FamilyHandle::FamilyHandle(ColumnFamily* family,
                           std::shared_ptr<FamilyHandles> owner,
                           bool is_counted)
    : family_(family),
      owner_(std::move(owner)),
      is_counted_(is_counted),
      name_(family->name()),
      id_(is_counted ? family->id() : 0),
      comparator_(family->comparator().user_comparator()),
      folding_(KeyFoldingOf(owner_->core_->options)),
      merge_operator_(family->options().merge_operator.get()) {
  db_number_ = owner_->core_->families.db_number();
  if (!is_counted_) return;
  MutexLock lock(owner_->core_->mutex());
  family_->Ref();
  owner_->handles_.insert(this);
}

FamilyHandle::~FamilyHandle() {
  if (!is_counted_ || owner_ == nullptr || owner_->is_abandoned_) return;
  MutexLock lock(owner_->core_->mutex());
  owner_->handles_.erase(this);
  owner_->ReleaseLocked(family_);
}

DBImpl* FamilyHandle::EngineOf(const ColumnFamilyHandle& handle) {
  return IsAlive(handle)
             ? static_cast<const FamilyHandle&>(handle).owner_->engine_
             : nullptr;
}

Status FamilyHandle::GetDescriptor(ColumnFamilyDescriptor* descriptor) {
  if (family_ == nullptr || owner_->is_abandoned_) {
    return Status::ShutdownInProgress("the handle's DB is gone");
  }
  descriptor->name = name_;
  MutexLock lock(owner_->core_->mutex());
  descriptor->options = family_->options();
  return Status::OK();
}

void FamilyHandles::ReleaseLocked(ColumnFamily* family) {
  core_->families.UnrefLocked(family);
  core_->jobs.PurgeLaterLocked();
}

void FamilyHandles::Orphan() {
  MutexLock lock(core_->mutex());
  for (FamilyHandle* handle : handles_) {
    ReleaseLocked(handle->family_);
    handle->Die();
  }
  handles_.clear();
}

}  // namespace varve
