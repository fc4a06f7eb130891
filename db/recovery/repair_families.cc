// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/recovery/repair_families.h"

#include <algorithm>
#include <utility>

#include "db/options/options_check.h"
#include "db/version/manifest_reader.h"
#include "table/block/comparator_mismatch.h"
#include "util/base/append_format.h"

namespace varve {

namespace {

// The memory of a log's memtables is looked at after this many bytes of records
// or new memtables.
constexpr size_t kBytesPerCheck = size_t{64} << 10;
constexpr size_t kFamiliesPerCheck = 64;

}  // namespace

Status RepairOptions::Check() {
  bool has_default = false;
  std::set<std::string> names;
  for (const ColumnFamilyDescriptor& family : families) {
    has_default = has_default || family.name == kDefaultColumnFamilyName;
    if (!names.insert(family.name).second) {
      return Status::InvalidArgument("column family " + family.name,
                                     "is given twice");
    }
  }
  if (!has_default) {
    return Status::InvalidArgument(
        "column families", "the default column family must be among them");
  }
  const auto check = [this](ColumnFamilyOptions* family) {
    Options all(db, *family);
    Status status = CheckOptions(all);
    if (status.ok()) RaiseNumbers(&all);
    *family = all;
    return status;
  };
  for (ColumnFamilyDescriptor& family : families) {
    Status status = check(&family.options);
    if (status.ok()) continue;
    return family.name == kDefaultColumnFamilyName
               ? status
               : status.Annotate("column family " + family.name);
  }
  return unknown_families ? check(&*unknown_families) : Status::OK();
}

Options RepairOptions::Default() const {
  for (const ColumnFamilyDescriptor& family : families) {
    if (family.name == kDefaultColumnFamilyName) {
      return Options(db, family.options);
    }
  }
  return Options(db, ColumnFamilyOptions());
}

RepairFamilies::RepairFamilies(const RepairOptions& options,
                               const RepairContext& context,
                               const BestEffortManifest& manifest)
    : options_(options),
      context_(context),
      manifest_(manifest),
      logger_(options.db.info_log.get()) {
  for (const auto& [id, known] : manifest.families) {
    families_[id] = {known.name, known.comparator, nullptr};
  }
}

RepairFamilies::Family* RepairFamilies::Find(uint32_t id) {
  const auto place = families_.find(id);
  return place == families_.end() ? nullptr : &place->second;
}

uint32_t RepairFamilies::max_id() const {
  return std::max(manifest_.max_column_family, families_.rbegin()->first);
}

// ---- Names and options ------------------------------------------------------

void RepairFamilies::NoteTable(uint64_t number,
                               const PropertiesBlock& properties) {
  uint64_t id = properties.column_family_id;
  if (id == kUnknownColumnFamilyId) id = 0;
  const auto known = manifest_.tables.find(number);
  if (known != manifest_.tables.end()) {
    // An ingested table may say another family.
    if (known->second.family != id) return;
  } else if (id > kMaxColumnFamilyId) {
    return;
  }
  const auto its_id = static_cast<uint32_t>(id);
  tables_[number] = its_id;
  if (manifest_.IsDropped(its_id)) return;
  Family& family = families_[its_id];
  if (family.name.empty()) family.name = properties.column_family_name;
  // The default family's comparator is checked with the table.
  if (family.comparator.empty() && its_id != 0) {
    family.comparator = properties.comparator;
  }
}

Status RepairFamilies::Resolve() {
  if (families_.size() > kMaxFamilies) {
    return Status::NotSupported("too many column families");
  }
  names_.insert(kDefaultColumnFamilyName);
  // If a name comes twice, the older family was dropped before the newer one
  // was created, and no MANIFEST tells so.
  for (auto place = families_.rbegin(); place != families_.rend(); ++place) {
    auto& [id, family] = *place;
    if (id != 0 && !names_.insert(family.name).second) family.name.clear();
  }
  for (auto& [id, family] : families_) {
    if (family.name.empty()) {
      MakeUpName(id, "family-" + std::to_string(id), &family);
    }
    Status status = ResolveOne(id, &family);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

void RepairFamilies::MakeUpName(uint32_t id, const std::string& name,
                                Family* family) {
  family->name = name;
  for (int i = 2; !names_.insert(family->name).second; ++i) {
    family->name = name + "-" + std::to_string(i);
  }
  Log(LogLevel::kWarn, logger_,
      "the name of column family %u is lost: it is named %s", id,
      family->name.c_str());
}

Status RepairFamilies::ResolveOne(uint32_t id, Family* family) {
  const ColumnFamilyOptions* chosen = nullptr;
  for (const ColumnFamilyDescriptor& given : options_.families) {
    if (given.name == family->name) chosen = &given.options;
  }
  const bool is_given = chosen != nullptr;
  if (!is_given && options_.unknown_families) {
    chosen = &*options_.unknown_families;
  }
  if (chosen == nullptr) {
    Log(LogLevel::kWarn, logger_,
        "column family %s, id %u, is left out: it was not given",
        family->name.c_str(), id);
    return Status::OK();
  }
  Options options(options_.db, *chosen);
  const char* const mine = options.comparator->Name();
  if (!family->comparator.empty() && family->comparator != mine) {
    const Comparator* const built_in =
        is_given ? nullptr : BuiltInComparator(family->comparator);
    if (built_in == nullptr) {
      const Status status = ComparatorMismatch(family->comparator, mine);
      return id == 0 ? status
                     : status.Annotate("column family " + family->name);
    }
    options.comparator = built_in;
  }
  family->data =
      std::make_unique<RepairFamily>(id, family->name, options, context_);
  return Status::OK();
}

Status RepairFamilies::Add(uint32_t id, const std::string& name,
                           Family** family) {
  if (families_.size() >= kMaxFamilies || id > kMaxColumnFamilyId) {
    return Status::NotSupported("too many column families");
  }
  *family = &families_[id];
  MakeUpName(id, name, *family);
  return ResolveOne(id, *family);
}

// ---- Tables -----------------------------------------------------------------

std::optional<RepairFamily*> RepairFamilies::FamilyOfTable(uint64_t number) {
  const auto known = manifest_.tables.find(number);
  const auto noted = tables_.find(number);
  uint32_t id = 0;
  if (known != manifest_.tables.end()) {
    id = known->second.family;
  } else if (noted != tables_.end()) {
    id = noted->second;
  } else {
    return std::nullopt;
  }
  Family* const family = manifest_.IsDropped(id) ? nullptr : Find(id);
  return family == nullptr ? nullptr : family->data.get();
}

bool RepairFamilies::IsOnlyDefault() const { return max_id() == 0; }

Status RepairFamilies::AddForTable(uint64_t number, RepairFamily** family) {
  std::string name = "table-";
  AppendFormat(&name, "%06llu", static_cast<unsigned long long>(number));
  Family* added = nullptr;
  *family = nullptr;
  Status status = Add(max_id() + 1, name, &added);
  if (status.ok()) *family = added->data.get();
  return status;
}

// ---- Logs -------------------------------------------------------------------

void RepairFamilies::BeginLog(uint64_t number) { log_number_ = number; }

MemTable* RepairFamilies::Choose(uint32_t id) {
  if (!choose_status_.ok() || id > kMaxColumnFamilyId ||
      manifest_.IsObsoleteLog(log_number_, id) || manifest_.IsDropped(id)) {
    return nullptr;
  }
  Family* family = Find(id);
  if (family == nullptr) {
    choose_status_ = Add(id, "family-" + std::to_string(id), &family);
    if (!choose_status_.ok()) return nullptr;
  }
  if (family->data == nullptr) return nullptr;
  if (!family->data->has_log_memtable()) {
    in_log_.push_back(family->data.get());
    ++unchecked_families_;
  }
  return family->data->log_memtable();
}

Status RepairFamilies::Prepare(const Slice& name, const Slice& records,
                               uint32_t count) {
  PreparedSection section{name.ToString(), {}};
  Status status = ReadSection(
      records, count,
      [this](const BatchRecord& record) {
        Choose(record.family);  // The family exists, then.
        return record.unsupported != nullptr &&
                       !manifest_.IsDropped(record.family)
                   ? Status::NotSupported(record.unsupported)
                   : Status::OK();
      },
      &section.updates);
  if (status.ok()) prepared_.Add(std::move(section), log_number_);
  return status;
}

WriteBatch* RepairFamilies::Commit(const Slice& name) {
  committed_ = prepared_.Find(name);
  prepared_.End(name, 0);
  return committed_ == nullptr ? nullptr : &committed_->section.updates;
}

Status RepairFamilies::AddRecord(const Slice& record, SequenceNumber* next) {
  const Status inserted = InsertLogRecord(record, this, this, next);
  Status status = std::exchange(choose_status_, Status::OK());
  if (!status.ok()) return status;
  unchecked_bytes_ += record.size();
  if (unchecked_bytes_ >= kBytesPerCheck ||
      unchecked_families_ >= kFamiliesPerCheck) {
    unchecked_bytes_ = 0;
    unchecked_families_ = 0;
    size_t bytes = 0;
    for (const RepairFamily* family : in_log_) bytes += family->log_bytes();
    if (bytes > RepairInputs::kMemTableBytes) status = TakeLogs();
  }
  return status.ok() ? inserted : status;
}

Status RepairFamilies::EndLog() { return TakeLogs(); }

Status RepairFamilies::TakeLogs() {
  for (RepairFamily* family : in_log_) family->TakeLog();
  in_log_.clear();
  return BoundMemTables();
}

// ---- The result -------------------------------------------------------------

void RepairFamilies::ForEach(
    const std::function<void(uint32_t, RepairFamily*)>& visit) {
  for (const auto& [id, family] : families_) {
    if (family.data != nullptr) visit(id, family.data.get());
  }
}

Status RepairFamilies::BoundMemTables() {
  size_t bytes = 0;
  ForEach([&bytes](uint32_t, const RepairFamily* family) {
    bytes += family->memtable_bytes();
  });
  Status status;
  if (bytes <= RepairInputs::kMaxMemTableBytes) return status;
  ForEach([&status](uint32_t, RepairFamily* family) {
    if (status.ok()) status = family->WriteMemTables();
  });
  return status;
}

Status RepairFamilies::Merge(SequenceNumber* last_sequence) {
  Status status;
  ForEach([&](uint32_t, RepairFamily* family) {
    if (status.ok()) status = family->Merge(last_sequence);
    family->RemoveInputs();
  });
  return status;
}

void RepairFamilies::RemoveInputs() {
  ForEach([](uint32_t, RepairFamily* family) { family->RemoveInputs(); });
}

void RepairFamilies::RemoveOutputs() {
  ForEach([](uint32_t, RepairFamily* family) { family->RemoveOutputs(); });
}

}  // namespace varve
