// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/compaction/compaction_iterator.h"

#include <algorithm>
#include <utility>

namespace varve {

CompactionIterator::CompactionIterator(InternalIterator* input,
                                       const InternalKeyComparator* comparator,
                                       std::vector<SequenceNumber> snapshots,
                                       const RangeTombstoneSet* tombstones,
                                       OlderTables* older_tables, Output output,
                                       const std::atomic<bool>* stop)
    : input_(input),
      comparator_(comparator),
      snapshots_(std::move(snapshots)),
      older_tables_(older_tables),
      is_for_level0_(output == Output::kLevel0),
      stop_(stop) {
  if (tombstones != nullptr) tombstones_.emplace(tombstones);
}

void CompactionIterator::SeekToFirst() {
  input_->SeekToFirst();
  FindNext();
}

void CompactionIterator::Seek(const Slice& user_key) {
  input_->Seek(MakeInternalKey(user_key, SeekTrailer(kMaxSequenceNumber)));
  FindNext();
}

void CompactionIterator::Next() {
  MoveOn();
  FindNext();
}

void CompactionIterator::MoveOn() {
  if (!std::exchange(is_ahead_, false)) input_->Next();
}

bool CompactionIterator::IsLastOfStripe(SequenceNumber stripe) {
  rewritten_key_.assign(key_.data(), key_.size());
  key_ = rewritten_key_;
  input_->Next();
  is_ahead_ = true;
  if (!input_->Valid()) return true;
  const Slice next = input_->key();
  return comparator_->CompareUser(ExtractUserKey(next), user_key_) != 0 ||
         StripeOf(ExtractSequence(next)) != stripe;
}

SequenceNumber CompactionIterator::StripeOf(SequenceNumber sequence) const {
  if (snapshots_.empty()) return kMaxSequenceNumber;
  const auto it =
      std::lower_bound(snapshots_.begin(), snapshots_.end(), sequence);
  return it == snapshots_.end() ? kMaxSequenceNumber : *it;
}

SequenceNumber CompactionIterator::NextStripe(SequenceNumber stripe) const {
  const auto it =
      std::upper_bound(snapshots_.begin(), snapshots_.end(), stripe);
  return it == snapshots_.end() ? kMaxSequenceNumber : *it;
}

bool CompactionIterator::OlderTablesMayHave(const Slice& user_key) {
  return older_tables_ == nullptr || older_tables_->MayHave(user_key);
}

bool CompactionIterator::IsCovered(const Slice& user_key,
                                   SequenceNumber sequence,
                                   SequenceNumber stripe) {
  if (!tombstones_) return false;
  tombstones_->MoveTo(user_key);
  return tombstones_->MaxCovering(stripe) > sequence;
}

void CompactionIterator::FindNext() {
  valid_ = false;
  for (; input_->Valid(); MoveOn()) {
    // relaxed: a flag that is looked at again and again.
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
      status_ = Status::ShutdownInProgress();
      return;
    }
    ++input_count_;
    key_ = input_->key();
    Slice user_key = ExtractUserKey(key_);
    const SequenceNumber sequence = ExtractSequence(key_);
    const SequenceNumber stripe = StripeOf(sequence);
    if (IsCovered(user_key, sequence, stripe)) {
      ++drops_.range_deleted;
      continue;
    }
    kept_for_ = kMaxSequenceNumber;
    hidden_ = false;
    const bool same_key =
        has_user_key_ && comparator_->CompareUser(user_key, user_key_) == 0;
    if (same_key && stripe == last_stripe_) {
      // Every reader that sees it sees a newer one.
      if (ExtractValueType(key_) != ValueType::kSingleDeletion ||
          !hidden_by_value_ || !IsLastOfStripe(stripe)) {
        ++drops_.hidden;
        continue;
      }
      user_key = ExtractUserKey(key_);
    } else {
      hidden_by_value_ = ExtractValueType(key_) == ValueType::kValue;
      hidden_ = same_key;
      if (same_key && last_stripe_ == NextStripe(stripe)) kept_for_ = stripe;
    }
    if (!same_key) {
      user_key_.assign(user_key.data(), user_key.size());
      has_user_key_ = true;
      any_of_user_key_ = false;
    }
    last_stripe_ = stripe;
    if (stripe != kMaxSequenceNumber &&
        IsCovered(user_key, sequence, kMaxSequenceNumber)) {
      hidden_ = true;
      if (IsCovered(user_key, sequence, NextStripe(stripe))) kept_for_ = stripe;
    }
    const bool oldest_stripe =
        snapshots_.empty() || sequence <= snapshots_.front();
    if (!oldest_stripe) {
      // A deletion that hides nothing from readers of the present.
      if (ExtractValueType(key_) != ValueType::kValue &&
          !OlderTablesMayHave(user_key)) {
        hidden_ = true;
      }
    } else {
      const ValueType type = ExtractValueType(key_);
      if (type != ValueType::kValue) {
        if (!OlderTablesMayHave(user_key)) {
          ++drops_.obsolete;
          continue;
        }
      } else if (sequence != 0 && !is_for_level0_ &&
                 !OlderTablesMayHave(user_key) &&
                 !IsCovered(user_key, 0, kMaxSequenceNumber)) {
        rewritten_key_.clear();
        AppendInternalKey(&rewritten_key_, user_key,
                          PackTrailer(0, ValueType::kValue));
        key_ = rewritten_key_;
      }
    }
    valid_ = true;
    starts_user_key_ = !any_of_user_key_;
    any_of_user_key_ = true;
    return;
  }
  status_ = input_->status();
}

}  // namespace varve
