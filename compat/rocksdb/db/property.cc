// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Properties. The engine knows most of RocksDB's names; those whose text
// programs take apart get RocksDB's headings.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

constexpr std::string_view kPrefix = "rocksdb.";

// The database and the family of a call.
struct Target {
  DB* db;
  ColumnFamilyHandle* family;  // Null: the default one.
  const std::string& family_name;

  std::string Text(const char* property) const {
    std::string text;
    db->GetProperty(family, property, &text);
    return text;
  }
};

// Varve keeps all values in tables.
bool CountsBlobFiles(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {
      "num-blob-files", "total-blob-file-size", "live-blob-file-size",
      "live-blob-file-garbage-size"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string FamilyStatistics(const Target& target) {
  return "\n** Compaction Stats [" + target.family_name + "] **\n" +
         target.Text("varve.cfstats");
}

// Returns a number of the text of the database's statistics.
uint64_t CountOf(const std::string& name, const std::string& statistics) {
  const std::string before = name + " COUNT : ";
  const size_t place = statistics.find(before);
  if (place == std::string::npos) return 0;
  return strtoull(statistics.c_str() + place + before.size(), nullptr, 10);
}

std::string DbStatistics(const Target& target) {
  std::string text = "\n** DB Stats **\n";
  const std::string statistics = target.Text("varve.statistics");
  if (!statistics.empty()) {
    text += "Cumulative writes: " +
            std::to_string(CountOf("varve.write.self", statistics) +
                           CountOf("varve.write.other", statistics)) +
            " writes, " +
            std::to_string(CountOf("varve.number.keys.written", statistics)) +
            " keys\n";
  }
  return text + target.Text("varve.dbstats");
}

// Returns false if there is no such property.
bool GetText(const Target& target, const Slice& property, std::string* value) {
  std::string_view name = property.ToStringView();
  if (name.starts_with(kPrefix)) {
    name.remove_prefix(kPrefix.size());
    if (name == "stats") {
      *value = FamilyStatistics(target) + DbStatistics(target);
      return true;
    }
    if (name == "cfstats" || name == "cfstats-no-file-histogram") {
      *value = FamilyStatistics(target);
      return true;
    }
    if (name == "dbstats") {
      *value = DbStatistics(target);
      return true;
    }
    if (CountsBlobFiles(name)) {
      *value = "0";
      return true;
    }
  }
  return target.db->GetProperty(target.family, property, value);
}

bool GetNumber(const Target& target, const Slice& property, uint64_t* value) {
  std::string_view name = property.ToStringView();
  if (name.starts_with(kPrefix)) {
    name.remove_prefix(kPrefix.size());
    if (CountsBlobFiles(name)) {
      *value = 0;
      return true;
    }
  }
  return target.db->GetIntProperty(target.family, property, value);
}

Target DefaultFamily(const rocksdb_t& db) {
  static const std::string name = kDefaultColumnFamilyName;
  return {db.db, nullptr, name};
}

Target FamilyTarget(const rocksdb_t& db,
                    const rocksdb_column_family_handle_t& family) {
  return {db.db, family.rep.get(), family.name};
}

char* TextOrNull(const Target& target, const char* property) {
  std::string value;
  return GetText(target, property, &value) ? CopyBytes(value) : nullptr;
}

int NumberOrError(const Target& target, const char* property, uint64_t* value) {
  return GetNumber(target, property, value) ? 0 : -1;
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::DefaultFamily;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::FamilyTarget;
using varve::rocksdb_c::Open;

extern "C" {

char* rocksdb_property_value(rocksdb_t* db, const char* propname) {
  if (!Open{db}.ok() || propname == nullptr) return nullptr;
  return varve::rocksdb_c::TextOrNull(DefaultFamily(*db), propname);
}

char* rocksdb_property_value_cf(rocksdb_t* db,
                                rocksdb_column_family_handle_t* column_family,
                                const char* propname) {
  if (!Open{db}.ok() || !FamilyOf{column_family, db}.ok() ||
      propname == nullptr) {
    return nullptr;
  }
  return varve::rocksdb_c::TextOrNull(FamilyTarget(*db, *column_family),
                                      propname);
}

int rocksdb_property_int(rocksdb_t* db, const char* propname,
                         uint64_t* out_val) {
  if (!Open{db}.ok() || propname == nullptr || out_val == nullptr) return -1;
  return varve::rocksdb_c::NumberOrError(DefaultFamily(*db), propname, out_val);
}

int rocksdb_property_int_cf(rocksdb_t* db,
                            rocksdb_column_family_handle_t* column_family,
                            const char* propname, uint64_t* out_val) {
  if (!Open{db}.ok() || !FamilyOf{column_family, db}.ok() ||
      propname == nullptr || out_val == nullptr) {
    return -1;
  }
  return varve::rocksdb_c::NumberOrError(FamilyTarget(*db, *column_family),
                                         propname, out_val);
}

}  // extern "C"
