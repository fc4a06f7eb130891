// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/manifest_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "db/version/version_builder.h"
#include "db/wal/wal_reader.h"
#include "env/file_names.h"
#include "table/block/comparator_mismatch.h"

namespace varve {

namespace {

class ManifestReplay {
 public:
  ManifestReplay(const InternalKeyComparator& comparator, ManifestState* state)
      : comparator_(comparator),
        builder_(&comparator, nullptr),
        state_(state) {}

  Status Add(const Slice& record) {
    VersionEdit edit;
    Status status = edit.DecodeFrom(record);
    if (!status.ok()) return status;
    const auto remaining = edit.atomic_group_remaining();
    if (!remaining) return Apply(std::move(edit));
    // Edits of a group are applied when the group is complete.
    group_.push_back(std::move(edit));
    if (*remaining > 0) return Status::OK();
    for (VersionEdit& member : group_) {
      status = Apply(std::move(member));
      if (!status.ok()) return status;
    }
    group_.clear();
    return Status::OK();
  }

  Status Finish() {
    if (!families_.empty()) {
      return Status::NotSupported("column families (" +
                                  families_.begin()->second + ")");
    }
    if (!log_number_ || !next_file_number_ || !last_sequence_) {
      return Status::Corruption(
          "no log number, next file number or last sequence entry");
    }
    state_->log_number = *log_number_;
    state_->next_file_number = *next_file_number_;
    state_->last_sequence = *last_sequence_;
    return builder_.Finish(state_->levels);
  }

 private:
  Status Apply(VersionEdit edit) {
    state_->logs_end = edit.logs_end();
    if (edit.max_column_family()) {
      state_->max_column_family = *edit.max_column_family();
    }
    if (edit.min_log_number_to_keep().value_or(0) >
        state_->min_log_number_to_keep) {
      state_->min_log_number_to_keep = *edit.min_log_number_to_keep();
    }
    if (!edit.db_id().empty()) state_->db_id = edit.db_id();
    if (edit.next_file_number().value_or(0) > next_file_number_.value_or(0) ||
        !next_file_number_) {
      next_file_number_ = edit.next_file_number();
    }
    if (edit.last_sequence().value_or(0) > last_sequence_.value_or(0) ||
        !last_sequence_) {
      last_sequence_ = edit.last_sequence();
    }
    if (edit.column_family() != 0) return ApplyToOtherFamily(edit);
    if (!edit.key_folding().empty()) state_->key_folding = edit.key_folding();
    if (edit.comparator() &&
        *edit.comparator() != comparator_.user_comparator()->Name()) {
      const std::string feature = FeatureOfComparator(
          *edit.comparator(), comparator_.user_comparator()->Name());
      if (!feature.empty()) return Status::NotSupported(feature);
      return Status::InvalidArgument(
          "comparator: the database was written with " + *edit.comparator() +
          ", Options::comparator is " + comparator_.user_comparator()->Name());
    }
    if (edit.logs_are_files()) state_->logs_are_files = true;
    if (edit.log_number()) log_number_ = edit.log_number();
    if (edit.prev_log_number()) {
      state_->prev_log_number = *edit.prev_log_number();
    }
    return builder_.Apply(std::move(edit));
  }

  Status ApplyToOtherFamily(const VersionEdit& edit) {
    const uint32_t id = edit.column_family();
    if (edit.adds_column_family()) families_[id] = edit.column_family_name();
    if (edit.drops_column_family()) families_.erase(id);
    return Status::OK();
  }

  const InternalKeyComparator& comparator_;
  VersionBuilder builder_;
  ManifestState* const state_;
  std::optional<uint64_t> log_number_;
  std::optional<uint64_t> next_file_number_;
  std::optional<SequenceNumber> last_sequence_;
  std::map<uint32_t, std::string> families_;  // Live ones, by id.
  std::vector<VersionEdit> group_;
};

}  // namespace

ManifestState::~ManifestState() {
  for (const auto& files : levels) {
    for (FileMetaData* file : files) {
      if (file->refs == 0) delete file;
    }
  }
}

Status ReadManifest(Env* env, const std::string& db_path,
                    const InternalKeyComparator& comparator,
                    ManifestState* state) {
  std::string name;
  Status status = ReadCurrentFile(env, db_path, &name);
  if (!status.ok()) return status;
  FileType type;
  if (!ParseFileName(name, &state->manifest_number, &type)) {
    return Status::Corruption(CurrentFileName(db_path), "names no MANIFEST");
  }
  const std::string path = db_path + "/" + name;
  std::unique_ptr<SequentialFile> file;
  status = env->NewSequentialFile(path, FileOptions(), &file);
  if (status.IsNotFound()) {
    return Status::Corruption(CurrentFileName(db_path) +
                              " names a file that is missing: " + name);
  }
  if (!status.ok()) return status;

  wal::Reader reader(std::move(file), path, state->manifest_number);
  ManifestReplay replay(comparator, state);
  Slice record;
  wal::ReadOutcome outcome = reader.ReadRecord(&record);
  for (; outcome == wal::ReadOutcome::kRecord;
       outcome = reader.ReadRecord(&record)) {
    status = replay.Add(record);
    if (!status.ok()) return status.Annotate(path);
  }
  // Recovery checks afterwards whether something needs the lost edit. It can do
  // so if files were removed in Varve's order.
  if (reader.EndIsTorn(outcome, state->logs_are_files)) {
    state->torn_tail = true;
    state->torn_tail_message = reader.status().message().ToString();
  } else if (outcome != wal::ReadOutcome::kEnd) {
    return reader.status();
  }
  status = replay.Finish();
  if (!status.ok()) return status.Annotate(path);

  // Make every number in use smaller than the next one, whatever the edits say.
  // A new log must not seem older than the logs that are kept.
  uint64_t in_use =
      std::max({state->manifest_number, state->log_number,
                state->prev_log_number, state->min_log_number_to_keep});
  for (const auto& files : state->levels) {
    for (const FileMetaData* f : files) {
      if (f->number > in_use) in_use = f->number;
      if (!f->sequences_unknown && f->largest_sequence > state->last_sequence) {
        state->last_sequence = f->largest_sequence;
      }
    }
  }
  if (in_use > kMaxFileNumber || state->next_file_number > kMaxFileNumber) {
    return Status::Corruption(path, "has a file number that none can have");
  }
  if (state->next_file_number <= in_use) {
    state->next_file_number = in_use + 1;
  }
  return Status::OK();
}

}  // namespace varve
