// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the files of transaction_bench share.

#include <memory>
#include <string>

#include "varve/db.h"
#include "varve/experimental.h"

namespace varve::bench {

// A new, empty one for temporary files; and its end.
std::string NewDirectory();
void RemoveDirectory(const std::string& path);

// Ends the program if it is not OK.
void Must(const Status& status);

// A small database that is gone with the object.
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
