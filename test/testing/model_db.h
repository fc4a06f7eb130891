// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The expected contents of a database: the same updates applied to a std::map,
// or to one for each column family.

#include <cstdint>
#include <map>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve::test {

using Entries = std::map<std::string, std::string>;

// Merges an operand as the string append operator does.
inline void Append(const std::string& key, const std::string& operand,
                   Entries* entries) {
  const auto [entry, is_new] = entries->try_emplace(key, operand);
  if (!is_new) entry->second += "," + operand;
}

// Thread-safety: owned by one thread at a time.
class ModelDb {
 public:
  void Put(const std::string& key, const std::string& value) {
    entries_[key] = value;
  }
  void Delete(const std::string& key) { entries_.erase(key); }
  void Merge(const std::string& key, const std::string& operand) {
    Append(key, operand, &entries_);
  }
  void DeleteRange(const std::string& begin, const std::string& end) {
    if (begin >= end) return;
    entries_.erase(entries_.lower_bound(begin), entries_.lower_bound(end));
  }
  Status Write(const WriteBatch& batch) {
    Applier applier(this);
    return batch.Iterate(&applier);
  }

  // A copy of this is a snapshot.
  const Entries& entries() const { return entries_; }
  Entries* mutable_entries() { return &entries_; }

  // Returns null if the key does not exist.
  const std::string* Find(const std::string& key) const {
    auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }

 private:
  class Applier : public WriteBatch::Handler {
   public:
    explicit Applier(ModelDb* model) : model_(model) {}
    void Put(const Slice& key, const Slice& value) override {
      model_->Put(key.ToString(), value.ToString());
    }
    void Delete(const Slice& key) override { model_->Delete(key.ToString()); }
    void Merge(const Slice& key, const Slice& operand) override {
      model_->Merge(key.ToString(), operand.ToString());
    }
    void DeleteRange(const Slice& begin, const Slice& end) override {
      model_->DeleteRange(begin.ToString(), end.ToString());
    }

   private:
    ModelDb* model_;
  };

  Entries entries_;
};

// The same for a database with column families, by their ids. A family that no
// update has named is empty.
//
// Thread-safety: owned by one thread at a time.
class ModelFamilies {
 public:
  Status Write(const WriteBatch& batch) {
    Applier applier(this);
    return batch.Iterate(&applier);
  }
  void Drop(uint32_t family) { families_.erase(family); }
  Entries* MutableAt(uint32_t family) {
    return families_[family].mutable_entries();
  }
  const Entries& At(uint32_t family) const {
    static const Entries kNone;
    const auto found = families_.find(family);
    return found == families_.end() ? kNone : found->second.entries();
  }

 private:
  class Applier : public WriteBatch::Handler {
   public:
    explicit Applier(ModelFamilies* model) : model_(model) {}
    void Put(const Slice& key, const Slice& value) override {
      model_->families_[0].Put(key.ToString(), value.ToString());
    }
    void Delete(const Slice& key) override {
      model_->families_[0].Delete(key.ToString());
    }
    void DeleteRange(const Slice& begin, const Slice& end) override {
      model_->families_[0].DeleteRange(begin.ToString(), end.ToString());
    }
    Status PutCF(uint32_t family, const Slice& key,
                 const Slice& value) override {
      model_->families_[family].Put(key.ToString(), value.ToString());
      return Status::OK();
    }
    Status DeleteCF(uint32_t family, const Slice& key) override {
      model_->families_[family].Delete(key.ToString());
      return Status::OK();
    }
    Status SingleDeleteCF(uint32_t family, const Slice& key) override {
      return DeleteCF(family, key);
    }
    Status MergeCF(uint32_t family, const Slice& key,
                   const Slice& operand) override {
      model_->families_[family].Merge(key.ToString(), operand.ToString());
      return Status::OK();
    }
    Status DeleteRangeCF(uint32_t family, const Slice& begin,
                         const Slice& end) override {
      model_->families_[family].DeleteRange(begin.ToString(), end.ToString());
      return Status::OK();
    }

   private:
    ModelFamilies* model_;
  };

  std::map<uint32_t, ModelDb> families_;
};

}  // namespace varve::test
