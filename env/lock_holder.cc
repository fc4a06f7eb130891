// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "env/lock_holder.h"

#include <fcntl.h>
#include <unistd.h>

#include "env/descriptor_supply.h"
#include "env/process_name.h"

namespace varve {

bool FindLockHolder(const std::string& lock_path, LockHolder* holder) {
  const int descriptor = OpenDescriptor([&lock_path] {
    return open(lock_path.c_str(),
                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  });
  if (descriptor < 0) return false;
  // A lock of this open file would conflict with the locks of all processes, of
  // both kinds.
  struct flock query = {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;  // From 0, length 0: all of the file.
  int result = fcntl(descriptor, F_OFD_GETLK, &query);
  if (result != 0) {
    query = {};
    query.l_type = F_WRLCK;
    query.l_whence = SEEK_SET;
    result = fcntl(descriptor, F_GETLK, &query);
  }
  const bool held = result == 0 && query.l_type != F_UNLCK;
  if (held && query.l_pid > 0) {
    holder->pid = static_cast<uint64_t>(query.l_pid);
    holder->description = DescribePid(holder->pid);
  } else if (held) {
    // The holder of an open file description lock wrote its name.
    const std::string name = ReadProcessName(descriptor);
    holder->pid = RunningPidOfName(name);
    holder->description = DescribeProcess(name);
  }
  close(descriptor);
  return held;
}

}  // namespace varve
