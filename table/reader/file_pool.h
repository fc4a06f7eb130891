// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Pool of open files with CLOCK eviction. Table files can be read as if they
// were always open, while at most `max_open_files` are open at a time. A file
// is opened when it is read. It is closed when another file needs its place.
// The table's metadata stays in memory, so that reopening the file is one
// system call.
//
// States. A file's `state` is the number of reads that are using it (pins),
// plus the bit kOpen. While the bit is set, `target` is the open file and does
// not change. The pool's mutex guards the list of open files, their number, and
// every change of the bit.
// Transitions
//   T1 A read adds a pin with acquire. If the bit was set, it proceeds.
//   T2 Otherwise it removes the pin and opens the file; one thread at a time
//      does so for each file. It stores target, then adds the bit and its own
//      pin with release.
//   T3 A read removes its pin with release.
//   T4 The clock's hand clears the bit if there are no pins, by a
//      compare-and-swap with acquire, and closes the file.
// Invariants
//   I1 target is not closed while there are pins: T4 succeeds only on a state
//      without pins, and a later pin finds the bit cleared.
//   I2 The number of files that are open, being opened or being closed never
//      exceeds the bound, but SetMaxOpenFiles may lower the bound below it. A
//      place is counted before the file is opened and returned after it is
//      closed.
// Why each order is needed
//   T1's acquire pairs with T2's release: target is seen. T4's acquire pairs
//   with T3's release: the reads end before the file is closed.
// Bad interleavings prevented
//   B1 A pin is added between the hand's check and its compare-and-swap. The
//      latter fails.
//   B2 All open files are pinned, and the last pin is removed just before a
//      thread that needs a place begins to wait. That thread counts itself in
//      `waiting` before it checks the states once more. A thread that removes a
//      pin checks `waiting` afterwards. All of these accesses are sequentially
//      consistent, so one of the two threads sees the other.
// Progress
//   A thread that waits for a place holds no pin, so threads with pins can
//   finish. A batch of reads, which pins several files, does not wait for a
//   place (AcquireDescriptor). It reads from the files that it has pinned,
//   releases all pins, and then reads the rest one by one.
//
// Descriptors. The pool closes files when the process runs short of descriptors
// (env/descriptor_supply.h). `bound_` is at most max_open_files, and is lowered
// to the number of files left then. A pool at its bound closes one file to open
// another, by one call each, and takes no further descriptor from the program.
// After each kProbeOpens files that needed a place, the bound is raised by a
// quarter. If descriptors are still short, the next open lowers it again. If
// there are more, after a higher limit for example, they are soon used.
// GiveBack closes files without pins and waits for nothing. One pool may be
// called on behalf of another pool's open, or of its own open, which then holds
// none of the mutexes.
//
// Thread-safety: thread-safe. The pool must outlive its files.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "env/descriptor_supply.h"
#include "util/base/mutex.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

class StatisticsImpl;

class FilePool : private DescriptorOwner {
 public:
  // A negative `max_open_files` sets no bound. Files are then closed only when
  // the process runs short of descriptors. `statistics` may be null.
  FilePool(Env* env, const FileOptions& file_options, int max_open_files,
           StatisticsImpl* statistics);
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;
  ~FilePool() override;

  // Opens a file of `env`, or of the pool's Env if that is null. Returns
  // NotFound if it does not exist. The Env must outlive the file. Later reads
  // may reopen the file, and return the errors of that; Corruption if the file
  // no longer exists. A mapped file has no descriptor and is not one of the
  // pool: it stays readable if its name is removed or replaced.
  Status Open(const std::string& path, std::unique_ptr<RandomAccessFile>* file,
              Env* env = nullptr);

  // Allows for another process that removes or replaces the files. A read that
  // has to reopen such a file then returns an IOError for which IsRemovedError
  // is true. Otherwise it would return Corruption or another file's bytes.
  // REQUIRES: called before the first Open.
  void ExpectOtherWriters() { other_writers_ = true; }
  static Status RemovedError(const std::string& path);
  static bool IsRemovedError(const Status& status);

  // Changes the bound, and closes files over it that are not being read. While
  // there are more, because reads pin them, each open of a file closes two.
  void SetMaxOpenFiles(int max_open_files);

  size_t open_files() const;

 private:
  class PooledFile;

  // Opens a file that is not one of the pool.
  Status OpenUnpooled(Env* env, const std::string& path,
                      std::unique_ptr<RandomAccessFile>* file);
  // Opens the file if necessary and pins it for the caller. Waits for a place,
  // or returns Busy if `waits` is false.
  Status OpenPinned(PooledFile* file, bool waits);
  Status OpenTarget(PooledFile* file, bool waits) VARVE_EXCLUDES(mu_);
  size_t Held() const override;
  CloseResult GiveBack(size_t count, size_t keep) override;
  // Counts a place if one is free. May raise the bound for it (see
  // Descriptors).
  bool TakePlace() VARVE_REQUIRES(mu_);
  // Evicts a file and returns its target, which the caller closes without the
  // mutex. Its place remains counted. Returns null if no file can be closed.
  std::unique_ptr<RandomAccessFile> TakeVictim() VARVE_REQUIRES(mu_);
  void AddToRing(PooledFile* file) VARVE_REQUIRES(mu_);
  void RemoveFromRing(PooledFile* file) VARVE_REQUIRES(mu_);
  void GivePlacesBack(size_t count);
  void Forget(PooledFile* file);

  Env* const env_;
  const FileOptions file_options_;
  StatisticsImpl* const statistics_;
  bool other_writers_ = false;

  mutable Mutex mu_;
  CondVar changed_;  // A place is free, or an open has ended.
  std::vector<PooledFile*> ring_ VARVE_GUARDED_BY(mu_);
  size_t hand_ VARVE_GUARDED_BY(mu_) = 0;
  size_t places_ VARVE_GUARDED_BY(mu_) = 0;  // In use, see I2.
  size_t max_open_files_ VARVE_GUARDED_BY(mu_);
  size_t bound_ VARVE_GUARDED_BY(mu_);  // At most max_open_files_.
  size_t opens_at_bound_ VARVE_GUARDED_BY(mu_) = 0;
  // The size of ring_, for Held.
  std::atomic<size_t> held_{0};
  // Threads that wait for a pin to be removed.
  std::atomic<int> waiting_{0};
};

}  // namespace varve
