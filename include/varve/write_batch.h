// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "varve/export.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Updates that take effect together or not at all, in the order given: of two
// updates of one key, the later wins.
//
// Its bytes are the payload of a write-ahead log record in RocksDB's format.
// Thread-safety: thread-compatible.
class VARVE_EXPORT WriteBatch {
 public:
  // Sees a batch's updates in order.
  class Handler {
   public:
    virtual ~Handler() = default;
    // One update each, in their order.
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
    // A delete that promises the key was put once only. The default treats it
    // as Delete.
    virtual void SingleDelete(const Slice& key) { Delete(key); }
    // All keys from `begin` up to, not including, `end`.
    virtual void DeleteRange(const Slice& begin, const Slice& end) = 0;
    // A note in the log that changes nothing.
    virtual void LogData(const Slice& /*blob*/) {}
    // false stops the iteration.
    virtual bool Continue() { return true; }
  };

  WriteBatch();
  // From bytes of Data(). Iterate says whether they are damaged, and DB::Write
  // refuses them then.
  explicit WriteBatch(std::string representation);
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  // `other` is empty afterwards, and may be used again.
  WriteBatch(WriteBatch&& other) noexcept;
  WriteBatch& operator=(WriteBatch&& other) noexcept;

  // Keys and values may be empty. A key and its value that take more than
  // 3 GiB - 8 bytes together, or the two keys of DeleteRange that do, make the
  // DB refuse the batch as InvalidArgument: no table could hold them. So do
  // more than 2^32 - 1 updates in a batch. All arguments may be slices of the
  // batch's own bytes.
  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  // As Delete, for a key that was put at most once since it was last deleted.
  void SingleDelete(const Slice& key);
  // Deletes all keys from `begin` up to, not including, `end`, at the cost of
  // one update, however many there are. Without effect if they are equal; if
  // `end` comes first, DB::Write refuses the batch as InvalidArgument.
  void DeleteRange(const Slice& begin, const Slice& end);
  // Stores bytes in the log only. Replication may use it for its own notes.
  // More than 4 GiB - 1 of them are refused like a key.
  void PutLogData(const Slice& blob);

  // Takes all updates out.
  void Clear();
  // Adds the updates of `other` behind those of this.
  void Append(const WriteBatch& other);

  // Number of updates.
  uint32_t Count() const;
  // Bytes that the batch takes in the log.
  size_t ApproximateSize() const { return representation_.size(); }
  const std::string& Data() const { return representation_; }

  // Corruption if the bytes are damaged (what came before the damage was
  // handed over), NotSupported for update kinds that Varve does not have, for
  // updates of column families and for those of more than it takes.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  // To what thread the memory is accounted. A copy is accounted once it
  // changes.
  class Charge {
   public:
    Charge() = default;
    Charge(const Charge& /*other*/) {}
    Charge(Charge&& other) noexcept { Swap(&other); }
    Charge& operator=(const Charge& /*other*/) { return *this; }
    Charge& operator=(Charge&& other) noexcept {
      Swap(&other);
      return *this;
    }
    ~Charge() {
      if (account_ != nullptr) Set(0);
    }
    void Update(const std::string& representation) {
      if (representation.capacity() != bytes_) Set(representation.capacity());
    }

   private:
    void Swap(Charge* other) {
      std::swap(account_, other->account_);
      std::swap(bytes_, other->bytes_);
    }
    void Set(size_t bytes);

    void* account_ = nullptr;
    size_t bytes_ = 0;
  };

  std::string representation_;
  Charge charge_;
  // An update was too long; Write refuses the batch.
  bool too_long_ = false;
  // Made from bytes, or has range deletions; Write checks it first.
  bool unchecked_ = false;
};

}  // namespace varve
