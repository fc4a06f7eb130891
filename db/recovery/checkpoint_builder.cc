// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/checkpoint_builder.h"

#include <algorithm>
#include <memory>

#include "db/directory/file_copy.h"
#include "env/file_names.h"

namespace varve {

namespace {

// Names to build under that are tried, should others' directories have them.
constexpr int kMaxTemporaryNames = 100;

}  // namespace

CheckpointBuilder::CheckpointBuilder(Env* env, std::string source,
                                     const std::string& target)
    : env_(env),
      source_(std::move(source)),
      target_(env->AbsolutePath(target)) {
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
}

Status CheckpointBuilder::Begin() {
  if (target_.empty()) return Status::InvalidArgument("no directory is named");
  const Status status = env_->FileExists(target_);
  if (status.ok()) return Status::InvalidArgument(target_, "exists already");
  return status.IsNotFound() ? Status::OK() : status;
}

Status CheckpointBuilder::Build(const CheckpointCut& cut) {
  Status status = ChooseTemporary();
  if (!status.ok()) return status;
  std::unique_ptr<Directory> parent;
  status = env_->NewDirectory(ParentDirectory(target_), &parent);
  if (!status.ok()) return status;
  status = Fill(cut);
  if (status.ok()) {
    status = env_->RenameFile(temporary_, target_);
    if (status.ok()) {
      status = parent->Sync();
      if (!status.ok()) env_->RenameFile(target_, temporary_).IgnoreError();
    }
  }
  // The first error is what counts.
  if (!status.ok()) RemoveTemporary().IgnoreError();
  return status;
}

Status CheckpointBuilder::RemoveAttempt() {
  // The attempt cannot add to a directory of another name, nor rename it to the
  // target.
  const std::string found = temporary_;
  for (int i = 1; i <= kMaxTemporaryNames; ++i) {
    temporary_ = found + ".removed" + std::to_string(i);
    if (env_->FileExists(temporary_).ok()) continue;
    const Status status = env_->RenameFile(found, temporary_);
    if (status.IsNotFound()) return Status::OK();
    return status.ok() ? RemoveTemporary() : status;
  }
  return Status::InvalidArgument(temporary_, "is in use");
}

Status CheckpointBuilder::Fill(const CheckpointCut& cut) {
  Status status = env_->CreateDirIfMissing(temporary_);
  for (const auto& [number, size] : cut.tables) {
    if (!status.ok()) break;
    status = LinkTable(number, size);
  }
  std::unique_ptr<Directory> directory;
  if (status.ok()) status = env_->NewDirectory(temporary_, &directory);
  if (cut.manifest_number == 0) {
    return status.ok() ? directory->Sync() : status;
  }
  for (const auto& [number, size] : cut.wals) {
    if (!status.ok()) break;
    status = CopyFile(env_, WalFileName(source_, number),
                      WalFileName(temporary_, number), size);
  }
  if (status.ok()) {
    status = CopyFile(env_, ManifestFileName(source_, cut.manifest_number),
                      ManifestFileName(temporary_, cut.manifest_number),
                      cut.manifest_size);
  }
  uint64_t identity_size = 0;
  if (status.ok()) {
    status = env_->GetFileSize(IdentityFileName(source_), &identity_size);
  }
  if (status.ok()) {
    status = CopyFile(env_, IdentityFileName(source_),
                      IdentityFileName(temporary_), identity_size);
  }
  if (status.ok() && !cut.options.empty()) {
    status = WriteStringToFile(env_, cut.options,
                               OptionsFileName(temporary_, cut.options_number),
                               /*sync=*/true);
  }
  if (status.ok()) status = directory->Sync();
  if (status.ok()) {
    status =
        SetCurrentFile(env_, temporary_, directory.get(), cut.manifest_number);
  }
  return status;
}

Status CheckpointBuilder::LinkTable(uint64_t number, uint64_t size) {
  std::string from = TableFileName(source_, number);
  std::string to = TableFileName(temporary_, number);
  Status status = env_->LinkFile(from, to);
  if (status.IsNotFound()) {
    from = LevelDbTableFileName(source_, number);
    to = LevelDbTableFileName(temporary_, number);
    status = env_->LinkFile(from, to);
  }
  if (!status.IsNotSupported()) return status;
  return CopyFile(env_, from, to, size);
}

Status CheckpointBuilder::ChooseTemporary() {
  for (int i = 1; i <= kMaxTemporaryNames; ++i) {
    temporary_ = target_ + ".tmp" + (i > 1 ? std::to_string(i) : "");
    std::vector<std::string> names;
    Status status = env_->GetChildren(temporary_, &names);
    if (status.IsNotFound()) return Status::OK();
    // A link is not followed, since its target belongs to others.
    if (status.ok()) status = env_->CreateDirIfMissing(temporary_);
    if (!status.ok()) return status;
    if (std::all_of(names.begin(), names.end(), IsOfAnAttempt)) {
      return RemoveTemporary();
    }
  }
  return Status::InvalidArgument(
      target_ + ".tmp", "is in use, and so are the names that follow it");
}

bool CheckpointBuilder::IsOfAnAttempt(const std::string& name) {
  uint64_t number;
  FileKind type;
  return ParseFileName(name, &number, &type) && type != FileKind::kCurrent &&
         type != FileKind::kLock && type != FileKind::kInfoLog;
}

Status CheckpointBuilder::RemoveTemporary() {
  std::vector<std::string> names;
  Status status = env_->GetChildren(temporary_, &names);
  if (status.IsNotFound()) return Status::OK();
  // First, so that what a failure leaves is like what a dead attempt leaves.
  if (std::erase(names, "CURRENT") > 0) {
    status = env_->RemoveFile(CurrentFileName(temporary_));
  }
  for (const std::string& name : names) {
    if (status.ok()) status = env_->RemoveFile(temporary_ + "/" + name);
  }
  return status.ok() ? env_->RemoveDir(temporary_) : status;
}

}  // namespace varve
