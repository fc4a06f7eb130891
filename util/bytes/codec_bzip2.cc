// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <bzlib.h>

#include "util/bytes/codec.h"
#include "util/bytes/codec_stream.h"

namespace varve {

namespace {

// The smallest, of 100 kB, which RocksDB writes too.
constexpr int kBlockSize100k = 1;
// Bodies that claim more are decoded once to check it, since a short one can
// hold very much: 46 MB in 40 bytes.
constexpr size_t kTrustedRatio = 300;
constexpr size_t kMeasureBytes = size_t{32} << 10;

// The library's interface has no const.
char* Input(const Slice& slice) { return const_cast<char*>(slice.data()); }

class Bzip2Encoder final : public BlockEncoder {
 public:
  size_t Encode(const Slice& raw, char* out, size_t max_bytes) override {
    auto made = static_cast<unsigned>(max_bytes);
    const int error = BZ2_bzBuffToBuffCompress(
        out, &made, Input(raw), static_cast<unsigned>(raw.size()),
        kBlockSize100k, /*verbosity=*/0, /*workFactor=*/0);
    return error == BZ_OK ? made : 0;
  }
};

// A decoder of one body.
class Decompressor {
 public:
  explicit Decompressor(const Slice& packed) {
    if (packed.size() > kMaxRawBytes) return;
    const int error =
        BZ2_bzDecompressInit(&stream_, /*verbosity=*/0, /*small=*/0);
    ready_ = error == BZ_OK;
    result_ =
        error == BZ_MEM_ERROR ? DecodeResult::kNoMemory : DecodeResult::kDone;
    stream_.next_in = Input(packed);
    stream_.avail_in = static_cast<unsigned>(packed.size());
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() {
    if (ready_) BZ2_bzDecompressEnd(&stream_);
  }

  // Not kDone if nothing can be decoded.
  DecodeResult result() const { return result_; }

  // Decodes up to `size` bytes to `out` and sets *made to their number. Returns
  // kDone while there is more, and at the end. REQUIRES: result() is kDone.
  DecodeResult Next(char* out, size_t size, size_t* made) {
    stream_.next_out = out;
    stream_.avail_out = static_cast<unsigned>(size);
    const int error = BZ2_bzDecompress(&stream_);
    *made = size - stream_.avail_out;
    ended_ = error == BZ_STREAM_END;
    if (error == BZ_MEM_ERROR) return DecodeResult::kNoMemory;
    return error == BZ_OK || ended_ ? DecodeResult::kDone
                                    : DecodeResult::kDamaged;
  }
  // Returns true if the stream has ended with the body.
  bool complete() const { return ended_ && stream_.avail_in == 0; }
  bool ended() const { return ended_; }

 private:
  bz_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
  DecodeResult result_ = DecodeResult::kDamaged;
};

DecodeResult Measure(const Slice& packed, uint64_t* raw_bytes) {
  Decompressor decompressor(packed);
  return MeasureStream(&decompressor, kMeasureBytes, raw_bytes);
}

bool IsPlausible(const Slice& packed, uint64_t raw_bytes) {
  if (IsPlausibleRatio(packed, raw_bytes, kTrustedRatio)) return true;
  uint64_t measured_bytes = 0;
  return Measure(packed, &measured_bytes) == DecodeResult::kDone &&
         measured_bytes == raw_bytes;
}

DecodeResult Decode(const Slice& packed, const Slice& /*dictionary*/, char* out,
                    size_t length) {
  if (length > kMaxRawBytes) return DecodeResult::kDamaged;
  Decompressor decompressor(packed);
  DecodeResult result = decompressor.result();
  size_t total = 0;
  // The end of the stream comes in a call of its own where the output is full.
  char beyond;
  while (result == DecodeResult::kDone && !decompressor.ended()) {
    size_t made = 0;
    const bool is_full = total == length;
    result = is_full ? decompressor.Next(&beyond, 1, &made)
                     : decompressor.Next(out + total, length - total, &made);
    if (result == DecodeResult::kDone && !decompressor.ended() &&
        (made == 0 || is_full)) {
      result = DecodeResult::kDamaged;
    }
    if (is_full && made > 0) result = DecodeResult::kDamaged;
    if (!is_full) total += made;
  }
  if (result != DecodeResult::kDone) return result;
  return decompressor.complete() && total == length ? DecodeResult::kDone
                                                    : DecodeResult::kDamaged;
}

std::unique_ptr<BlockEncoder> NewEncoder(CompressionType /*type*/,
                                         int /*level*/) {
  return std::make_unique<Bzip2Encoder>();
}

// In old tables nothing but the stream itself tells the size.
constexpr Codec kCodec = {.form = RawSizeForm::kVarint32,
                          .old_form = RawSizeForm::kMeasured,
                          .is_plausible = IsPlausible,
                          .measure = Measure,
                          .decode = Decode,
                          .new_encoder = NewEncoder};

}  // namespace

const Codec* Bzip2Codec() { return &kCodec; }

}  // namespace varve
