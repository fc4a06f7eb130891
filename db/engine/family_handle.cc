// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/engine/family_handle.h"

#include <utility>

namespace varve {

FamilyHandle::FamilyHandle(ColumnFamily* family,
                           std::shared_ptr<FamilyHandles> owner,
                           bool is_counted)
    : family_(family),
      owner_(std::move(owner)),
      is_counted_(is_counted),
      name_(family->name()),
      id_(is_counted ? family->id() : 0),
      comparator_(family->comparator().user_comparator()) {
  db_number_ = owner_->db_number_;
  if (!is_counted_) return;
  MutexLock lock(owner_->mutex_);
  family_->Ref();
  owner_->handles_.insert(this);
}

FamilyHandle::~FamilyHandle() {
  if (!is_counted_ || owner_ == nullptr || owner_->is_abandoned_) return;
  MutexLock lock(owner_->mutex_);
  owner_->handles_.erase(this);
  owner_->release_(family_);
}

Status FamilyHandle::GetDescriptor(ColumnFamilyDescriptor* descriptor) {
  if (family_ == nullptr || owner_->is_abandoned_) {
    return Status::ShutdownInProgress("the handle's DB is gone");
  }
  descriptor->name = name_;
  MutexLock lock(owner_->mutex_);
  descriptor->options = family_->options();
  return Status::OK();
}

void FamilyHandles::Orphan() {
  MutexLock lock(mutex_);
  for (FamilyHandle* handle : handles_) {
    release_(handle->family_);
    handle->Die();
  }
  handles_.clear();
}

}  // namespace varve
