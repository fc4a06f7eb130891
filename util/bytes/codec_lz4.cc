// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <lz4.h>
#include <lz4hc.h>

#include <algorithm>

#include "util/bytes/codec.h"

namespace varve {

namespace {

// A byte expands to at most 255 raw bytes.
constexpr size_t kMaxRatio = 300;

class Lz4Encoder final : public BlockEncoder {
 public:
  explicit Lz4Encoder(int level)
      : state_(
            std::make_unique<char[]>(static_cast<size_t>(LZ4_sizeofState()))),
        acceleration_(level < 0 ? -std::max(level, -65537) : 1) {}

  size_t Encode(const Slice& raw, char* out, size_t max_bytes) override {
    return static_cast<size_t>(LZ4_compress_fast_extState(
        state_.get(), raw.data(), out, static_cast<int>(raw.size()),
        static_cast<int>(max_bytes), acceleration_));
  }

 private:
  std::unique_ptr<char[]> state_;
  const int acceleration_;
};

struct FreeStream {
  void operator()(LZ4_streamHC_t* stream) const { LZ4_freeStreamHC(stream); }
};
using HcStream = std::unique_ptr<LZ4_streamHC_t, FreeStream>;

class Lz4HcEncoder final : public BlockEncoder {
 public:
  Lz4HcEncoder(HcStream stream, int level)
      : stream_(std::move(stream)),
        level_(level == kDefaultCompressionLevel ? LZ4HC_CLEVEL_DEFAULT
                                                 : level) {}

  size_t Encode(const Slice& raw, char* out, size_t max_bytes) override {
    // Resetting the stream discards earlier blocks without clearing 256 KiB.
    LZ4_resetStreamHC_fast(stream_.get(), level_);
    return static_cast<size_t>(LZ4_compress_HC_continue(
        stream_.get(), raw.data(), out, static_cast<int>(raw.size()),
        static_cast<int>(max_bytes)));
  }

 private:
  HcStream stream_;
  const int level_;
};

bool IsPlausible(const Slice& packed, uint64_t raw_bytes) {
  return IsPlausibleRatio(packed, raw_bytes, kMaxRatio);
}

DecodeResult Decode(const Slice& packed, const Slice& dictionary, char* out,
                    size_t length) {
  if (packed.size() > LZ4_MAX_INPUT_SIZE || dictionary.size() > INT32_MAX ||
      length > kMaxRawBytes) {
    return DecodeResult::kDamaged;
  }
  // With an empty dictionary this is the plain decoder.
  const int made = LZ4_decompress_safe_usingDict(
      packed.data(), out, static_cast<int>(packed.size()),
      static_cast<int>(length), dictionary.data(),
      static_cast<int>(dictionary.size()));
  return made >= 0 && static_cast<size_t>(made) == length
             ? DecodeResult::kDone
             : DecodeResult::kDamaged;
}

std::unique_ptr<BlockEncoder> NewEncoder(CompressionType type, int level) {
  if (type == CompressionType::kLZ4) return std::make_unique<Lz4Encoder>(level);
  HcStream stream(LZ4_createStreamHC());
  if (stream == nullptr) return nullptr;
  return std::make_unique<Lz4HcEncoder>(std::move(stream), level);
}

constexpr Codec kCodec = {.form = RawSizeForm::kVarint32,
                          .old_form = RawSizeForm::kFixed64,
                          .is_plausible = IsPlausible,
                          .measure = nullptr,
                          .decode = Decode,
                          .new_encoder = NewEncoder};

}  // namespace

const Codec* Lz4Codec() { return &kCodec; }

}  // namespace varve
