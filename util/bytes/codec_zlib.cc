// Varve: a key-value storage engine. MIT licence, see LICENSE.
#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>

#include "util/bytes/codec.h"
#include "util/bytes/codec_stream.h"

namespace varve {

namespace {

// Bodies are raw deflate streams, without the header of zlib. Varve writes the
// window that RocksDB writes, and reads any.
constexpr int kWrittenWindowBits = -14;
constexpr int kReadWindowBits = -15;
constexpr size_t kWindowBytes = size_t{32} << 10;
constexpr int kMemoryLevel = 8;
// A byte expands to at most 1,032 raw bytes.
constexpr size_t kMaxRatio = 1100;

const unsigned char* Bytes(const Slice& slice) {
  return reinterpret_cast<const unsigned char*>(slice.data());
}

class ZlibEncoder final : public BlockEncoder {
 public:
  explicit ZlibEncoder(int level) {
    ready_ = deflateInit2(&stream_,
                          level == kDefaultCompressionLevel
                              ? Z_DEFAULT_COMPRESSION
                              : std::clamp(level, 1, 9),
                          Z_DEFLATED, kWrittenWindowBits, kMemoryLevel,
                          Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ZlibEncoder(const ZlibEncoder&) = delete;
  ZlibEncoder& operator=(const ZlibEncoder&) = delete;
  ~ZlibEncoder() override {
    if (ready_) deflateEnd(&stream_);
  }

  bool ready() const { return ready_; }

  size_t Encode(const Slice& raw, char* out, size_t max_bytes) override {
    if (deflateReset(&stream_) != Z_OK) return 0;
    stream_.next_in = Bytes(raw);
    stream_.avail_in = static_cast<uInt>(raw.size());
    stream_.next_out = reinterpret_cast<unsigned char*>(out);
    stream_.avail_out = static_cast<uInt>(max_bytes);
    if (deflate(&stream_, Z_FINISH) != Z_STREAM_END) return 0;
    return max_bytes - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool ready_;
};

// A decoder of one body.
class Inflater {
 public:
  Inflater(const Slice& packed, const Slice& dictionary) {
    const bool fits =
        packed.size() <= kMaxRawBytes && dictionary.size() <= kMaxRawBytes;
    if (!fits) return;
    const int error = inflateInit2(&stream_, kReadWindowBits);
    ready_ = error == Z_OK;
    if (error == Z_MEM_ERROR) result_ = DecodeResult::kNoMemory;
    if (!ready_) return;
    if (!dictionary.empty()) {
      const int set = inflateSetDictionary(
          &stream_, Bytes(dictionary), static_cast<uInt>(dictionary.size()));
      if (set == Z_MEM_ERROR) result_ = DecodeResult::kNoMemory;
      if (set != Z_OK) return;
    }
    stream_.next_in = Bytes(packed);
    stream_.avail_in = static_cast<uInt>(packed.size());
    result_ = DecodeResult::kDone;
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }

  // Not kDone if nothing can be decoded.
  DecodeResult result() const { return result_; }

  // Decodes up to `size` bytes to `out` and sets *made to their number. Returns
  // kDone while there is more, and at the end. REQUIRES: result() is kDone.
  DecodeResult Next(char* out, size_t size, size_t* made) {
    return Inflate(out, size, Z_NO_FLUSH, made);
  }
  // The same, for a caller that has space for all that is left: faster.
  DecodeResult Finish(char* out, size_t size, size_t* made) {
    return Inflate(out, size, Z_FINISH, made);
  }
  // Returns true if the stream has ended with the body.
  bool complete() const { return ended_ && stream_.avail_in == 0; }
  bool ended() const { return ended_; }

 private:
  DecodeResult Inflate(char* out, size_t size, int flush, size_t* made) {
    stream_.next_out = reinterpret_cast<unsigned char*>(out);
    stream_.avail_out = static_cast<uInt>(size);
    const int error = inflate(&stream_, flush);
    *made = size - stream_.avail_out;
    ended_ = error == Z_STREAM_END;
    if (error == Z_MEM_ERROR) return DecodeResult::kNoMemory;
    // Z_BUF_ERROR says that the output or the input is used up.
    return error == Z_OK || error == Z_STREAM_END || error == Z_BUF_ERROR
               ? DecodeResult::kDone
               : DecodeResult::kDamaged;
  }

  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
  DecodeResult result_ = DecodeResult::kDamaged;
};

bool IsPlausible(const Slice& packed, uint64_t raw_bytes) {
  return IsPlausibleRatio(packed, raw_bytes, kMaxRatio);
}

DecodeResult Measure(const Slice& packed, uint64_t* raw_bytes) {
  // The table may have a dictionary. Any bytes in its place give the same size.
  const std::unique_ptr<char[]> zeros = std::make_unique<char[]>(kWindowBytes);
  Inflater inflater(packed, Slice(zeros.get(), kWindowBytes));
  return MeasureStream(&inflater, kWindowBytes, raw_bytes);
}

DecodeResult Decode(const Slice& packed, const Slice& dictionary, char* out,
                    size_t length) {
  if (length > kMaxRawBytes) return DecodeResult::kDamaged;
  Inflater inflater(packed, dictionary);
  if (inflater.result() != DecodeResult::kDone) return inflater.result();
  size_t made = 0;
  const DecodeResult result = inflater.Finish(out, length, &made);
  if (result != DecodeResult::kDone) return result;
  return inflater.complete() && made == length ? DecodeResult::kDone
                                               : DecodeResult::kDamaged;
}

std::unique_ptr<BlockEncoder> NewEncoder(CompressionType /*type*/, int level) {
  auto encoder = std::make_unique<ZlibEncoder>(level);
  if (!encoder->ready()) return nullptr;
  return encoder;
}

// In old tables nothing but the stream itself tells the size.
constexpr Codec kCodec = {.form = RawSizeForm::kVarint32,
                          .old_form = RawSizeForm::kMeasured,
                          .is_plausible = IsPlausible,
                          .measure = Measure,
                          .decode = Decode,
                          .new_encoder = NewEncoder};

}  // namespace

const Codec* ZlibCodec() { return &kCodec; }

}  // namespace varve
