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

// The current version, the counters of the database, and the MANIFEST that
// makes both last.
// Thread-safety: guarded by the DB mutex where not said otherwise. (Calls are
// checked in debug builds: the compiler's analysis takes the caller's mutex and
// the pointer to it here for two.)
class VersionSet {
 public:
  VersionSet(std::string db_path, Env* env,
             const InternalKeyComparator* comparator, TableCache* table_cache,
             bool prefixes, Mutex* db_mutex);
  VersionSet(const VersionSet&) = delete;
  VersionSet& operator=(const VersionSet&) = delete;
  ~VersionSet();

  // Takes over what was read. To be called once, first. `directory` may be
  // null if nothing will be written.
  void Initialize(ManifestState* state, Directory* directory);

  // Writes the edit to the MANIFEST, syncs it, and makes the version that
  // results the current one. Gives the mutex back meanwhile; edits of several
  // threads are done one behind the other. The edit's counters are filled in.
  // After a failure the MANIFEST is not used again: the next edit begins a
  // new one. The version stays as it was, but an Open may find the edit, so the
  // tables that it adds stay until there is a MANIFEST without it.
  Status LogAndApply(VersionEdit* edit) VARVE_NO_THREAD_SAFETY_ANALYSIS;

  Version* current() const { return current_; }

  // Thread-safe.
  uint64_t NewFileNumber() {
    // relaxed: only that no two callers get the same.
    return next_file_number_.fetch_add(1, std::memory_order_relaxed);
  }
  // No number up to this one will be given out.
  void MarkFileNumberUsed(uint64_t number);

  // Thread-safe. The newest update that readers may see.
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

  // The MANIFEST in force, and its bytes that are whole edits: together with
  // current(), as long as the mutex is not given back. Waits for an edit that
  // is being written. False if there is none to go on with: before the first
  // edit, or after a failure.
  bool FindManifest(uint64_t* number, uint64_t* size);

  uint64_t log_number() const { return log_number_; }
  uint64_t manifest_number() const { return manifest_number_; }
  const std::string& db_id() const { return db_id_; }
  // For the MANIFEST to come, if the one read has none.
  void SetDbId(const std::string& id) {
    if (db_id_.empty()) db_id_ = id;
  }

  // Files that no version holds any more, to be removed. The caller owns
  // them.
  std::vector<FileMetaData*>* obsolete_files() { return &obsolete_files_; }
  // MANIFESTs that were replaced.
  std::vector<uint64_t>* obsolete_manifests() { return &obsolete_manifests_; }

  void UnrefVersionLocked(Version* version);
  size_t live_version_count() const { return live_versions_.size(); }
  // Of all tables that are on disk because of some version, or for an edit
  // that failed.
  uint64_t TotalTableBytesLocked() const;

 private:
  // Writes the record to the MANIFEST; to a new one of that number, behind
  // `snapshot`, if that is not empty. The mutex is not held. *in_doubt: whether
  // an Open may find it even after a failure.
  Status WriteEdit(uint64_t number, const std::string& snapshot,
                   const std::string& record, bool* in_doubt);
  // The current version and counters, as a MANIFEST's first record.
  std::string EncodeCurrent(SequenceNumber last_sequence) const;
  // Whether the MANIFEST is due to be replaced by a fresh one.
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
  // Of edits that failed and may have reached the disk.
  std::vector<FileMetaData*> doubtful_files_;
  std::vector<uint64_t> doubtful_manifests_;

  // Set while one thread writes the MANIFEST without the mutex; what follows
  // is then its own.
  bool writing_ = false;
  CondVar writing_done_;
  std::unique_ptr<wal::Writer> manifest_;
  uint64_t manifest_number_ = 0;
  uint64_t snapshot_bytes_ = 0;  // Size of manifest_ before its first edit.
};

}  // namespace varve
