// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/jobs/db_core.h"

#include <utility>

#include "db/options/options_check.h"
#include "monitoring/statistics.h"
#include "util/base/experiment.h"

namespace varve {

FileOptions TableFileOptions(const Options& options) {
  FileOptions file_options;
  file_options.use_direct_reads = options.use_direct_reads;
  file_options.use_mmap_reads = options.allow_mmap_reads;
  file_options.uncached_open = ExperimentFlagsOf(options).opens_uncached;
  return file_options;
}

DbCore::DbCore(const Options& its_options, const std::string& path,
               bool read_only, FilePool* shared_file_pool, Calls its_calls)
    : options(its_options),
      is_read_only(read_only),
      directory(options.env, path),
      env(directory.env()),
      stats(StatisticsImpl::Of(options.statistics.get())),
      calls(std::move(its_calls)),
      // A shared one has no owner here; see IsOfCatalog.
      file_pool(shared_file_pool != nullptr
                    ? std::shared_ptr<FilePool>(std::shared_ptr<void>(),
                                                shared_file_pool)
                    : std::make_shared<FilePool>(env, TableFileOptions(options),
                                                 options.max_open_files,
                                                 stats)),
      space(options.sst_file_manager, env, directory.path()),
      versions(std::make_unique<VersionSet>(directory.path(), env, &mutex_)),
      wals(&directory, &options, stats, &mutex_),
      archive(env, directory.path(), options),
      scheduler(env, &mutex_),
      events(options.listeners, &mutex_),
      default_family(kDefaultColumnFamilyName, &options, FamilyParts(nullptr)),
      families(&default_family),
      log_bound(&options, &families, &wals, &prepared, &log) {
  options.env = env;
  versions->SetPrepared(&prepared);
  if (!read_only) versions->SetSpace(&space);
  default_family.MakeTables(directory.path(), TableFileOptions(options),
                            file_pool.get(), &log, versions.get());
  if (read_only) default_family.table_cache()->ExpectOtherWriters();
}

ColumnFamily::Shared DbCore::FamilyParts(SnapshotRegistry* snapshots) {
  return {env,
          stats,
          &mutex_,
          &write_queue,
          [this]() VARVE_REQUIRES(kDbMutex) { jobs.PurgeLaterLocked(); },
          [this] { return versions->LastSequence(); },
          [this] { jobs.TryStartDue(); },
          calls.request_switch,
          snapshots};
}

std::unique_ptr<ColumnFamily> DbCore::NewFamily(
    const std::string& name, const ColumnFamilyOptions& its_options) {
  std::unique_ptr<Options> family_options;
  {
    MutexLock lock(mutex());  // SetDBOptions changes them.
    family_options = std::make_unique<Options>(options, its_options);
  }
  if (family_options->block_cache == nullptr) {
    family_options->block_cache = options.block_cache;
  }
  RaiseNumbers(family_options.get());
  auto family = std::make_unique<ColumnFamily>(
      name, std::move(family_options), FamilyParts(default_family.snapshots()));
  family->MakeTables(directory.path(), TableFileOptions(family->options()),
                     file_pool.get(), &log, versions.get());
  return family;
}

}  // namespace varve
