// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/follower/takeover.h"

#include <algorithm>
#include <utility>

#include "db/compaction/table_output.h"
#include "db/recovery/foreign_files.h"
#include "db/recovery/leftovers.h"
#include "db/version/edit_rules.h"
#include "env/file_names.h"

namespace varve {

Status Takeover::Prepare() {
  {
    MutexLock lock(core_.mutex());
    // NewFileNumber would allocate one.
    next_file_number_ = follower_.view().next_file_number;
  }
  std::vector<std::string> names;
  Status status = core_.env->GetChildren(core_.directory.path(), &names);
  uint64_t largest = next_file_number_;
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(name, &number, &type) || type == FileKind::kInfoLog) {
      continue;
    }
    if (type == FileKind::kOptions) options_files_.push_back(number);
    if (IsForeignFile(core_.env, core_.directory.path() + "/" + name, type,
                      number, next_file_number_)) {
      foreign_.insert(name);
      if (number >= next_file_number_ + kFarFileNumbers) continue;
    }
    largest = std::max(largest, number);
  }
  if (status.ok() && largest > kMaxFileNumber - kSpareFileNumbers) {
    status = Status::Corruption(core_.directory.path(),
                                "its file numbers are used up");
  }
  if (status.ok() &&
      core_.versions->LastSequence() > kMaxSequenceNumber - kSpareSequences) {
    status = Status::Corruption(core_.directory.path(),
                                "its sequence numbers are used up");
  }
  if (status.ok()) core_.versions->MarkFileNumberUsed(largest);
  return status;
}

Status Takeover::BeginLogLocked(uint64_t number) {
  for (const Follower::Log& log : follower_.logs()) {
    if (log.number >= follower_.view().FirstLog()) {
      core_.wals.AddFinishedLocked(log.number, log.end);
    }
  }
  WalSet::Wal wal;
  Status status = core_.wals.Create(number, /*space_is_short=*/false, &wal);
  if (!status.ok()) return status;
  core_.wals.AddLocked(std::move(wal));
  if (follower_.logs().empty()) return status;
  const Follower::Log& last = follower_.logs().back();
  return core_.wals.AppendPredecessor(last.number, last.end,
                                      core_.versions->LastSequence() + 1);
}

void Takeover::SwitchMemTablesLocked(ColumnFamily* family, uint64_t log) {
  FamilyMemtables& memtables = family->memtables();
  std::vector<MemTable*> filled = memtables.immutable();
  filled.push_back(memtables.current());
  if (filled.back()->empty()) filled.pop_back();
  MemTable* next = memtables.current();
  if (next->empty()) {
    next->SetWalNumber(log);
  } else {
    next = memtables.New(log, core_.families.live().size());
  }
  // The others are immutable already, and readers may be using their bounds.
  if (!filled.empty() && filled.back() == memtables.current()) {
    filled.back()->SetLargestSequence(core_.versions->LastSequence());
  }
  // Each is switched as by a leader, which counts them for the flushes.
  filled.push_back(next);
  memtables.BeginLocked(filled.front(), {});
  for (size_t i = 1; i < filled.size(); ++i) family->SwitchLocked(filled[i]);
}

Status Takeover::InstallLocked() {
  Status status = core_.directory.LoadIdentity(follower_.view().db_id);
  if (status.ok()) {
    status = core_.directory.StoreIdentity(
        TempFileName(core_.directory.path(), core_.versions->NewFileNumber()));
  }
  if (!status.ok()) return status;
  core_.versions->SetDbId(core_.directory.identity());
  core_.versions->TakeOverLocked(core_.directory.directory(), &core_.space);
  const std::vector<ColumnFamily*> families = core_.families.live();
  const std::string session = NewSessionIdentity();
  for (ColumnFamily* const family : families) {
    family->SetOutputContext(core_.directory.path(), core_.directory.identity(),
                             session);
  }
  const uint64_t number = core_.versions->NewFileNumber();
  status = BeginLogLocked(number);
  for (ColumnFamily* const family : families) {
    if (!status.ok()) break;
    // RocksDB may name a log that never existed, where no update is.
    const FamilyMemtables& memtables = family->memtables();
    family->versions()->SkipLogsLocked(
        memtables.AreAllFlushedLocked() ? number : memtables.OldestLogLocked());
  }
  VersionEdit edit;
  if (status.ok()) {
    // Begins a MANIFEST, and syncs the directory with the new log in it.
    status =
        core_.versions->LogAndApply(core_.default_family.versions(), &edit);
  }
  if (!status.ok()) {
    core_.wals.CloseLocked().IgnoreError();
    core_.env->RemoveFile(WalFileName(core_.directory.path(), number))
        .IgnoreError();
    return status;
  }
  core_.wals.SetDirectorySyncedLocked();
  for (ColumnFamily* const family : families) {
    SwitchMemTablesLocked(family, number);
    core_.control.InstallSuperVersionLocked(family);
  }
  core_.log_bound.UpdateLogSizeLocked();
  return status;
}

void Takeover::RemoveLeftoversLocked() {
  LiveFiles live;
  std::vector<TableCache*> caches;
  for (const ColumnFamily* const family : core_.families.live()) {
    caches.push_back(family->table_cache());
    // Older versions may have readers, for which the files stay.
    for (const auto& files : family->version()->levels()) {
      for (const FileMetaData* const file : files) {
        live.tables.push_back(file->number);
      }
    }
  }
  std::sort(live.tables.begin(), live.tables.end());
  live.manifest_number = core_.versions->manifest_number();
  live.log_number = core_.versions->FirstLogNumberLocked();
  live.next_file_number = next_file_number_;
  live.foreign = foreign_;
  core_.versions->obsolete_manifests()->clear();  // It finds them.
  core_.mutex()->Unlock();
  RemoveLeftovers(core_.directory, caches, &core_.log, live);
  core_.mutex()->Lock();
}

}  // namespace varve
