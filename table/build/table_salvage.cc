// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/build/table_salvage.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "table/block/entry_scanner.h"
#include "table/reader/table_core.h"
#include "table/reader/table_opener.h"
#include "util/bytes/checksum.h"
#include "util/bytes/compression.h"
#include "varve/compression_type.h"

namespace varve {

namespace {

// The largest block that is searched for. CRC-32C is extended byte by byte. The
// other checksums are computed anew for each possible end of a block: for about
// one byte in forty, but for every byte in a run of zeros. So the hashed bytes
// are bounded, for each search and for the file. The file's bound suffices for
// a few blocks of any kind, for all blocks of 4 KiB, and for larger blocks that
// do not consist of zeros.
constexpr size_t kMaxCrcBlockBytes = size_t{16} << 20;
constexpr size_t kMaxHashedBlockBytes = size_t{1} << 20;
constexpr uint64_t kMaxHashedBytes = uint64_t{1} << 29;
constexpr uint64_t kMaxHashedBytesOfFileByte = 2048;
constexpr uint64_t kAlwaysHashedBytes = 4 * kMaxHashedBytes;
constexpr size_t kFirstWindowBytes = size_t{64} << 10;

// With block_align, blocks begin at multiples of at least this number of bytes.
constexpr uint64_t kLeastAlignment = 256;

constexpr ChecksumType kTypes[] = {ChecksumType::kXxh3, ChecksumType::kCrc32c,
                                   ChecksumType::kXxHash64,
                                   ChecksumType::kXxHash32};

bool IsCompressionByte(char c) {
  const auto type = static_cast<uint8_t>(c);
  return type <= static_cast<uint8_t>(CompressionType::kZSTD) ||
         type == static_cast<uint8_t>(CompressionType::kZSTDNotFinal);
}

// Returns the size of the block that begins `bytes`, if its end is inside them.
// `context` is part of its checksum. Hashes at most *may_hash bytes, and
// subtracts them from it.
std::optional<size_t> FindBlockEnd(ChecksumType type, uint32_t context,
                                   const Slice& bytes, uint64_t* may_hash) {
  uint32_t crc = 0;
  for (size_t n = 0; n + kBlockTrailerSize <= bytes.size(); ++n) {
    const char* const end = bytes.data() + n;
    const bool is_crc = type == ChecksumType::kCrc32c;
    if (IsCompressionByte(*end)) {
      if (!is_crc && n > *may_hash) break;
      if (!is_crc) *may_hash -= n;
      const uint32_t found = is_crc ? MaskCrc(Crc32cExtend(crc, end, 1))
                                    : BlockChecksum(type, bytes.data(), n);
      // An empty block does not count.
      if (n > 0 && found + context == DecodeFixed32(end + 1)) return n;
    }
    if (is_crc) crc = Crc32cExtend(crc, end, 1);
  }
  return std::nullopt;
}

class Salvager {
 public:
  Salvager(const SalvageSink& sink, bool legacy)
      : sink_(sink), legacy_(legacy) {}

  Status Run(const TableReaderOptions& options,
             std::unique_ptr<RandomAccessFile> file) {
    bool index_is_whole = false;
    Status status =
        OpenDamagedTable(options, std::move(file), &core_, &index_is_whole);
    if (status.IsNotSupported()) return status;
    TakeRangeTombstones();
    if (index_is_whole) {
      return TakeIndexedBlocks();
    }
    if (core_.loader != nullptr) {
      Scan(core_.footer, 0, true);
      return Status::OK();
    }
    const uint32_t base = legacy_ ? 0 : ReadChecksumBase();
    for (const ChecksumType type : kTypes) {
      if (Scan(UseFooter(type, base), 0, true) || legacy_) {
        return Status::OK();
      }
    }
    for (const ChecksumType type : kTypes) {
      const uint32_t guess = GuessChecksumBase(type);
      if (guess != 0 && Scan(UseFooter(type, guess), 0, true)) break;
    }
    return Status::OK();
  }

 private:
  void TakeRangeTombstones() {
    if (core_.tombstones == nullptr) return;
    for (size_t i = 0; i < core_.tombstones->size(); ++i) {
      const RangeTombstone tombstone = core_.tombstones->at(i);
      std::string key = tombstone.begin.ToString();
      PutFixed64(&key,
                 PackTrailer(tombstone.sequence, ValueType::kRangeDeletion));
      sink_(key, tombstone.end);
    }
  }

  // Reads blocks from now on as if the table had the footer that is returned.
  Footer UseFooter(ChecksumType type, uint32_t base) {
    Footer footer;
    footer.checksum = legacy_ ? ChecksumType::kCrc32c : type;
    footer.format_version = legacy_ ? 0 : kWrittenFormatVersion;
    footer.checksum_base = base;
    core_.loader =
        std::make_shared<BlockLoader>(core_.file.get(), core_.options.file_name,
                                      core_.options.file_size, footer);
    return footer;
  }

  // Returns the checksum base in what is left of the footer, or 0.
  uint32_t ReadChecksumBase() const {
    const uint64_t file_size = core_.options.file_size;
    const auto size =
        static_cast<size_t>(std::min<uint64_t>(file_size, Footer::kSize));
    char scratch[Footer::kSize];
    Slice tail;
    if (!core_.file->Read(file_size - size, size, &tail, scratch).ok()) {
      return 0;
    }
    return FindChecksumBase(tail);
  }

  // Returns the checksum base with which the first two blocks of the file are
  // whole, or 0. The first one, at offset 0, gives a base for each possible
  // end.
  uint32_t GuessChecksumBase(ChecksumType type) {
    std::string window(kFirstWindowBytes, '\0');
    Slice bytes;
    if (!core_.file->Read(0, window.size(), &bytes, window.data()).ok()) {
      return 0;
    }
    may_hash_ = kAlwaysHashedBytes;
    for (size_t n = 1; n + kBlockTrailerSize <= bytes.size(); ++n) {
      const auto compression =
          static_cast<CompressionType>(static_cast<uint8_t>(bytes[n]));
      size_t raw_bytes = 0;
      if (!IsCompressionByte(bytes[n]) ||
          !UncompressedLength(compression, kWrittenFormatVersion,
                              Slice(bytes.data(), n), &raw_bytes)
               .ok()) {
        continue;
      }
      if (n + raw_bytes > may_hash_) break;
      may_hash_ -= n + raw_bytes;
      const uint32_t base = DecodeFixed32(bytes.data() + n + 1) -
                            BlockChecksum(type, bytes.data(), n);
      UseFooter(type, base);
      BlockRef block;
      if (base != 0 && LoadDataBlock({0, n}, &block).ok() &&
          FindBlock(type, base, n + kBlockTrailerSize)) {
        return base;
      }
    }
    return 0;
  }

  // Returns Corruption if it is not a complete data block.
  Status LoadDataBlock(const BlockHandle& handle, BlockRef* block) const {
    BlockBuildOptions build_options;
    build_options.global_sequence = core_.global_sequence;
    build_options.bytewise = core_.options.comparator->bytewise();
    build_options.fingerprints = false;
    return core_.loader->ReadDataBlock(handle, true, build_options, nullptr,
                                       block);
  }

  Status TakeIndexedBlocks() {
    uint64_t end = 0;
    bool any = false;
    for (size_t i = 0; i < core_.index.size(); ++i) {
      const BlockHandle& handle = core_.index.handle(i);
      Status status = TakeDataBlock(handle);
      if (status.IsNotSupported()) return status;
      any = any || status.ok();
      end = std::max(end, handle.offset + handle.size + kBlockTrailerSize);
    }
    if (core_.names_meta_blocks && (any || core_.index.size() == 0)) {
      return Status::OK();
    }
    // The form of the index was guessed, and the place of the range deletions
    // may be unknown.
    Scan(core_.footer, any ? end : 0, !any);
    return Status::OK();
  }

  Status TakeDataBlock(const BlockHandle& handle) {
    BlockRef block;
    Status status = LoadDataBlock(handle, &block);
    if (!status.ok()) return status;
    BlockIterator entry;
    entry.Reset(block.get(), core_.options.comparator);
    for (entry.SeekToFirst(); entry.Valid(); entry.Next()) {
      sink_(entry.key(), entry.value());
    }
    return status;
  }

  // Searches for blocks from an offset of the file on. `in_data` tells whether
  // data blocks may follow, or have ended. Returns whether a block was found.
  bool Scan(const Footer& footer, uint64_t offset, bool in_data) {
    if (footer.checksum == ChecksumType::kNone) return false;
    const uint64_t file_size = core_.options.file_size;
    may_hash_ = kAlwaysHashedBytes + kMaxHashedBytesOfFileByte * file_size;
    ByteBudget deletion_keys = KeyBudget(file_size);
    std::vector<BlockHandle> data_blocks;
    bool any = false;
    while (const auto handle =
               FindBlock(footer.checksum, footer.checksum_base, offset)) {
      any = true;
      offset = handle->offset + handle->size + kBlockTrailerSize;
      in_data = in_data && IsDataBlock(*handle, data_blocks);
      if (in_data) {
        TakeDataBlock(*handle).IgnoreError();  // It was read a moment ago.
        data_blocks.push_back(*handle);
      } else if (core_.tombstones == nullptr) {
        TakeRangeTombstoneBlock(*handle, &deletion_keys);
      }
    }
    return any;
  }

  std::optional<BlockHandle> FindBlock(ChecksumType type, uint32_t base,
                                       uint64_t offset) {
    offset = SkipPadding(offset);
    const auto size = FindBlockAt(type, ChecksumContext(base, offset), offset);
    if (!size) return std::nullopt;
    return BlockHandle{offset, *size};
  }

  // Zeros fill the space before an aligned block, which itself begins with at
  // most one zero.
  uint64_t SkipPadding(uint64_t offset) {
    window_.resize(std::max(window_.size(), kFirstWindowBytes));
    Slice read;
    if (!core_.file->Read(offset, kFirstWindowBytes, &read, window_.data())
             .ok()) {
      return offset;
    }
    size_t zeros = 0;
    while (zeros < read.size() && read[zeros] == 0) ++zeros;
    if (zeros < 2 || zeros == read.size()) return offset;
    for (const uint64_t start : {offset + zeros, offset + zeros - 1}) {
      if (start % kLeastAlignment == 0) return start;
    }
    return offset;
  }

  std::optional<size_t> FindBlockAt(ChecksumType type, uint32_t context,
                                    uint64_t offset) {
    const uint64_t file_size = core_.options.file_size;
    if (offset >= file_size) return std::nullopt;
    const uint64_t most =
        std::min<uint64_t>(file_size - offset, type == ChecksumType::kCrc32c
                                                   ? kMaxCrcBlockBytes
                                                   : kMaxHashedBlockBytes);
    for (uint64_t bytes = kFirstWindowBytes;; bytes *= 8) {
      const auto count = static_cast<size_t>(std::min(bytes, most));
      if (count > window_.size()) window_.resize(count);
      Slice read;
      if (!core_.file->Read(offset, count, &read, window_.data()).ok()) {
        return std::nullopt;
      }
      const uint64_t most_hashed = std::min(may_hash_, kMaxHashedBytes);
      uint64_t left_bytes = most_hashed;
      const auto size = FindBlockEnd(type, context, read, &left_bytes);
      may_hash_ -= most_hashed - left_bytes;
      if (size || count == most) return size;
    }
  }

  // Blocks after the data blocks may consist of keys and values too. An index
  // begins with a handle of the first data block, and has one for each.
  bool IsDataBlock(const BlockHandle& handle,
                   const std::vector<BlockHandle>& before) {
    BlockRef block;
    if (!LoadDataBlock(handle, &block).ok() || block->EntryCount() == 0) {
      return false;
    }
    BlockIterator entry;
    entry.Reset(block.get(), core_.options.comparator);
    entry.SeekToFirst();
    if (!last_key_.empty() &&
        core_.options.comparator->Compare(last_key_, entry.key()) >= 0) {
      return false;
    }
    if (!before.empty() && block->EntryCount() == before.size()) {
      std::string first_handle;
      before[0].EncodeTo(&first_handle);
      if (entry.value().starts_with(first_handle)) return false;
    }
    entry.SeekToLast();
    last_key_.assign(entry.key().data(), entry.key().size());
    return true;
  }

  // The keys are taken from a budget, which is the file's.
  void TakeRangeTombstoneBlock(const BlockHandle& handle, ByteBudget* budget) {
    FileBody body;
    BlockTail tail;
    if (!core_.loader
             ->ReadMetaBlock(BlockLoader::MetaKind::kOther, handle, nullptr,
                             &body)
             .ok() ||
        !DecodeBlockTail(body.contents, &tail).ok()) {
      return;
    }
    // An index read this way may seem to begin with a deletion, but not all of
    // its entries are deletions.
    std::vector<std::pair<std::string, std::string>> deletions;
    EntryScanner entry(Slice(body.contents.data(), tail.entries_size));
    while (entry.Next()) {
      const Slice key = entry.key();
      if (!budget->Take(key.size()) || key.size() < kTrailerSize ||
          ExtractValueType(key) != ValueType::kRangeDeletion ||
          core_.options.comparator->CompareUser(ExtractUserKey(key),
                                                entry.value()) >= 0) {
        return;
      }
      deletions.emplace_back(key.ToString(), entry.value().ToString());
    }
    if (!entry.status().ok()) return;
    for (const auto& [key, end] : deletions) sink_(key, end);
  }

  const SalvageSink& sink_;
  const bool legacy_;
  TableCore core_;
  uint64_t may_hash_ = 0;  // By the search of this file that is under way.
  std::string window_;
  std::string last_key_;  // In the data blocks so far.
};

}  // namespace

Status SalvageTable(const TableReaderOptions& options,
                    std::unique_ptr<RandomAccessFile> file, bool legacy,
                    const SalvageSink& sink) {
  return Salvager(sink, legacy).Run(options, std::move(file));
}

}  // namespace varve
