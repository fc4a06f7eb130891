// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The format of LevelDB's table files, for leveldb::TableBuilder and
// leveldb::Table. Databases do not use it: the engine writes tables of its own
// and reads LevelDB's itself.
//
// A table is a sequence of blocks and a footer. A block in the file is its
// content, possibly compressed, then a byte with the compression and a masked
// CRC-32C of both. A content has entries, the offsets of the restart points,
// and their number (fixed 32 bits). An entry is the length of the prefix that
// its key shares with the key before it, the lengths of the rest of the key and
// of the value, all three varints, then these bytes.

#include <cstdint>
#include <string>
#include <vector>

#include "compat/leveldb/abi.h"

namespace varve::compat {

inline constexpr size_t kBlockTrailerBytes = 5;
inline constexpr size_t kTableFooterBytes = 48;
inline constexpr uint32_t kTableMagicLow = 0x8b80fb57;
inline constexpr uint32_t kTableMagicHigh = 0xdb477524;
// A filter is for the blocks that begin in one of these ranges of the file.
inline constexpr int kFilterRangeLog2 = 11;

// The place of a block in a file, without its trailer.
struct BlockPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  void AppendTo(std::string* out) const;
  // Removes a place from the front of *in. Returns false if there is none.
  bool TakeFrom(leveldb::Slice* in);
};

// Returns the checksum of the trailer for a content and its compression.
uint32_t BlockChecksum(const leveldb::Slice& content, char compression);

// Builds the content of a block.
class BlockContentBuilder {
 public:
  // Adds an entry. REQUIRES: its key is after the key before it.
  void Add(const leveldb::Slice& key, const leveldb::Slice& value,
           int restart_interval);
  // Completes the content, which is valid until Reset.
  leveldb::Slice Finish();
  void Reset();

  bool empty() const { return content_.empty(); }
  // Returns the bytes of the content if it were finished.
  size_t EstimateBytes() const {
    return content_.size() + (restarts_.size() + 1) * sizeof(uint32_t);
  }

 private:
  std::string content_;
  std::vector<uint32_t> restarts_{0};
  int since_restart_ = 0;
  std::string last_key_;
};

// Iterates over a content that was read. Damage ends it with Corruption.
class BlockContentIterator final : public leveldb::Iterator {
 public:
  BlockContentIterator(const leveldb::Comparator* comparator,
                       std::string content);

  bool Valid() const override { return offset_ < restarts_offset_; }
  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const leveldb::Slice& target) override;
  void Next() override;
  void Prev() override;
  leveldb::Slice key() const override { return leveldb::Slice(key_); }
  leveldb::Slice value() const override { return value_; }
  leveldb::Status status() const override { return status_; }

 private:
  uint32_t RestartOffset(uint32_t index) const;
  // Moves to the entry at the restart point, without reading it.
  void MoveToRestart(uint32_t index);
  // Reads the entry at next_offset_. Returns false at the end and on damage.
  bool ReadNext();
  void Fail();

  const leveldb::Comparator* const comparator_;
  const std::string content_;
  size_t restarts_offset_ = 0;
  uint32_t restart_count_ = 0;
  // The entry's offset, the next one's offset, the key and the value.
  size_t offset_ = 0;
  size_t next_offset_ = 0;
  std::string key_;
  leveldb::Slice value_;
  leveldb::Status status_;
};

}  // namespace varve::compat
