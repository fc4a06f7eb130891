// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Parses the bytes of a table for tests, without the table reader. So other
// code than the reader checks the writer's output.

#include "table/block/entry_scanner.h"
#include "table/block/format.h"
#include "table/block/properties.h"
#include "test/testing/fixtures_dir.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "util/bytes/checksum.h"
#include "util/bytes/coding.h"
#include "util/bytes/compression.h"

namespace varve::testing {

// The file `name`, like "rocksdb-none/db/000012.sst", of the fixtures.
inline std::string ReadFixture(const std::string& name) {
  const std::string path = test::FixturesDir() + "/" + name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A block of one key and of many entries whose keys are the same.
inline std::string BodyThatGrows(const std::string& key,
                                 const std::string& value, int count) {
  std::string body;
  for (int i = 0; i < count; ++i) {
    const bool first = i == 0;
    PutVarint32(&body, first ? 0 : static_cast<uint32_t>(key.size()));
    PutVarint32(&body, first ? static_cast<uint32_t>(key.size()) : 0);
    PutVarint32(&body, static_cast<uint32_t>(value.size()));
    body += (first ? key : "") + value;
  }
  PutFixed32(&body, 0);
  PutFixed32(&body, 1);
  return body;
}

// Appends the block, compressed already, with its trailer.
inline BlockHandle AppendBlock(const std::string& stored, CompressionType type,
                               ChecksumType checksum, std::string* file) {
  const BlockHandle handle{file->size(), stored.size()};
  *file += stored;
  file->push_back(static_cast<char>(type));
  PutFixed32(
      file, BlockChecksum(checksum, file->data() + handle.offset, handle.size));
  return handle;
}

struct IndexEntry {
  std::string separator;
  BlockHandle handle;
};

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

// A table of format version 1 or later, every block of it checked.
class TableBytes {
 public:
  explicit TableBytes(std::string file) : file_(std::move(file)) {
    const Status status = footer_.DecodeFrom(file_, "table", file_.size());
    EXPECT_TRUE(Ok(status));
    if (!status.ok()) return;
    for (const auto& [name, value] : Entries(ReadBlock(footer_.metaindex))) {
      Slice rest = value;
      EXPECT_TRUE(meta_blocks_[name].DecodeFrom(&rest)) << name;
      EXPECT_TRUE(rest.empty());
    }
    if (!footer_.has_index()) footer_.index = meta_blocks_.at(kIndexBlockName);
    EXPECT_TRUE(Ok(DecodeProperties(
        ReadBlock(meta_blocks_[kPropertiesBlockName]), "table", &properties_)));
    ReadIndex();
  }

  const Footer& footer() const { return footer_; }
  const PropertiesBlock& properties() const { return properties_; }
  const std::map<std::string, BlockHandle>& meta_blocks() const {
    return meta_blocks_;
  }
  const std::vector<IndexEntry>& index() const { return index_; }
  const std::string& file() const { return file_; }

  // The body of a block, decompressed.
  std::string ReadBlock(const BlockHandle& handle) const {
    EXPECT_TRUE(handle.FitsIn(file_.size()));
    if (!handle.FitsIn(file_.size())) return "";
    const char* stored = file_.data() + handle.offset;
    const auto type = static_cast<CompressionType>(stored[handle.size]);
    EXPECT_EQ(BlockChecksum(footer_.checksum, stored, handle.size) +
                  ChecksumContext(footer_.checksum_base, handle.offset),
              DecodeFixed32(stored + handle.size + 1))
        << "block at " << handle.offset;
    const Slice body(stored, handle.size);
    if (type == CompressionType::kNone) return body.ToString();
    size_t length = 0;
    EXPECT_TRUE(
        UncompressedLength(type, footer_.format_version, body, &length).ok());
    std::string raw(length, '\0');
    EXPECT_TRUE(
        UncompressInto(type, footer_.format_version, body, raw.data(), length)
            .ok());
    return raw;
  }
  CompressionType TypeOf(const BlockHandle& handle) const {
    return static_cast<CompressionType>(file_[handle.offset + handle.size]);
  }

  static KeysAndValues Entries(const std::string& body) {
    BlockTail tail;
    EXPECT_TRUE(DecodeBlockTail(body, &tail).ok());
    EntryScanner scanner(Slice(body.data(), tail.entries_size));
    KeysAndValues result;
    while (scanner.Next()) {
      result.emplace_back(scanner.key().ToString(), scanner.value().ToString());
    }
    EXPECT_TRUE(scanner.status().ok()) << scanner.status().ToString();
    return result;
  }

  // Internal keys and values of all data blocks.
  KeysAndValues AllEntries() const {
    KeysAndValues result;
    for (const IndexEntry& entry : index_) {
      for (auto& pair : Entries(ReadBlock(entry.handle))) {
        result.push_back(std::move(pair));
      }
    }
    return result;
  }

 private:
  void ReadIndex() {
    EXPECT_TRUE(properties_.index_value_is_delta_encoded);
    const std::string body = ReadBlock(footer_.index);
    BlockTail tail;
    EXPECT_TRUE(DecodeBlockTail(body, &tail).ok());
    EntryScanner scanner(Slice(body.data(), tail.entries_size),
                         EntryScanner::ValueLength::kLeftOut);
    while (scanner.Next()) {
      IndexEntry entry;
      entry.separator = scanner.key().ToString();
      EXPECT_TRUE(entry.handle.DecodeFrom(scanner.rest()));
      index_.push_back(entry);
    }
    EXPECT_TRUE(scanner.status().ok()) << scanner.status().ToString();
  }

  std::string file_;
  Footer footer_;
  std::map<std::string, BlockHandle> meta_blocks_;
  PropertiesBlock properties_;
  std::vector<IndexEntry> index_;
};

}  // namespace varve::testing
