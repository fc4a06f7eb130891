// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Loops over blocks in memory, which use no database.

#include <atomic>
#include <string>

#include "db/options/option_table.h"
#include "tools/db_bench/loops/loop_parts.h"
#include "tools/db_bench/workload_loops.h"
#include "util/bytes/checksum.h"
#include "util/bytes/compression.h"

namespace varve {

namespace {

// A later table version's form of compressed blocks.
constexpr uint32_t kFormatVersion = 5;

std::string MakeBlock(const LoopContext& context, LoopThread* thread) {
  return CompressibleBytes(thread->random.Next(),
                           context.config.compression_ratio,
                           context.config.block_bytes);
}

void Checksum(LoopContext* context, LoopThread* thread, ChecksumType type) {
  const std::string block = MakeBlock(*context, thread);
  Repeat(context, thread, [&]() -> uint64_t {
    // The last byte is the type of a block's compression.
    const uint32_t sum = BlockChecksum(type, block.data(), block.size() - 1);
    // The compiler must not see that it is not used.
    asm volatile("" : : "r"(sum));
    thread->bytes += block.size();
    return 1;
  });
}

// Sets *type to the type of --compression_type.
bool FindType(LoopContext* context, LoopThread* thread, CompressionType* type) {
  for (const CompressionTypeName& known : kCompressionNames) {
    if (context->config.compression != known.name) continue;
    *type = known.type;
    return true;
  }
  thread->status = Status::InvalidArgument("compression_type");
  return false;
}

// There is nothing to measure for blocks that do not shrink by an eighth: they
// are stored as they are.
Status NotCompressible() {
  return Status::NotSupported("blocks that do not shrink are not compressed");
}

}  // namespace

void Crc32cLoop(LoopContext* context, LoopThread* thread) {
  Checksum(context, thread, ChecksumType::kCrc32c);
}

void XxHash32Loop(LoopContext* context, LoopThread* thread) {
  Checksum(context, thread, ChecksumType::kXxHash32);
}

void XxHash64Loop(LoopContext* context, LoopThread* thread) {
  Checksum(context, thread, ChecksumType::kXxHash64);
}

void Xxh3Loop(LoopContext* context, LoopThread* thread) {
  Checksum(context, thread, ChecksumType::kXxh3);
}

void CompressLoop(LoopContext* context, LoopThread* thread) {
  CompressionType type;
  if (!FindType(context, thread, &type)) return;
  const std::string block = MakeBlock(*context, thread);
  Compressor compressor(type);
  std::string body;
  Repeat(context, thread, [&]() -> uint64_t {
    if (!compressor.Compress(block, &body)) {
      thread->status = NotCompressible();
      return 0;
    }
    thread->bytes += block.size();
    thread->output_bytes += body.size();
    return 1;
  });
}

void CompressRejectLoop(LoopContext* context, LoopThread* thread) {
  CompressionType type;
  if (!FindType(context, thread, &type)) return;
  std::string block(context->config.block_bytes, '\0');
  for (char& byte : block) {
    byte = static_cast<char>(thread->random.Uniform(256));
  }
  Compressor compressor(type);
  std::string body;
  Repeat(context, thread, [&]() -> uint64_t {
    if (compressor.Compress(block, &body)) {
      thread->status = Status::NotSupported("random bytes were compressed");
      return 0;
    }
    thread->bytes += block.size();
    return 1;
  });
}

void UncompressLoop(LoopContext* context, LoopThread* thread) {
  CompressionType type;
  if (!FindType(context, thread, &type)) return;
  const std::string block = MakeBlock(*context, thread);
  std::string body;
  if (!Compressor(type).Compress(block, &body)) {
    thread->status = NotCompressible();
    return;
  }
  std::string raw(block.size(), '\0');
  Repeat(context, thread, [&]() -> uint64_t {
    size_t length = 0;
    thread->status = UncompressedLength(type, kFormatVersion, body, &length);
    if (thread->status.ok()) {
      thread->status =
          UncompressInto(type, kFormatVersion, body, raw.data(), length);
    }
    if (!thread->status.ok()) return 0;
    thread->bytes += length;
    return 1;
  });
}

void AcquireLoadLoop(LoopContext* context, LoopThread* thread) {
  constexpr int kLoads = 1000;
  std::atomic<const void*> pointer(context);
  Repeat(context, thread, [&]() -> uint64_t {
    const void* loaded = nullptr;
    for (int i = 0; i < kLoads; ++i) {
      // acquire: as the name of the benchmark says.
      loaded = pointer.load(std::memory_order_acquire);
      asm volatile("" : : "r"(loaded) : "memory");
    }
    return loaded != nullptr ? 1 : 0;
  });
}

}  // namespace varve
