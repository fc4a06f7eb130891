// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/varve/varve_dump_sst.h"

#include <algorithm>
#include <cinttypes>

#include "table/reader/file_block_iterator.h"
#include "table/reader/metaindex.h"
#include "table/reader/table_opener.h"
#include "table/reader/table_verifier.h"
#include "tools/varve/varve_database.h"
#include "tools/varve/varve_text.h"
#include "util/bytes/compression.h"

namespace varve {

namespace {

constexpr const char* kSections[] = {"footer", "properties", "index", "blocks",
                                     "keys"};

const char* ChecksumName(ChecksumType type) {
  switch (type) {
    case ChecksumType::kNone:
      return "none";
    case ChecksumType::kCrc32c:
      return "CRC-32C";
    case ChecksumType::kXxHash32:
      return "xxHash32";
    case ChecksumType::kXxHash64:
      return "xxHash64";
    case ChecksumType::kXxh3:
      return "XXH3";
  }
  return "unknown";
}

const char* IndexTypeName(uint32_t type) {
  switch (type) {
    case 0:
      return "binary search";
    case 1:
      return "hash search";
    case kTwoLevelIndexType:
      return "two-level";
    case 3:
      return "binary search with first keys";
    default:
      return "unknown";
  }
}

const char* TypeName(ValueType type) {
  switch (type) {
    case ValueType::kValue:
      return "put";
    case ValueType::kDeletion:
      return "delete";
    case ValueType::kSingleDeletion:
      return "single delete";
    case ValueType::kMerge:
      return "merge";
    default:
      return "other";
  }
}

class TableDump {
 public:
  explicit TableDump(Session* session)
      : session_(*session),
        out_(session->out),
        hex_(session->line.Has("hex")),
        path_(session->operand(0)) {
    const auto given = [this](const char* section) {
      return session_.line.Has(section);
    };
    some_ = session->line.Has("verify") ||
            std::any_of(std::begin(kSections), std::end(kSections), given);
  }

  Status Run() {
    Status status = ReadFooter();
    if (!status.ok()) return status;
    if (Wants("footer", true)) PrintFooter();
    comparator_ = ComparatorOfTable(path_);
    status = OpenTableFile(path_, comparator_, &core_);
    if (!status.ok()) return status;
    if (Wants("footer", true)) status = PrintMetaBlocks();
    if (!status.ok()) return status;
    if (Wants("properties", true)) PrintProperties();
    if (Wants("index", true)) PrintIndex();
    if (Wants("blocks", false) || Wants("keys", false)) {
      status = PrintBlocks();
      if (Wants("keys", false)) PrintRangeTombstones();
    }
    if (status.ok() && session_.line.Has("verify")) {
      status = VerifyTable(*core_);
      if (status.ok()) fputs("all blocks and keys are in order\n", out_);
    }
    return status;
  }

 private:
  // Whether to print a section; `usual` if it is so without being asked.
  bool Wants(const char* section, bool usual) const {
    return some_ ? session_.line.Has(section) : usual;
  }

  void PrintHandle(const char* name, const BlockHandle& handle) {
    fprintf(out_, "  %s: offset %" PRIu64 ", %" PRIu64 " bytes\n", name,
            handle.offset, handle.size);
  }

  // By itself, so that it is shown of a table that cannot be opened, too.
  Status ReadFooter() {
    std::unique_ptr<RandomAccessFile> file;
    Status status =
        Env::Default()->NewRandomAccessFile(path_, FileOptions(), &file);
    uint64_t size = 0;
    if (status.ok()) status = Env::Default()->GetFileSize(path_, &size);
    if (!status.ok()) return status;
    char scratch[Footer::kSize];
    const uint64_t tail = std::min<uint64_t>(size, Footer::kSize);
    Slice bytes;
    status = file->Read(size - tail, tail, &bytes, scratch);
    if (status.ok()) status = footer_.DecodeFrom(bytes, path_, size);
    file_size_ = size;
    return status;
  }

  void PrintFooter() {
    fprintf(out_, "%s: %" PRIu64 " bytes\nfooter\n", path_.c_str(), file_size_);
    fprintf(out_, "  format version: %" PRIu32 "%s\n", footer_.format_version,
            footer_.size == Footer::kLegacySize ? " (short footer)" : "");
    fprintf(out_, "  checksums: %s\n", ChecksumName(footer_.checksum));
    PrintHandle("metaindex", footer_.metaindex);
    if (footer_.has_index()) PrintHandle("index", footer_.index);
  }

  Status PrintMetaBlocks() {
    std::vector<std::pair<std::string, BlockHandle>> blocks;
    Status status = ReadMetaindex(*core_->loader, footer_.metaindex, file_size_,
                                  nullptr, &blocks);
    if (!status.ok()) return status;
    fputs("metaindex\n", out_);
    for (const auto& [name, handle] : blocks) {
      PrintHandle(Escaped(name).c_str(), handle);
    }
    return status;
  }

  void PrintProperties() {
    const PropertiesBlock& p = core_->properties;
    fputs("properties\n", out_);
    const auto number = [this](const char* name, uint64_t value) {
      fprintf(out_, "  %s: %" PRIu64 "\n", name, value);
    };
    const auto text = [this](const char* name, const std::string& value) {
      fprintf(out_, "  %s: %s\n", name, Escaped(value).c_str());
    };
    number("entries", p.num_entries);
    number("deletions", p.num_deletions);
    number("merge operands", p.num_merge_operands);
    number("range deletions", p.num_range_deletions);
    number("hidden entries", p.num_hidden_entries);
    number("longest run of dead entries", p.longest_dead_run);
    number("raw key bytes", p.raw_key_size);
    number("raw value bytes", p.raw_value_size);
    number("data blocks", p.num_data_blocks);
    number("data bytes", p.data_size);
    text("index type", IndexTypeName(p.index_type));
    number("index bytes", p.index_size);
    if (TableIndex::IsPartitioned(p)) {
      number("index partitions", p.index_partitions);
      number("index bytes that name partitions", p.top_level_index_size);
    }
    number("filter bytes", p.filter_size);
    number("filter entries", p.num_filter_entries);
    number("format version", p.format_version);
    number("created, seconds", p.creation_time_s);
    number("file created, seconds", p.file_creation_time_s);
    number("original file number", p.original_file_number);
    if (p.has_global_sequence) number("global sequence", p.global_sequence);
    number("column family id", p.column_family_id);
    text("column family name", p.column_family_name);
    text("comparator", p.comparator);
    text("compression", p.compression);
    text("filter policy", p.filter_policy);
    text("prefix extractor", p.prefix_extractor);
    text("whole key filtering", p.whole_key_filtering ? "yes" : "no");
    text("database id", p.db_identity);
    text("session id", p.session_identity);
    for (const auto& [name, value] : p.other) {
      fprintf(out_, "  %s: ", Escaped(name).c_str());
      PrintQuoted(value, hex_, out_);
      fputc('\n', out_);
    }
  }

  void PrintIndex() {
    fprintf(out_, "index: %zu blocks", core_->index.size());
    if (core_->filter_partitions != nullptr) {
      fprintf(out_, ", filter: %zu partitions",
              core_->filter_partitions->size());
    }
    fputc('\n', out_);
    for (size_t i = 0; i < core_->index.size() && !OutputFailed(&session_);
         ++i) {
      const BlockHandle& handle = core_->index.handle(i);
      fprintf(out_, "  block %zu: offset %" PRIu64 ", %" PRIu64 " bytes, to ",
              i, handle.offset, handle.size);
      PrintQuoted(core_->index.SeparatorUserKey(i), hex_, out_);
      fputc('\n', out_);
    }
  }

  // Continues after damaged blocks. Returns the first damage.
  Status PrintBlocks() {
    Status first;
    Progress progress(session_);
    const size_t count = core_->index.size();
    for (size_t i = 0; i < count && !OutputFailed(&session_); ++i) {
      const Status status = PrintBlock(i);
      if (!status.ok()) {
        fprintf(out_, "  damaged: %s\n", Printable(status.ToString()).c_str());
        if (first.ok()) first = status;
      }
      if (progress.Due()) {
        progress.Show("block " + std::to_string(i) + " of " +
                      std::to_string(count));
      }
    }
    return first;
  }

  Status PrintBlock(size_t i) {
    const BlockHandle& handle = core_->index.handle(i);
    FileBody body;
    fprintf(out_, "block %zu: offset %" PRIu64 ", %" PRIu64 " bytes", i,
            handle.offset, handle.size);
    Status status = core_->loader->ReadDataBody(handle, true, nullptr, &body);
    if (!status.ok()) {
      fputc('\n', out_);
      return status;
    }
    const auto compression = static_cast<CompressionType>(
        body.raw[static_cast<size_t>(handle.size)]);
    fprintf(out_, ", %s, %zu bytes raw\n", CompressionName(compression),
            body.contents.size());
    IteratorPosition position;
    FileBlockIterator iterator(&position);
    iterator.Reset(body.contents, comparator_, core_->global_sequence);
    uint64_t entries = 0;
    if (iterator.status().ok()) iterator.SeekToFirst();
    for (; position.valid && !OutputFailed(&session_); iterator.Next()) {
      if (Wants("keys", false)) PrintEntry(position.key, position.value);
      ++entries;
    }
    fprintf(out_, "  %" PRIu64 " entries\n", entries);
    return iterator.status().Annotate(core_->loader->Describe(handle));
  }

  void PrintEntry(const Slice& key, const Slice& value) {
    const ValueType type = ExtractValueType(key);
    fputs("  ", out_);
    PrintQuoted(ExtractUserKey(key), hex_, out_);
    fprintf(out_, " sequence %" PRIu64 " %s", ExtractSequence(key),
            TypeName(type));
    if (type != ValueType::kDeletion && type != ValueType::kSingleDeletion) {
      fputc(' ', out_);
      PrintQuoted(value, hex_, out_);
    }
    fputc('\n', out_);
  }

  void PrintRangeTombstones() {
    if (core_->tombstones == nullptr) return;
    fputs("range deletions\n", out_);
    for (size_t i = 0; i < core_->tombstones->size(); ++i) {
      const RangeTombstone tombstone = core_->tombstones->at(i);
      fputs("  ", out_);
      PrintQuoted(tombstone.begin, hex_, out_);
      fputs(" .. ", out_);
      PrintQuoted(tombstone.end, hex_, out_);
      fprintf(out_, " sequence %" PRIu64 "\n", tombstone.sequence);
    }
  }

  Session& session_;
  FILE* const out_;
  const bool hex_;
  const std::string path_;
  const InternalKeyComparator* comparator_ = nullptr;
  bool some_ = false;  // Only requested sections.
  uint64_t file_size_ = 0;
  Footer footer_;
  std::unique_ptr<TableCore> core_;
};

}  // namespace

Status OpenTableFile(const std::string& path,
                     const InternalKeyComparator* comparator,
                     std::unique_ptr<TableCore>* core) {
  TableReaderOptions options;
  options.comparator = comparator;
  options.file_name = path;
  options.other_properties = OtherProperties::kKept;
  std::unique_ptr<RandomAccessFile> file;
  Status status =
      Env::Default()->NewRandomAccessFile(path, FileOptions(), &file);
  if (status.ok()) {
    status = Env::Default()->GetFileSize(path, &options.file_size);
  }
  if (!status.ok()) return status;
  auto opened = std::make_unique<TableCore>();
  status = OpenTable(options, std::move(file), opened.get());
  if (status.ok()) *core = std::move(opened);
  return status;
}

const InternalKeyComparator* ComparatorOfTable(const std::string& path) {
  TableReaderOptions options;
  options.file_name = path;
  std::unique_ptr<RandomAccessFile> file;
  PropertiesBlock properties;
  const InternalKeyComparator* known = nullptr;
  if (Env::Default()->GetFileSize(path, &options.file_size).ok() &&
      Env::Default()->NewRandomAccessFile(path, FileOptions(), &file).ok() &&
      ReadPropertiesOf(options, std::move(file), &properties).ok()) {
    known = KnownComparator(properties.comparator);
  }
  return known != nullptr ? known : KnownComparator("");
}

Status RunDumpSst(Session* session) { return TableDump(session).Run(); }

}  // namespace varve
