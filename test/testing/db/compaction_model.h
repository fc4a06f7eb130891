// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Versions of keys as readers see them, computed in the plainest way, and the
// run of a CompactionIterator over them.

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/compaction/compaction_iterator.h"
#include "table/block/internal_iterator.h"
#include "table/block/range_tombstone_set.h"
#include "varve/merge_operator.h"

namespace varve::test {

// A version of a key.
struct VersionEntry {
  std::string key;
  SequenceNumber sequence;
  ValueType type;
  std::string value;

  bool operator==(const VersionEntry&) const = default;
};
void PrintTo(const VersionEntry& entry, std::ostream* out);

inline std::string ToString(const VersionEntry& entry) {
  const char* type = entry.type == ValueType::kValue      ? "value"
                     : entry.type == ValueType::kMerge    ? "operand"
                     : entry.type == ValueType::kDeletion ? "deletion"
                                                          : "single";
  return entry.key + "@" + std::to_string(entry.sequence) + " " + type + " " +
         entry.value;
}

inline void PrintTo(const VersionEntry& entry, std::ostream* out) {
  *out << ToString(entry);
}

inline std::string ToString(const std::vector<VersionEntry>& entries) {
  std::string text;
  for (const VersionEntry& entry : entries) text += ToString(entry) + "; ";
  return text;
}

// Joins a value and operands with commas.
class JoiningOperator : public MergeOperator {
 public:
  static std::string Join(const std::optional<std::string>& value,
                          const std::string& operand) {
    return value ? *value + "," + operand : operand;
  }

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    std::optional<std::string> value;
    if (input.existing_value != nullptr) {
      value = input.existing_value->ToString();
    }
    for (const Slice& operand : input.operands) {
      value = Join(value, operand.ToString());
    }
    *new_value = *value;
    return true;
  }
  bool PartialMerge(const Slice&, const Slice& left, const Slice& right,
                    std::string* new_value) const override {
    *new_value = Join(left.ToString(), right.ToString());
    return true;
  }
  const char* Name() const override { return "JoiningOperator"; }
};

// An input of entries, newest first for each key, that may end with an error.
class EntryIterator : public InternalIterator {
 public:
  explicit EntryIterator(const std::vector<VersionEntry>& entries,
                         Status status = Status::OK())
      : end_status_(std::move(status)) {
    for (const VersionEntry& entry : entries) {
      rows_.emplace_back(
          MakeInternalKey(entry.key, PackTrailer(entry.sequence, entry.type)),
          entry.value);
    }
  }

  void SeekToFirst() override { MoveTo(0); }
  void SeekToLast() override { MoveTo(rows_.empty() ? 0 : rows_.size() - 1); }
  void Seek(const Slice& internal_key) override {
    const InternalKeyComparator comparator(BytewiseComparator());
    size_t i = 0;
    while (i < rows_.size() &&
           comparator.Compare(rows_[i].first, internal_key) < 0) {
      ++i;
    }
    MoveTo(i);
  }
  void SeekForPrev(const Slice&) override { ShowNothing(); }
  void Next() override { MoveTo(at_ + 1); }
  void Prev() override { ShowNothing(); }
  Status status() const override {
    return at_ < rows_.size() ? Status::OK() : end_status_;
  }

 private:
  void MoveTo(size_t i) {
    at_ = i;
    if (i >= rows_.size()) return ShowNothing();
    // A copy, so that a slice of an entry that was left is found by sanitizers.
    shown_ = std::make_unique<std::pair<std::string, std::string>>(rows_[i]);
    position_ = {true, shown_->first, shown_->second};
    Show(&position_);
  }

  const Status end_status_;
  std::vector<std::pair<std::string, std::string>> rows_;
  size_t at_ = 0;
  std::unique_ptr<std::pair<std::string, std::string>> shown_;
  IteratorPosition position_;
};

// Versions of keys, newest first for each key, range deletions of all keys, and
// what older tables have.
struct Versions {
  std::vector<VersionEntry> entries;
  std::vector<SequenceNumber> tombstones;
  std::map<std::string, std::string> older;

  // Returns what a reader of the sequence number sees of a key. Adds the
  // entries that decide about it to *used, if it is not null.
  std::optional<std::string> Read(const std::string& key, SequenceNumber reader,
                                  std::set<size_t>* used = nullptr) const {
    SequenceNumber tombstone = 0;
    for (const SequenceNumber sequence : tombstones) {
      if (sequence <= reader) tombstone = std::max(tombstone, sequence);
    }
    std::optional<std::string> value;
    std::vector<std::string> operands;
    bool ended = false;
    for (size_t i = 0; i < entries.size() && !ended; ++i) {
      const VersionEntry& entry = entries[i];
      if (entry.key != key || entry.sequence > reader) continue;
      ended = true;
      if (tombstone > entry.sequence) break;
      if (used != nullptr) used->insert(i);
      if (entry.type == ValueType::kValue) value = entry.value;
      if (entry.type == ValueType::kMerge) {
        operands.push_back(entry.value);
        ended = false;
      }
    }
    const auto old = older.find(key);
    if (!ended && tombstone == 0 && old != older.end()) value = old->second;
    for (size_t i = operands.size(); i > 0; --i) {
      value = JoiningOperator::Join(value, operands[i - 1]);
    }
    return value;
  }
};

inline SequenceNumber StripeIn(const std::vector<SequenceNumber>& snapshots,
                               SequenceNumber sequence) {
  for (const SequenceNumber snapshot : snapshots) {
    if (sequence <= snapshot) return snapshot;
  }
  return kMaxSequenceNumber;
}

// The output of a CompactionIterator.
struct CompactionOutput {
  std::vector<VersionEntry> entries;
  std::vector<bool> hidden;  // These are parallel to `entries`.
  std::vector<SequenceNumber> kept_for;
  std::vector<bool> starts_user_key;
  CompactionIterator::Drops drops;
  uint64_t input_count = 0;
  bool skipped_input = false;
  Status status;
};

inline CompactionOutput RunIterator(
    const Versions& input, const std::vector<SequenceNumber>& snapshots,
    OlderTables* older_tables, const CompactionUserCode& user_code,
    const std::atomic<bool>* stop = nullptr,
    const Status& input_status = Status::OK(),
    const std::string* end = nullptr) {
  static const InternalKeyComparator comparator(BytewiseComparator());
  std::vector<RangeTombstone> ranges;
  for (const SequenceNumber sequence : input.tombstones) {
    ranges.push_back({"", "zzz", sequence});
  }
  const auto tombstones = RangeTombstoneSet::Build(&comparator, ranges);
  EntryIterator entries(input.entries, input_status);
  CompactionIterator it(&entries, &comparator, snapshots,
                        ranges.empty() ? nullptr : tombstones.get(),
                        older_tables, CompactionIterator::Output::kDeeperLevel,
                        stop, user_code);
  it.SetEnd(end);
  CompactionOutput output;
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    output.entries.push_back(
        {ExtractUserKey(it.key()).ToString(), ExtractSequence(it.key()),
         ExtractValueType(it.key()), it.value().ToString()});
    output.hidden.push_back(it.hidden());
    output.kept_for.push_back(it.kept_for());
    output.starts_user_key.push_back(it.starts_user_key());
  }
  output.drops = it.drops();
  output.input_count = it.input_count();
  output.skipped_input = it.skipped_input();
  output.status = it.status();
  return output;
}

// Returns the lists of range deletions that a job may leave: all of them, and,
// if there are no older tables, none of the oldest stripe.
inline std::vector<std::vector<SequenceNumber>> SurvivingTombstones(
    const Versions& input, const std::vector<SequenceNumber>& snapshots,
    bool has_older_tables) {
  std::vector<std::vector<SequenceNumber>> result = {input.tombstones};
  if (has_older_tables) return result;
  const SequenceNumber oldest =
      snapshots.empty() ? kMaxSequenceNumber : snapshots.front();
  std::vector<SequenceNumber> newer;
  for (const SequenceNumber sequence : input.tombstones) {
    if (sequence > oldest) newer.push_back(sequence);
  }
  result.push_back(newer);
  return result;
}

}  // namespace varve::test
