// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "db/options/db_mutex.h"
#include "db/space/table_space.h"
#include "db/version/family_versions.h"
#include "db/version/manifest_reader.h"
#include "db/version/version.h"
#include "db/version/version_edit.h"
#include "db/wal/prepared_set.h"
#include "db/wal/wal_writer.h"
#include "util/base/mutex.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Holds the current Version of each column family and the database's counters,
// and writes the MANIFEST that makes them durable.
//
// Thread-safety: the DB mutex guards all functions that do not say otherwise.
class VersionSet {
 public:
  // A table that no version references any more.
  struct ObsoleteTable {
    FileMetaData* file;       // Owned.
    TableCache* table_cache;  // Null if the family is gone.
  };
  // A part of a change of several families.
  struct FamilyEdit {
    FamilyVersions* family;
    VersionEdit* edit;
  };

  VersionSet(std::string db_path, Env* env, Mutex* db_mutex);
  VersionSet(const VersionSet&) = delete;
  VersionSet& operator=(const VersionSet&) = delete;
  ~VersionSet();

  // Takes over the counters that were read from a MANIFEST. Must be called
  // once, before any other function. `directory` may be null if the database is
  // opened only for reading.
  void Initialize(ManifestState* state, Directory* directory);
  // Adds a family of that state, and takes over its files. The default family
  // comes first. The family must outlive its versions; see RemoveFamilyLocked.
  void AddFamilyLocked(FamilyVersions* family, FamilyManifest* state)
      VARVE_REQUIRES(kDbMutex);

  // Applies the edit: writes it to the MANIFEST, syncs the MANIFEST, and
  // installs the resulting version as the family's current one. Fills in the
  // edit's counters. Edits of several threads are applied one after another.
  // May release the mutex and reacquire it. Returns ShutdownInProgress if the
  // family was dropped. Returns an error, and changes no file, if the edit is
  // one that ReadManifest would refuse.
  //
  // On failure the current version does not change. After a failed write, the
  // MANIFEST is not used again, and the next edit creates a new one. A later
  // Open may still find the failed edit. So the tables that it adds are kept
  // until a MANIFEST without the edit is durable.
  Status LogAndApply(FamilyVersions* family, VersionEdit* edit)
      VARVE_REQUIRES(kDbMutex);
  // Does so for several families. After a crash, either all of the edits are
  // found or none. A few edits cost a sync each: see AppendEdits. Many edits
  // start a new MANIFEST, which costs the same number of syncs for any number
  // of edits.
  Status LogAndApply(std::span<const FamilyEdit> edits)
      VARVE_REQUIRES(kDbMutex);
  // Writes an edit with the logs' end, and nothing else, without a sync. No
  // edit may follow, because a power cut may damage this one. If there is no
  // MANIFEST to add to, writes a note: see db/version/logs_end_note.h.
  Status AppendLastLocked(FamilyVersions* family, VersionEdit* edit)
      VARVE_REQUIRES(kDbMutex);
  // Creates families, all or none. They get the next ids, and need logs from
  // `log_number` on. `tables`, if not null, adds tables to the last of them in
  // the same step. Returns NotSupported if there are not so many ids.
  Status CreateFamiliesLocked(std::span<FamilyVersions* const> families,
                              uint64_t log_number,
                              VersionEdit* tables = nullptr)
      VARVE_REQUIRES(kDbMutex);
  // Drops families, all or none. They keep their current versions until
  // RemoveFamilyLocked.
  Status DropFamiliesLocked(std::span<FamilyVersions* const> families)
      VARVE_REQUIRES(kDbMutex);
  // Releases the current version, if any, of a family that was dropped, or
  // whose creation failed.
  void RemoveFamilyLocked(FamilyVersions* family) VARVE_REQUIRES(kDbMutex);
  // Closes the MANIFEST. No edit may follow, and no file becomes obsolete any
  // more.
  void CloseLocked() VARVE_REQUIRES(kDbMutex);
  // Makes the family's current version one without tables. REQUIRES:
  // CloseLocked was called.
  void EmptyFamilyLocked(FamilyVersions* family) VARVE_REQUIRES(kDbMutex);
  // Returns the tables that were released since CloseLocked, whose files stay.
  // The caller owns them.
  std::vector<ObsoleteTable> TakeReleasedLocked() VARVE_REQUIRES(kDbMutex) {
    return std::exchange(doubtful_files_, {});
  }
  // The live families, by increasing id.
  const std::vector<FamilyVersions*>& families() const { return families_; }

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
  // For PublicationOrder.
  std::atomic<SequenceNumber>* mutable_last_sequence() {
    return &last_sequence_;
  }
  void SetLastSequence(SequenceNumber sequence) {
    // release pairs with the acquire of LastSequence.
    last_sequence_.store(sequence, std::memory_order_release);
  }

  // ---- For a follower: another process writes the MANIFEST ----

  // Sets *version to the family's current version with the edits applied, with
  // a reference. Returns Corruption if they do not fit.
  Status BuildFollowedLocked(const FamilyVersions& family,
                             std::vector<VersionEdit> edits, Version** version)
      VARVE_REQUIRES(kDbMutex);
  // Makes the version the family's current one, unless it is null, and takes
  // over the family's numbers. Does not release the caller's reference.
  void FollowLocked(FamilyVersions* family, Version* version,
                    uint64_t log_number, SequenceNumber tables_end)
      VARVE_REQUIRES(kDbMutex);
  // Takes over that a family was dropped. It keeps its current version.
  void FollowDropLocked(FamilyVersions* family) VARVE_REQUIRES(kDbMutex);
  // Takes over the counters of that MANIFEST, except the last sequence number.
  void FollowCountersLocked(const ManifestCounters& counters)
      VARVE_REQUIRES(kDbMutex);
  // Prepares for own edits, in this directory. `space` is as for SetSpace.
  void TakeOverLocked(Directory* directory, TableSpace* space)
      VARVE_REQUIRES(kDbMutex);

  // Sets *number and *size to the current MANIFEST's number and its size in
  // whole edits. They match current() until the mutex is released. Waits for an
  // edit that is being written. Returns false if no MANIFEST is open: before
  // the first edit, or after a failed write.
  // May release the mutex and reacquire it.
  bool FindManifest(uint64_t* number, uint64_t* size) VARVE_REQUIRES(kDbMutex);

  // Returns the number of the first log that recovery needs, by the MANIFEST. A
  // family may need only later ones by now.
  uint64_t FirstLogNumberLocked() const VARVE_REQUIRES(kDbMutex) {
    return min_log_number_to_keep_;
  }
  uint64_t manifest_number() const { return manifest_number_; }
  // Makes the edits keep the logs that prepared transactions need. `prepared`
  // must outlive this object.
  void SetPrepared(const PreparedSet* prepared) { prepared_ = prepared; }
  // Counts the tables that families have, and that edits add, in `space`, which
  // must outlive this object.
  void SetSpace(TableSpace* space) { space_ = space; }
  const std::string& db_id() const { return db_id_; }
  // Sets the id for the next MANIFEST, unless the database has one.
  void SetDbId(const std::string& id) {
    if (db_id_.empty()) db_id_ = id;
  }

  // The caller owns them and must remove them.
  std::vector<ObsoleteTable>* obsolete_files() { return &obsolete_files_; }
  // Returns the numbers of the MANIFESTs that were replaced.
  std::vector<uint64_t>* obsolete_manifests() { return &obsolete_manifests_; }

  void UnrefVersionLocked(Version* version) VARVE_REQUIRES(kDbMutex);
  // Returns the number of the family's versions that exist.
  size_t CountVersionsLocked(const FamilyVersions& family) const
      VARVE_REQUIRES(kDbMutex);
  // Returns the bytes of all of the family's tables on disk: the tables of its
  // live versions, obsolete tables whose removal has not begun, and tables kept
  // for failed edits.
  uint64_t TotalTableBytesLocked(const FamilyVersions& family) const
      VARVE_REQUIRES(kDbMutex);

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  // Appends the records to the MANIFEST, each with a sync. Sets *in_doubt to
  // whether an Open may find the records although this failed. If it is false,
  // the MANIFEST is unchanged. `only_removes`: the edits may use the space that
  // is kept for those that only remove tables.
  // REQUIRES: the mutex is not held.
  Status AppendEdits(const std::vector<std::string>& records, bool only_removes,
                     bool* in_doubt);
  // Creates a MANIFEST of `snapshot` and the records, and makes CURRENT name
  // it. Sets *in_doubt likewise. If it is false after a failure, the old
  // MANIFEST stays in use. REQUIRES: the mutex is not held.
  Status CreateManifest(uint64_t number,
                        const std::vector<std::string>& snapshot,
                        const std::vector<std::string>& records,
                        bool* in_doubt);
  // Returns an error if a MANIFEST with the edits could not be read. `records`
  // are the encoded edits. VersionBuilder checks the tables of each family.
  Status CheckEdits(std::span<const FamilyEdit> edits,
                    const std::vector<std::string>& records) const;
  // Returns Corruption if a table that the edits add is in two families.
  Status CheckNewFiles(std::span<const FamilyEdit> edits) const;
  // Returns the first log that some family, or a prepared transaction, needs
  // after these edits.
  uint64_t FirstLogAfter(std::span<const FamilyEdit> edits) const
      VARVE_REQUIRES(kDbMutex);
  // Returns the first log that the edits may say is needed: one whose name a
  // power failure cannot take back. Syncs the directory where that is not
  // known, unless the edits are written after a sync of it. May release the
  // mutex.
  uint64_t FirstLogToNameLocked(std::span<const FamilyEdit> edits,
                                bool syncs_directory) VARVE_REQUIRES(kDbMutex);
  void CountInSpace(const FileMetaData& file);
  // Sets the counters of the edits, after the mutex was last released.
  void CompleteEdits(std::span<const FamilyEdit> edits, uint64_t first_log);
  // Encodes the current versions and counters as the first records of a
  // MANIFEST.
  std::vector<std::string> EncodeCurrent(SequenceNumber last_sequence) const;
  // Returns whether the MANIFEST's edits exceed its snapshot so far that a new
  // MANIFEST is due.
  bool EditsOutgrowSnapshot() const;
  // Returns whether a new MANIFEST costs less than appending so many edits.
  bool SnapshotIsCheaperThan(size_t edit_count) const;
  void InstallLocked(FamilyVersions* family, Version* version)
      VARVE_REQUIRES(kDbMutex);
  // Ends the part of an edit that was tried.
  void FinishEdit(std::span<const FamilyEdit> edits,
                  const std::vector<Version*>& versions, const Status& status,
                  bool in_doubt) VARVE_REQUIRES(kDbMutex);
  void UnrefLocked(Version* version, std::vector<ObsoleteTable>* unused)
      VARVE_REQUIRES(kDbMutex);

  const std::string db_path_;
  Env* const env_;
  Mutex* const mutex_;  // The DB's.
  Directory* directory_ = nullptr;

  std::atomic<uint64_t> next_file_number_{2};
  std::atomic<SequenceNumber> last_sequence_{0};
  uint64_t min_log_number_to_keep_ = 0;
  const PreparedSet* prepared_ = nullptr;
  TableSpace* space_ = nullptr;
  uint32_t max_column_family_ = 0;
  std::string db_id_;
  std::string key_folding_;

  std::vector<FamilyVersions*> families_;  // The live ones, by increasing id.
  std::vector<Version*> live_versions_;    // Current ones and older ones.
  std::vector<ObsoleteTable> obsolete_files_;
  std::vector<uint64_t> obsolete_manifests_;
  // Belong to failed edits that may have reached the disk, or were released
  // since CloseLocked.
  std::vector<ObsoleteTable> doubtful_files_;
  std::vector<uint64_t> doubtful_manifests_;
  bool is_closed_ = false;

  // True while one thread writes the MANIFEST without the mutex. That thread
  // then owns the members below.
  bool writing_ = false;
  CondVar writing_done_;
  std::unique_ptr<wal::Writer> manifest_;
  uint64_t manifest_number_ = 0;
  uint64_t snapshot_bytes_ = 0;  // Size of manifest_ before its first edit.
};

}  // namespace varve
