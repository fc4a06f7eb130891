// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/index/bloom_filter.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "table/block/format.h"
#include "table/index/partitioned_filter.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"
#include "varve/slice_transform.h"

namespace varve {

namespace {

constexpr size_t kLineBytes = 64;
// The last bytes of a filter: kind of filter, kind of Bloom, probes, two zeros.
// The old filter has probes and a number of lines.
constexpr size_t kMetadataBytes = 5;
constexpr unsigned char kNewBloomMarker = 0xFF;
constexpr unsigned char kFastLocalKind = 0;
// Lengths must fit the 32-bit arithmetic of the format.
constexpr uint64_t kMaxFilterBytes = UINT32_MAX & ~uint64_t{kLineBytes - 1};

constexpr uint32_t kHash32Seed = 0xBC9F1D34;
constexpr uint32_t kMaxOldProbes = 30;

// The number of probes that gives the fewest false answers in lines of 64
// bytes, as it is fixed by the writers of the format.
uint32_t ProbesFor(uint32_t millibits_per_key) {
  static constexpr uint32_t kUpTo[] = {2080,  3580,  5100,  6640,
                                       8300,  10070, 11720, 14001,
                                       16050, 18300, 22001, 25501};
  uint32_t probes = 1;
  for (const uint32_t limit : kUpTo) {
    if (millibits_per_key <= limit) return probes;
    ++probes;
  }
  if (millibits_per_key > 50000) return 24;
  return (millibits_per_key - 1) / 2000 - 1;
}

uint32_t MillibitsPerKey(double bits_per_key) {
  // The comparison is false for NaN as well.
  if (!(bits_per_key >= 1)) return 1000;
  return static_cast<uint32_t>(
      std::lround(std::min(bits_per_key, 100.0) * 1000));
}

void SetBits(uint64_t hash, uint32_t line_count, uint32_t probes, char* data) {
  const uint64_t index = (hash & UINT32_MAX) * line_count >> 32;
  char* line = data + index * kLineBytes;
  auto x = static_cast<uint32_t>(hash >> 32);
  for (uint32_t i = 0; i < probes; ++i, x *= 0x9E3779B9) {
    // The upper nine bits: which of eight words, and which bit of it.
    char* const word = line + (x >> 29) * sizeof(uint64_t);
    EncodeFixed64(word, DecodeFixed64(word) | uint64_t{1} << (x >> 23 & 63));
  }
}

// Queries one of LevelDB's filters: bits and, last, the number of probes.
bool LevelDbMayMatch(const Slice& filter, const Slice& user_key) {
  // No key was in the range.
  if (filter.empty()) return false;
  const auto probes = static_cast<unsigned char>(filter[filter.size() - 1]);
  if (filter.size() < 2 || probes > kMaxOldProbes) return true;
  const uint64_t bits = uint64_t{filter.size() - 1} * 8;
  uint32_t h = Hash32(user_key, kHash32Seed, TailBytes::kZeroExtended);
  const uint32_t delta = std::rotr(h, 17);
  for (uint32_t i = 0; i < probes; ++i, h += delta) {
    const uint64_t bit = h % bits;
    if ((filter[bit / 8] >> (bit % 8) & 1) == 0) return false;
  }
  return true;
}

class BloomFilterPolicy : public FilterPolicy {
 public:
  explicit BloomFilterPolicy(double bits_per_key)
      : bits_per_key_(MillibitsPerKey(bits_per_key) / 1000.0) {}

  const char* Name() const override { return "rocksdb.BuiltinBloomFilter"; }

  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    BloomFilterBuilder builder(bits_per_key_);
    for (const Slice& key : keys) builder.AddHash(PreviewXxh3(key));
    std::string body;
    builder.Finish(&body);
    filter->append(body);
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    FilterReader reader;
    reader.Init(kFullBloomBlockName, filter, nullptr);
    return reader.MayMatch(PreviewXxh3(key), key);
  }

  double BuiltinBloomBitsPerKey() const override { return bits_per_key_; }

 private:
  const double bits_per_key_;
};

}  // namespace

// ---- Writing ----------------------------------------------------------------

BloomFilterBuilder::BloomFilterBuilder(double bits_per_key)
    : millibits_per_key_(MillibitsPerKey(bits_per_key)) {}

size_t BloomFilterBuilder::FilterSize() const {
  if (hashes_.empty()) return 0;
  const uint64_t bytes =
      (uint64_t{hashes_.size()} * millibits_per_key_ + 7999) / 8000;
  const uint64_t whole_lines = (bytes + kLineBytes - 1) & ~(kLineBytes - 1);
  return std::min(whole_lines, kMaxFilterBytes) + kMetadataBytes;
}

void BloomFilterBuilder::Finish(std::string* body) {
  const size_t size = FilterSize();
  body->assign(size, '\0');
  if (size == 0) return;

  const size_t bits_bytes = size - kMetadataBytes;
  const auto line_count = static_cast<uint32_t>(bits_bytes / kLineBytes);
  const uint32_t probes = ProbesFor(millibits_per_key_);
  char* data = body->data();
  // The lines of a large filter are not in the processor's caches, so they are
  // prefetched.
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    if (i + kAhead < hashes_.size()) {
      const uint64_t h1 = hashes_[i + kAhead] & UINT32_MAX;
      __builtin_prefetch(data + (h1 * line_count >> 32) * kLineBytes, 1);
    }
    SetBits(hashes_[i], line_count, probes, data);
  }
  data[bits_bytes] = static_cast<char>(kNewBloomMarker);
  data[bits_bytes + 1] = static_cast<char>(kFastLocalKind);
  data[bits_bytes + 2] = static_cast<char>(probes);
  hashes_.clear();
}

// ---- Reading ----------------------------------------------------------------

void FilterReader::Init(const Slice& metaindex_name, const Slice& body,
                        const FilterPolicy* policy) {
  *this = FilterReader();
  if (metaindex_name == kFullBloomBlockName) {
    InitFullFilter(body);
    return;
  }
  if (metaindex_name == kLevelDbBloomBlockName) {
    InitLevelDb(body);
    return;
  }
  if (policy != nullptr &&
      metaindex_name == kCustomFilterPrefix + std::string(policy->Name())) {
    kind_ = Kind::kCustom;
    data_ = body;
    policy_ = policy;
  }
}

void FilterReader::Init(const PartitionedFilter* partitions) {
  *this = FilterReader();
  kind_ = Kind::kPartitioned;
  partitions_ = partitions;
}

void FilterReader::Init(const SliceTransform* extractor,
                        const FilterReader* prefixes) {
  *this = FilterReader();
  kind_ = Kind::kPrefixes;
  extractor_ = extractor;
  prefixes_ = prefixes;
}

void FilterReader::InitFullFilter(const Slice& body) {
  if (body.empty() || body.size() == kMetadataBytes) {
    kind_ = Kind::kMatchesNothing;
    return;
  }
  if (body.size() < kMetadataBytes) return;
  const auto* metadata =
      reinterpret_cast<const unsigned char*>(body.end()) - kMetadataBytes;
  if (metadata[0] >= 1 && metadata[0] <= kMaxOldProbes) {
    InitOldLocal(body, metadata[0]);
    return;
  }
  const size_t bits_bytes = body.size() - kMetadataBytes;
  // The high bits of the third byte would mean lines of another size.
  if (metadata[0] != kNewBloomMarker || metadata[1] != kFastLocalKind ||
      metadata[2] == 0 || metadata[2] > kMaxOldProbes || metadata[3] != 0 ||
      metadata[4] != 0 || bits_bytes % kLineBytes != 0 ||
      bits_bytes > kMaxFilterBytes) {
    return;
  }
  kind_ = Kind::kFastLocal;
  data_ = Slice(body.data(), bits_bytes);
  line_count_ = static_cast<uint32_t>(bits_bytes / kLineBytes);
  probes_ = metadata[2];
}

void FilterReader::InitOldLocal(const Slice& body, uint32_t probes) {
  const size_t bits_bytes = body.size() - kMetadataBytes;
  const uint32_t lines = DecodeFixed32(body.end() - sizeof(uint32_t));
  if (lines == 0 || bits_bytes % lines != 0 || bits_bytes > UINT32_MAX / 8) {
    return;
  }
  const size_t line_bytes = bits_bytes / lines;
  if (!std::has_single_bit(line_bytes)) return;
  kind_ = Kind::kOldLocal;
  data_ = Slice(body.data(), bits_bytes);
  line_count_ = lines;
  line_bytes_ = static_cast<uint32_t>(line_bytes);
  probes_ = probes;
}

void FilterReader::InitLevelDb(const Slice& body) {
  if (body.size() < kMetadataBytes) return;
  const auto range_log2 = static_cast<unsigned char>(*(body.end() - 1));
  const uint32_t array = DecodeFixed32(body.end() - kMetadataBytes);
  if (range_log2 > 63 || array > body.size() - kMetadataBytes) return;
  kind_ = Kind::kLevelDb;
  range_log2_ = range_log2;
  data_ = Slice(body.data(), array);
  // The array is followed by its own offset, which is the end of the last
  // filter.
  offsets_ = Slice(body.data() + array, body.size() - array - 1);
}

bool FilterReader::OtherMayMatch(uint64_t hash, const Slice& user_key) const {
  switch (kind_) {
    case Kind::kMatchesNothing:
      return false;
    case Kind::kOldLocal:
      return OldLocalMayMatch(user_key);
    case Kind::kCustom:
      return policy_->KeyMayMatch(user_key, data_);
    case Kind::kPartitioned:
      return partitions_->MayMatch(hash, user_key);
    case Kind::kPrefixes: {
      if (!extractor_->InDomain(user_key)) return true;
      const Slice prefix = extractor_->Transform(user_key);
      return prefixes_->PrefixMayMatch(PreviewXxh3(prefix), prefix);
    }
    case Kind::kAlwaysMaybe:
    case Kind::kFastLocal:
    case Kind::kLevelDb:
      break;
  }
  return true;
}

bool FilterReader::PrefixMayMatch(uint64_t hash, const Slice& prefix) const {
  return kind_ == Kind::kPartitioned ? partitions_->PrefixMayMatch(hash, prefix)
                                     : MayMatch(hash, prefix);
}

bool FilterReader::OldLocalMayMatch(const Slice& user_key) const {
  uint32_t h = Hash32(user_key, kHash32Seed, TailBytes::kSignExtended);
  const uint32_t delta = std::rotr(h, 17);
  const char* line = data_.data() + size_t{h % line_count_} * line_bytes_;
  for (uint32_t i = 0; i < probes_; ++i, h += delta) {
    const uint32_t bit = h % (line_bytes_ * 8);
    if ((line[bit / 8] >> (bit % 8) & 1) == 0) return false;
  }
  return true;
}

bool FilterReader::MayMatchInBlock(const Slice& user_key,
                                   uint64_t block_offset) const {
  if (kind_ != Kind::kLevelDb) return true;
  const uint64_t index = block_offset >> range_log2_;
  if (index >= offsets_.size() / sizeof(uint32_t) - 1) return true;
  const char* entry = offsets_.data() + index * sizeof(uint32_t);
  const uint32_t begin = DecodeFixed32(entry);
  const uint32_t end = DecodeFixed32(entry + sizeof(uint32_t));
  if (begin > end || end > data_.size()) return true;
  return LevelDbMayMatch(Slice(data_.data() + begin, end - begin), user_key);
}

std::shared_ptr<const FilterPolicy> NewBloomFilterPolicy(double bits_per_key) {
  return std::make_shared<BloomFilterPolicy>(bits_per_key);
}

}  // namespace varve
