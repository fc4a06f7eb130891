// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/backup/user_calls.h"

#include <exception>

namespace varve {

namespace {

template <typename Call>
Status Guarded(const char* name, Call call) {
  try {
    call();
  } catch (const std::exception& e) {
    return Status::Aborted(name, e.what());
  } catch (...) {
    return Status::Aborted(name, "threw what is no std::exception");
  }
  return Status::OK();
}

}  // namespace

Status CallProgress(const std::function<void()>& progress) {
  return Guarded("progress_callback", progress);
}

Status CallExclude(const std::function<void(MaybeExcludeBackupFile*,
                                            MaybeExcludeBackupFile*)>& exclude,
                   MaybeExcludeBackupFile* begin, MaybeExcludeBackupFile* end) {
  return Guarded("exclude_files_callback", [&] { exclude(begin, end); });
}

}  // namespace varve
