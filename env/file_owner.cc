// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/file_owner.h"

#include <sys/stat.h>
#include <unistd.h>

namespace varve {

FileOwner::FileOwner(int directory) {
  struct stat info;
  if (fstat(directory, &info) != 0) return;
  user_ = geteuid();
  const bool is_root = user_ == 0;
  const bool is_other = info.st_uid != 0 || info.st_gid != 0;
  const bool is_shared =
      (info.st_mode & S_IWGRP) != 0 && (info.st_mode & S_ISVTX) == 0;
  differs_ = (is_root && is_other) || is_shared;
  uid_ = is_root ? info.st_uid : user_;
  gid_ = info.st_gid;
  group_mode_ = info.st_mode & (S_IRGRP | S_IWGRP);
}

void FileOwner::Adopt(int descriptor) const {
  struct stat info;
  if (!differs_ || fstat(descriptor, &info) != 0 || info.st_uid != user_) {
    return;
  }
  // The directory's owner could have given a file of root's a name in it.
  const bool is_directory = S_ISDIR(info.st_mode);
  if (!is_directory && (!S_ISREG(info.st_mode) || info.st_nlink != 1)) return;
  if ((info.st_uid != uid_ || info.st_gid != gid_) &&
      fchown(descriptor, uid_, gid_) != 0) {
    return;  // Its group is another one, and must not get the rights.
  }
  mode_t mode = (info.st_mode & 07777) | group_mode_;
  if (is_directory && (group_mode_ & S_IRGRP) != 0) mode |= S_IXGRP;
  // Without the right to change it, the file stays as it is.
  if (mode != (info.st_mode & 07777)) (void)!fchmod(descriptor, mode);
}

}  // namespace varve
