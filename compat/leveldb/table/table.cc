// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// leveldb::Table reads every block from the file each time. It does not use the
// cache of its options.
#include <snappy.h>

#include <memory>
#include <utility>

#include "compat/leveldb/coding.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/table/table_format.h"

namespace leveldb {

using varve::compat::BlockContentIterator;
using varve::compat::BlockPlace;
using varve::compat::Corruption;

struct Table::Rep {
  // Reads a block, verifies its checksum and decompresses it.
  Status ReadBlock(const BlockPlace& place, std::string* content) const;
  // Reads the footer and the index. Iterators do not use the filter.
  Status ReadTail();
  std::unique_ptr<Iterator> NewIndexIterator() const {
    return std::make_unique<BlockContentIterator>(options.comparator, index);
  }

  Options options;
  RandomAccessFile* file;
  uint64_t file_bytes;
  BlockPlace metaindex_place;
  std::string index;
};

Status Table::Rep::ReadBlock(const BlockPlace& place,
                             std::string* content) const {
  using varve::compat::kBlockTrailerBytes;
  if (place.offset > file_bytes || place.bytes > file_bytes - place.offset ||
      file_bytes - place.offset - place.bytes < kBlockTrailerBytes) {
    return Corruption("a block of the table is beyond the end of the file");
  }
  std::string scratch(place.bytes + kBlockTrailerBytes, '\0');
  Slice read;
  Status status =
      file->Read(place.offset, scratch.size(), &read, scratch.data());
  if (!status.ok()) return status;
  if (read.size() != scratch.size()) {
    return Corruption("a block of the table is not all there");
  }
  const Slice stored(read.data(), place.bytes);
  const char compression = read.data()[place.bytes];
  if (varve::compat::DecodeFixed32(read.data() + place.bytes + 1) !=
      varve::compat::BlockChecksum(stored, compression)) {
    return Corruption("a block of the table has another checksum");
  }
  if (compression == kNoCompression) {
    content->assign(stored.data(), stored.size());
    return status;
  }
  // A byte of Snappy expands to at most 22. A length beyond that is damage, and
  // could take all of the memory.
  size_t length = 0;
  if (compression != kSnappyCompression ||
      !snappy::GetUncompressedLength(stored.data(), stored.size(), &length) ||
      length / 22 > stored.size() ||
      !snappy::Uncompress(stored.data(), stored.size(), content)) {
    return Corruption("a block of the table cannot be decompressed");
  }
  return status;
}

Status Table::Rep::ReadTail() {
  using varve::compat::kTableFooterBytes;
  if (file_bytes < kTableFooterBytes) {
    return Corruption("the file is too short to be a table");
  }
  char scratch[kTableFooterBytes];
  Slice footer;
  Status status = file->Read(file_bytes - kTableFooterBytes, kTableFooterBytes,
                             &footer, scratch);
  if (!status.ok()) return status;
  if (footer.size() != kTableFooterBytes) {
    return Corruption("the footer of the table is not all there");
  }
  const char* const magic = footer.data() + kTableFooterBytes - 8;
  if (varve::compat::DecodeFixed32(magic) != varve::compat::kTableMagicLow ||
      varve::compat::DecodeFixed32(magic + 4) !=
          varve::compat::kTableMagicHigh) {
    return Corruption("the file is not a table of LevelDB");
  }
  Slice rest(footer.data(), kTableFooterBytes - 8);
  BlockPlace index_place;
  if (!metaindex_place.TakeFrom(&rest) || !index_place.TakeFrom(&rest)) {
    return Corruption("the footer of the table is damaged");
  }
  return ReadBlock(index_place, &index);
}

namespace {

// Iterates over the index and, within its entry, over a data block.
class TableIterator final : public Iterator {
 public:
  using ReadBlock = Status (*)(const void* table, const BlockPlace& place,
                               std::string* content);
  TableIterator(const void* table, ReadBlock read, const Comparator* comparator,
                std::unique_ptr<Iterator> index)
      : table_(table),
        read_(read),
        comparator_(comparator),
        index_(std::move(index)) {}

  bool Valid() const override { return block_ != nullptr && block_->Valid(); }
  void SeekToFirst() override {
    index_->SeekToFirst();
    OpenBlock();
    if (block_ != nullptr) block_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    index_->SeekToLast();
    OpenBlock();
    if (block_ != nullptr) block_->SeekToLast();
    SkipBackward();
  }
  void Seek(const Slice& target) override {
    index_->Seek(target);
    OpenBlock();
    if (block_ != nullptr) block_->Seek(target);
    SkipForward();
  }
  void Next() override {
    if (!Valid()) return;
    block_->Next();
    SkipForward();
  }
  void Prev() override {
    if (!Valid()) return;
    block_->Prev();
    SkipBackward();
  }
  Slice key() const override { return Valid() ? block_->key() : Slice(); }
  Slice value() const override { return Valid() ? block_->value() : Slice(); }
  Status status() const override {
    if (!index_->status().ok()) return index_->status();
    return status_;
  }

 private:
  // Opens the block of the index's entry. Without one, block_ is null.
  void OpenBlock() {
    if (block_ != nullptr && status_.ok()) status_ = block_->status();
    block_.reset();
    if (!index_->Valid()) return;
    Slice value = index_->value();
    BlockPlace place;
    std::string content;
    Status status = place.TakeFrom(&value)
                        ? read_(table_, place, &content)
                        : Corruption("the index of the table is damaged");
    if (!status.ok()) {
      // Goes on with the next block, as LevelDB does.
      if (status_.ok()) status_ = std::move(status);
      content.assign(sizeof(uint32_t), '\0');  // An empty block.
    }
    block_ =
        std::make_unique<BlockContentIterator>(comparator_, std::move(content));
  }
  void SkipForward() {
    while (block_ != nullptr && !block_->Valid()) {
      index_->Next();
      OpenBlock();
      if (block_ != nullptr) block_->SeekToFirst();
    }
  }
  void SkipBackward() {
    while (block_ != nullptr && !block_->Valid()) {
      index_->Prev();
      OpenBlock();
      if (block_ != nullptr) block_->SeekToLast();
    }
  }

  const void* const table_;
  const ReadBlock read_;
  const Comparator* const comparator_;
  const std::unique_ptr<Iterator> index_;
  std::unique_ptr<BlockContentIterator> block_;
  Status status_;
};

}  // namespace

Status Table::Open(const Options& options, RandomAccessFile* file,
                   uint64_t file_bytes, Table** table) {
  *table = nullptr;
  auto rep = std::make_unique<Rep>();
  rep->options = options;
  rep->file = file;
  rep->file_bytes = file_bytes;
  Status status = rep->ReadTail();
  if (status.ok()) *table = new Table(rep.release());
  return status;
}

Table::~Table() { delete rep_; }

Iterator* Table::NewIterator(const ReadOptions& /*options*/) const {
  const auto read = [](const void* table, const BlockPlace& place,
                       std::string* content) {
    return static_cast<const Rep*>(table)->ReadBlock(place, content);
  };
  return new TableIterator(rep_, read, rep_->options.comparator,
                           rep_->NewIndexIterator());
}

uint64_t Table::ApproximateOffsetOf(const Slice& key) const {
  const auto index = rep_->NewIndexIterator();
  index->Seek(key);
  if (index->Valid()) {
    Slice value = index->value();
    BlockPlace place;
    if (place.TakeFrom(&value)) return place.offset;
  }
  // After the last key, or unknown: the metaindex is close to the end.
  return rep_->metaindex_place.offset;
}

}  // namespace leveldb
