// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions that set options from text, in options and in open databases.

#include <rocksdb/c.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/log.h"
#include "compat/rocksdb/options/option_facts.h"
#include "compat/rocksdb/options/options.h"
#include "compat/rocksdb/options/options_text.h"
#include "compat/rocksdb/options/translate.h"

using varve::ColumnFamilyHandle;
using varve::ColumnFamilyOptions;
using varve::DBOptions;
using varve::Options;
using varve::SliceTransform;
using varve::Status;
using varve::rocksdb_c::CanChange;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Field;
using varve::rocksdb_c::FindOption;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::IsFamilyOption;
using varve::rocksdb_c::LogLines;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::SetOptionFromText;
using varve::rocksdb_c::SplitOptions;
using varve::rocksdb_c::TextPairs;
using varve::rocksdb_c::UnknownOption;
using varve::rocksdb_c::Usable;

namespace {

template <auto kMember>
std::string TextOf(const Options& options) {
  return std::to_string(options.*kMember);
}

std::string TextOfExtractor(const Options& options) {
  const SliceTransform* const extractor = options.prefix_extractor.get();
  return extractor == nullptr ? "nullptr" : extractor->Name();
}

// The options that the engine can change while the database is open. Names and
// values are RocksDB's.
struct Changeable {
  std::string_view name;
  std::string (*text)(const Options&);
};
constexpr Changeable kChangeable[] = {
    {"avoid_flush_during_shutdown",
     TextOf<&DBOptions::avoid_flush_during_shutdown>},
    {"bytes_per_sync", TextOf<&DBOptions::bytes_per_sync>},
    {"max_background_jobs", TextOf<&DBOptions::max_background_jobs>},
    {"max_open_files", TextOf<&DBOptions::max_open_files>},
    {"max_subcompactions", TextOf<&DBOptions::max_subcompactions>},
    {"max_total_wal_size", TextOf<&DBOptions::max_total_wal_size>},
    {"wal_bytes_per_sync", TextOf<&DBOptions::wal_bytes_per_sync>},
    {"disable_auto_compactions",
     TextOf<&ColumnFamilyOptions::disable_auto_compactions>},
    {"hard_pending_compaction_bytes_limit",
     TextOf<&ColumnFamilyOptions::hard_pending_compaction_bytes_limit>},
    {"level0_file_num_compaction_trigger",
     TextOf<&ColumnFamilyOptions::level0_file_num_compaction_trigger>},
    {"level0_slowdown_writes_trigger",
     TextOf<&ColumnFamilyOptions::level0_slowdown_writes_trigger>},
    {"level0_stop_writes_trigger",
     TextOf<&ColumnFamilyOptions::level0_stop_writes_trigger>},
    {"max_bytes_for_level_base",
     TextOf<&ColumnFamilyOptions::max_bytes_for_level_base>},
    {"max_bytes_for_level_multiplier",
     TextOf<&ColumnFamilyOptions::max_bytes_for_level_multiplier>},
    {"max_compaction_bytes",
     TextOf<&ColumnFamilyOptions::max_compaction_bytes>},
    {"max_successive_merges",
     TextOf<&ColumnFamilyOptions::max_successive_merges>},
    {"max_write_buffer_number",
     TextOf<&ColumnFamilyOptions::max_write_buffer_number>},
    {"memtable_prefix_bloom_size_ratio",
     TextOf<&ColumnFamilyOptions::memtable_prefix_bloom_size_ratio>},
    {"periodic_compaction_seconds",
     TextOf<&ColumnFamilyOptions::periodic_compaction_seconds>},
    {"prefix_extractor", TextOfExtractor},
    {"soft_pending_compaction_bytes_limit",
     TextOf<&ColumnFamilyOptions::soft_pending_compaction_bytes_limit>},
    {"target_file_size_base",
     TextOf<&ColumnFamilyOptions::target_file_size_base>},
    {"ttl", TextOf<&ColumnFamilyOptions::ttl>},
    {"write_buffer_size", TextOf<&ColumnFamilyOptions::write_buffer_size>},
};

// Changes of an open database.
struct Changes {
  // The names for the engine.
  std::vector<const Changeable*> for_engine;
  // The lines of LOG about others, which change the speed only.
  std::vector<std::string> accepted;
  // Has all new values.
  rocksdb_options_t values;
};

// Objects that RocksDB can change, and that are not fields.
bool IsChangeableObject(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "block_based_table_factory",
      "table_factory",
      "compression_opts",
      "bottommost_compression_opts",
      "compression_per_level",
      "max_bytes_for_level_multiplier_additional",
      "compaction_options_universal",
      "compaction_options_fifo",
      "prefix_extractor",
      "blob_compression_opts",
  };
  return std::find(std::begin(kNames), std::end(kNames), name) !=
         std::end(kNames);
}

Status AddChange(const std::string& name, const std::string& value,
                 Changes* changes) {
  Status status = SetOptionFromText(name, value, &changes->values);
  if (status.IsNotFound()) return UnknownOption(name);
  if (!status.ok()) return status;
  const Field* const field = FindOption(name);
  if (field != nullptr ? !CanChange(field->name) : !IsChangeableObject(name)) {
    return Status::InvalidArgument("Option not changeable: " + name);
  }
  const auto* const found =
      std::find_if(std::begin(kChangeable), std::end(kChangeable),
                   [&](const Changeable& one) { return one.name == name; });
  if (found != std::end(kChangeable)) {
    changes->for_engine.push_back(found);
  } else {
    changes->accepted.push_back("accepted, no effect: " + name + " = " + value);
  }
  return Status::OK();
}

// Checks the arguments of a call that sets options, and collects the pairs.
bool Collect(int count, const char* const* keys, const char* const* values,
             char** errptr, TextPairs* pairs) {
  if (count <= 0) {
    Failed(errptr, Status::InvalidArgument("empty input"));
    return false;
  }
  if (!Usable(errptr, Given{keys, "keys"}, Given{values, "values"})) {
    return false;
  }
  for (int i = 0; i < count; ++i) {
    if (!Usable(errptr, Given{keys[i], "keys"}, Given{values[i], "values"})) {
      return false;
    }
    pairs->emplace_back(keys[i], values[i]);
  }
  return true;
}

// RocksDB does not refuse values that are out of bounds.
Status TextsOf(const Changes& changes,
               std::map<std::string, std::string>* texts) {
  Options sane;
  Status status = ToVarve(changes.values, &sane);
  for (const Changeable* const one : changes.for_engine) {
    (*texts)[std::string(one->name)] = one->text(sane);
  }
  return status;
}

void SetFamilyOptions(rocksdb_t* db, ColumnFamilyHandle* family,
                      const TextPairs& pairs, char** errptr) {
  Changes changes;
  Status status;
  for (const auto& [name, value] : pairs) {
    const Field* const field = FindOption(name);
    if (field != nullptr && !IsFamilyOption(field->name)) {
      status = UnknownOption(name);
    } else {
      status = AddChange(name, value, &changes);
    }
    if (!status.ok()) break;
  }
  std::map<std::string, std::string> for_engine;
  if (status.ok()) status = TextsOf(changes, &for_engine);
  if (status.ok() && !for_engine.empty()) {
    status = db->db->SetOptions(family, for_engine);
  }
  if (!Failed(errptr, status)) LogLines(changes.accepted, db->log.get());
}

}  // namespace

extern "C" {

void rocksdb_set_options(rocksdb_t* db, int count, const char* const keys[],
                         const char* const values[], char** errptr) {
  TextPairs pairs;
  if (!Usable(errptr, Open{db}) ||
      !Collect(count, keys, values, errptr, &pairs)) {
    return;
  }
  SetFamilyOptions(db, nullptr, pairs, errptr);
}

void rocksdb_set_options_cf(rocksdb_t* db,
                            rocksdb_column_family_handle_t* column_family,
                            int count, const char* const keys[],
                            const char* const values[], char** errptr) {
  TextPairs pairs;
  if (!Usable(errptr, Open{db}, FamilyOf{column_family, db}) ||
      !Collect(count, keys, values, errptr, &pairs)) {
    return;
  }
  SetFamilyOptions(db, column_family->rep.get(), pairs, errptr);
}

// Options that RocksDB can change and the engine cannot decide the speed only.
void rocksdb_set_db_options(rocksdb_t* db, int count, const char* const keys[],
                            const char* const values[], char** errptr) {
  TextPairs pairs;
  if (!Usable(errptr, Open{db}) ||
      !Collect(count, keys, values, errptr, &pairs)) {
    return;
  }
  Changes changes;
  Status status;
  for (const auto& [name, value] : pairs) {
    const Field* const field = FindOption(name);
    if (field == nullptr || IsFamilyOption(field->name) ||
        !CanChange(field->name)) {
      status = Status::NotFound("Unrecognized option: " + name);
    } else {
      status = AddChange(name, value, &changes);
    }
    if (Failed(errptr, status)) return;
  }
  std::map<std::string, std::string> for_engine;
  status = TextsOf(changes, &for_engine);
  if (status.ok() && !for_engine.empty()) {
    status = db->db->SetDBOptions(for_engine);
  }
  if (!Failed(errptr, status)) LogLines(changes.accepted, db->log.get());
}

void rocksdb_get_options_from_string(const rocksdb_options_t* base_options,
                                     const char* text,
                                     rocksdb_options_t* new_options,
                                     char** errptr) {
  if (!Usable(errptr, Given{base_options, "base_options"}, Given{text, "text"},
              Given{new_options, "new_options"})) {
    return;
  }
  TextPairs pairs;
  rocksdb_options_t result = *base_options;
  Status status = SplitOptions(text, &pairs);
  for (const auto& [name, value] : pairs) {
    if (!status.ok()) break;
    status = SetOptionFromText(name, value, &result);
    if (status.IsNotFound()) status = UnknownOption(name);
  }
  if (!Failed(errptr, status)) *new_options = std::move(result);
}

}  // extern "C"
