// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// make_seeds FOLDER: takes the fixtures apart into seeds, a folder for each
// target, as they lie in corpus/. To be run again when a target's input changes
// its form.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/version/version_edit.h"
#include "db/wal/wal_reader.h"
#include "db/wal/wal_writer.h"
#include "db/write/write_batch_internal.h"
#include "table/block/block_builder.h"
#include "table/block/entry_scanner.h"
#include "table/block/format.h"
#include "table/block/properties.h"
#include "table/index/table_index.h"
#include "test/fuzz/fuzz.h"
#include "test/fuzz/string_sequential_file.h"
#include "test/testing/fixtures_dir.h"
#include "util/base/random.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"
#include "varve/comparator.h"
#include "varve/env.h"
#include "varve/write_batch.h"

namespace varve::fuzz {
namespace {

constexpr size_t kMaxSeedBytes = 8192;

std::string Read(const std::string& fixture) {
  std::ifstream file(test::FixturesDir() + "/" + fixture, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Empty if it is compressed.
Slice Body(const std::string& file, const BlockHandle& handle) {
  if (!handle.FitsIn(file.size()) || file[handle.offset + handle.size] != 0) {
    return Slice();
  }
  return Slice(file.data() + handle.offset, handle.size);
}

// Empty if it cannot be decompressed.
std::string RawBody(const std::string& file, const BlockHandle& handle,
                    uint32_t format_version) {
  if (!handle.FitsIn(file.size())) return "";
  const Slice stored(file.data() + handle.offset, handle.size);
  const auto type =
      static_cast<CompressionType>(file[handle.offset + handle.size]);
  if (type == CompressionType::kNone) return stored.ToString();
  size_t size = 0;
  if (!UncompressedLength(type, format_version, stored, &size).ok()) return "";
  std::string raw(size, '\0');
  const Status s =
      UncompressInto(type, format_version, stored, raw.data(), size);
  return s.ok() ? raw : "";
}

Slice Entries(const Slice& body) {
  BlockTail tail;
  return DecodeBlockTail(body, &tail).ok()
             ? Slice(body.data(), tail.entries_size)
             : Slice();
}

class Seeds {
 public:
  explicit Seeds(std::string folder) : folder_(std::move(folder)) {}

  void Add(const std::string& target, const std::string& name,
           const std::string& bytes) {
    if (bytes.size() > kMaxSeedBytes) return;
    std::filesystem::create_directories(folder_ + "/" + target);
    std::ofstream(folder_ + "/" + target + "/" + name, std::ios::binary)
        << bytes;
  }

  void AddTable(const std::string& fixture, const std::string& name) {
    const std::string file = Read(fixture);
    Footer footer;
    if (!footer.DecodeFrom(file, name, file.size()).ok()) return;
    std::string tail;
    PutFixed32(&tail, static_cast<uint32_t>(file.size()));
    Add("footer", name, tail + file.substr(file.size() - footer.size));
    PropertiesBlock properties;
    std::string filter_partitions;
    EntryScanner metas(Entries(Body(file, footer.metaindex)));
    while (metas.Next()) {
      BlockHandle handle;
      Slice value = metas.value();
      if (!handle.DecodeFrom(&value) || !handle.FitsIn(file.size())) continue;
      const std::string body = Body(file, handle).ToString();
      if (metas.key() == kIndexBlockName) footer.index = handle;
      if (metas.key() == kPropertiesBlockName) {
        Add("properties", name, body);
        static_cast<void>(DecodeProperties(body, name, &properties).ok());
      } else if (metas.key() == kFullBloomBlockName) {
        Add("filter", name, std::string("\2\3key", 5) + body);
      } else if (metas.key() == kLevelDbBloomBlockName) {
        Add("filter", name, std::string("\1\3key", 5) + body);
      } else if (metas.key() == kPartitionedBloomBlockName) {
        filter_partitions = body;
      }
    }
    if (!filter_partitions.empty()) {
      AddPartitions(file, name + ".filter", footer.format_version, properties,
                    filter_partitions, 4);
    }
    if (TableIndex::IsPartitioned(properties)) {
      AddPartitions(file, name, footer.format_version, properties,
                    RawBody(file, footer.index, footer.format_version), 0);
      return;
    }
    const int flags = (properties.index_key_is_user_key ? 1 : 0) |
                      (properties.index_value_is_delta_encoded ? 2 : 0) |
                      (properties.index_type == 3 ? 4 : 0);
    const std::string index_body = Body(file, footer.index).ToString();
    Add("index", name, static_cast<char>(flags) + index_body);
    static const InternalKeyComparator comparator(BytewiseComparator());
    BlockContents contents;
    char* const place = contents.buffer.Reserve(index_body.size());
    std::copy(index_body.begin(), index_body.end(), place);
    contents.size = index_body.size();
    TableIndex index;
    if (!index
             .Decode(std::move(contents), properties, file.size(), &comparator,
                     false)
             .ok()) {
      return;
    }
    for (const size_t i : {size_t{0}, index.size() / 2}) {
      if (i >= index.size()) continue;
      const Slice body = Body(file, index.handle(i));
      if (!body.empty()) {
        Add("block", name + "." + std::to_string(i), '\1' + body.ToString());
      }
    }
  }

  // The first partitions that a block names, and such a block for them.
  void AddPartitions(const std::string& file, const std::string& name,
                     uint32_t format_version, const PropertiesBlock& properties,
                     const Slice& top, int flags) {
    constexpr size_t kMaxPartitions = 4;
    const bool delta = properties.index_value_is_delta_encoded;
    EntryScanner entry(Entries(top), delta
                                         ? EntryScanner::ValueLength::kLeftOut
                                         : EntryScanner::ValueLength::kStored);
    BlockBuilder builder(1, delta ? BlockBuilder::ValueLength::kLeftOut
                                  : BlockBuilder::ValueLength::kStored);
    std::string partitions;
    for (size_t i = 0; i < kMaxPartitions && entry.Next(); ++i) {
      Slice value = entry.value();
      BlockHandle handle;
      if (!handle.DecodeFrom(delta ? entry.rest() : &value)) break;
      const std::string partition = RawBody(file, handle, format_version);
      const BlockHandle moved{partitions.size(), partition.size()};
      partitions += partition;
      partitions.append(kBlockTrailerSize, '\0');
      std::string encoded;
      moved.EncodeTo(&encoded);
      builder.Add(entry.key(), encoded);
    }
    const std::string& body = *builder.Finish();
    const int form =
        flags | (properties.index_key_is_user_key ? 1 : 0) | (delta ? 2 : 0);
    Add("partitions", name,
        std::string({static_cast<char>(form), static_cast<char>(body.size()),
                     static_cast<char>(body.size() >> 8)}) +
            body + partitions);
  }

  // Each record of a log or MANIFEST by itself.
  void AddRecords(const std::string& fixture, const std::string& target,
                  const std::string& name) {
    wal::Reader reader(std::make_unique<StringSequentialFile>(Read(fixture)),
                       name, 0);
    Slice record;
    for (int i = 0; i < 4; ++i) {
      if (reader.ReadRecord(&record) != wal::ReadOutcome::kRecord) return;
      Add(target, name + "." + std::to_string(i), record.ToString());
    }
  }

 private:
  const std::string folder_;
};

void AddAllFixtures(Seeds* seeds) {
  namespace fs = std::filesystem;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(test::FixturesDir()))) {
    if (!entry.is_regular_file()) continue;
    const fs::path relative =
        fs::relative(entry.path(), fs::path(test::FixturesDir()));
    const std::string base = relative.begin()->string();
    if (!base.starts_with("rocksdb-") && !base.starts_with("handmade-") &&
        !base.starts_with("leveldb-") && !base.starts_with("cf-") &&
        !base.starts_with("merge-")) {
      continue;
    }
    const std::string file = entry.path().filename().string();
    const std::string name = base + "." + file;
    if (file.ends_with(".sst") || file.ends_with(".ldb")) {
      if (fs::file_size(entry.path()) < 200000) {
        seeds->AddTable(relative.string(), name);
      }
    } else if (file.ends_with(".log")) {
      seeds->AddRecords(relative.string(), "write_batch", name);
    } else if (file.starts_with("MANIFEST")) {
      seeds->AddRecords(relative.string(), "version_edit", name);
    }
  }
}

// A file of records, as a log or MANIFEST is.
std::string RecordFile(const std::vector<std::string>& records) {
  const std::unique_ptr<Env> env = NewMemoryEnv(Env::Default());
  std::unique_ptr<WritableFile> file;
  std::string bytes;
  Status s = env->CreateDirIfMissing("/seeds");
  if (s.ok()) s = env->NewWritableFile("/seeds/it", FileOptions(), &file);
  if (!s.ok()) return bytes;
  wal::Writer writer(std::move(file), 1);
  for (const std::string& record : records) {
    if (s.ok()) s = writer.AddRecord(record);
  }
  if (s.ok()) s = writer.Close();
  if (s.ok()) s = ReadFileToString(env.get(), "/seeds/it", &bytes);
  return bytes;
}

// Updates of families that exist, do not exist, and have the largest ids.
void AddFamilyBatches(Seeds* seeds) {
  std::vector<std::string> records;
  uint64_t sequence = 1;
  for (const uint32_t other : {1u, 3u, 127u, 128u, UINT32_MAX}) {
    WriteBatch batch;
    for (const uint32_t family : {0u, other, 2u, other}) {
      for (const ValueType type :
           {ValueType::kValue, ValueType::kDeletion, ValueType::kSingleDeletion,
            ValueType::kRangeDeletion, ValueType::kMerge}) {
        WriteBatchInternal::Add(&batch, family, type, "key", "value");
      }
    }
    batch.PutLogData("note");
    WriteBatchInternal::SetSequence(&batch, sequence);
    sequence += batch.Count();
    seeds->Add("write_batch", "families." + std::to_string(other),
               batch.Data());
    records.push_back(batch.Data());
  }
  seeds->Add("wal", "families", RecordFile(records));
}

// Operands above a value, above a deletion, and alone.
void AddMergeBlock(Seeds* seeds) {
  BlockBuilder builder(4);
  uint64_t sequence = 20;
  for (const char* key : {"deletion", "none", "value"}) {
    for (int i = 0; i < 3; ++i) {
      builder.Add(
          MakeInternalKey(key, PackTrailer(sequence--, ValueType::kMerge)),
          "operand");
    }
    if (key[0] == 'n') continue;
    const ValueType type =
        key[0] == 'v' ? ValueType::kValue : ValueType::kDeletion;
    builder.Add(MakeInternalKey(key, PackTrailer(sequence--, type)), "");
  }
  const std::string& body = *builder.Finish();
  seeds->Add("block", "merges", '\1' + body);
  seeds->Add("block", "merges.global", '\3' + body);
}

VersionEdit FamilyEdit(uint32_t id) {
  VersionEdit edit;
  edit.SetColumnFamily(id);
  return edit;
}

VersionEdit CreationOf(uint32_t id, const std::string& name) {
  VersionEdit edit = FamilyEdit(id);
  edit.AddColumnFamily(name);
  edit.SetComparatorName("leveldb.BytewiseComparator");
  edit.SetLogNumber(4);
  edit.SetMaxColumnFamily(id);
  return edit;
}

VersionEdit TableOf(uint32_t id, uint64_t number) {
  VersionEdit edit = FamilyEdit(id);
  FileMetaData file;
  file.number = number;
  file.file_size = 1000;
  file.smallest = MakeInternalKey("a", PackTrailer(5, ValueType::kValue));
  file.largest = MakeInternalKey("b", PackTrailer(6, ValueType::kValue));
  file.smallest_sequence = 5;
  file.largest_sequence = 6;
  edit.AddFile(0, file);
  return edit;
}

// MANIFESTs of two families, in which something may be wrong with the families.
void AddFamilyManifests(Seeds* seeds) {
  VersionEdit begin;
  begin.SetComparatorName("leveldb.BytewiseComparator");
  begin.SetLogNumber(4);
  begin.SetNextFileNumber(30);
  begin.SetLastSequence(9);
  VersionEdit drop = FamilyEdit(2);
  drop.DropColumnFamily();
  VersionEdit group_begin = TableOf(1, 10);
  group_begin.SetAtomicGroupRemaining(1);
  VersionEdit group_end = TableOf(2, 11);
  group_end.SetAtomicGroupRemaining(0);
  VersionEdit group_of_others = TableOf(2, 11);
  group_of_others.SetAtomicGroupRemaining(7);
  const std::vector<std::pair<std::string, std::vector<VersionEdit>>> all = {
      {"tables", {TableOf(0, 10), TableOf(1, 11), TableOf(2, 12)}},
      {"dropped", {TableOf(2, 12), drop}},
      {"again", {TableOf(2, 12), drop, CreationOf(3, "two"), TableOf(3, 13)}},
      {"id_again", {drop, CreationOf(2, "three")}},
      {"same_id", {CreationOf(2, "three")}},
      {"same_name", {CreationOf(3, "two")}},
      {"default_again", {CreationOf(3, "default")}},
      {"unknown", {TableOf(7, 10)}},
      {"after_drop", {drop, TableOf(2, 10)}},
      {"shared_table", {TableOf(1, 10), TableOf(2, 10)}},
      {"table_twice", {TableOf(1, 10), TableOf(1, 10)}},
      {"group", {group_begin, group_end}},
      {"torn_group", {group_begin}},
      {"broken_group", {group_begin, TableOf(0, 12), group_end}},
      {"strange_group", {group_begin, group_of_others, group_end}},
      {"large_id", {CreationOf(UINT32_MAX, "large"), TableOf(UINT32_MAX, 10)}},
  };
  for (const auto& [name, edits] : all) {
    std::vector<VersionEdit> whole = {begin, CreationOf(1, "one"),
                                      CreationOf(2, "two")};
    whole.insert(whole.end(), edits.begin(), edits.end());
    std::vector<std::string> records;
    for (const VersionEdit& edit : whole) {
      edit.EncodeTo(&records.emplace_back());
    }
    seeds->Add("manifest", "families_" + name, RecordFile(records));
    seeds->Add("version_edit", "families_" + name, records.back());
  }
}

void AddTexts(Seeds* seeds) {
  seeds->Add("options", "options",
             "write_buffer_size=65536\nmax_open_files=16\n"
             "disable_auto_compactions=true\nlevel0_stop_writes_trigger=9\n");
  seeds->Add("options", "ablation",
             "superversion=mutex,block_cache=hash,statistics=thread");
  seeds->Add("key_fold", "ascii", "Some ASCII Key, 0123456789 of MORE than 16");
  seeds->Add("key_fold", "mixed",
             "Stra\xC3\x9F"
             "e \xC7\x85 \xE1\xBA\x9E \xC4\xB0 e\xCC\x81 K\xE2\x84\xAA");
  std::string raw;
  for (int i = 0; i < 40; ++i) raw += "key" + std::to_string(i % 7) + " value ";
  for (const CompressionType type :
       {CompressionType::kSnappy, CompressionType::kZlib,
        CompressionType::kBZip2, CompressionType::kLZ4,
        CompressionType::kZSTD}) {
    std::string body;
    if (!Compressor(type).Compress(raw, &body)) continue;
    const char number = static_cast<char>(type);
    seeds->Add("compression", CompressionName(type),
               std::string({number, '\5'}) + body);
    // Without the size in front, as in old tables.
    seeds->Add("compression", std::string(CompressionName(type)) + ".old",
               std::string({number, '\1'}) + body.substr(2));
  }
  seeds->Add("key_fold", "broken", "abc\xC3(\xF0\x9F\x98");
  seeds->Add("trace_file", "two",
             R"({"displayTimeUnit":"ns","otherData":{"epoch_ns":"1"},)"
             R"("traceEvents":[{"name":"a","cat":"varve","ph":"X","ts":1.5,)"
             R"("dur":2,"pid":1,"tid":3,"args":{"trace":7,"span":1,)"
             R"("parent":0}},{"name":"b","cat":"varve","ph":"X","ts":1.6,)"
             R"("dur":0.1,"pid":1,"tid":3,"args":{"trace":7,"span":2,)"
             R"("parent":1,"by":5}}]})");
  seeds->Add("trace_file", "otlp",
             R"({"resourceSpans":[{"resource":{"attributes":[{"key":)"
             R"("service.name","value":{"stringValue":"a"}}]},"scopeSpans":)"
             R"([{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",)"
             R"("spanId":"0000000000700001","parentSpanId":"","name":"\u00e9",)"
             R"("startTimeUnixNano":"9","endTimeUnixNano":12,"attributes":)"
             R"([{"key":"thread.id","value":{"intValue":"3"}},{"key":)"
             R"("varve.done_by","value":{"intValue":5}}]}]}]}]})");
  for (uint32_t i = 1; i <= 6; ++i) {
    Random random(i);
    std::string bytes(500, '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    seeds->Add("db", "random." + std::to_string(i), bytes);
    seeds->Add("faults", "random." + std::to_string(i), bytes);
  }
}

}  // namespace
}  // namespace varve::fuzz

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  varve::fuzz::Seeds seeds(argv[1]);
  varve::fuzz::AddAllFixtures(&seeds);
  varve::fuzz::AddFamilyBatches(&seeds);
  varve::fuzz::AddFamilyManifests(&seeds);
  varve::fuzz::AddMergeBlock(&seeds);
  varve::fuzz::AddTexts(&seeds);
  return 0;
}
