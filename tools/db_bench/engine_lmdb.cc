// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "tools/db_bench/engine_adapter.h"

namespace varve {

namespace {

// LMDB's default, set when it is built.
constexpr size_t kMaxKeyBytes = 511;
// Address space for the map: the file grows only as far as it is written.
constexpr uint64_t kMinMapBytes = uint64_t{64} << 30;
constexpr uint64_t kMaxMapBytes = uint64_t{32} << 40;

MDB_val ToLmdb(const Slice& slice) {
  return MDB_val{slice.size(), const_cast<char*>(slice.data())};
}
Slice FromLmdb(const MDB_val& value) {
  return Slice(static_cast<const char*>(value.mv_data), value.mv_size);
}
Status FromLmdb(const char* call, int result) {
  if (result == MDB_SUCCESS) return Status::OK();
  return Status::IOError(std::string("lmdb: ") + call, mdb_strerror(result));
}

// A read transaction that is made once and then renewed for each read, as
// LMDB advises.
class ReadTransaction {
 public:
  explicit ReadTransaction(MDB_env* env) : env_(env) {}
  ReadTransaction(const ReadTransaction&) = delete;
  ReadTransaction& operator=(const ReadTransaction&) = delete;
  ~ReadTransaction() {
    if (transaction_ != nullptr) mdb_txn_abort(transaction_);
  }

  // Sees what is stored now; what was read before is invalid.
  int Renew() {
    if (transaction_ == nullptr) {
      return mdb_txn_begin(env_, nullptr, MDB_RDONLY, &transaction_);
    }
    mdb_txn_reset(transaction_);
    return mdb_txn_renew(transaction_);
  }
  MDB_txn* get() const { return transaction_; }

 private:
  MDB_env* env_;
  MDB_txn* transaction_ = nullptr;
};

class LmdbCursor final : public EngineCursor {
 public:
  LmdbCursor(MDB_env* env, MDB_dbi dbi) : transaction_(env), dbi_(dbi) {}
  ~LmdbCursor() override {
    if (cursor_ != nullptr) mdb_cursor_close(cursor_);
  }

  void Renew() override {
    result_ = transaction_.Renew();
    if (result_ != MDB_SUCCESS) return;
    result_ = cursor_ == nullptr
                  ? mdb_cursor_open(transaction_.get(), dbi_, &cursor_)
                  : mdb_cursor_renew(transaction_.get(), cursor_);
  }
  bool SeekToFirst() override { return Move(MDB_FIRST); }
  bool SeekToLast() override { return Move(MDB_LAST); }
  bool Seek(const Slice& target) override {
    key = target;
    return Move(MDB_SET_RANGE);
  }
  bool Next() override { return Move(MDB_NEXT); }
  bool Prev() override { return Move(MDB_PREV); }
  Status status() const override {
    if (result_ == MDB_NOTFOUND) return Status::OK();
    return FromLmdb("mdb_cursor_get", result_);
  }

 private:
  bool Move(MDB_cursor_op operation) {
    if (cursor_ == nullptr) return false;
    MDB_val found_key = ToLmdb(key);
    MDB_val found_value = {};
    result_ = mdb_cursor_get(cursor_, &found_key, &found_value, operation);
    if (result_ != MDB_SUCCESS) return false;
    key = FromLmdb(found_key);
    value = FromLmdb(found_value);
    return true;
  }

  ReadTransaction transaction_;
  MDB_dbi dbi_;
  MDB_cursor* cursor_ = nullptr;
  int result_ = MDB_SUCCESS;
};

class LmdbSession final : public EngineSession {
 public:
  LmdbSession(MDB_env* env, MDB_dbi dbi) : env_(env), dbi_(dbi), reads_(env) {}
  ~LmdbSession() override {
    if (batch_ != nullptr) mdb_txn_abort(batch_);
  }

  Lookup Get(const Slice& key, Slice* value) override {
    const int result = reads_.Renew();
    if (result != MDB_SUCCESS) {
      error_ = FromLmdb("mdb_txn_renew", result);
      return Lookup::kError;
    }
    return Find(key, value);
  }

  // One transaction for all keys.
  using EngineSession::MultiGet;
  bool MultiGet(const std::vector<Slice>& keys, size_t* found,
                uint64_t* value_bytes) override {
    const int result = reads_.Renew();
    if (result != MDB_SUCCESS) {
      error_ = FromLmdb("mdb_txn_renew", result);
      return false;
    }
    return GetEach(
        keys, found, value_bytes,
        [this](const Slice& key, Slice* value) { return Find(key, value); });
  }

  std::unique_ptr<EngineCursor> NewCursor() override {
    return std::make_unique<LmdbCursor>(env_, dbi_);
  }

  void Put(const Slice& key, const Slice& value) override {
    if (!BeginBatch()) return;
    MDB_val lmdb_key = ToLmdb(key);
    MDB_val lmdb_value = ToLmdb(value);
    const int result = mdb_put(batch_, dbi_, &lmdb_key, &lmdb_value, 0);
    NoteUpdate("mdb_put", result);
  }
  void Delete(const Slice& key) override {
    if (!BeginBatch()) return;
    MDB_val lmdb_key = ToLmdb(key);
    const int result = mdb_del(batch_, dbi_, &lmdb_key, nullptr);
    if (result != MDB_NOTFOUND) NoteUpdate("mdb_del", result);
  }
  Status Commit() override {
    if (!update_status_.ok()) return update_status_;
    if (batch_ == nullptr) return Status::OK();
    const int result = mdb_txn_commit(batch_);
    batch_ = nullptr;
    return FromLmdb("mdb_txn_commit", result);
  }

 private:
  Lookup Find(const Slice& key, Slice* value) {
    MDB_val wanted = ToLmdb(key);
    MDB_val found = {};
    const int result = mdb_get(reads_.get(), dbi_, &wanted, &found);
    if (result == MDB_SUCCESS) {
      *value = FromLmdb(found);
      return Lookup::kFound;
    }
    if (result == MDB_NOTFOUND) return Lookup::kMissing;
    error_ = FromLmdb("mdb_get", result);
    return Lookup::kError;
  }

  bool BeginBatch() {
    if (batch_ != nullptr) return true;
    if (!update_status_.ok()) return false;
    NoteUpdate("mdb_txn_begin", mdb_txn_begin(env_, nullptr, 0, &batch_));
    return update_status_.ok();
  }
  void NoteUpdate(const char* call, int result) {
    if (update_status_.ok()) update_status_ = FromLmdb(call, result);
  }

  MDB_env* env_;
  MDB_dbi dbi_;
  ReadTransaction reads_;
  MDB_txn* batch_ = nullptr;
  // The first error of Put and Delete; Commit returns it.
  Status update_status_;
};

class LmdbEngine final : public Engine {
 public:
  ~LmdbEngine() override {
    if (env_ != nullptr) mdb_env_close(env_);
  }

  std::string Version() const override {
    int major = 0;
    int minor = 0;
    int patch = 0;
    mdb_version(&major, &minor, &patch);
    return std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(patch);
  }

  Status Check(const EngineConfig& config) const override {
    // readmissing asks for keys that are one byte longer.
    if (config.key_bytes + 1 > kMaxKeyBytes) {
      return Status::InvalidArgument("key_size: lmdb takes at most 510 here");
    }
    if (!config.merge_operator.empty() || config.drops != nullptr) {
      return Status::NotSupported(
          "merge_operator, compaction_filter: lmdb has neither");
    }
    if (config.all_write_buffers_bytes > 0 || config.charge_write_buffers) {
      return Status::NotSupported(
          "db_write_buffer_size, cost_write_buffer_to_cache: lmdb has neither");
    }
    if (config.manual_wal_flush || config.mmap_write) {
      return Status::NotSupported(
          "manual_wal_flush, mmap_write: lmdb has neither");
    }
    if (config.use_direct_reads) {
      return Status::NotSupported("use_direct_reads: lmdb reads a map");
    }
    if (config.column_families > 1) {
      return Status::NotSupported(
          "num_column_families: lmdb has no column families");
    }
    return Status::OK();
  }

  std::string Remarks(const EngineConfig& /*config*/) const override {
    return "no log, no compression, no filter, no checksums; its cache is the "
           "page cache; writers take turns";
  }

  std::string IoPath() override { return "mmap"; }

  Status Destroy(const EngineConfig& config) override {
    for (const char* name : {"/data.mdb", "/lock.mdb"}) {
      const std::string file = config.path + name;
      if (unlink(file.c_str()) != 0 && errno != ENOENT) {
        return Status::FromErrno(file, errno);
      }
    }
    // Stays if other files are in it.
    rmdir(config.path.c_str());
    return Status::OK();
  }

  Status Open(const EngineConfig& config) override {
    const std::string file = config.path + "/data.mdb";
    if (!config.create_if_missing && access(file.c_str(), F_OK) != 0) {
      return Status::InvalidArgument(file, "does not exist");
    }
    if (mkdir(config.path.c_str(), 0755) != 0 && errno != EEXIST) {
      return Status::FromErrno(config.path, errno);
    }
    int result = mdb_env_create(&env_);
    if (result != MDB_SUCCESS) return FromLmdb("mdb_env_create", result);
    const Status status = OpenEnv(config);
    if (!status.ok()) {
      mdb_env_close(env_);
      env_ = nullptr;
    }
    return status;
  }

  Status Close() override {
    mdb_env_close(env_);
    env_ = nullptr;
    return Status::OK();
  }

  std::unique_ptr<EngineSession> NewSession() override {
    return std::make_unique<LmdbSession>(env_, dbi_);
  }

  Status Flush() override {
    return FromLmdb("mdb_env_sync", mdb_env_sync(env_, 1));
  }
  Status Compact() override {
    return Status::NotSupported("lmdb needs no compaction");
  }
  Status WaitForCompaction() override {
    return Status::NotSupported("lmdb has no background work");
  }
  Status VerifyChecksum() override {
    return Status::NotSupported("lmdb has no checksums");
  }

  bool Property(const std::string& name, std::string* value) override {
    MDB_stat stat = {};
    if (name != "stats" || mdb_env_stat(env_, &stat) != MDB_SUCCESS) {
      return false;
    }
    *value = "entries " + std::to_string(stat.ms_entries) + ", depth " +
             std::to_string(stat.ms_depth) + ", leaf pages " +
             std::to_string(stat.ms_leaf_pages) + "\n";
    return true;
  }

 private:
  Status OpenEnv(const EngineConfig& config) {
    const double raw_bytes =
        static_cast<double>(config.entries) *
        static_cast<double>(config.key_bytes + config.value_bytes);
    const uint64_t map_bytes = static_cast<uint64_t>(
        std::clamp<double>(8 * raw_bytes, kMinMapBytes, kMaxMapBytes));
    int result = mdb_env_set_mapsize(env_, map_bytes);
    if (result != MDB_SUCCESS) return FromLmdb("mdb_env_set_mapsize", result);
    // A session and its cursor may each hold a reader's slot.
    result = mdb_env_set_maxreaders(
        env_, 2 * static_cast<unsigned>(config.threads) + 16);
    if (result != MDB_SUCCESS) {
      return FromLmdb("mdb_env_set_maxreaders", result);
    }
    // Reader slots belong to transactions, as a thread may have two.
    unsigned flags = MDB_NOTLS;
    if (!config.sync) flags |= MDB_NOSYNC;
    result = mdb_env_open(env_, config.path.c_str(), flags, 0644);
    if (result != MDB_SUCCESS) return FromLmdb("mdb_env_open", result);

    MDB_txn* transaction = nullptr;
    result = mdb_txn_begin(env_, nullptr, 0, &transaction);
    if (result != MDB_SUCCESS) return FromLmdb("mdb_txn_begin", result);
    result = mdb_dbi_open(transaction, nullptr, MDB_CREATE, &dbi_);
    if (result != MDB_SUCCESS) {
      mdb_txn_abort(transaction);
      return FromLmdb("mdb_dbi_open", result);
    }
    return FromLmdb("mdb_txn_commit", mdb_txn_commit(transaction));
  }

  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
};

}  // namespace

std::unique_ptr<Engine> NewLMDBEngine() {
  return std::make_unique<LmdbEngine>();
}

}  // namespace varve
