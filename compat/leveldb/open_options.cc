// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/open_options.h"

#include <algorithm>
#include <utility>

#include "compat/leveldb/cache.h"
#include "compat/leveldb/comparator.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/env/cached_file.h"
#include "compat/leveldb/env/own_env.h"
#include "compat/leveldb/env/program_env.h"
#include "compat/leveldb/filter_policy.h"
#include "compat/shared/settings.h"
#include "varve/cache.h"

namespace varve::compat {
namespace {

// LevelDB's bounds. It moves an option that is outside of them to the nearest
// one.
constexpr size_t kKilobyte = 1 << 10;
constexpr size_t kMegabyte = 1 << 20;
constexpr size_t kGigabyte = 1 << 30;
constexpr int kReservedFiles = 10;

// Returns the cache of all databases whose program set none. LevelDB gives each
// of them 8 MB of uncompressed blocks, and maps up to 1,000 tables into memory.
// The system then keeps the pages that were read. The engine maps no tables, so
// this cache also does what these pages do. In a small container it leaves
// seven eighths to the program, and to what LevelDB would use too.
std::shared_ptr<Cache> DefaultCache() {
  static const auto* const cache = [] {
    const uint64_t memory = MemoryLimit();
    CacheOptions options;
    options.capacity_bytes = std::min(
        std::clamp<uint64_t>(memory / 64, 32 * kMegabyte, 256 * kMegabyte),
        memory / 8);
    // A huge page in each shard would be more than a small database needs.
    options.huge_pages = false;
    return new std::shared_ptr<Cache>(NewBlockCache(options));
  }();
  return *cache;
}

}  // namespace

Status DatabaseEnv::NewLogger(const std::string& path,
                              std::shared_ptr<Logger>* logger) {
  Status status = EnvWrapper::NewLogger(path, logger);
  if (status.ok()) logger_ = *logger;
  return status;
}

Status DatabaseEnv::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<RandomAccessFile>* file) {
  Status status = target()->NewRandomAccessFile(path, options, file);
  if (status.ok() && cache_ != nullptr) {
    *file = NewCachedFile(std::move(*file), cache_);
  }
  return status;
}

void DatabaseEnv::MultiRead(FileReadRequest* requests, size_t count,
                            const ReadDone& done) {
  // The target reads from its own files only, not from files around them.
  // NOLINTNEXTLINE(bugprone-parent-virtual-call): not the wrapper's.
  if (cache_ != nullptr) return Env::MultiRead(requests, count, done);
  target()->MultiRead(requests, count, done);
}

Status OpenOptions::Set(const leveldb::Options& program) {
  if (program.env == nullptr) {
    return Status::InvalidArgument("Options::env is null");
  }
  Status status =
      MakeComparator(program.comparator, &comparator, &options.comparator);
  if (!status.ok()) return status;

  LruCache* const own_cache = LruCache::Find(program.block_cache);
  leveldb::Cache* const program_cache =
      own_cache == nullptr ? program.block_cache : nullptr;
  if (const OwnEnv* own = OwnEnv::Find(program.env)) {
    env = std::make_unique<DatabaseEnv>(own->target(), program_cache);
  } else {
    program_env = NewProgramEnv(program.env);
    env = std::make_unique<DatabaseEnv>(program_env.get(), program_cache);
  }
  options.env = env.get();
  if (program.info_log != nullptr) {
    options.info_log = NewProgramLogger(program.info_log);
  }
  counters = std::make_shared<LevelCounters>();
  options.listeners.push_back(counters);

  options.create_if_missing = program.create_if_missing;
  options.error_if_exists = program.error_if_exists;
  options.paranoid_checks = program.paranoid_checks;
  options.write_buffer_size =
      std::clamp(program.write_buffer_size, 64 * kKilobyte, kGigabyte);
  options.max_open_files =
      std::clamp(program.max_open_files, 64 + kReservedFiles, 50000) -
      kReservedFiles;
  options.block_size = std::clamp(program.block_size, kKilobyte, 4 * kMegabyte);
  options.block_restart_interval =
      std::clamp(program.block_restart_interval, 1, 1024);
  options.target_file_size_base =
      std::clamp(program.max_file_size, kMegabyte, kGigabyte);
  options.max_bytes_for_level_base = 4 * options.write_buffer_size;
  switch (static_cast<int>(program.compression)) {
    case leveldb::kNoCompression:
      options.compression = CompressionType::kNone;
      break;
    case leveldb::kSnappyCompression:
      options.compression = CompressionType::kSnappy;
      break;
    default:
      return Status::InvalidArgument(
          "Options::compression is neither none nor Snappy");
  }
  options.filter_policy = MakeFilterPolicy(program.filter_policy);
  if (own_cache != nullptr) {
    options.block_cache = own_cache->ForBlocks();
  } else if (program_cache != nullptr) {
    options.block_cache = NewBlockCache(0);  // See cached_file.h.
  } else {
    options.block_cache = DefaultCache();
  }
  const size_t asked = options.write_buffer_size;
  status = Settings::Get().Apply(&options);
  if (!status.ok()) return status;
  // An operator's size is left as it is.
  write_buffer = std::make_shared<WriteBuffer>(
      options.write_buffer_size == asked ? asked : 0);
  if (options.write_buffer_size == asked) {
    options.write_buffer_size = write_buffer->InitialBytes();
  }
  options.listeners.push_back(write_buffer);
  return status;
}

}  // namespace varve::compat
