// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Batches of one thread, each with its number, and what a database must hold of
// them: the newest number that is there says what all of its contents must be.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "test/testing/db_helpers.h"

namespace varve::test {

// The writes to one database. Thread-safety: owned by one thread.
class NumberedWrites {
 public:
  // Databases that might be taken for one another have different ones.
  explicit NumberedWrites(int id) : id_(id) {}

  Status Write(DB* db, bool sync) {
    if (!acknowledged_.empty() && !acknowledged_.back()) {
      // If it was opened since, that one may be there.
      std::string name;
      Status status = db->Get({}, kNumberKey, &name);
      if (!status.ok() && !status.IsNotFound()) return status;
      size_t there = 0;
      if (status.ok() && ParseNumber(name, &there) &&
          there <= acknowledged_.size()) {
        acknowledged_[there - 1] = true;
      }
    }
    const size_t number = acknowledged_.size() + 1;
    WriteBatch batch;
    if (number % 5 == 0) {
      batch.Delete(KeyOf(number));
    } else {
      batch.Put(KeyOf(number), ValueOf(number));
    }
    batch.Put(kNumberKey, NameOf(number));
    Status status = db->Write({.sync = sync}, &batch);
    acknowledged_.push_back(status.ok());
    if (status.ok() && sync) AllSynced();
    return status;
  }
  // All that was acknowledged is safe.
  void AllSynced() { synced_ = NewestAcknowledged(); }

  // Whether a database that was not damaged may hold this: all that was
  // acknowledged or, after a power cut, synced.
  ::testing::AssertionResult MayBe(const EntryList& entries,
                                   bool power_cut) const {
    size_t there = 0;
    for (const auto& [key, value] : entries) {
      if (key == kNumberKey && !ParseNumber(value, &there)) {
        return ::testing::AssertionFailure() << value << " is another's";
      }
    }
    const size_t must = power_cut ? synced_ : NewestAcknowledged();
    if (there < must || there > acknowledged_.size()) {
      return ::testing::AssertionFailure()
             << "write " << there << " is the newest of "
             << acknowledged_.size() << ", " << must << " must be there";
    }
    return SameEntries(Contents(there), entries) << ", write " << there;
  }
  // It is what it holds, after a power cut, and will be. REQUIRES: MayBe.
  // Returns how many acknowledged writes were lost.
  size_t Settle(const EntryList& entries) {
    size_t there = 0;
    for (const auto& [key, value] : entries) {
      if (key == kNumberKey) ParseNumber(value, &there);
    }
    const auto lost =
        std::count(acknowledged_.begin() + static_cast<std::ptrdiff_t>(there),
                   acknowledged_.end(), true);
    acknowledged_.resize(there);
    if (there > 0) acknowledged_[there - 1] = true;
    synced_ = there;
    return static_cast<size_t>(lost);
  }

  EntryList Contents() const { return Contents(NewestAcknowledged()); }
  bool empty() const { return acknowledged_.empty(); }

 private:
  static constexpr const char* kNumberKey = "number";

  size_t NewestAcknowledged() const {
    size_t number = acknowledged_.size();
    while (number > 0 && !acknowledged_[number - 1]) --number;
    return number;
  }
  static std::string KeyOf(size_t number) {
    return Key(static_cast<int>(number * 3 % 11));
  }
  std::string NameOf(size_t number) const {
    return std::to_string(id_) + "." + std::to_string(number);
  }
  std::string ValueOf(size_t number) const {
    return NameOf(number) + std::string(number % 4 == 0 ? 2000 : 30, 'x');
  }
  bool ParseNumber(const std::string& name, size_t* number) const {
    const std::string prefix = std::to_string(id_) + ".";
    if (!name.starts_with(prefix)) return false;
    *number = static_cast<size_t>(std::stoull(name.substr(prefix.size())));
    return true;
  }
  // Returns the contents after write `there`. A write that returned an error
  // may be present only if it is the last one, and no later write was
  // acknowledged.
  EntryList Contents(size_t there) const {
    std::map<std::string, std::string> entries;
    for (size_t number = 1; number <= there; ++number) {
      if (!acknowledged_[number - 1] && number < there) continue;
      entries.erase(KeyOf(number));
      if (number % 5 != 0) entries[KeyOf(number)] = ValueOf(number);
      entries[kNumberKey] = NameOf(number);
    }
    return EntryList(entries.begin(), entries.end());
  }

  int id_;
  std::vector<bool> acknowledged_;  // Number n is acknowledged_[n - 1].
  size_t synced_ = 0;
};

}  // namespace varve::test
