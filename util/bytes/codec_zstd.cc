// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <zstd.h>

#include "util/bytes/codec.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

// Any block of a frame expands to at most 128 KiB. The shortest block takes 4
// bytes.
constexpr size_t kBlockRawBytes = size_t{128} << 10;
constexpr size_t kBlockMinBytes = 4;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using EncoderContext = std::unique_ptr<ZSTD_CCtx, FreeContext>;

class ZstdEncoder final : public BlockEncoder {
 public:
  ZstdEncoder(EncoderContext context, int level)
      : context_(std::move(context)),
        level_(level == kDefaultCompressionLevel ? ZSTD_defaultCLevel()
                                                 : level) {}

  size_t Encode(const Slice& raw, char* out, size_t max_bytes) override {
    const size_t made = ZSTD_compressCCtx(context_.get(), out, max_bytes,
                                          raw.data(), raw.size(), level_);
    return ZSTD_isError(made) ? 0 : made;
  }

 private:
  EncoderContext context_;
  const int level_;
};

// Each thread keeps a decoder: creating one costs more than decoding most
// blocks.
struct ZstdDecoder {
  std::unique_ptr<ZSTD_DCtx, FreeContext> context{ZSTD_createDCtx()};
};

bool IsPlausible(const Slice& packed, uint64_t raw_bytes) {
  if (raw_bytes / kBlockRawBytes > packed.size() / kBlockMinBytes) return false;
  const unsigned long long frame_bytes =
      ZSTD_getFrameContentSize(packed.data(), packed.size());
  return frame_bytes == raw_bytes || frame_bytes == ZSTD_CONTENTSIZE_UNKNOWN;
}

DecodeResult Decode(const Slice& packed, const Slice& dictionary, char* out,
                    size_t length) {
  const ThreadScratch<ZstdDecoder, ZstdDecoder> lent;
  ZSTD_DCtx* const decoder = lent->context.get();
  if (decoder == nullptr) return DecodeResult::kNoMemory;
  return ZSTD_decompress_usingDict(decoder, out, length, packed.data(),
                                   packed.size(), dictionary.data(),
                                   dictionary.size()) == length
             ? DecodeResult::kDone
             : DecodeResult::kDamaged;
}

std::unique_ptr<BlockEncoder> NewEncoder(CompressionType /*type*/, int level) {
  EncoderContext context(ZSTD_createCCtx());
  if (context == nullptr) return nullptr;
  return std::make_unique<ZstdEncoder>(std::move(context), level);
}

constexpr Codec kCodec = {.form = RawSizeForm::kVarint32,
                          .old_form = RawSizeForm::kVarint32,
                          .is_plausible = IsPlausible,
                          .measure = nullptr,
                          .decode = Decode,
                          .new_encoder = NewEncoder};

}  // namespace

const Codec* ZstdCodec() { return &kCodec; }

}  // namespace varve
