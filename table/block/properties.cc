// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/properties.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "table/block/block_builder.h"
#include "table/block/entry_scanner.h"
#include "util/bytes/coding.h"

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
constexpr std::string_view kIndexPartitions = "rocksdb.index.partitions";
constexpr std::string_view kTopLevelIndexSize = "rocksdb.top-level.index.size";
constexpr std::string_view kGlobalSequence =
    "rocksdb.external_sst_file.global_seqno";

// Each parses a value into its field. Returns false if the value is invalid.
// `offset` is the value's offset in the block's body.
template <bool PropertiesBlock::*kMember>
bool ParseVarintFlag(Slice value, uint64_t /*offset*/,
                     PropertiesBlock* result) {
  uint64_t number;
  if (!GetVarint64(&value, &number)) return false;
  result->*kMember = number != 0;
  return true;
}

// A number that only some tables have.
template <uint64_t PropertiesBlock::*kMember>
bool ParseVarint(Slice value, uint64_t /*offset*/, PropertiesBlock* result) {
  return GetVarint64(&value, &(result->*kMember));
}

// Any other text is false: a filter may be used only for keys that it was
// certainly built for.
template <bool PropertiesBlock::*kMember>
bool ParseTextFlag(Slice value, uint64_t /*offset*/, PropertiesBlock* result) {
  result->*kMember = value == "1";
  return true;
}

template <uint32_t PropertiesBlock::*kMember>
bool ParseFixed32(Slice value, uint64_t /*offset*/, PropertiesBlock* result) {
  return GetFixed32(&value, &(result->*kMember));
}

bool ParseGlobalSequence(Slice value, uint64_t offset,
                         PropertiesBlock* result) {
  result->has_global_sequence = true;
  result->global_sequence_offset = offset;
  return GetFixed64(&value, &result->global_sequence);
}

// A known property and its type: a varint number, a text, or a value with a
// parser of its own.
struct Field {
  using Parse = bool (*)(Slice value, uint64_t offset, PropertiesBlock* result);

  constexpr Field(std::string_view its_name, uint64_t PropertiesBlock::*member)
      : name(its_name), number(member) {}
  constexpr Field(std::string_view its_name,
                  std::string PropertiesBlock::*member, bool is_for_people)
      : name(its_name), text(member), for_people(is_for_people) {}
  constexpr Field(std::string_view its_name, Parse its_parse)
      : name(its_name), parse(its_parse) {}

  std::string_view name;
  // One of these is not null.
  uint64_t PropertiesBlock::*number = nullptr;
  std::string PropertiesBlock::*text = nullptr;
  Parse parse = nullptr;

  bool for_people = false;  // Reading does not depend on it.
};

// Sorted by name, as in the block.
constexpr Field kFields[] = {
    {kIndexType, &ParseFixed32<&PropertiesBlock::index_type>},
    {kPrefixFiltering, &ParseTextFlag<&PropertiesBlock::prefix_filtering>},
    {kWholeKeyFiltering, &ParseTextFlag<&PropertiesBlock::whole_key_filtering>},
    {"rocksdb.column.family.id", &PropertiesBlock::column_family_id},
    {"rocksdb.column.family.name", &PropertiesBlock::column_family_name, true},
    {"rocksdb.comparator", &PropertiesBlock::comparator, false},
    {"rocksdb.compression", &PropertiesBlock::compression, false},
    {"rocksdb.creating.db.identity", &PropertiesBlock::db_identity, true},
    {"rocksdb.creating.session.identity", &PropertiesBlock::session_identity,
     true},
    {"rocksdb.creation.time", &PropertiesBlock::creation_time_s},
    {"rocksdb.data.size", &PropertiesBlock::data_size},
    {"rocksdb.deleted.keys", &PropertiesBlock::num_deletions},
    {kGlobalSequence, &ParseGlobalSequence},
    {kExternalVersion, &ParseFixed32<&PropertiesBlock::external_version>},
    {"rocksdb.file.creation.time", &PropertiesBlock::file_creation_time_s},
    {"rocksdb.filter.policy", &PropertiesBlock::filter_policy, true},
    {"rocksdb.filter.size", &PropertiesBlock::filter_size},
    {"rocksdb.format.version", &PropertiesBlock::format_version},
    {kIndexKeyIsUserKey,
     &ParseVarintFlag<&PropertiesBlock::index_key_is_user_key>},
    {kIndexPartitions, &ParseVarint<&PropertiesBlock::index_partitions>},
    {"rocksdb.index.size", &PropertiesBlock::index_size},
    {kIndexValueIsDeltaEncoded,
     &ParseVarintFlag<&PropertiesBlock::index_value_is_delta_encoded>},
    {"rocksdb.merge.operands", &PropertiesBlock::num_merge_operands},
    {"rocksdb.num.data.blocks", &PropertiesBlock::num_data_blocks},
    {"rocksdb.num.entries", &PropertiesBlock::num_entries},
    {"rocksdb.num.filter_entries", &PropertiesBlock::num_filter_entries},
    {"rocksdb.num.range-deletions", &PropertiesBlock::num_range_deletions},
    {"rocksdb.oldest.key.time", &PropertiesBlock::oldest_key_time_s},
    {"rocksdb.original.file.number", &PropertiesBlock::original_file_number},
    {"rocksdb.prefix.extractor.name", &PropertiesBlock::prefix_extractor,
     false},
    {"rocksdb.raw.key.size", &PropertiesBlock::raw_key_size},
    {"rocksdb.raw.value.size", &PropertiesBlock::raw_value_size},
    {kTopLevelIndexSize, &ParseVarint<&PropertiesBlock::top_level_index_size>},
    {"varve.hidden.entries", &PropertiesBlock::num_hidden_entries},
    {"varve.longest.dead.run", &PropertiesBlock::longest_dead_run},
};
static_assert(std::is_sorted(std::begin(kFields), std::end(kFields),
                             [](const Field& a, const Field& b) {
                               return a.name < b.name;
                             }));

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

// Approximate number of other properties that RocksDB writes to each table.
constexpr size_t kMinOthers = 8;

bool SetField(const Field& field, Slice value, uint64_t offset,
              OtherProperties others, PropertiesBlock* result) {
  if (field.number != nullptr) {
    return GetVarint64(&value, &(result->*field.number));
  }
  if (field.text != nullptr) {
    if (others == OtherProperties::kKept || !field.for_people) {
      (result->*field.text).assign(value.data(), value.size());
    }
    return true;
  }
  return field.parse(value, offset, result);
}

}  // namespace

DeadEntries DeadEntriesOf(const PropertiesBlock& properties) {
  DeadEntries dead;
  const uint64_t ranges =
      std::min(properties.num_range_deletions, properties.num_entries);
  const auto bounded = [&dead](uint64_t count) {
    return std::min(count, dead.entries);
  };
  dead.entries = properties.num_entries - ranges;
  dead.known = properties.num_entries != 0;
  dead.deletions = bounded(properties.num_deletions -
                           std::min(ranges, properties.num_deletions));
  dead.hidden = bounded(properties.num_hidden_entries);
  dead.longest_run = std::min(properties.longest_dead_run, dead.Dead());
  dead.merge_operands = bounded(properties.num_merge_operands);
  dead.range_deletions = ranges;
  return dead;
}

bool IsPropertyField(std::string_view name) {
  const auto place =
      std::lower_bound(std::begin(kFields), std::end(kFields), name,
                       [](const Field& field, std::string_view wanted) {
                         return field.name < wanted;
                       });
  return place != std::end(kFields) && place->name == name;
}

std::string EncodeProperties(const PropertiesBlock& properties) {
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
  if (properties.index_partitions != 0) {
    add(kIndexPartitions, VarintText(properties.index_partitions));
    add(kTopLevelIndexSize, VarintText(properties.top_level_index_size));
  }
  for (const Field& field : kFields) {
    if (field.number != nullptr) {
      add(field.name, VarintText(properties.*field.number));
    } else if (field.text != nullptr && !(properties.*field.text).empty()) {
      add(field.name, properties.*field.text);
    }
  }
  std::sort(all.begin(), all.end());

  BlockBuilder block(BlockBuilder::kNoRestarts);
  for (const auto& [name, value] : all) block.Add(name, value);
  return std::move(*block.Finish());
}

Status DecodeProperties(const Slice& block_body, const std::string& file_name,
                        PropertiesBlock* result, OtherProperties others) {
  *result = PropertiesBlock();
  const auto context = [&] { return file_name + ": properties block"; };
  BlockTail tail;
  Status status = DecodeBlockTail(block_body, &tail);
  if (!status.ok()) return status.Annotate(context());

  EntryScanner scanner(Slice(block_body.data(), tail.entries_size));
  ByteBudget budget = KeyBudget(block_body.size());
  const Field* field = std::begin(kFields);
  std::string_view previous;
  std::string previous_other;
  while (scanner.Next()) {
    const std::string_view name = scanner.key().ToStringView();
    const Slice value = scanner.value();
    const auto offset = static_cast<uint64_t>(value.data() - block_body.data());
    if (!budget.Take(scanner.key().size())) {
      return scanner.EntryError("the names take too much memory")
          .Annotate(context());
    }
    int order = 1;
    while (field != std::end(kFields) &&
           (order = field->name.compare(name)) < 0) {
      ++field;
    }
    if (field != std::end(kFields) && order == 0) {
      // In order, since every name before it was also before this field's.
      previous = field->name;
      if (!SetField(*field, value, offset, others, result)) {
        return scanner.EntryError("bad value of a property")
            .Annotate(context());
      }
      ++field;
      continue;
    }
    // The first name may be empty.
    if (name <= previous && scanner.offset() != 0) {
      return scanner.EntryError("names out of order").Annotate(context());
    }
    previous_other = name;
    previous = previous_other;
    if (others == OtherProperties::kLeftOut) continue;
    if (result->other.empty()) result->other.reserve(kMinOthers);
    result->other.emplace_back(name, value.ToStringView());
  }
  if (scanner.status().ok()) return Status();
  return scanner.status().Annotate(context());
}

}  // namespace varve
