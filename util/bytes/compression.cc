// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/compression.h"

#include <lz4.h>
#include <lz4hc.h>
#include <snappy.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "util/bytes/coding.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

constexpr size_t kMaxRawBytes = size_t{1} << 30;

// A byte of Snappy expands to at most 22 raw bytes, one of LZ4 to at most 255.
// Small blocks may claim any size.
constexpr size_t kMaxRatio = 300;
constexpr size_t kAlwaysAllowedBytes = size_t{64} << 10;
// Any block of a ZSTD frame expands to at most 128 KiB. The shortest block
// takes 4 bytes.
constexpr size_t kZstdBlockRawBytes = size_t{128} << 10;
constexpr size_t kZstdBlockMinBytes = 4;

struct FreeZstd {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
struct FreeLz4Hc {
  void operator()(LZ4_streamHC_t* stream) const { LZ4_freeStreamHC(stream); }
};

// The decoders. There are fewer than types.
enum class Codec { kRaw, kSnappy, kLz4, kZstd, kNotBuiltIn };

Codec CodecOf(CompressionType type) {
  switch (type) {
    case CompressionType::kNone:
      return Codec::kRaw;
    case CompressionType::kSnappy:
      return Codec::kSnappy;
    case CompressionType::kLZ4:
    case CompressionType::kLZ4HC:
      return Codec::kLz4;
    case CompressionType::kZSTD:
    case CompressionType::kZSTDNotFinal:
      return Codec::kZstd;
    case CompressionType::kZlib:
    case CompressionType::kBZip2:
    case CompressionType::kXpress:
      break;
  }
  return Codec::kNotBuiltIn;
}

Status NotBuiltIn(CompressionType type) {
  char text[64];
  snprintf(text, sizeof(text), "%s compression (type 0x%02x) is not built in",
           CompressionName(type), static_cast<unsigned>(type));
  return Status::NotSupported(text);
}

Status BadBody(CompressionType type, const char* problem) {
  return Status::Corruption(std::string(CompressionName(type)) + " block " +
                            problem);
}

// Removes the raw size from the front of *body, in either of its forms.
bool GetRawSize(Codec codec, uint32_t format_version, Slice* body,
                uint64_t* raw_bytes) {
  if (codec == Codec::kLz4 && format_version < 2) {
    return GetFixed64(body, raw_bytes);
  }
  uint32_t raw_bytes_32;
  if (!GetVarint32(body, &raw_bytes_32)) return false;
  *raw_bytes = raw_bytes_32;
  return true;
}

// Returns true if `packed`, the bytes after the size, can hold `raw_bytes`.
bool IsPlausible(Codec codec, const Slice& packed, uint64_t raw_bytes) {
  if (raw_bytes > kMaxRawBytes) return false;
  if (codec != Codec::kZstd) {
    return raw_bytes <= kAlwaysAllowedBytes ||
           raw_bytes / kMaxRatio <= packed.size();
  }
  if (raw_bytes / kZstdBlockRawBytes > packed.size() / kZstdBlockMinBytes) {
    return false;
  }
  const unsigned long long frame_bytes =
      ZSTD_getFrameContentSize(packed.data(), packed.size());
  return frame_bytes == raw_bytes || frame_bytes == ZSTD_CONTENTSIZE_UNKNOWN;
}

bool UnpackLz4(const Slice& packed, const Slice& dictionary, char* out,
               size_t length) {
  if (packed.size() > LZ4_MAX_INPUT_SIZE || dictionary.size() > INT32_MAX) {
    return false;
  }
  // With an empty dictionary this is the plain decoder.
  const int made = LZ4_decompress_safe_usingDict(
      packed.data(), out, static_cast<int>(packed.size()),
      static_cast<int>(length), dictionary.data(),
      static_cast<int>(dictionary.size()));
  return made >= 0 && static_cast<size_t>(made) == length;
}

// Each thread keeps a decoder: creating one costs more than decoding most
// blocks.
struct ZstdDecoder {
  std::unique_ptr<ZSTD_DCtx, FreeZstd> context{ZSTD_createDCtx()};
};

bool UnpackZstd(ZSTD_DCtx* decoder, const Slice& packed,
                const Slice& dictionary, char* out, size_t length) {
  return ZSTD_decompress_usingDict(decoder, out, length, packed.data(),
                                   packed.size(), dictionary.data(),
                                   dictionary.size()) == length;
}

}  // namespace

bool CompressionSupported(CompressionType type) {
  return type != CompressionType::kZSTDNotFinal &&
         CodecOf(type) != Codec::kNotBuiltIn;
}

const char* CompressionName(CompressionType type) {
  switch (type) {
    case CompressionType::kNone:
      return "NoCompression";
    case CompressionType::kSnappy:
      return "Snappy";
    case CompressionType::kZlib:
      return "Zlib";
    case CompressionType::kBZip2:
      return "BZip2";
    case CompressionType::kLZ4:
      return "LZ4";
    case CompressionType::kLZ4HC:
      return "LZ4HC";
    case CompressionType::kXpress:
      return "Xpress";
    case CompressionType::kZSTD:
      return "ZSTD";
    case CompressionType::kZSTDNotFinal:
      return "ZSTDNotFinal";
  }
  return "unknown";
}

// Only the member that the type needs is set.
struct Compressor::State {
  std::unique_ptr<char[]> lz4;
  std::unique_ptr<LZ4_streamHC_t, FreeLz4Hc> lz4hc;
  std::unique_ptr<ZSTD_CCtx, FreeZstd> zstd;
};

Compressor::Compressor(CompressionType type, int level)
    : type_(type), level_(level), state_(std::make_unique<State>()) {
  if (type == CompressionType::kLZ4) {
    state_->lz4 =
        std::make_unique<char[]>(static_cast<size_t>(LZ4_sizeofState()));
  } else if (type == CompressionType::kLZ4HC) {
    state_->lz4hc.reset(LZ4_createStreamHC());
  } else if (type == CompressionType::kZSTD) {
    state_->zstd.reset(ZSTD_createCCtx());
  }
}

Compressor::~Compressor() = default;

bool Compressor::Compress(const Slice& raw, std::string* body) {
  if (raw.empty() || raw.size() > kMaxRawBytes) return false;
  // The largest body that is worth storing. The encoders give up beyond it.
  const size_t max_body_bytes = raw.size() - raw.size() / 8 - 1;
  const size_t prefix_bytes =
      type_ == CompressionType::kSnappy ? 0 : VarintLength(raw.size());
  if (max_body_bytes <= prefix_bytes) return false;
  const size_t packed_bytes =
      CompressBehind(prefix_bytes, max_body_bytes - prefix_bytes, raw, body);
  if (packed_bytes == 0) return false;
  if (prefix_bytes > 0) {
    EncodeVarint32(body->data(), static_cast<uint32_t>(raw.size()));
  }
  body->resize(prefix_bytes + packed_bytes);
  return true;
}

size_t Compressor::CompressBehind(size_t prefix_bytes, size_t max_bytes,
                                  const Slice& raw, std::string* body) {
  const bool is_snappy = type_ == CompressionType::kSnappy;
  // Snappy's output cannot be limited.
  body->resize(is_snappy ? snappy::MaxCompressedLength(raw.size())
                         : prefix_bytes + max_bytes);
  char* out = body->data() + prefix_bytes;
  const int raw_int = static_cast<int>(raw.size());
  const int max_int = static_cast<int>(max_bytes);
  const bool has_level = level_ != kDefaultCompressionLevel;
  if (is_snappy) {
    size_t made = 0;
    snappy::RawCompress(raw.data(), raw.size(), out, &made);
    return made <= max_bytes ? made : 0;
  }
  if (state_->lz4 != nullptr) {
    const int acceleration = level_ < 0 ? -std::max(level_, -65537) : 1;
    return static_cast<size_t>(LZ4_compress_fast_extState(
        state_->lz4.get(), raw.data(), out, raw_int, max_int, acceleration));
  }
  if (state_->lz4hc != nullptr) {
    // Resetting the stream discards earlier blocks without clearing 256 KiB.
    LZ4_streamHC_t* stream = state_->lz4hc.get();
    LZ4_resetStreamHC_fast(stream, has_level ? level_ : LZ4HC_CLEVEL_DEFAULT);
    return static_cast<size_t>(
        LZ4_compress_HC_continue(stream, raw.data(), out, raw_int, max_int));
  }
  if (state_->zstd != nullptr) {
    const size_t made = ZSTD_compressCCtx(
        state_->zstd.get(), out, max_bytes, raw.data(), raw.size(),
        has_level ? level_ : ZSTD_defaultCLevel());
    return ZSTD_isError(made) ? 0 : made;
  }
  return 0;
}

Status UncompressedLength(CompressionType type, uint32_t format_version,
                          const Slice& body, size_t* length) {
  const Codec codec = CodecOf(type);
  if (codec == Codec::kNotBuiltIn) return NotBuiltIn(type);
  if (codec == Codec::kRaw) {
    *length = body.size();
    return Status::OK();
  }
  Slice packed = body;
  uint64_t raw_bytes;
  if (codec == Codec::kSnappy) {
    size_t snappy_bytes;
    if (!snappy::GetUncompressedLength(body.data(), body.size(),
                                       &snappy_bytes)) {
      return BadBody(type, "without its raw size");
    }
    raw_bytes = snappy_bytes;
  } else if (!GetRawSize(codec, format_version, &packed, &raw_bytes)) {
    return BadBody(type, "without its raw size");
  }
  if (!IsPlausible(codec, packed, raw_bytes)) {
    return BadBody(type, "with an impossible raw size");
  }
  *length = raw_bytes;
  return Status::OK();
}

Status UncompressInto(CompressionType type, uint32_t format_version,
                      const Slice& body, char* out, size_t length,
                      const Slice& dictionary) {
  const Codec codec = CodecOf(type);
  bool decoded = false;
  Slice packed = body;
  uint64_t raw_bytes = 0;
  switch (codec) {
    case Codec::kNotBuiltIn:
      return NotBuiltIn(type);
    case Codec::kRaw:
      decoded = body.size() == length;
      if (decoded && length > 0) memcpy(out, body.data(), length);
      break;
    case Codec::kSnappy: {
      // Snappy writes as many bytes as the body claims, so check again before
      // it could overrun the buffer.
      size_t claimed_bytes;
      decoded = snappy::GetUncompressedLength(body.data(), body.size(),
                                              &claimed_bytes) &&
                claimed_bytes == length &&
                snappy::RawUncompress(body.data(), body.size(), out);
      break;
    }
    case Codec::kLz4:
      decoded = GetRawSize(codec, format_version, &packed, &raw_bytes) &&
                raw_bytes == length && length <= kMaxRawBytes &&
                UnpackLz4(packed, dictionary, out, length);
      break;
    case Codec::kZstd: {
      const ThreadScratch<ZstdDecoder, ZstdDecoder> lent;
      ZSTD_DCtx* decoder = lent->context.get();
      if (decoder == nullptr) {
        return Status::IOError("no memory for a ZSTD decoder");
      }
      decoded = GetRawSize(codec, format_version, &packed, &raw_bytes) &&
                raw_bytes == length &&
                UnpackZstd(decoder, packed, dictionary, out, length);
      break;
    }
  }
  return decoded ? Status::OK() : BadBody(type, "does not decode");
}

}  // namespace varve
