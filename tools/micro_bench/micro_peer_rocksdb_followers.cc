// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// RocksDB's secondary in the topic followers.

#include <rocksdb/db.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tools/db_bench/peer_rocksdb_open.h"
#include "tools/db_bench/peer_rocksdb_version.h"
#include "tools/micro_bench/micro_followers.h"

namespace varve::bench {

namespace {

void Must(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "micro_bench: %s\n", status.ToString().c_str());
  exit(1);
}

// As OpenRocks.
template <typename... Arguments>
rocksdb::Status OpenSecondary(std::unique_ptr<rocksdb::DB>* db,
                              const Arguments&... arguments) {
  if constexpr (requires { rocksdb::DB::OpenAsSecondary(arguments..., db); }) {
    return rocksdb::DB::OpenAsSecondary(arguments..., db);
  } else {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status =
        rocksdb::DB::OpenAsSecondary(arguments..., &opened);
    db->reset(opened);
    return status;
  }
}

class RocksDb {
 public:
  static constexpr const char* kName = "rocksdb";

  RocksDb() {
    rocksdb::Options options;
    options.create_if_missing = true;
    Must(OpenRocks(&primary_, options, directory_.path() + "/db"));
  }
  void Put(const std::string& key, const std::string& value) {
    Must(primary_->Put({}, key, value));
  }
  void Flush() { Must(primary_->Flush({})); }
  void Follow() {
    rocksdb::Options options;
    options.max_open_files = -1;
    const std::string path = directory_.path() + "/db";
    const std::string second = directory_.path() + "/second";
    Must(OpenSecondary(&follower_, options, path, second));
  }
  void CatchUp() { Must(follower_->TryCatchUpWithPrimary()); }
  bool Shows(const std::string& key, const std::string& value) {
    std::string found;
    return follower_->Get({}, key, &found).ok() && found == value;
  }
  static std::string Label() { return "RocksDB " + DescribeRocksDb(); }

 private:
  const TempDirectory directory_;
  std::unique_ptr<rocksdb::DB> primary_;
  std::unique_ptr<rocksdb::DB> follower_;
};

}  // namespace

void AddRocksDbFollowers() { RegisterFollowers<RocksDb>(); }

}  // namespace varve::bench
