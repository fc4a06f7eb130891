// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's databases whose entries expire; see varve/rocksdb.h.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "varve/db_ttl.h"
#include "varve/rocksdb/db.h"
#include "varve/rocksdb/names.h"
#include "varve/rocksdb/options.h"

namespace VARVE_ROCKSDB_NAMESPACE {

// The caller owns *db.
class DBWithTTL : public DB {
 public:
  static Status Open(const Options& options, const std::string& name,
                     DBWithTTL** db, int32_t ttl = 0, bool read_only = false) {
    std::vector<ColumnFamilyHandle*> handles;
    Status status = Open(options, name, {{kDefaultColumnFamilyName, options}},
                         &handles, db, {ttl}, read_only);
    for (ColumnFamilyHandle* const handle : handles) delete handle;
    return status;
  }
  static Status Open(const DBOptions& options, const std::string& name,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles, DBWithTTL** db,
                     const std::vector<int32_t>& ttls, bool read_only = false) {
    varve::DBWithTTL* with_ttl = nullptr;
    Status status = ToPointer(db, [&](auto* owner) {
      return Wrap(
          options, name, owner, [&](const auto& converted, auto* opened) {
            std::unique_ptr<varve::DBWithTTL> rep;
            Status result =
                varve::DBWithTTL::Open(converted, name, ToVarve(families),
                                       handles, &rep, ttls, read_only);
            with_ttl = rep.get();
            *opened = std::move(rep);
            return result;
          });
    });
    if (status.ok()) (*db)->with_ttl_ = with_ttl;
    return status;
  }

  Status CreateColumnFamilyWithTtl(const ColumnFamilyOptions& options,
                                   const std::string& name,
                                   ColumnFamilyHandle** handle, int ttl) {
    return with_ttl_->CreateColumnFamilyWithTtl(internal::ToVarve(options),
                                                name, handle, ttl);
  }
  void SetTtl(int32_t ttl) { with_ttl_->SetTtl(ttl); }
  void SetTtl(ColumnFamilyHandle* family, int32_t ttl) {
    with_ttl_->SetTtl(family, ttl);
  }
  Status GetTtl(ColumnFamilyHandle* family, int32_t* ttl) {
    return with_ttl_->GetTtl(family, ttl);
  }

 private:
  friend class DB;
  using DB::DB;
  varve::DBWithTTL* with_ttl_ = nullptr;
};

}  // namespace VARVE_ROCKSDB_NAMESPACE
