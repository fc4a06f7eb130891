// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/enum_names.h"

namespace varve::rocksdb_c {
namespace {

struct Enumerator {
  const char* name;
  int value;
};

// Enumerators of one option, with the names that LOG has for them.
constexpr Enumerator kCompactionStyles[] = {
    {"kCompactionStyleLevel", 0},
    {"kCompactionStyleUniversal", 1},
    {"kCompactionStyleFIFO", 2},
    {"kCompactionStyleNone", 3},
};
constexpr Enumerator kCompactionPriorities[] = {
    {"kByCompensatedSize", 0},
    {"kOldestLargestSeqFirst", 1},
    {"kOldestSmallestSeqFirst", 2},
    {"kMinOverlappingRatio", 3},
    {"kRoundRobin", 4},
};
constexpr Enumerator kTemperatures[] = {
    {"kUnknown", 0}, {"kHot", 0x04},  {"kWarm", 0x08},
    {"kCool", 0x0A}, {"kCold", 0x0C}, {"kIce", 0x10},
};
constexpr Enumerator kCompressionTexts[] = {
    {"NoCompression", 0},
    {"Snappy", 1},
    {"Zlib", 2},
    {"BZip2", 3},
    {"LZ4", 4},
    {"LZ4HC", 5},
    {"Xpress", 6},
    {"ZSTD", 7},
    {"ZSTDNotFinal", 0x40},
    {"DisableOption", 0xff},
};

// Others, by their names in text. No name has two values.
constexpr Enumerator kOthers[] = {
    {"kNoCompression", 0},
    {"kSnappyCompression", 1},
    {"kZlibCompression", 2},
    {"kBZip2Compression", 3},
    {"kLZ4Compression", 4},
    {"kLZ4HCCompression", 5},
    {"kXpressCompression", 6},
    {"kZSTD", 7},
    {"kZSTDNotFinalCompression", 0x40},
    {"kDisableCompressionOption", 0xff},
    {"kTolerateCorruptedTailRecords", 0},
    {"kAbsoluteConsistency", 1},
    {"kPointInTimeRecovery", 2},
    {"kSkipAnyCorruptedRecords", 3},
    {"DEBUG_LEVEL", 0},
    {"INFO_LEVEL", 1},
    {"WARN_LEVEL", 2},
    {"ERROR_LEVEL", 3},
    {"FATAL_LEVEL", 4},
    {"HEADER_LEVEL", 5},
    {"kBinarySearch", 0},
    {"kHashSearch", 1},
    {"kTwoLevelIndexSearch", 2},
    {"kBinarySearchWithFirstKey", 3},
    {"kDataBlockBinarySearch", 0},
    {"kDataBlockBinaryAndHash", 1},
    {"kNoChecksum", 0},
    {"kCRC32c", 1},
    {"kxxHash", 2},
    {"kxxHash64", 3},
    {"kXXH3", 4},
    {"kNoShortening", 0},
    {"kShortenSeparators", 1},
    {"kShortenSeparatorsAndSuccessor", 2},
    {"kCompactionStopStyleSimilarSize", 0},
    {"kCompactionStopStyleTotalSize", 1},
    {"kBinary", 0},
    {"kInterpolation", 1},
    {"kAuto", 2},
    {"kDisable", 0},
    {"kFlushOnly", 1},
    {"kVolatileTier", 0},
    {"kVolatileCompressedTier", 1},
    {"kNonVolatileBlockTier", 2},
};

template <size_t kCount>
std::optional<int> Find(const Enumerator (&names)[kCount],
                        std::string_view name) {
  for (const Enumerator& enumerator : names) {
    if (name == enumerator.name) return enumerator.value;
  }
  return std::nullopt;
}

template <size_t kCount>
std::string NameOf(const Enumerator (&names)[kCount], int value) {
  for (const Enumerator& enumerator : names) {
    if (value == enumerator.value) return enumerator.name;
  }
  return "unknown_" + std::to_string(value);
}

}  // namespace

std::optional<int> EnumeratorOf(std::string_view name) {
  std::optional<int> value = Find(kOthers, name);
  if (!value) value = Find(kCompactionStyles, name);
  if (!value) value = Find(kCompactionPriorities, name);
  if (!value) value = Find(kTemperatures, name);
  return value;
}

std::optional<std::string> EnumTextOf(std::string_view name, int value) {
  if (name == "compaction_style") return NameOf(kCompactionStyles, value);
  if (name == "compaction_pri") return NameOf(kCompactionPriorities, value);
  if (name == "bottommost_compression" && value == 0xff) return "Disabled";
  if (name.ends_with("_temperature")) return NameOf(kTemperatures, value);
  if (name == "compression" || name == "bottommost_compression" ||
      name == "blob_compression_type") {
    return CompressionText(value);
  }
  return std::nullopt;
}

std::string CompressionText(int type) {
  return NameOf(kCompressionTexts, type);
}

}  // namespace varve::rocksdb_c
