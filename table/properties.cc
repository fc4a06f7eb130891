// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/properties.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "table/block_builder.h"
#include "table/entry_scanner.h"
#include "util/coding.h"

namespace varve {

namespace {

constexpr std::string_view kIndexKeyIsUserKey = "rocksdb.index.key.is.user.key";
constexpr std::string_view kIndexValueIsDeltaEncoded =
    "rocksdb.index.value.is.delta.encoded";
constexpr std::string_view kIndexType = "rocksdb.block.based.table.index.type";
constexpr std::string_view kWholeKeyFiltering =
    "rocksdb.block.based.table.whole.key.filtering";
constexpr std::string_view kPrefixFiltering =
    "rocksdb.block.based.table.prefix.filtering";
constexpr std::string_view kExternalVersion =
    "rocksdb.external_sst_file.version";
constexpr std::string_view kGlobalSequence =
    "rocksdb.external_sst_file.global_seqno";

struct NumberField {
  std::string_view name;
  uint64_t TableProperties::*member;
};
constexpr NumberField kNumberFields[] = {
    {"rocksdb.column.family.id", &TableProperties::column_family_id},
    {"rocksdb.creation.time", &TableProperties::creation_time_s},
    {"rocksdb.data.size", &TableProperties::data_size},
    {"rocksdb.deleted.keys", &TableProperties::num_deletions},
    {"rocksdb.file.creation.time", &TableProperties::file_creation_time_s},
    {"rocksdb.filter.size", &TableProperties::filter_size},
    {"rocksdb.format.version", &TableProperties::format_version},
    {"rocksdb.index.size", &TableProperties::index_size},
    {"rocksdb.merge.operands", &TableProperties::num_merge_operands},
    {"rocksdb.num.data.blocks", &TableProperties::num_data_blocks},
    {"rocksdb.num.entries", &TableProperties::num_entries},
    {"rocksdb.num.filter_entries", &TableProperties::num_filter_entries},
    {"rocksdb.num.range-deletions", &TableProperties::num_range_deletions},
    {"rocksdb.oldest.key.time", &TableProperties::oldest_key_time_s},
    {"rocksdb.original.file.number", &TableProperties::original_file_number},
    {"rocksdb.raw.key.size", &TableProperties::raw_key_size},
    {"rocksdb.raw.value.size", &TableProperties::raw_value_size},
};

struct TextField {
  std::string_view name;
  std::string TableProperties::*member;
};
constexpr TextField kTextFields[] = {
    {"rocksdb.column.family.name", &TableProperties::column_family_name},
    {"rocksdb.comparator", &TableProperties::comparator},
    {"rocksdb.compression", &TableProperties::compression},
    {"rocksdb.creating.db.identity", &TableProperties::db_identity},
    {"rocksdb.creating.session.identity", &TableProperties::session_identity},
    {"rocksdb.filter.policy", &TableProperties::filter_policy},
};

// Where a walk through names that rise has got to in a list of fields, whose
// names rise too.
template <typename Field, size_t kSize>
class FieldCursor {
 public:
  explicit constexpr FieldCursor(const Field (&fields)[kSize])
      : next_(fields), end_(fields + kSize) {}

  // The field of the name, or null. REQUIRES: the names asked for rise.
  const Field* Find(std::string_view name) {
    while (next_ != end_ && next_->name < name) ++next_;
    return next_ != end_ && next_->name == name ? next_ : nullptr;
  }

 private:
  const Field* next_;
  const Field* const end_;
};

std::string VarintText(uint64_t value) {
  std::string result;
  PutVarint64(&result, value);
  return result;
}

std::string Fixed32Text(uint32_t value) {
  std::string result;
  PutFixed32(&result, value);
  return result;
}

std::string Fixed64Text(uint64_t value) {
  std::string result;
  PutFixed64(&result, value);
  return result;
}

bool ParseVarint(Slice value, uint64_t* result) {
  return GetVarint64(&value, result);
}

bool ParseVarintFlag(Slice value, bool* result) {
  uint64_t number;
  if (!GetVarint64(&value, &number)) return false;
  *result = number != 0;
  return true;
}

// Sets fields by names that rise.
class FieldSetter {
 public:
  explicit FieldSetter(TableProperties* result) : result_(result) {}

  // *known tells whether there is a field of that name. False if the value is
  // none of the field's.
  bool Set(std::string_view name, const Slice& value, uint64_t value_offset,
           bool* known);

 private:
  TableProperties* const result_;
  FieldCursor<NumberField, std::size(kNumberFields)> numbers_{kNumberFields};
  FieldCursor<TextField, std::size(kTextFields)> texts_{kTextFields};
};

bool FieldSetter::Set(std::string_view name, const Slice& value,
                      uint64_t value_offset, bool* known) {
  *known = true;
  if (const NumberField* field = numbers_.Find(name)) {
    return ParseVarint(value, &(result_->*field->member));
  }
  if (const TextField* field = texts_.Find(name)) {
    (result_->*field->member).assign(value.data(), value.size());
    return true;
  }
  if (name == kIndexKeyIsUserKey) {
    return ParseVarintFlag(value, &result_->index_key_is_user_key);
  }
  if (name == kIndexValueIsDeltaEncoded) {
    return ParseVarintFlag(value, &result_->index_value_is_delta_encoded);
  }
  if (name == kWholeKeyFiltering || name == kPrefixFiltering) {
    // Filters may answer only what they surely were built for.
    (name == kWholeKeyFiltering ? result_->whole_key_filtering
                                : result_->prefix_filtering) = value == "1";
    return true;
  }
  Slice rest = value;
  if (name == kIndexType) return GetFixed32(&rest, &result_->index_type);
  if (name == kExternalVersion) {
    return GetFixed32(&rest, &result_->external_version);
  }
  if (name == kGlobalSequence) {
    result_->has_global_sequence = true;
    result_->global_sequence_offset = value_offset;
    return GetFixed64(&rest, &result_->global_sequence);
  }
  *known = false;
  return true;
}

}  // namespace

std::string EncodeProperties(const TableProperties& properties) {
  auto all = properties.other;
  const auto add = [&all](std::string_view name, std::string value) {
    all.emplace_back(name, std::move(value));
  };
  add(kIndexKeyIsUserKey, VarintText(properties.index_key_is_user_key));
  add(kIndexValueIsDeltaEncoded,
      VarintText(properties.index_value_is_delta_encoded));
  add(kIndexType, Fixed32Text(properties.index_type));
  add(kWholeKeyFiltering, properties.whole_key_filtering ? "1" : "0");
  add(kPrefixFiltering, properties.prefix_filtering ? "1" : "0");
  if (properties.external_version != 0) {
    add(kExternalVersion, Fixed32Text(properties.external_version));
  }
  if (properties.has_global_sequence) {
    add(kGlobalSequence, Fixed64Text(properties.global_sequence));
  }
  for (const NumberField& field : kNumberFields) {
    add(field.name, VarintText(properties.*field.member));
  }
  for (const TextField& field : kTextFields) {
    const std::string& text = properties.*field.member;
    if (!text.empty()) add(field.name, text);
  }
  std::sort(all.begin(), all.end());

  BlockBuilder block(BlockBuilder::kNoRestarts);
  for (const auto& [name, value] : all) block.Add(name, value);
  return std::move(*block.Finish());
}

Status DecodeProperties(const Slice& block_body, const std::string& file_name,
                        TableProperties* result) {
  *result = TableProperties();
  const auto context = [&] { return file_name + ": properties block"; };
  BlockTail tail;
  Status status = DecodeBlockTail(block_body, &tail);
  if (!status.ok()) return status.Annotate(context());

  FieldSetter fields(result);
  EntryScanner scanner(Slice(block_body.data(), tail.entries_size));
  std::string previous;
  bool first = true;
  while (scanner.Next()) {
    const Slice name = scanner.key();
    if (!first && name.compare(previous) <= 0) {
      return scanner.EntryError("names out of order").Annotate(context());
    }
    first = false;
    previous.assign(name.data(), name.size());

    const Slice value = scanner.value();
    const auto value_offset =
        static_cast<uint64_t>(value.data() - block_body.data());
    bool known;
    if (!fields.Set(name.ToStringView(), value, value_offset, &known)) {
      return scanner.EntryError("bad value of a property").Annotate(context());
    }
    if (!known) {
      result->other.emplace_back(name.ToString(), value.ToString());
    }
  }
  if (scanner.status().ok()) return Status();
  return scanner.status().Annotate(context());
}

}  // namespace varve
