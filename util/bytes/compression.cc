// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/compression.h"

#include <cstdio>
#include <cstring>

#include "util/bytes/codec.h"
#include "util/bytes/coding.h"

namespace varve {

namespace {

// Returns null for a type that is not compressed, and for one that Varve cannot
// read.
const Codec* CodecOf(CompressionType type) {
  switch (type) {
    case CompressionType::kSnappy:
      return SnappyCodec();
    case CompressionType::kZlib:
      return ZlibCodec();
    case CompressionType::kBZip2:
      return Bzip2Codec();
    case CompressionType::kLZ4:
    case CompressionType::kLZ4HC:
      return Lz4Codec();
    case CompressionType::kZSTD:
    case CompressionType::kZSTDNotFinal:
      return ZstdCodec();
    case CompressionType::kNone:
    case CompressionType::kXpress:
      break;
  }
  return nullptr;
}

Status NotBuiltIn(CompressionType type) {
  return Status::NotSupported(NotBuiltInText(type));
}

Status BadBody(CompressionType type, const char* problem) {
  return Status::Corruption(std::string(CompressionName(type)) + " block " +
                            problem);
}

Status ToStatus(CompressionType type, DecodeResult result) {
  switch (result) {
    case DecodeResult::kDone:
      return Status::OK();
    case DecodeResult::kNoMemory:
      return Status::IOError(
          std::string("no memory for the decoder of a block of ") +
          CompressionName(type));
    case DecodeResult::kDamaged:
      break;
  }
  return BadBody(type, "does not decode");
}

RawSizeForm FormOf(const Codec& codec, uint32_t format_version) {
  return format_version < 2 ? codec.old_form : codec.form;
}

// Removes a stored raw size from the front of *body. REQUIRES: `form` is not
// kMeasured.
bool GetRawSize(RawSizeForm form, Slice* body, uint64_t* raw_bytes) {
  if (form == RawSizeForm::kFixed64) return GetFixed64(body, raw_bytes);
  uint32_t raw_bytes_32;
  if (!GetVarint32(body, &raw_bytes_32)) return false;
  *raw_bytes = raw_bytes_32;
  return true;
}

}  // namespace

size_t BlockEncoder::SpaceFor(size_t /*raw_bytes*/, size_t max_bytes) const {
  return max_bytes;
}

bool CompressionSupported(CompressionType type) {
  return type == CompressionType::kNone ||
         (type != CompressionType::kZSTDNotFinal && CodecOf(type) != nullptr);
}

CompressionType DefaultCompression() {
  for (const CompressionType type :
       {CompressionType::kSnappy, CompressionType::kLZ4,
        CompressionType::kZSTD}) {
    if (CompressionSupported(type)) return type;
  }
  return CompressionType::kNone;
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

std::string NotBuiltInText(CompressionType type) {
  char text[64];
  snprintf(text, sizeof(text), "%s compression (type 0x%02x) is not built in",
           CompressionName(type), static_cast<unsigned>(type));
  return text;
}

Compressor::Compressor(CompressionType type, int level) {
  if (!CompressionSupported(type)) return;
  const Codec* const codec = CodecOf(type);
  if (codec == nullptr) return;
  encoder_ = codec->new_encoder(type, level);
  has_prefix_ = codec->form == RawSizeForm::kVarint32;
}

Compressor::~Compressor() = default;

bool Compressor::Compress(const Slice& raw, std::string* body) {
  if (encoder_ == nullptr || raw.empty() || raw.size() > kMaxRawBytes) {
    return false;
  }
  // The largest body that is worth storing. The encoders give up beyond it.
  const size_t max_body_bytes = raw.size() - raw.size() / 8 - 1;
  const size_t prefix_bytes = has_prefix_ ? VarintLength(raw.size()) : 0;
  if (max_body_bytes <= prefix_bytes) return false;
  const size_t max_bytes = max_body_bytes - prefix_bytes;
  body->resize(prefix_bytes + encoder_->SpaceFor(raw.size(), max_bytes));
  const size_t packed_bytes =
      encoder_->Encode(raw, body->data() + prefix_bytes, max_bytes);
  if (packed_bytes == 0) return false;
  if (has_prefix_) {
    EncodeVarint32(body->data(), static_cast<uint32_t>(raw.size()));
  }
  body->resize(prefix_bytes + packed_bytes);
  return true;
}

Status UncompressedLength(CompressionType type, uint32_t format_version,
                          const Slice& body, size_t* length) {
  if (type == CompressionType::kNone) {
    *length = body.size();
    return Status::OK();
  }
  const Codec* const codec = CodecOf(type);
  if (codec == nullptr) return NotBuiltIn(type);
  const RawSizeForm form = FormOf(*codec, format_version);
  Slice packed = body;
  uint64_t raw_bytes = 0;
  if (form == RawSizeForm::kMeasured) {
    const DecodeResult result = codec->measure(body, &raw_bytes);
    if (result == DecodeResult::kNoMemory) return ToStatus(type, result);
    if (result != DecodeResult::kDone) {
      return BadBody(type, "without its raw size");
    }
  } else if (!GetRawSize(form, &packed, &raw_bytes)) {
    return BadBody(type, "without its raw size");
  }
  if (raw_bytes > kMaxRawBytes || !codec->is_plausible(packed, raw_bytes)) {
    return BadBody(type, "with an impossible raw size");
  }
  *length = raw_bytes;
  return Status::OK();
}

Status UncompressInto(CompressionType type, uint32_t format_version,
                      const Slice& body, char* out, size_t length,
                      const Slice& dictionary) {
  if (type == CompressionType::kNone) {
    if (body.size() != length) return BadBody(type, "does not decode");
    if (length > 0) memcpy(out, body.data(), length);
    return Status::OK();
  }
  const Codec* const codec = CodecOf(type);
  if (codec == nullptr) return NotBuiltIn(type);
  const RawSizeForm form = FormOf(*codec, format_version);
  Slice packed = body;
  if (form != RawSizeForm::kMeasured) {
    uint64_t raw_bytes = 0;
    if (!GetRawSize(form, &packed, &raw_bytes) || raw_bytes != length) {
      return BadBody(type, "does not decode");
    }
  }
  return ToStatus(type, codec->decode(packed, dictionary, out, length));
}

}  // namespace varve
