// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ingestion/ingestion.h"

#include <algorithm>
#include <utility>

#include "db/family/common_errors.h"
#include "env/file_names.h"
#include "monitoring/span.h"
#include "table/block/properties.h"
#include "varve/listener.h"

namespace varve {

namespace {

// Gives all entries of the table the sequence number.
void Renumber(SequenceNumber sequence, FileMetaData* file) {
  file->smallest_sequence = sequence;
  file->largest_sequence = sequence;
  const auto renumber = [sequence](std::string* key) {
    *key =
        MakeInternalKey(ExtractUserKey(*key),
                        PackTrailer(sequence, ExtractValueType(Slice(*key))));
  };
  renumber(&file->smallest);
  if (!file->EndIsExclusive()) renumber(&file->largest);
}

// Returns for each table whether it overlaps another one.
std::vector<bool> FindOverlaps(const InternalKeyComparator& comparator,
                               const std::vector<ExternalTable>& tables) {
  std::vector<size_t> order(tables.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return comparator.Compare(tables[a].file.smallest,
                              tables[b].file.smallest) < 0;
  });
  std::vector<bool> overlap(tables.size());
  size_t furthest = order.front();  // Of those so far, it ends last.
  for (size_t i = 1; i < order.size(); ++i) {
    const FileMetaData& file = tables[order[i]].file;
    const FileMetaData& before = tables[furthest].file;
    if (!EndsBefore(comparator, before, file)) {
      overlap[furthest] = true;
      overlap[order[i]] = true;
    }
    if (comparator.Compare(file.largest, before.largest) > 0) {
      furthest = order[i];
    }
  }
  return overlap;
}

}  // namespace

Status Ingestion::AddFamily(ColumnFamily* family,
                            const std::vector<std::string>& files,
                            const IngestExternalFileOptions& options) {
  if (files.empty()) return Status::InvalidArgument("no files are named");
  if (options.link_files && options.move_files) {
    return Status::InvalidArgument("link_files and move_files are both set");
  }
  for (const auto& part : parts_) {
    if (part->family != family) continue;
    return Status::InvalidArgument("column family " + family->name(),
                                   "is named twice");
  }
  auto part = std::make_unique<Part>(family, options);
  ExternalTableFacts facts;
  facts.comparator = &family->comparator();
  facts.info_log = &core_.log;
  facts.verify_checksums = options.verify_checksums_before_ingest;
  for (const std::string& path : files) {
    ExternalTable table;
    table.path = path;
    if (options.move_files && MayBeOwnTable(core_.directory, path)) {
      return Status::InvalidArgument(path, "is a table of the database");
    }
    PropertiesBlock properties;
    Status status = ExamineTable(core_.env, facts, &table, &properties);
    if (status.ok()) {
      status = CheckWrittenOutside(table, properties, family->id());
    }
    if (!status.ok()) return status;
    part->tables.push_back(std::move(table));
  }
  part->overlaps = FindOverlaps(family->comparator(), part->tables);
  if (part->OverlapsItself() && options.ingest_behind) {
    return Status::NotSupported("ingest_behind of files that overlap");
  }
  part->levels = std::make_unique<LevelChoice>(family->options(), part->tables);
  parts_.push_back(std::move(part));
  return Status::OK();
}

Status Ingestion::Prepare() {
  const LocalSpan span("take files in");
  std::vector<TakenFiles::Request> requests;
  for (const auto& part : parts_) {
    const IngestExternalFileOptions& options = part->options;
    for (ExternalTable& table : part->tables) {
      requests.push_back(
          {.table = &table,
           .link = options.link_files || options.move_files,
           .copies_if_not_linked = options.failed_move_fall_back_to_copy,
           .moves = options.move_files});
    }
  }
  return files_.Take(requests);
}

std::vector<ColumnFamily*> Ingestion::OverlappedFamilies(Status* status) {
  std::vector<ColumnFamily*> families;
  for (const auto& part : parts_) {
    if (part->options.ingest_behind) continue;
    const bool overlaps = std::any_of(
        part->tables.begin(), part->tables.end(),
        [&part](const ExternalTable& table) {
          const Slice smallest = table.file.smallest_user_key();
          const Slice largest = table.file.largest_user_key();
          return part->family->MemTablesOverlap(&smallest, &largest);
        });
    if (!overlaps) continue;
    if (!part->options.allow_blocking_flush) {
      *status = Status::InvalidArgument(
          "column family " + part->family->name(),
          "has keys of the files in memory, and allow_blocking_flush is false");
    }
    families.push_back(part->family);
  }
  return families;
}

Status Ingestion::ExamineLevels() {
  for (const auto& part : parts_) {
    if (part->options.ingest_behind) continue;
    Version* version;
    {
      MutexLock lock(core_.mutex());
      version = part->family->version();
      version->RefLocked();
    }
    Status status = part->levels->Examine(*version);
    MutexLock lock(core_.mutex());
    core_.versions->UnrefVersionLocked(version);
    core_.jobs.PurgeLaterLocked();
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status Ingestion::Commit() {
  const LocalSpan span("ingest");
  // Whether a snapshot matters.
  const bool looks =
      std::any_of(parts_.begin(), parts_.end(), [](const auto& part) {
        return !part->options.allow_global_seqno &&
               part->options.snapshot_consistency &&
               !part->options.ingest_behind;
      });
  const WriteQueue::Exclusive leader(&core_.write_queue);
  Status status;
  const std::vector<ColumnFamily*> overlapped = OverlappedFamilies(&status);
  if (!status.ok()) return status;
  const bool has_snapshots =
      looks && !core_.default_family.snapshots()->Scan().empty();
  MutexLock lock(core_.mutex());
  status = CommitLocked(overlapped, has_snapshots);
  core_.jobs.StartDueLocked();
  core_.jobs.PurgeLaterLocked();
  core_.scheduler.SignalLocked();
  core_.events.DeliverLocked();
  return status;
}

Status Ingestion::CommitLocked(const std::vector<ColumnFamily*>& overlapped,
                               bool has_snapshots) {
  if (core_.control.IsClosedLocked()) return ClosedError();
  if (!core_.control.error().ok()) return core_.control.error();
  for (const auto& part : parts_) {
    if (part->family->is_dropped()) {
      return FamilyDroppedError(part->family->name());
    }
  }
  Status status = flusher_.FlushAsLeaderLocked(overlapped);
  if (status.ok()) status = core_.control.error();
  // After a power failure, the files must not be there without earlier writes.
  if (status.ok()) status = flusher_.FlushLogLocked(true);
  if (status.ok()) status = PlaceLocked(has_snapshots);
  if (!status.ok()) return status;
  std::vector<VersionSet::FamilyEdit> edits;
  for (const auto& part : parts_) {
    std::vector<TakenKeys>& taken = part->family->compactions().taken;
    for (const auto& [level, file] : part->edit.new_files()) {
      taken.push_back({level,
                       {file.smallest_user_key(), file.largest_user_key(),
                        file.EndIsExclusive()}});
    }
    edits.push_back({part->family->versions(), &part->edit});
  }
  status = core_.versions->LogAndApply(edits);
  for (const auto& part : parts_) part->family->compactions().taken.clear();
  // The edit was refused, and nothing was written.
  if (status.IsShutdownInProgress() || status.IsCorruption() ||
      status.IsNotSupported()) {
    return status;
  }
  // From now on the files are the database's: after a failure, too, the edit
  // may be in the MANIFEST.
  files_.Keep();
  if (status.ok()) {
    InstallLocked();
  } else {
    core_.control.SetErrorLocked(status, "adding tables from outside");
  }
  return status;
}

Status Ingestion::PlaceLocked(bool has_snapshots) {
  last_sequence_ = core_.versions->LastSequence() + 1;
  for (const auto& part : parts_) {
    const SequenceNumber first = core_.versions->LastSequence() + 1;
    part->on_level0 = 0;
    for (size_t i = 0; i < part->tables.size(); ++i) {
      Status status = PlaceTableLocked(part.get(), i, has_snapshots);
      if (!status.ok()) return status;
    }
    // Later files win over earlier ones that they overlap.
    const size_t numbers = part->OverlapsItself()
                               ? part->tables.size()
                               : std::max(part->on_level0, size_t{1});
    last_sequence_ = std::max(last_sequence_, first + numbers - 1);
  }
  for (const auto& part : parts_) {
    part->edit.SetLastSequence(last_sequence_);
    // The files have nothing of the logs.
    part->edit.SetTablesEnd(part->family->versions()->tables_end());
  }
  return Status::OK();
}

Status Ingestion::PlaceTableLocked(Part* part, size_t i, bool has_snapshots) {
  const IngestExternalFileOptions& options = part->options;
  const LevelChoice& levels = *part->levels;
  FileMetaData file = part->tables[i].file;
  LevelChoice::Result place;
  SequenceNumber sequence = 0;
  if (options.ingest_behind) {
    Status status =
        levels.FitsBelow(core_.picker.ContextLocked(*part->family), i);
    if (!status.ok()) return status;
    place.level = levels.LastLevel();
  } else {
    if (part->overlaps[i]) {
      place.overlaps = true;
    } else {
      place = levels.Choose(core_.picker.ContextLocked(*part->family),
                            part->family->compactions().policy->NextLevel(
                                *part->family->version(), 0),
                            i);
    }
    const bool must_have_number =
        place.overlaps || (options.snapshot_consistency && has_snapshots);
    if (options.allow_global_seqno) {
      sequence = core_.versions->LastSequence() + 1;
      if (part->OverlapsItself()) {
        sequence += i;
      } else if (place.level == 0) {
        // RocksDB refuses two tables there with the same one.
        sequence += part->on_level0++;
      }
    } else if (must_have_number) {
      return Status::InvalidArgument(
          part->tables[i].path,
          "needs a sequence number, and allow_global_seqno is false");
    }
  }
  if (options.fail_if_not_bottommost_level &&
      place.level != levels.LastLevel()) {
    return Status::InvalidArgument(
        part->tables[i].path, "cannot go to the last level, but to level " +
                                  std::to_string(place.level));
  }
  Renumber(sequence, &file);
  // A date, for the table.
  const uint64_t now_s = core_.env->NowMicros() / 1000000;
  file.times = {now_s, now_s};
  part->edit.AddFile(place.level, std::move(file));
  return Status::OK();
}

// Tells LOG and the listeners of a table.
void Ingestion::NoteLocked(const Part& part, size_t i) {
  const auto& [level, file] = part.edit.new_files()[i];
  const ExternalFileIngestionInfo info{
      part.family->name(), part.tables[i].path,
      TableFileName(core_.directory.path(), file.number), file.largest_sequence,
      level};
  Log(LogLevel::kInfo, &core_.log,
      "[%s] ingested %s as table %llu, level %d, %llu bytes, number %llu",
      info.cf_name.c_str(), info.external_file_path.c_str(),
      static_cast<unsigned long long>(file.number), level,
      static_cast<unsigned long long>(file.file_size),
      static_cast<unsigned long long>(file.largest_sequence));
  core_.events.Add([info](EventListener* listener) {
    listener->OnExternalFileIngested(info);
  });
}

void Ingestion::InstallLocked() {
  for (const auto& part : parts_) {
    // The files may have keys in them.
    part->family->dead_walks()->leader_ranges()->Clear();
    core_.control.InstallSuperVersionLocked(part->family);
    for (size_t i = 0; i < part->tables.size(); ++i) {
      NoteLocked(*part, i);
    }
  }
  OutsideChange change;
  change.first = core_.versions->LastSequence() + 1;
  change.last = last_sequence_;
  for (const auto& part : parts_) {
    for (size_t i = 0; i < part->tables.size(); ++i) {
      const FileMetaData& file = part->edit.new_files()[i].second;
      change.files.push_back({part->family->id(),
                              TableFileName("", file.number),
                              part->tables[i].path});
    }
  }
  flusher_.LogOutsideLocked(change);
  core_.versions->SetLastSequence(last_sequence_);
  core_.publications.Wake();
}

}  // namespace varve
