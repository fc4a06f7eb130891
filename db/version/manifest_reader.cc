// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/manifest_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "db/version/logs_end_note.h"
#include "db/version/version_builder.h"
#include "db/wal/wal_reader.h"
#include "env/file_names.h"
#include "table/block/comparator_mismatch.h"

namespace varve {

namespace {

class ManifestReplay {
 public:
  ManifestReplay(FamilyComparator comparator_of, ManifestState* state)
      : comparator_of_(std::move(comparator_of)), state_(state) {
    names_.insert(state->default_family().name);
    Begin(std::move(state->families.front()));
    state->families.clear();
  }
  // A MANIFEST that cannot be read still leaves a default family.
  ~ManifestReplay() {
    if (!state_->families.empty()) return;
    state_->families.push_back(std::make_unique<FamilyManifest>());
  }
  ManifestReplay(const ManifestReplay&) = delete;
  ManifestReplay& operator=(const ManifestReplay&) = delete;

  Status Add(const Slice& record) {
    Decoded decoded;
    Status status = decoded.edit.DecodeFrom(record);
    if (status.IsNotSupported())
      decoded.unsupported = std::exchange(status, {});
    if (!status.ok()) return status;
    const auto remaining = decoded.edit.atomic_group_remaining();
    const bool changes_families =
        decoded.edit.adds_column_family() || decoded.edit.drops_column_family();
    state_->ends_with_families =
        changes_families || (!group_.empty() && state_->ends_with_families);
    // The counts of a group go down to 0, and no other edit comes between.
    if (!group_.empty() && remaining.value_or(0) + 1 !=
                               *group_.back().edit.atomic_group_remaining()) {
      return Status::Corruption("an atomic group of edits is not complete");
    }
    if (!remaining) {
      return group_.empty()
                 ? Apply(std::move(decoded))
                 : Status::Corruption("an edit is inside an atomic group");
    }
    // Edits of a group are applied when the group is complete.
    group_.push_back(std::move(decoded));
    if (*remaining > 0) return Status::OK();
    for (Decoded& member : group_) {
      status = Apply(std::move(member));
      if (!status.ok()) return status;
    }
    group_.clear();
    return Status::OK();
  }

  // Returns whether the last edit belongs to a group that is not complete.
  bool IsInGroup() const { return !group_.empty(); }

  Status Finish() {
    const Family& first = families_.at(0);
    if (!first.log_number || !next_file_number_ || !last_sequence_) {
      return Status::Corruption(
          "no log number, next file number or last sequence entry");
    }
    // Varve's begins with the state before its first edit, and only then does
    // CURRENT name it. The families may come after the first record.
    if (state_->logs_are_files && numbered_edits_ < 2) {
      return Status::Corruption("it has lost its end: no edit is there");
    }
    state_->next_file_number = *next_file_number_;
    state_->last_sequence = *last_sequence_;
    for (auto& [id, family] : families_) {
      family.state->log_number = family.log_number.value_or(0);
      Status status;
      if (family.state->comparator != nullptr) {
        status = std::move(family.unsupported);
        if (status.ok()) status = std::move(family.mismatch);
        if (status.ok()) status = family.builder->Finish(&family.state->levels);
      }
      if (!status.ok()) return AnnotateWith(*family.state, std::move(status));
      state_->max_column_family = std::max(state_->max_column_family, id);
      state_->families.push_back(std::move(family.state));
    }
    const uint64_t first_log = state_->FirstLogNumber();
    for (const auto& [log_number, end] : ends_) {
      if (log_number > first_log) continue;
      state_->logs_begin = std::max(state_->logs_begin, end);
    }
    return CheckNumbers();
  }

 private:
  struct Family {
    std::unique_ptr<FamilyManifest> state;
    std::unique_ptr<VersionBuilder> builder;  // Null if it is not opened.
    std::optional<uint64_t> log_number;
    // Why the family cannot be opened, if it is live at the end of the
    // MANIFEST: what its first unsupported edit has, and that its comparator is
    // another one. A family that is dropped later has had options of its own,
    // which no caller can give beside the options of the next family of that
    // name.
    Status unsupported;
    Status mismatch;
  };
  // An edit, and NotSupported if its family has something that Varve has not.
  struct Decoded {
    VersionEdit edit;
    Status unsupported;
  };

  // A table of two families would be removed with the first one.
  Status CheckNumbers() const {
    if (state_->families.size() < 2) return Status::OK();
    std::vector<uint64_t> numbers;
    state_->ForEachFile([&numbers](const FileMetaData* file) {
      numbers.push_back(file->number);
    });
    std::sort(numbers.begin(), numbers.end());
    const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
    if (twice == numbers.end()) return Status::OK();
    return Status::Corruption("table " + std::to_string(*twice) +
                              " is in two column families");
  }

  static Status AnnotateWith(const FamilyManifest& family, Status status) {
    return family.id == 0 ? std::move(status)
                          : status.Annotate("column family " + family.name);
  }

  void Begin(std::unique_ptr<FamilyManifest> state) {
    Family family;
    state->comparator = comparator_of_(state->name);
    if (state->comparator != nullptr) {
      family.builder =
          std::make_unique<VersionBuilder>(state->comparator, nullptr);
    }
    const uint32_t id = state->id;
    family.state = std::move(state);
    families_.insert_or_assign(id, std::move(family));
  }

  Status Apply(Decoded decoded) {
    const VersionEdit& edit = decoded.edit;
    state_->logs_end = edit.logs_end();
    if (edit.next_file_number()) ++numbered_edits_;
    if (edit.max_column_family().value_or(0) > state_->max_column_family) {
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
    if (edit.prev_log_number()) {
      state_->prev_log_number = *edit.prev_log_number();
    }
    if (edit.logs_are_files()) state_->logs_are_files = true;
    if (!edit.key_folding().empty()) state_->key_folding = edit.key_folding();
    return ApplyToFamily(std::move(decoded.edit),
                         std::move(decoded.unsupported));
  }

  Status ApplyToFamily(VersionEdit edit, Status unsupported) {
    const uint32_t id = edit.column_family();
    const bool adds = edit.adds_column_family();
    Status status =
        CheckFamilyOf(edit, {families_.contains(id),
                             adds && names_.contains(edit.column_family_name()),
                             families_.size()});
    if (!status.ok()) return status;
    if (adds) Add(id, edit.column_family_name());
    const auto place = families_.find(id);
    if (edit.drops_column_family()) {
      names_.erase(place->second.state->name);
      families_.erase(place);
      return Status::OK();
    }
    Family& family = place->second;
    if (edit.comparator()) {
      family.state->comparator_name = *edit.comparator();
      family.mismatch = CheckComparator(*family.state);
    }
    if (edit.log_number()) family.log_number = edit.log_number();
    if (edit.log_number() && edit.tables_end()) {
      ends_.emplace_back(*edit.log_number(), *edit.tables_end());
    }
    if (edit.tables_end()) {
      family.state->tables_end =
          std::max(family.state->tables_end.value_or(0), *edit.tables_end());
    }
    if (family.unsupported.ok()) family.unsupported = std::move(unsupported);
    // The tables of such a family are not known.
    if (family.builder == nullptr || !family.unsupported.ok()) {
      return Status::OK();
    }
    status = family.builder->Apply(std::move(edit));
    return status.ok() ? status
                       : AnnotateWith(*family.state, std::move(status));
  }

  void Add(uint32_t id, const std::string& name) {
    names_.insert(name);
    auto state = std::make_unique<FamilyManifest>();
    state->id = id;
    state->name = name;
    state_->max_column_family = std::max(state_->max_column_family, id);
    Begin(std::move(state));
  }

  static Status CheckComparator(const FamilyManifest& family) {
    if (family.comparator == nullptr) return Status::OK();
    const char* const mine = family.comparator->user_comparator()->Name();
    if (family.comparator_name == mine) return Status::OK();
    return ComparatorMismatch(family.comparator_name, mine);
  }

  const FamilyComparator comparator_of_;
  ManifestState* const state_;
  std::map<uint32_t, Family> families_;  // The live ones, by id.
  std::set<std::string> names_;          // Theirs.
  std::optional<uint64_t> next_file_number_;
  std::optional<SequenceNumber> last_sequence_;
  std::vector<Decoded> group_;
  // Logs, and numbers of updates that are in tables and in no such log.
  std::vector<std::pair<uint64_t, SequenceNumber>> ends_;
  int numbered_edits_ = 0;  // Those with a next file number.
};

// Takes the sizes of LevelDB's tables from the files: org.iq80.leveldb records
// wrong ones for the outputs of its compactions. A table shows by its end
// whether it is complete. Missing files are reported by their readers.
void CorrectLevelDbSizes(Env* env, const std::string& db_path,
                         const ManifestState& state) {
  state.ForEachFile([&](FileMetaData* file) {
    if (!file->sequences_unknown) return;
    uint64_t size = 0;
    if (env->GetFileSize(LevelDbTableFileName(db_path, file->number), &size)
            .ok() ||
        env->GetFileSize(TableFileName(db_path, file->number), &size).ok()) {
      file->file_size = size;
    }
  });
}

}  // namespace

FamilyManifest::~FamilyManifest() {
  for (const auto& files : levels) {
    for (FileMetaData* file : files) {
      if (file->refs == 0) delete file;
    }
  }
}

ManifestState::ManifestState() {
  families.push_back(std::make_unique<FamilyManifest>());
}

const FamilyManifest* ManifestState::FindFamily(uint32_t id) const {
  const auto place = std::lower_bound(
      families.begin(), families.end(), id,
      [](const auto& family, uint32_t wanted) { return family->id < wanted; });
  return place != families.end() && (*place)->id == id ? place->get() : nullptr;
}

FamilyManifest* ManifestState::FindFamily(const std::string& name) const {
  for (const auto& family : families) {
    if (family->name == name) return family.get();
  }
  return nullptr;
}

uint64_t ManifestState::FirstLogNumber() const {
  // Prepared transactions may need older logs than the families.
  return min_log_number_to_keep != 0 ? min_log_number_to_keep
                                     : FirstLogOfFamilies();
}

uint64_t ManifestState::FirstLogOfFamilies() const {
  uint64_t first = families.front()->log_number;
  for (const auto& family : families) {
    first = std::min(first, family->log_number);
  }
  return std::max(first, min_log_number_to_keep);
}

FamilyComparator ForAllFamilies(const InternalKeyComparator* comparator) {
  return [comparator](const std::string&) { return comparator; };
}

Status ReadManifest(Env* env, const std::string& db_path,
                    const FamilyComparator& comparator_of,
                    ManifestState* state) {
  std::string name;
  Status status = ReadCurrentFile(env, db_path, &name);
  if (!status.ok()) return status;
  FileKind type;
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
  ManifestReplay replay(comparator_of, state);
  Slice record;
  wal::ReadOutcome outcome = reader.ReadRecord(&record);
  for (; outcome == wal::ReadOutcome::kRecord;
       outcome = reader.ReadRecord(&record)) {
    status = replay.Add(record);
    if (!status.ok()) return status.Annotate(path);
    if (!replay.IsInGroup()) state->manifest_end = reader.RecordEnd();
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
  CorrectLevelDbSizes(env, db_path, *state);
  if (!state->logs_end && !state->torn_tail) {
    state->logs_end = ReadLogsEndNote(env, db_path, state->manifest_number,
                                      state->manifest_end);
  }

  // CreateFamiliesLocked gives no larger one to a family.
  status = CheckFamilyId(state->max_column_family);
  if (!status.ok()) return status.Annotate(path);
  // Make every number in use smaller than the next one, whatever the edits say.
  // A new log must not seem older than the logs that are kept.
  uint64_t in_use = std::max({state->manifest_number, state->prev_log_number,
                              state->min_log_number_to_keep});
  for (const auto& family : state->families) {
    in_use = std::max(in_use, family->log_number);
  }
  state->ForEachFile([state, &in_use](const FileMetaData* f) {
    in_use = std::max(in_use, f->number);
    if (!f->sequences_unknown && f->largest_sequence > state->last_sequence) {
      state->last_sequence = f->largest_sequence;
    }
  });
  status = CheckFileNumber(std::max(in_use, state->next_file_number));
  if (!status.ok()) return status.Annotate(path);
  if (state->next_file_number <= in_use) {
    state->next_file_number = in_use + 1;
  }
  return Status::OK();
}

}  // namespace varve
