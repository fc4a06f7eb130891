// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string>

#include "compat/leveldb/abi.h"
#include "compat/leveldb/env/shared_env.h"
#include "compat/leveldb/level_counters.h"
#include "compat/leveldb/write_buffer.h"
#include "varve/comparator.h"
#include "varve/env.h"
#include "varve/options.h"

namespace varve::compat {

// The environment of one database. It remembers the info log that the engine
// creates in the database's directory, so that this library can write to it
// too. With a program's own Cache, it reads tables through that.
class DatabaseEnv final : public EnvWrapper {
 public:
  // `cache` may be null. Both must outlive this object.
  DatabaseEnv(Env* target, leveldb::Cache* cache)
      : EnvWrapper(target), cache_(cache) {}
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override;
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override;
  void MultiRead(FileReadRequest* requests, size_t count,
                 const ReadDone& done) override;

  // Returns the newest logger, or null.
  const std::shared_ptr<Logger>& logger() const { return logger_; }

 private:
  leveldb::Cache* const cache_;
  std::shared_ptr<Logger> logger_;
};

// The engine's options for a database, and the objects that they refer to. The
// objects of the program's options must outlive it.
struct OpenOptions {
  // Fills in everything from the program's options, then from the file of
  // VARVE_LEVELDB_OPTIONS. Returns InvalidArgument if an option is not valid.
  Status Set(const leveldb::Options& program);

  // Returns the logger for messages about the database. May be null.
  Logger* logger() const {
    return options.info_log != nullptr ? options.info_log.get()
                                       : env->logger().get();
  }

  // Returns true if the files are the operating system's.
  bool HasOwnFiles() const { return env->target() == SharedEnv(); }

  std::unique_ptr<Env> program_env;  // Null for an environment of ours.
  std::unique_ptr<DatabaseEnv> env;
  std::unique_ptr<Comparator> comparator;  // Null for the bytewise one.
  std::shared_ptr<LevelCounters> counters;
  std::shared_ptr<WriteBuffer> write_buffer;
  Options options;
};

}  // namespace varve::compat
