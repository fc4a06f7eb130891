// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Shared code of transaction_bench.

#include <memory>
#include <string>

#include "varve/db.h"
#include "experimental/ablation.h"

namespace varve::bench {

// Creates an empty directory for temporary files. RemoveDirectory removes it.
std::string NewDirectory();
void RemoveDirectory(const std::string& path);

// Ends the program if the status is not OK.
void Must(const Status& status);

// A small database that is removed with the object.
class BenchDb {
 public:
  explicit BenchDb(const AblationOptions& ablation);
  BenchDb(const BenchDb&) = delete;
  BenchDb& operator=(const BenchDb&) = delete;
  ~BenchDb();

  DB* db() const { return db_.get(); }

 private:
  const std::string path_;
  std::unique_ptr<DB> db_;
};

}  // namespace varve::bench
