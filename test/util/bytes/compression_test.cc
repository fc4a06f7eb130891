// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: every block that can be written comes back; bodies that others wrote
// are read; no body, however damaged, makes us over-read, overrun or allocate
// without bounds. Method: round trips over kinds of data and sizes, bodies
// built by hand with the codecs' own libraries, truncations and bit flips.
#include "util/bytes/compression.h"

#include <bzlib.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/base/random.h"
#include "util/bytes/coding.h"

namespace varve {
namespace {

constexpr uint32_t kFormat = 5;
constexpr size_t kGiB = size_t{1} << 30;

constexpr CompressionType kWritable[] = {
    CompressionType::kSnappy, CompressionType::kZlib,  CompressionType::kBZip2,
    CompressionType::kLZ4,    CompressionType::kLZ4HC, CompressionType::kZSTD};

std::string Compressible(size_t size, uint64_t seed) {
  Random random(seed);
  std::string s;
  while (s.size() < size) {
    s += "key" + std::to_string(random.Uniform(1000)) + "value value ";
  }
  s.resize(size);
  return s;
}

std::string Incompressible(size_t size) {
  Random random(17);
  std::string s;
  while (s.size() < size) PutFixed64(&s, random.Next());
  s.resize(size);
  return s;
}

// Reads `body` through exact allocations, for the sanitizers.
Status Read(CompressionType type, uint32_t format_version, const Slice& body,
            std::string* raw, const Slice& dictionary = Slice()) {
  const std::unique_ptr<char[]> copy(new char[body.size()]);
  if (!body.empty()) memcpy(copy.get(), body.data(), body.size());
  const Slice exact(copy.get(), body.size());
  size_t length;
  Status s = UncompressedLength(type, format_version, exact, &length);
  if (!s.ok()) return s;
  const std::unique_ptr<char[]> out(new char[length]);
  s = UncompressInto(type, format_version, exact, out.get(), length,
                     dictionary);
  if (s.ok()) raw->assign(out.get(), length);
  return s;
}

std::string PackLz4(const Slice& raw) {
  std::string out(static_cast<size_t>(LZ4_COMPRESSBOUND(raw.size())), '\0');
  const int size =
      LZ4_compress_default(raw.data(), out.data(), static_cast<int>(raw.size()),
                           static_cast<int>(out.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

// A raw deflate stream, of which the dictionary may be empty.
std::string PackZlib(const std::string& raw, const std::string& dictionary) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -14, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  const auto bytes = [](const std::string& text) {
    return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  };
  if (!dictionary.empty()) {
    deflateSetDictionary(&stream, bytes(dictionary),
                         static_cast<uInt>(dictionary.size()));
  }
  std::string out(deflateBound(&stream, raw.size()), '\0');
  stream.next_in = bytes(raw);
  stream.avail_in = static_cast<uInt>(raw.size());
  stream.next_out = bytes(out);
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// `level`: the block size in units of 100 kB.
std::string PackBzip2(const std::string& raw, int level) {
  std::string out(raw.size() + raw.size() / 100 + 600, '\0');
  auto size = static_cast<unsigned>(out.size());
  EXPECT_EQ(
      BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(raw.data()),
                               static_cast<unsigned>(raw.size()), level, 0, 0),
      BZ_OK);
  out.resize(size);
  return out;
}

std::string WithVarintSize(uint32_t raw_bytes, const std::string& packed) {
  std::string body;
  PutVarint32(&body, raw_bytes);
  return body + packed;
}

TEST(CompressionTest, ReturnsBlocksAsCompressed) {
  for (const CompressionType type : kWritable) {
    SCOPED_TRACE(CompressionName(type));
    Compressor compressor(type);
    std::string body;
    for (const size_t size : {100u, 128u, 4096u, 4097u, 20000u, 1000000u}) {
      const std::string raw = Compressible(size, size);
      ASSERT_TRUE(compressor.Compress(raw, &body)) << size;
      EXPECT_LT(body.size(), size - size / 8);
      std::string back;
      ASSERT_TRUE(Ok(Read(type, kFormat, body, &back)));
      EXPECT_EQ(back, raw);
    }
  }
}

TEST(CompressionTest, DoesNotDependOnEarlierBlocks) {
  for (const CompressionType type : kWritable) {
    SCOPED_TRACE(CompressionName(type));
    Compressor used(type);
    std::string body;
    for (uint64_t seed = 0; seed < 50; seed++) {
      // A block that does not fit leaves the encoder in the middle of it.
      EXPECT_FALSE(used.Compress(Incompressible(4096), &body));
      const std::string raw = Compressible(4096, seed);
      ASSERT_TRUE(used.Compress(raw, &body));
      std::string fresh;
      ASSERT_TRUE(
          Compressor(type, kDefaultCompressionLevel).Compress(raw, &fresh));
      EXPECT_EQ(body, fresh);
    }
  }
}

TEST(CompressionTest, StoresRawWhenLittleIsGained) {
  std::string body;
  for (const CompressionType type : kWritable) {
    SCOPED_TRACE(CompressionName(type));
    Compressor compressor(type);
    EXPECT_FALSE(compressor.Compress("", &body));
    EXPECT_FALSE(compressor.Compress("a", &body));
    EXPECT_FALSE(compressor.Compress("abcdefgh", &body));
    EXPECT_FALSE(compressor.Compress(Incompressible(10000), &body));
    // From all noise to all repetition: the bound holds wherever it falls.
    size_t stored = 0;
    for (size_t zeros = 0; zeros <= 4000; zeros += 10) {
      const std::string raw =
          Incompressible(4000 - zeros) + std::string(zeros, 'z');
      if (!compressor.Compress(raw, &body)) continue;
      stored++;
      EXPECT_LT(body.size(), raw.size() - raw.size() / 8);
    }
    EXPECT_GT(stored, 300u);
    EXPECT_LT(stored, 360u);
  }
}

TEST(CompressionTest, AcceptsAnyLevel) {
  const std::string raw = Compressible(4096, 1);
  for (const CompressionType type : kWritable) {
    for (const int level : {INT32_MIN, -100, -1, 0, 1, 5, 12, 22, INT32_MAX}) {
      SCOPED_TRACE(std::string(CompressionName(type)) + " level " +
                   std::to_string(level));
      std::string body;
      std::string back;
      // The fastest levels may gain too little.
      if (!Compressor(type, level).Compress(raw, &body)) {
        EXPECT_LT(level, 0);
        continue;
      }
      ASSERT_TRUE(Read(type, kFormat, body, &back).ok());
      EXPECT_EQ(back, raw);
    }
  }
}

TEST(CompressionTest, RefusesToWriteOtherTypes) {
  const std::string raw = Compressible(4096, 1);
  std::string body;
  for (const CompressionType type :
       {CompressionType::kNone, CompressionType::kXpress,
        CompressionType::kZSTDNotFinal, static_cast<CompressionType>(0x99)}) {
    EXPECT_FALSE(Compressor(type, 1).Compress(raw, &body));
  }
}

TEST(CompressionTest, CopiesUncompressedBlocks) {
  std::string back;
  ASSERT_TRUE(Read(CompressionType::kNone, kFormat, "bytes", &back).ok());
  EXPECT_EQ(back, "bytes");
  ASSERT_TRUE(Read(CompressionType::kNone, kFormat, "", &back).ok());
  EXPECT_EQ(back, "");
  char out[8];
  EXPECT_TRUE(UncompressInto(CompressionType::kNone, kFormat, "bytes", out, 4)
                  .IsCorruption());
}

TEST(CompressionTest, ReadsLz4OfOldFormats) {
  const std::string raw = Compressible(5000, 3);
  std::string body;
  PutFixed64(&body, raw.size());
  body += PackLz4(raw);
  for (const uint32_t format_version : {0u, 1u}) {
    for (const CompressionType type :
         {CompressionType::kLZ4, CompressionType::kLZ4HC}) {
      std::string back;
      ASSERT_TRUE(Ok(Read(type, format_version, body, &back)));
      EXPECT_EQ(back, raw);
    }
  }
  std::string back;
  EXPECT_FALSE(Read(CompressionType::kLZ4, 2, body, &back).ok());
  EXPECT_TRUE(Read(CompressionType::kLZ4, 1, Slice(body.data(), 7), &back)
                  .IsCorruption());
}

// Nothing but the stream tells the size there.
TEST(CompressionTest, ReadsZlibAndBzip2OfOldFormats) {
  for (const size_t size : {1u, 5000u, 32768u, 65536u, 200001u, 1000000u}) {
    const std::string raw = Compressible(size, 3);
    const std::pair<CompressionType, std::string> kBodies[] = {
        {CompressionType::kZlib, PackZlib(raw, "")},
        {CompressionType::kBZip2, PackBzip2(raw, 1)},
        {CompressionType::kBZip2, PackBzip2(raw, 9)}};
    for (const auto& [type, body] : kBodies) {
      SCOPED_TRACE(std::string(CompressionName(type)) + std::to_string(size));
      for (const uint32_t format_version : {0u, 1u}) {
        std::string back;
        Status s = Read(type, format_version, body, &back);
        ASSERT_TRUE(Ok(s));
        EXPECT_EQ(back, raw);
        for (const size_t less : {size_t{1}, size_t{2}, body.size() - 1}) {
          s = Read(type, format_version, Slice(body.data(), body.size() - less),
                   &back);
          EXPECT_TRUE(IsCorruption(s));
        }
        s = Read(type, format_version, body + "x", &back);
        EXPECT_TRUE(IsCorruption(s));
      }
      std::string back;
      ASSERT_TRUE(Read(type, kFormat,
                       WithVarintSize(static_cast<uint32_t>(size), body), &back)
                      .ok());
      EXPECT_EQ(back, raw);
    }
  }
}

TEST(CompressionTest, ReadsZlibWithDictionaryInAllFormats) {
  const std::string dictionary = Compressible(2000, 8);
  const std::string raw = dictionary.substr(500, 1000);
  const std::string packed = PackZlib(raw, dictionary);
  ASSERT_LT(packed.size(), 100u);
  for (const uint32_t format_version : {1u, 2u, 5u}) {
    const std::string body =
        format_version < 2 ? packed : WithVarintSize(1000, packed);
    std::string back;
    const Status s =
        Read(CompressionType::kZlib, format_version, body, &back, dictionary);
    ASSERT_TRUE(Ok(s));
    EXPECT_EQ(back, raw);
    EXPECT_TRUE(Read(CompressionType::kZlib, format_version, body, &back)
                    .IsCorruption());
  }
}

// A few bytes of BZip2 hold very much. They must claim their true size.
TEST(CompressionTest, ChecksLargeClaimsOfBzip2ByDecoding) {
  const std::string raw(20 << 20, 'x');
  const std::string packed = PackBzip2(raw, 9);
  ASSERT_LT(packed.size(), 200u);
  const auto length_of = [&](uint32_t claim) {
    size_t length = 0;
    return UncompressedLength(CompressionType::kBZip2, kFormat,
                              WithVarintSize(claim, packed), &length);
  };
  EXPECT_TRUE(length_of(20 << 20).ok());
  EXPECT_TRUE(length_of((20 << 20) - 1).IsCorruption());
  EXPECT_TRUE(length_of((20 << 20) + 1).IsCorruption());
  EXPECT_TRUE(length_of(1 << 30).IsCorruption());
  EXPECT_TRUE(length_of(UINT32_MAX).IsCorruption());
}

TEST(CompressionTest, ReadsZstdUnderBothNumbersInAllFormats) {
  const std::string raw = Compressible(5000, 4);
  std::string body;
  ASSERT_TRUE(Compressor(CompressionType::kZSTD, 3).Compress(raw, &body));
  for (const CompressionType type :
       {CompressionType::kZSTD, CompressionType::kZSTDNotFinal}) {
    for (const uint32_t format_version : {0u, 1u, 2u, 5u}) {
      std::string back;
      ASSERT_TRUE(Read(type, format_version, body, &back).ok());
      EXPECT_EQ(back, raw);
    }
  }
}

TEST(CompressionTest, ReadsZstdFrameThatDoesNotNameItsSize) {
  const std::string raw = Compressible(5000, 4);
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(),
                               raw.data(), raw.size()));
  ZSTD_freeCCtx(context);
  std::string back;
  ASSERT_TRUE(Ok(Read(CompressionType::kZSTD, kFormat,
                      WithVarintSize(5000, packed), &back)));
  EXPECT_EQ(back, raw);
}

TEST(CompressionTest, ReadsZstdOfHighestRatio) {
  const std::string raw(64 << 20, 'x');
  std::string body;
  for (const CompressionType type : kWritable) {
    ASSERT_TRUE(
        Compressor(type, kDefaultCompressionLevel).Compress(raw, &body));
    std::string back;
    ASSERT_TRUE(Ok(Read(type, kFormat, body, &back)));
    EXPECT_TRUE(back == raw);
  }
}

TEST(CompressionTest, ReadsBlocksWrittenWithDictionary) {
  const std::string dictionary = Compressible(2000, 8);
  const std::string raw = dictionary.substr(500, 1000);

  LZ4_stream_t* stream = LZ4_createStream();
  LZ4_loadDict(stream, dictionary.data(), static_cast<int>(dictionary.size()));
  std::string packed(2000, '\0');
  packed.resize(static_cast<size_t>(LZ4_compress_fast_continue(
      stream, raw.data(), packed.data(), 1000, 2000, 1)));
  LZ4_freeStream(stream);
  std::string back;
  const std::string lz4 = WithVarintSize(1000, packed);
  ASSERT_TRUE(
      Read(CompressionType::kLZ4, kFormat, lz4, &back, dictionary).ok());
  EXPECT_EQ(back, raw);
  EXPECT_TRUE(Read(CompressionType::kLZ4, kFormat, lz4, &back).IsCorruption());

  ZSTD_CCtx* context = ZSTD_createCCtx();
  packed.resize(2000);
  packed.resize(ZSTD_compress_usingDict(
      context, packed.data(), packed.size(), raw.data(), raw.size(),
      dictionary.data(), dictionary.size(), 3));
  ZSTD_freeCCtx(context);
  const std::string zstd = WithVarintSize(1000, packed);
  ASSERT_TRUE(
      Read(CompressionType::kZSTD, kFormat, zstd, &back, dictionary).ok());
  EXPECT_EQ(back, raw);
  EXPECT_TRUE(
      Read(CompressionType::kZSTD, kFormat, zstd, &back).IsCorruption());
}

TEST(CompressionTest, NamesTypesThatAreNotBuiltIn) {
  const struct {
    unsigned type;
    const char* name;
  } kTypes[] = {{6, "Xpress"}, {0x99, "0x99"}};
  for (const auto& expected : kTypes) {
    const auto type = static_cast<CompressionType>(expected.type);
    std::string back;
    Status s = Read(type, kFormat, "body", &back);
    EXPECT_TRUE(s.IsNotSupported());
    EXPECT_NE(s.ToString().find(expected.name), std::string::npos)
        << s.ToString();
    char out[8];
    s = UncompressInto(type, kFormat, "body", out, 8);
    EXPECT_TRUE(s.IsNotSupported());
  }
}

TEST(CompressionTest, ReportsSupportedTypes) {
  for (unsigned value = 0; value < 256; value++) {
    const bool expected = value <= 5 || value == 7;
    EXPECT_EQ(CompressionSupported(static_cast<CompressionType>(value)),
              expected);
  }
  EXPECT_STREQ(CompressionName(CompressionType::kNone), "NoCompression");
  EXPECT_STREQ(CompressionName(CompressionType::kLZ4HC), "LZ4HC");
  EXPECT_STREQ(CompressionName(static_cast<CompressionType>(9)), "unknown");
}

TEST(CompressionTest, RefusesImpossibleSizes) {
  const std::string zstd_frame = [] {
    std::string body;
    EXPECT_TRUE(Compressor(CompressionType::kZSTD, 3)
                    .Compress(std::string(1000, 'x'), &body));
    return body.substr(VarintLength(1000));
  }();
  const struct {
    CompressionType type;
    uint32_t format_version;
    std::string body;
  } kBodies[] = {
      {CompressionType::kLZ4, 5, WithVarintSize(UINT32_MAX, "0123456789")},
      {CompressionType::kLZ4, 5, WithVarintSize(70000, "0123456789")},
      {CompressionType::kLZ4, 0, "\xff\xff\xff\xff\xff\xff\xff\xff body"},
      {CompressionType::kSnappy, 5, WithVarintSize(UINT32_MAX, "0123456789")},
      {CompressionType::kSnappy, 5, WithVarintSize(70000, "0123456789")},
      {CompressionType::kZlib, 5, WithVarintSize(UINT32_MAX, "0123456789")},
      {CompressionType::kZlib, 5, WithVarintSize(70000, "0123456789")},
      {CompressionType::kZlib, 5, ""},
      {CompressionType::kZlib, 1, ""},
      {CompressionType::kZlib, 1, std::string("\x07garbage", 8)},
      {CompressionType::kBZip2, 5, WithVarintSize(UINT32_MAX, "0123456789")},
      {CompressionType::kBZip2, 5, WithVarintSize(70000, "BZh9456789")},
      {CompressionType::kBZip2, 5, ""},
      {CompressionType::kBZip2, 0, ""},
      {CompressionType::kBZip2, 0, "BZh9"},
      {CompressionType::kBZip2, 0, "garbage"},
      {CompressionType::kZSTD, 5, WithVarintSize(UINT32_MAX, zstd_frame)},
      {CompressionType::kZSTD, 5, WithVarintSize(999, zstd_frame)},
      {CompressionType::kZSTD, 5, WithVarintSize(1001, zstd_frame)},
      {CompressionType::kZSTD, 5, WithVarintSize(100, "not a frame")},
      {CompressionType::kZSTD, 5,
       WithVarintSize(kGiB + 1, std::string(1 << 20, 'x'))},
  };
  for (const auto& bad : kBodies) {
    size_t length = 42;
    const Status s =
        UncompressedLength(bad.type, bad.format_version, bad.body, &length);
    EXPECT_TRUE(IsCorruption(s, CompressionName(bad.type)));
    EXPECT_EQ(length, 42u);
  }
}

TEST(CompressionTest, RefusesLengthOtherThanTheBodys) {
  const std::string raw = Compressible(4096, 5);
  for (const CompressionType type : kWritable) {
    std::string body;
    ASSERT_TRUE(
        Compressor(type, kDefaultCompressionLevel).Compress(raw, &body));
    for (const size_t length : {0u, 1u, 4095u, 4097u}) {
      const std::unique_ptr<char[]> out(new char[length]);
      EXPECT_TRUE(UncompressInto(type, kFormat, body, out.get(), length)
                      .IsCorruption());
    }
  }
}

TEST(CompressionTest, SurvivesTruncationAndBitFlips) {
  const std::string raw = Compressible(600, 6);
  for (const CompressionType type : kWritable) {
    SCOPED_TRACE(CompressionName(type));
    std::string body;
    ASSERT_TRUE(Compressor(type, 3).Compress(raw, &body));
    std::string back;
    for (size_t size = 0; size < body.size(); size++) {
      EXPECT_TRUE(
          Read(type, kFormat, Slice(body.data(), size), &back).IsCorruption())
          << size;
    }
    for (size_t bit = 0; bit < body.size() * 8; bit++) {
      std::string bad = body;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      // A flip may well decode; then to as many bytes as the body says.
      const Status s = Read(type, kFormat, bad, &back);
      EXPECT_TRUE(s.ok() || s.IsCorruption()) << bit;
    }
  }
}

TEST(CompressionTest, ReadsFromManyThreads) {
  const std::string raw = Compressible(4096, 7);
  std::string body;
  ASSERT_TRUE(Compressor(CompressionType::kZSTD, 3).Compress(raw, &body));
  test::RunThreads(4, [&](int) {
    for (int round = 0; round < 100; round++) {
      std::string back;
      EXPECT_TRUE(Read(CompressionType::kZSTD, kFormat, body, &back).ok());
      EXPECT_EQ(back, raw);
    }
  });
}

}  // namespace
}  // namespace varve
