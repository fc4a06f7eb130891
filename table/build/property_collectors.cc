// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Compiled with exceptions, unlike the rest of the engine.
#include "table/build/property_collectors.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "table/block/internal_key.h"

namespace varve {

namespace {

constexpr char kCollectors[] = "rocksdb.property.collectors";

EntryType EntryTypeOf(ValueType type) {
  switch (type) {
    case ValueType::kValue:
      return EntryType::kEntryPut;
    case ValueType::kDeletion:
      return EntryType::kEntryDelete;
    case ValueType::kSingleDeletion:
      return EntryType::kEntrySingleDelete;
    case ValueType::kMerge:
      return EntryType::kEntryMerge;
    case ValueType::kRangeDeletion:
      return EntryType::kEntryRangeDeletion;
    default:
      return EntryType::kEntryOther;
  }
}

std::string Text(const char* text) { return text != nullptr ? text : ""; }

bool HasName(const PropertiesBlock& properties, const std::string& name) {
  return IsPropertyField(name) ||
         std::any_of(
             properties.other.begin(), properties.other.end(),
             [&name](const auto& other) { return other.first == name; });
}

}  // namespace

std::unique_ptr<PropertyCollectors> PropertyCollectors::Create(
    const TableBuilderOptions& options) {
  if (options.collector_factories.empty()) return nullptr;
  std::unique_ptr<PropertyCollectors> result(
      new PropertyCollectors(options.info_log));
  TablePropertiesCollectorFactory::Context context;
  context.column_family_id = options.column_family_id;
  context.level_at_creation = options.level_at_creation;
  context.num_levels = options.num_levels;
  for (const auto& factory : options.collector_factories) {
    Collector collector;
    try {
      collector.name = Text(factory->Name());
      collector.rep.reset(factory->CreateTablePropertiesCollector(context));
    } catch (...) {
      result->End(&collector, "its factory threw");
    }
    result->names_ += (result->names_.empty() ? "" : ",") + collector.name;
    if (collector.rep != nullptr) {
      result->collectors_.push_back(std::move(collector));
    }
  }
  return result;
}

PropertyCollectors::~PropertyCollectors() {
  // A destructor that throws ends the program, as everywhere.
  collectors_.clear();
}

template <typename Call>
void PropertyCollectors::ForEach(Call call) {
  for (Collector& collector : collectors_) {
    std::string error;
    try {
      const Status status = call(collector.rep.get());
      if (status.ok()) continue;
      error = status.ToString();
    } catch (const std::exception& e) {
      error = Text(e.what());
    } catch (...) {
      error = "an exception that is no std::exception";
    }
    End(&collector, error);
  }
  std::erase_if(collectors_,
                [](const Collector& collector) { return !collector.rep; });
}

void PropertyCollectors::End(Collector* collector, const std::string& error) {
  collector->rep.reset();
  Log(LogLevel::kError, info_log_,
      "collector of table properties %s: %s; the table goes without it",
      collector->name.c_str(), error.c_str());
}

void PropertyCollectors::Add(const Slice& internal_key, const Slice& value,
                             uint64_t file_size) {
  const EntryType type = EntryTypeOf(ExtractValueType(internal_key));
  ForEach([&](TablePropertiesCollector* collector) {
    return collector->AddUserKey(ExtractUserKey(internal_key), value, type,
                                 ExtractSequence(internal_key), file_size);
  });
}

void PropertyCollectors::EndBlock(uint64_t bytes) {
  ForEach([bytes](TablePropertiesCollector* collector) {
    collector->BlockAdd(bytes, 0, 0);
    return Status::OK();
  });
}

void PropertyCollectors::Finish(PropertiesBlock* properties) {
  std::erase_if(properties->other,
                [](const auto& other) { return other.first == kCollectors; });
  properties->other.emplace_back(kCollectors, "[" + names_ + "]");
  ForEach([&](TablePropertiesCollector* collector) {
    UserCollectedProperties own;
    Status status = collector->Finish(&own);
    if (!status.ok()) return status;
    const bool need_compact = collector->NeedCompact();
    for (auto& [name, text] : collector->GetReadableProperties()) {
      readable_.emplace(name, text);
    }
    need_compact_ |= need_compact;
    for (auto& [name, value] : own) {
      if (!HasName(*properties, name)) {
        properties->other.emplace_back(name, std::move(value));
      }
    }
    return status;
  });
}

}  // namespace varve
