// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ingestion/import.h"

#include <algorithm>
#include <utility>

#include "db/version/version_builder.h"

namespace varve {

namespace {

// Leaves numbers for updates.
constexpr SequenceNumber kMostImportedSequence = kMaxSequenceNumber / 2;

// Clips the file's keys to those that its MANIFEST gave for it: range deletions
// in the file may reach further, where they do not count.
void Clip(const InternalKeyComparator& comparator,
          const LiveFileMetaData& wanted, FileMetaData* file) {
  if (wanted.smallestkey.empty() && wanted.largestkey.empty()) return;
  if (comparator.CompareUser(file->smallest_user_key(), wanted.smallestkey) <
      0) {
    file->smallest = MakeInternalKey(
        wanted.smallestkey,
        PackTrailer(wanted.largest_seqno, ValueType::kRangeDeletion));
  }
  if (comparator.CompareUser(file->largest_user_key(), wanted.largestkey) > 0) {
    file->largest = MakeInternalKey(wanted.largestkey, kRangeEndTrailer);
  }
}

}  // namespace

Status Import::Examine(const InternalKeyComparator& comparator, int num_levels,
                       bool moves, const LiveFileMetaData& wanted) {
  ExternalTable table;
  table.path = wanted.db_path + "/" + wanted.name;
  if (moves && MayBeOwnTable(core_.directory, table.path)) {
    return Status::InvalidArgument(table.path, "is a table of the database");
  }
  if (wanted.level < 0 || wanted.level >= num_levels) {
    return Status::InvalidArgument(
        table.path, "is of level " + std::to_string(wanted.level));
  }
  if (wanted.largest_seqno > kMostImportedSequence ||
      wanted.smallest_seqno > wanted.largest_seqno) {
    return Status::InvalidArgument(table.path, "has no such sequence numbers");
  }
  ExternalTableFacts facts;
  facts.comparator = &comparator;
  facts.info_log = &core_.log;
  facts.largest_sequence = wanted.largest_seqno;
  PropertiesBlock properties;
  Status status = ExamineTable(core_.env, facts, &table, &properties);
  if (!status.ok()) return status;
  if (wanted.size != 0 && wanted.size != table.file.file_size) {
    return Status::InvalidArgument(
        table.path, "does not have the " + std::to_string(wanted.size) +
                        " bytes that the metadata says");
  }
  FileMetaData* const file = &table.file;
  Clip(comparator, wanted, file);
  file->smallest_sequence = wanted.smallest_seqno;
  file->largest_sequence = wanted.largest_seqno;
  file->times = {properties.creation_time_s, properties.file_creation_time_s};
  tables_.push_back(std::move(table));
  levels_.push_back(wanted.level);
  return status;
}

Status Import::CheckLevels(const InternalKeyComparator& comparator) const {
  VersionBuilder builder(&comparator, nullptr);
  Status status = builder.Apply(edit_);
  LevelFiles levels;
  if (status.ok()) status = builder.Finish(&levels);
  for (const auto& files : levels) {
    for (const FileMetaData* const file : files) delete file;
  }
  if (status.ok()) return status;
  return Status::InvalidArgument("the metadata of the imported tables",
                                 status.message());
}

Status Import::Prepare(const ColumnFamilyOptions& options,
                       const ImportColumnFamilyOptions& how,
                       const ExportImportFilesMetaData& metadata) {
  if (metadata.files.empty()) {
    return Status::InvalidArgument("no files are named");
  }
  if (options.comparator == nullptr) {
    return Status::InvalidArgument("comparator is null");
  }
  if (metadata.db_comparator_name != options.comparator->Name()) {
    return Status::InvalidArgument(
        "the imported tables are ordered by " + metadata.db_comparator_name,
        std::string("not by ") + options.comparator->Name());
  }
  const InternalKeyComparator comparator(options.comparator);
  Status status;
  SequenceNumber last = 0;
  for (const LiveFileMetaData& wanted : metadata.files) {
    status = Examine(comparator, options.num_levels, how.move_files, wanted);
    if (!status.ok()) return status;
    last = std::max<SequenceNumber>(last, wanted.largest_seqno);
  }
  std::vector<TakenFiles::Request> requests;
  for (ExternalTable& table : tables_) {
    requests.push_back(
        {.table = &table, .link = how.move_files, .moves = how.move_files});
  }
  const auto fill = [this] {
    for (size_t i = 0; i < tables_.size(); ++i) {
      edit_.AddFile(levels_[i], tables_[i].file);
    }
  };
  // First with other numbers, so that nothing happens if they do not fit.
  for (size_t i = 0; i < tables_.size(); ++i) tables_[i].file.number = i + 1;
  fill();
  status = CheckLevels(comparator);
  if (status.ok()) status = files_.Take(requests);
  edit_ = VersionEdit();
  fill();
  edit_.SetLastSequence(last);
  edit_.SetTablesEnd(0);  // Nothing of the logs.
  return status;
}

}  // namespace varve
