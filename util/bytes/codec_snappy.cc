// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <snappy.h>

#include "util/bytes/codec.h"

namespace varve {

namespace {

// A byte expands to at most 22 raw bytes.
constexpr size_t kMaxRatio = 300;

class SnappyEncoder final : public BlockEncoder {
 public:
  // The output cannot be limited.
  size_t SpaceFor(size_t raw_bytes, size_t /*max_bytes*/) const override {
    return snappy::MaxCompressedLength(raw_bytes);
  }
  size_t Encode(const Slice& raw, char* out, size_t max_bytes) override {
    size_t made = 0;
    snappy::RawCompress(raw.data(), raw.size(), out, &made);
    return made <= max_bytes ? made : 0;
  }
};

bool IsPlausible(const Slice& packed, uint64_t raw_bytes) {
  return IsPlausibleRatio(packed, raw_bytes, kMaxRatio);
}

DecodeResult Measure(const Slice& packed, uint64_t* raw_bytes) {
  size_t claimed_bytes;
  if (!snappy::GetUncompressedLength(packed.data(), packed.size(),
                                     &claimed_bytes)) {
    return DecodeResult::kDamaged;
  }
  *raw_bytes = claimed_bytes;
  return DecodeResult::kDone;
}

DecodeResult Decode(const Slice& packed, const Slice& /*dictionary*/, char* out,
                    size_t length) {
  // Snappy writes as many bytes as the body claims, so check again before it
  // could overrun the buffer.
  uint64_t claimed_bytes;
  const bool decoded = Measure(packed, &claimed_bytes) == DecodeResult::kDone &&
                       claimed_bytes == length &&
                       snappy::RawUncompress(packed.data(), packed.size(), out);
  return decoded ? DecodeResult::kDone : DecodeResult::kDamaged;
}

std::unique_ptr<BlockEncoder> NewEncoder(CompressionType /*type*/,
                                         int /*level*/) {
  return std::make_unique<SnappyEncoder>();
}

constexpr Codec kCodec = {.form = RawSizeForm::kMeasured,
                          .old_form = RawSizeForm::kMeasured,
                          .is_plausible = IsPlausible,
                          .measure = Measure,
                          .decode = Decode,
                          .new_encoder = NewEncoder};

}  // namespace

const Codec* SnappyCodec() { return &kCodec; }

}  // namespace varve
