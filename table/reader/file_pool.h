// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Table files that are read as if they were always open, while at most
// `max_open_files` of them are at any time. A file is opened when it is read,
// and closed, by a CLOCK over the open ones, when another one needs the place.
// What a table knows of itself stays in memory meanwhile, so that to open its
// file again is one system call.
//
// Words and states. A file's `state` is a count of reads that use it at the
// moment (pins) and the bit kOpen. While the bit is set, `target` is the open
// file, and does not change. The pool's mutex guards the list of open files,
// their number, and every change of the bit.
// Transitions. T1: a read adds a pin with acquire; if the bit was set, it goes
// on. T2: else it takes the pin back and opens the file (one thread at a time
// does that for each file), then stores target, and adds the bit and its own
// pin with release. T3: it takes its pin off with release. T4: the clock's
// hand takes the bit away if there are no pins, by a compare-and-swap with
// acquire, and closes the file.
// Invariants. I1: target is not closed while there are pins: T4 succeeds only
// on a state without any, and a pin that comes later finds the bit gone. I2:
// the files that are open, are being opened or are being closed are never more
// than the bound: a place is counted before the file is opened and given back
// after it is closed.
// Why. T1's acquire pairs with T2's release: target is seen. T4's acquire
// pairs with T3's release: the reads are over before the file is closed.
// Bad interleavings. B1: a pin comes between the hand's look and its
// compare-and-swap: the latter fails. B2: all open files are pinned, and the
// last pin goes just before a thread that needs a place begins to wait: it
// counts itself in `waiting` before it looks at the states once more, and who
// takes a pin off looks at `waiting` after that, all of it sequentially
// consistent: one of the two sees the other.
// Progress. A thread that waits for a place holds no pin, so that the threads
// which hold one come to their end. A batch of reads, which pins several files,
// does not wait for a place (AcquireDescriptor); it reads what it has, lets go
// of all pins, and then reads the rest one by one.
//
// Descriptors. The pool gives its own back when the process runs short of them
// (env/descriptor_supply.h). `bound_` is the smaller one of max_open_files and
// of what was left then, so that a pool at its bound closes one file and opens
// another, by one call each, and takes nothing more from the program. Once in
// kProbeOpens files that needed a place the bound is raised by a quarter: if
// descriptors are still short, the opening after that lowers it again; if there
// are more of them, by a higher limit say, they are used before long.
// GiveBack closes what is not pinned and waits for nothing; one pool may be
// asked on behalf of another one's opening, or of its own, which holds none of
// the mutexes then.
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
  // A negative `max_open_files` sets no bound: files are closed only when the
  // process runs short of descriptors. `statistics` may be null.
  FilePool(Env* env, const FileOptions& file_options, int max_open_files,
           StatisticsImpl* statistics);
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;
  ~FilePool() override;

  // Opens a file of `env`, or of the pool's Env if that is null: NotFound if it
  // is not there. The Env must outlive the file. Later openings take place
  // within reads, which have their errors then: Corruption if it is gone.
  Status Open(const std::string& path, std::unique_ptr<RandomAccessFile>* file,
              Env* env = nullptr);

  // Another process may remove the files, or put others in their places. A
  // read that has to open its file again is then an IOError, for which IsGone
  // is true, in place of a Corruption or of another file's bytes. To be called
  // before the first Open.
  void ExpectOtherWriters() { other_writers_ = true; }
  static Status Gone(const std::string& path);
  static bool IsGone(const Status& status);

  size_t open_files() const;

 private:
  class PooledFile;

  // Sets the file's bit, for the caller with a pin. Waits for a place, or
  // without `waits` answers Busy.
  Status OpenPinned(PooledFile* file, bool waits);
  Status OpenTarget(PooledFile* file, bool waits) VARVE_EXCLUDES(mu_);
  size_t Held() const override;
  CloseResult GiveBack(size_t count, size_t keep) override;
  // Counts a place, if there is one, or raises the bound for it: see
  // Descriptors.
  bool TakePlace() VARVE_REQUIRES(mu_);
  // Gives up a file's place and returns its target, to be closed without the
  // mutex; null if no file can be closed.
  std::unique_ptr<RandomAccessFile> TakeVictim() VARVE_REQUIRES(mu_);
  void AddToRing(PooledFile* file) VARVE_REQUIRES(mu_);
  void RemoveFromRing(PooledFile* file) VARVE_REQUIRES(mu_);
  void GivePlacesBack(size_t count);
  void Forget(PooledFile* file);

  Env* const env_;
  const FileOptions file_options_;
  const size_t max_open_files_;
  StatisticsImpl* const statistics_;
  bool other_writers_ = false;

  mutable Mutex mu_;
  CondVar changed_;  // A place is free, or an opening has ended.
  std::vector<PooledFile*> ring_ VARVE_GUARDED_BY(mu_);
  size_t hand_ VARVE_GUARDED_BY(mu_) = 0;
  size_t places_ VARVE_GUARDED_BY(mu_) = 0;  // In use, see I2.
  size_t bound_ VARVE_GUARDED_BY(mu_);       // At most max_open_files_.
  size_t opens_at_bound_ VARVE_GUARDED_BY(mu_) = 0;
  // The size of ring_, for Held.
  std::atomic<size_t> held_{0};
  // Threads that wait for a pin to go.
  std::atomic<int> waiting_{0};
};

}  // namespace varve
