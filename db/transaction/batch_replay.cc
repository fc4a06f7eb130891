// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/batch_replay.h"

#include <cstdint>
#include <memory>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "varve/transaction.h"

namespace varve {

namespace {

class Replay final : public WriteBatch::Handler {
 public:
  Replay(DBImpl* engine, bool skips_dropped, Transaction* transaction)
      : engine_(*engine),
        skips_dropped_(skips_dropped),
        transaction_(*transaction) {}

  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    return FindFamily(family) ? transaction_.Put(handle_.get(), key, value)
                              : Dropped();
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    return FindFamily(family) ? transaction_.Delete(handle_.get(), key)
                              : Dropped();
  }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override {
    return FindFamily(family) ? transaction_.SingleDelete(handle_.get(), key)
                              : Dropped();
  }
  Status MergeCF(uint32_t family, const Slice& key,
                 const Slice& operand) override {
    return FindFamily(family) ? transaction_.Merge(handle_.get(), key, operand)
                              : Dropped();
  }
  Status DeleteRangeCF(uint32_t family, const Slice& begin,
                       const Slice& end) override {
    return FindFamily(family)
               ? transaction_.DeleteRange(handle_.get(), begin, end)
               : Dropped();
  }
  void LogData(const Slice& blob) override { transaction_.PutLogData(blob); }
  // Not called: the calls above replace them.
  void Put(const Slice& /*key*/, const Slice& /*value*/) override {}
  void Delete(const Slice& /*key*/) override {}
  void DeleteRange(const Slice& /*begin*/, const Slice& /*end*/) override {}

 private:
  // Sets handle_, which is null for the default family. Returns false if there
  // is no such family.
  bool FindFamily(uint32_t family) {
    if (family != family_) {
      family_ = family;
      handle_.reset(family == 0 ? nullptr : engine_.NewHandle(family));
    }
    return family == 0 || handle_ != nullptr;
  }
  Status Dropped() const {
    return skips_dropped_ ? Status::OK() : DroppedFamilyError();
  }

  DBImpl& engine_;
  const bool skips_dropped_;
  Transaction& transaction_;
  uint32_t family_ = 0;  // The last one that was looked for.
  std::unique_ptr<ColumnFamilyHandle> handle_;
};

}  // namespace

Status ReplayBatch(const WriteBatch& batch, DBImpl* engine, bool skips_dropped,
                   Transaction* transaction) {
  Replay replay(engine, skips_dropped, transaction);
  return batch.Iterate(&replay);
}

}  // namespace varve
