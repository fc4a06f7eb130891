// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/space/table_space.h"

#include <utility>

#include "env/file_names.h"

namespace varve {

namespace {

// The words that programs of RocksDB know.
Status LimitReached() {
  return Status::SpaceLimit("Max allowed space was reached");
}

}  // namespace

TableSpace::TableSpace(std::shared_ptr<SstFileManager> manager, Env* env,
                       std::string directory)
    : owner_(std::move(manager)),
      manager_(SstFileManagerImpl::Of(owner_.get())),
      env_(env),
      directory_(std::move(directory)) {}

void TableSpace::Add(uint64_t number, uint64_t bytes) {
  if (manager_ != nullptr) {
    manager_->Add(TableFileName(directory_, number), bytes);
  }
}

void TableSpace::Forget(uint64_t number) {
  if (manager_ != nullptr) manager_->Forget(TableFileName(directory_, number));
}

Status TableSpace::Remove(const std::string& path) {
  return manager_ != nullptr ? manager_->Remove(env_, path)
                             : env_->RemoveFile(path);
}

void TableSpace::Close() {
  if (manager_ != nullptr) manager_->Finish(env_, directory_);
}

Status TableSpace::CheckFlush() {
  // relaxed: see needed_bytes_.
  return manager_ == nullptr || manager_->HasRoom(needed_bytes_.load(
                                    std::memory_order_relaxed))
             ? Status::OK()
             : LimitReached();
}

Status TableSpace::CheckFlushed(uint64_t bytes) {
  if (manager_ == nullptr) return Status::OK();
  const bool has_room = manager_->HasRoom(bytes);
  // relaxed: see needed_bytes_.
  needed_bytes_.store(has_room ? 1 : bytes, std::memory_order_relaxed);
  return has_room ? Status::OK() : LimitReached();
}

TableSpace::Reservation::Reservation(TableSpace* space, uint64_t bytes)
    : manager_(space->manager_), bytes_(bytes) {
  if (manager_ != nullptr && !manager_->Reserve(bytes)) {
    status_ = LimitReached();
  }
}

TableSpace::Reservation::~Reservation() {
  if (manager_ != nullptr && status_.ok()) manager_->Unreserve(bytes_);
}

}  // namespace varve
