// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/sst_file_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "db/compaction/table_output.h"
#include "db/version/version_edit.h"
#include "table/block/internal_key.h"
#include "table/build/table_builder.h"

namespace varve {

namespace {

// Where RocksDB has the database's identity.
constexpr char kWriterIdentity[] = "SST Writer";

Status NotOpenError() { return Status::InvalidArgument("no file is open"); }

}  // namespace

struct SstFileWriter::Rep {
  Rep(const Options& its_options, ColumnFamilyHandle* family)
      : options(its_options), comparator(options.comparator) {
    // The file is for the last level, if its keys allow.
    table_options = TableFormOf(
        options, options.bottommost_compression.value_or(options.compression));
    table_options.comparator = &comparator;
    table_options.prefix_extractor = options.prefix_extractor;
    table_options.db_identity = kWriterIdentity;
    table_options.session_identity = NewSessionIdentity();
    table_options.column_family_id =
        family != nullptr ? family->GetID() : kUnknownColumnFamilyId;
    table_options.column_family_name =
        family != nullptr ? family->GetName() : "";
  }

  // Adds an entry.
  Status Add(const Slice& key, const Slice& value, ValueType type);
  void Abandon();
  // Appends the range deletions to the table.
  void AddRanges();

  const Options options;
  const InternalKeyComparator comparator;
  TableBuilderOptions table_options;
  // The open file's.
  std::unique_ptr<WritableFile> file;
  std::unique_ptr<TableBuilder> builder;
  ExternalSstFileInfo info;
  std::string internal_key;
  std::vector<std::pair<std::string, std::string>> ranges;
};

Status SstFileWriter::Rep::Add(const Slice& key, const Slice& value,
                               ValueType type) {
  if (builder == nullptr) return NotOpenError();
  if (!builder->status().ok()) return builder->status();
  if (!EntryFits(key.size(), value.size())) {
    return Status::InvalidArgument("entry of more than 3 GiB");
  }
  if (info.num_entries > 0 &&
      comparator.CompareUser(key, ExtractUserKey(internal_key)) <= 0) {
    return Status::InvalidArgument("keys must be added in order, each once: " +
                                   DescribeInternalKey(internal_key) +
                                   " was before this one");
  }
  internal_key.clear();
  AppendInternalKey(&internal_key, key, PackTrailer(0, type));
  if (!builder->Add(internal_key, value)) return builder->status();
  if (info.num_entries++ == 0) info.smallest_key = key.ToString();
  info.file_size = builder->FileSize();
  return Status::OK();
}

void SstFileWriter::Rep::AddRanges() {
  std::sort(ranges.begin(), ranges.end(), [this](const auto& a, const auto& b) {
    const int r = comparator.CompareUser(a.first, b.first);
    return r != 0 ? r < 0 : comparator.CompareUser(a.second, b.second) > 0;
  });
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto& [begin, end] = ranges[i];
    // Of those with one begin, the first reaches furthest.
    if (i == 0 || comparator.CompareUser(ranges[i - 1].first, begin) != 0) {
      builder->AddRangeTombstone(begin, end, 0);
      ++info.num_range_del_entries;
    }
    if (i == 0) info.smallest_range_del_key = begin;
    if (i == 0 || comparator.CompareUser(end, info.largest_range_del_key) > 0) {
      info.largest_range_del_key = end;
    }
  }
}

void SstFileWriter::Rep::Abandon() {
  builder.reset();
  file.reset();
  // The caller has forgotten it.
  options.env->RemoveFile(info.file_path).IgnoreError();
}

SstFileWriter::SstFileWriter(const Options& options, ColumnFamilyHandle* family)
    : rep_(std::make_unique<Rep>(options, family)) {}

SstFileWriter::~SstFileWriter() {
  if (rep_->builder != nullptr) rep_->Abandon();
}

Status SstFileWriter::Open(const std::string& file_path) {
  Rep* const r = rep_.get();
  if (r->builder != nullptr) {
    return Status::InvalidArgument(r->info.file_path, "is unfinished");
  }
  FileOptions file_options;
  file_options.bytes_per_sync = r->options.bytes_per_sync;
  Status status =
      r->options.env->NewWritableFile(file_path, file_options, &r->file);
  if (!status.ok()) return status;
  r->info = ExternalSstFileInfo();
  r->info.file_path = file_path;
  r->info.version = kExternalTableVersion;
  r->ranges.clear();
  ++r->table_options.file_number;
  // A date.
  r->table_options.file_creation_time_s = r->options.env->NowMicros() / 1000000;
  r->table_options.creation_time_s = r->table_options.file_creation_time_s;
  r->builder = std::make_unique<TableBuilder>(r->table_options, r->file.get());
  r->builder->MakeExternal();
  return status;
}

Status SstFileWriter::Put(const Slice& key, const Slice& value) {
  return rep_->Add(key, value, ValueType::kValue);
}

Status SstFileWriter::Merge(const Slice& key, const Slice& operand) {
  return rep_->Add(key, operand, ValueType::kMerge);
}

Status SstFileWriter::Delete(const Slice& key) {
  return rep_->Add(key, Slice(), ValueType::kDeletion);
}

Status SstFileWriter::DeleteRange(const Slice& begin, const Slice& end) {
  Rep* const r = rep_.get();
  if (r->builder == nullptr) return NotOpenError();
  const int order = r->comparator.CompareUser(begin, end);
  if (order > 0) {
    return Status::InvalidArgument("range deletion",
                                   "its end comes before its begin");
  }
  if (order == 0) return Status::OK();
  if (!EntryFits(begin.size(), end.size())) {
    return Status::InvalidArgument("entry of more than 3 GiB");
  }
  r->ranges.emplace_back(begin.ToString(), end.ToString());
  return Status::OK();
}

Status SstFileWriter::Finish(ExternalSstFileInfo* info) {
  Rep* const r = rep_.get();
  if (r->builder == nullptr) return NotOpenError();
  if (r->info.num_entries == 0 && r->ranges.empty()) {
    r->Abandon();
    return Status::InvalidArgument(r->info.file_path, "has no entries");
  }
  r->AddRanges();
  if (r->info.num_entries > 0) {
    r->info.largest_key = ExtractUserKey(r->internal_key).ToString();
  }
  Status status = r->builder->Finish();
  r->info.file_size = r->builder->FileSize();
  if (status.ok()) status = r->file->Sync();
  if (status.ok()) status = r->file->Close();
  if (!status.ok()) {
    r->Abandon();
    return status;
  }
  r->builder.reset();
  r->file.reset();
  if (info != nullptr) *info = r->info;
  return status;
}

uint64_t SstFileWriter::FileSize() const { return rep_->info.file_size; }

}  // namespace varve
