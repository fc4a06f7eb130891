// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The expected contents of a database: the same updates applied to a std::map.

#include <map>
#include <string>

#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve::test {

using Entries = std::map<std::string, std::string>;

// Thread-safety: owned by one thread at a time.
class ModelDb {
 public:
  void Put(const std::string& key, const std::string& value) {
    entries_[key] = value;
  }
  void Delete(const std::string& key) { entries_.erase(key); }
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
    void DeleteRange(const Slice& begin, const Slice& end) override {
      model_->DeleteRange(begin.ToString(), end.ToString());
    }

   private:
    ModelDb* model_;
  };

  Entries entries_;
};

}  // namespace varve::test
