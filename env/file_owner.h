// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Who owns the new files of a directory. If root runs a program that writes to
// the database of a service, the service must still be able to open the files
// that the program creates. SQLite treats its journals in the same way.
//
// Cost: holding a directory takes one fstat, and one geteuid, which is once for
// each database that is opened. Opening a file costs nothing. Neither does
// creating one, except in a directory that differs: one of another owner, seen
// by root, or one whose group may write. There it takes an fstat, and an fchown
// and fchmod as far as something is to be changed. That is at most three calls
// for a log or a table, beside about ten that create, write and sync it.

#include <sys/types.h>

namespace varve {

// Thread-safety: immutable after construction.
class FileOwner {
 public:
  // New files remain as the system creates them.
  FileOwner() = default;
  // Reads the owner of an open directory:
  // - A root process gives new files to the directory's owner and group. The
  //   group gets the same rights to read and write them as to the directory.
  // - Any other process does this for the group alone, and only if the group
  //   may write to the directory. Members of the group could replace the files
  //   anyway, so a umask that hides them protects nothing. Sticky directories
  //   are left out, because their files cannot be replaced.
  explicit FileOwner(int directory);

  // Returns whether Adopt may have something to do.
  bool differs() const { return differs_; }
  // Gives a file or directory, which this process has just created, to the
  // owner.
  // Failures are ignored: a file that its creator alone can read is better than
  // a database that cannot be written to. Does nothing to a file that could be
  // known under another name, or that is of another user's.
  void Adopt(int descriptor) const;

 private:
  bool differs_ = false;
  uid_t user_ = 0;  // Of this process.
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  mode_t group_mode_ = 0;  // What the group may do at least.
};

}  // namespace varve
