// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/version/manifest_reader.h"
#include "db/version/version.h"
#include "db/version/version_edit.h"
#include "db/wal/wal_writer.h"
#include "util/base/mutex.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Holds the current Version and the database's counters, and writes the
// MANIFEST that makes both durable.
//
// Thread-safety: the DB mutex guards all functions that do not say otherwise.
// Debug builds check this at run time, because the compiler's analysis cannot
// tell that the caller's mutex and `mutex_` here are the same.
class VersionSet {
 public:
  VersionSet(std::string db_path, Env* env,
             const InternalKeyComparator* comparator, TableCache* table_cache,
             bool prefixes, Mutex* db_mutex);
  VersionSet(const VersionSet&) = delete;
  VersionSet& operator=(const VersionSet&) = delete;
  ~VersionSet();

  // Takes over the state that was read from a MANIFEST. Must be called once,
  // before any other function. `directory` may be null if the database is
  // opened only for reading.
  void Initialize(ManifestState* state, Directory* directory);

  // Applies the edit: writes it to the MANIFEST, syncs the MANIFEST, and
  // installs the resulting version as the current one. Fills in the edit's
  // counters. Edits of several threads are applied one after another.
  // May release the mutex and reacquire it.
  //
  // On failure the current version does not change. After a failed write, the
  // MANIFEST is not used again, and the next edit creates a new one. A later
  // Open may still find the failed edit. So the tables that it adds are kept
  // until a MANIFEST without the edit is durable.
  Status LogAndApply(VersionEdit* edit) VARVE_NO_THREAD_SAFETY_ANALYSIS;

  Version* current() const { return current_; }

  // Returns a file number that was not returned before. Thread-safe.
  uint64_t NewFileNumber() {
    // relaxed: it only matters that no two callers get the same number.
    return next_file_number_.fetch_add(1, std::memory_order_relaxed);
  }
  // Ensures that NewFileNumber returns only numbers above `number`.
  void MarkFileNumberUsed(uint64_t number);

  // Returns the sequence number of the newest update that is visible to
  // readers. Thread-safe.
  SequenceNumber LastSequence() const {
    // acquire pairs with the release of SetLastSequence: the updates up to it
    // are in the memtable.
    return last_sequence_.load(std::memory_order_acquire);
  }
  const std::atomic<SequenceNumber>* last_sequence() const {
    return &last_sequence_;
  }
  void SetLastSequence(SequenceNumber sequence) {
    // release pairs with the acquire of LastSequence.
    last_sequence_.store(sequence, std::memory_order_release);
  }

  // Sets *number and *size to the current MANIFEST's number and its size in
  // whole edits. They match current() until the mutex is released. Waits for an
  // edit that is being written. Returns false if no MANIFEST is open: before
  // the first edit, or after a failed write.
  // May release the mutex and reacquire it.
  bool FindManifest(uint64_t* number, uint64_t* size);

  uint64_t log_number() const { return log_number_; }
  uint64_t manifest_number() const { return manifest_number_; }
  const std::string& db_id() const { return db_id_; }
  // Sets the id for the next MANIFEST, unless the database has one.
  void SetDbId(const std::string& id) {
    if (db_id_.empty()) db_id_ = id;
  }

  // Returns the files that no version references any more. The caller owns them
  // and must remove them.
  std::vector<FileMetaData*>* obsolete_files() { return &obsolete_files_; }
  // Returns the numbers of the MANIFESTs that were replaced.
  std::vector<uint64_t>* obsolete_manifests() { return &obsolete_manifests_; }

  void UnrefVersionLocked(Version* version);
  size_t live_version_count() const { return live_versions_.size(); }
  // Returns the bytes of all tables on disk: the tables of all live versions,
  // obsolete tables whose removal has not begun, and tables kept for failed
  // edits.
  uint64_t TotalTableBytesLocked() const;

 private:
  // Appends the record to the MANIFEST and syncs it. Sets *in_doubt to whether
  // an Open may find the record although this failed. If it is false, the
  // MANIFEST is unchanged. `only_removes`: the edit may use the space that is
  // kept for those that only remove tables.
  // REQUIRES: the mutex is not held.
  Status AppendEdit(const std::string& record, bool only_removes,
                    bool* in_doubt);
  // Creates a MANIFEST of `snapshot` and the record, and makes CURRENT name it.
  // Sets *in_doubt likewise. If it is false after a failure, the old MANIFEST
  // stays in use. REQUIRES: the mutex is not held.
  Status CreateManifest(uint64_t number, const std::string& snapshot,
                        const std::string& record, bool* in_doubt);
  // Encodes the current version and counters as the first record of a MANIFEST.
  std::string EncodeCurrent(SequenceNumber last_sequence) const;
  // Returns whether the MANIFEST's edits exceed its snapshot so far that a new
  // MANIFEST is due.
  bool EditsOutgrowSnapshot() const;
  void InstallLocked(Version* version);

  const std::string db_path_;
  Env* const env_;
  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  const bool prefixes_;  // See Version.
  Mutex* const mutex_;
  Directory* directory_ = nullptr;

  std::atomic<uint64_t> next_file_number_{2};
  std::atomic<SequenceNumber> last_sequence_{0};
  uint64_t log_number_ = 0;
  uint64_t min_log_number_to_keep_ = 0;
  uint32_t max_column_family_ = 0;
  std::string db_id_;
  std::string key_folding_;

  Version* current_ = nullptr;
  std::vector<Version*> live_versions_;  // The current one and older ones.
  std::vector<FileMetaData*> obsolete_files_;
  std::vector<uint64_t> obsolete_manifests_;
  // Belong to failed edits that may have reached the disk.
  std::vector<FileMetaData*> doubtful_files_;
  std::vector<uint64_t> doubtful_manifests_;

  // True while one thread writes the MANIFEST without the mutex. That thread
  // then owns the members below.
  bool writing_ = false;
  CondVar writing_done_;
  std::unique_ptr<wal::Writer> manifest_;
  uint64_t manifest_number_ = 0;
  uint64_t snapshot_bytes_ = 0;  // Size of manifest_ before its first edit.
};

}  // namespace varve
