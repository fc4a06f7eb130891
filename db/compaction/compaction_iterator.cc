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
                                       const std::atomic<bool>* stop,
                                       const CompactionUserCode& user_code)
    : input_(input),
      comparator_(comparator),
      snapshots_(std::move(snapshots)),
      older_tables_(older_tables),
      is_for_level0_(output == Output::kLevel0),
      stop_(stop),
      user_code_(user_code) {
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
  if (next_operand_ < operands_.size()) {
    TakeOperand();
    starts_user_key_ = false;
    return;
  }
  MoveOn();
  FindNext();
}

void CompactionIterator::MoveOn() {
  if (!std::exchange(is_ahead_, false)) input_->Next();
}

bool CompactionIterator::MustStop() {
  // relaxed: a flag that is looked at again and again.
  if (stop_ == nullptr || !stop_->load(std::memory_order_relaxed)) return false;
  status_ = Status::ShutdownInProgress();
  return true;
}

void CompactionIterator::SetEntry(const Entry& entry, const Slice& value) {
  rewritten_key_.clear();
  AppendInternalKey(&rewritten_key_, entry.user_key,
                    PackTrailer(entry.sequence, entry.type));
  key_ = rewritten_key_;
  value_ = value;
  has_own_value_ = true;
}

bool CompactionIterator::IsAtUserKey() const {
  return input_->Valid() && comparator_->CompareUser(
                                ExtractUserKey(input_->key()), user_key_) == 0;
}

bool CompactionIterator::IsLastOfStripe(SequenceNumber stripe) {
  rewritten_key_.assign(key_.data(), key_.size());
  key_ = rewritten_key_;
  value_ = Slice();
  has_own_value_ = true;
  input_->Next();
  is_ahead_ = true;
  return !IsAtUserKey() || StripeOf(ExtractSequence(input_->key())) != stripe;
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

// ---- The filter -------------------------------------------------------------

CompactionIterator::Outcome CompactionIterator::FilterValue(Entry* entry) {
  JobFilter& filter = *user_code_.filter;
  switch (filter.Decide(entry->user_key, CompactionFilter::ValueType::kValue,
                        input_->value())) {
    case CompactionFilter::Decision::kKeep:
      return Outcome::kKept;
    case CompactionFilter::Decision::kRemove:
      ++drops_.user;
      entry->type = ValueType::kDeletion;
      SetEntry(*entry, Slice());
      return Outcome::kRemoved;
    case CompactionFilter::Decision::kChangeValue:
      value_ = filter.new_value();
      has_own_value_ = true;
      return Outcome::kKept;
    case CompactionFilter::Decision::kRemoveAndSkipUntil:
      ++drops_.user;
      BeginSkip(entry->user_key, entry->sequence);
      return Outcome::kDropped;
  }
  return Outcome::kKept;
}

CompactionIterator::Outcome CompactionIterator::FilterOperand(
    const Entry& newest, SequenceNumber sequence) {
  JobFilter& filter = *user_code_.filter;
  switch (filter.Decide(newest.user_key,
                        CompactionFilter::ValueType::kMergeOperand,
                        input_->value())) {
    case CompactionFilter::Decision::kKeep:
      operands_.Add(sequence, input_->value());
      break;
    case CompactionFilter::Decision::kRemove:
      ++drops_.user;
      break;
    case CompactionFilter::Decision::kChangeValue:
      operands_.Add(sequence, filter.new_value());
      break;
    case CompactionFilter::Decision::kRemoveAndSkipUntil:
      drops_.user += operands_.size() + 1;
      operands_.Clear();
      BeginSkip(newest.user_key, newest.sequence);
      return Outcome::kDropped;
  }
  return Outcome::kKept;
}

void CompactionIterator::BeginSkip(const Slice& user_key,
                                   SequenceNumber sequence) {
  const std::string& skip_until = user_code_.filter->skip_until();
  has_user_key_ = false;
  if (snapshots_.empty()) {
    input_->Seek(MakeInternalKey(skip_until, SeekTrailer(kMaxSequenceNumber)));
    is_ahead_ = true;
    skipped_input_ = true;
    return;
  }
  skip_until_ = skip_until;
  skipped_key_.assign(user_key.data(), user_key.size());
  skipped_sequence_ = sequence;
  has_skipped_ = true;
}

bool CompactionIterator::PassesSkip(Entry* entry) {
  if (comparator_->CompareUser(entry->user_key, *skip_until_) >= 0) {
    skip_until_.reset();
    return true;
  }
  const bool has_newer =
      has_skipped_ &&
      comparator_->CompareUser(entry->user_key, skipped_key_) == 0;
  if (entry->stripe == kMaxSequenceNumber) {
    ++drops_.user;
    if (has_newer) return false;
    skipped_key_.assign(entry->user_key.data(), entry->user_key.size());
    skipped_sequence_ = entry->sequence;
    has_skipped_ = true;
    return false;
  }
  if (!has_newer) return true;
  has_skipped_ = false;
  entry->sequence = skipped_sequence_;
  entry->stripe = kMaxSequenceNumber;
  entry->type = ValueType::kDeletion;
  SetEntry(*entry, Slice());
  // The input's entry comes next, and is counted then.
  is_ahead_ = true;
  --input_count_;
  return true;
}

// ---- Merge operands ---------------------------------------------------------

bool CompactionIterator::IsDeletedInStripe(SequenceNumber stripe) {
  if (!tombstones_) return false;
  tombstones_->MoveTo(user_key_);
  const SequenceNumber newest = tombstones_->MaxCovering(stripe);
  return newest != 0 && StripeOf(newest) == stripe;
}

CompactionIterator::Outcome CompactionIterator::CollectOperands(
    const Entry& newest, Base* base) {
  const bool is_filtered =
      user_code_.filter != nullptr && newest.stripe == kMaxSequenceNumber;
  SequenceNumber sequence = newest.sequence;
  for (;;) {
    if (!is_filtered) {
      operands_.Add(sequence, input_->value());
    } else if (FilterOperand(newest, sequence) == Outcome::kDropped) {
      return Outcome::kDropped;
    }
    input_->Next();
    is_ahead_ = true;
    if (!IsAtUserKey()) {
      status_ = input_->Valid() ? Status::OK() : input_->status();
      if (!status_.ok()) return Outcome::kStopped;
      if (!OlderTablesMayHave(user_key_) || IsDeletedInStripe(newest.stripe)) {
        *base = Base::kNoValue;
      }
      return Outcome::kKept;
    }
    sequence = ExtractSequence(input_->key());
    if (StripeOf(sequence) != newest.stripe ||
        IsCovered(user_key_, sequence, newest.stripe)) {
      if (IsDeletedInStripe(newest.stripe)) *base = Base::kNoValue;
      return Outcome::kKept;
    }
    const ValueType type = ExtractValueType(input_->key());
    if (type != ValueType::kMerge) {
      *base = type == ValueType::kValue ? Base::kValue : Base::kNoValue;
      return Outcome::kKept;
    }
    if (MustStop()) return Outcome::kStopped;
    ++input_count_;
    is_ahead_ = false;
  }
}

CompactionIterator::Outcome CompactionIterator::MergeOperands(Entry* entry) {
  entry->user_key = user_key_;  // The input moves on.
  operands_.Clear();
  next_operand_ = 0;
  Base base = Base::kUnknown;
  const Outcome outcome = CollectOperands(*entry, &base);
  if (outcome != Outcome::kKept) return outcome;
  if (operands_.empty()) {
    has_user_key_ = false;  // Nothing hides older versions.
    return Outcome::kDropped;
  }
  entry->sequence = operands_.sequence(0);
  bool is_merged = false;
  if (user_code_.merge_operator != nullptr) {
    if (base == Base::kUnknown) {
      is_merged = operands_.PartialMerge(*user_code_.merge_operator, user_key_,
                                         user_code_.stats);
    } else {
      const Slice value = base == Base::kValue ? input_->value() : Slice();
      is_merged = operands_.FullMerge(*user_code_.merge_operator, user_key_,
                                      base == Base::kValue ? &value : nullptr,
                                      user_code_.stats);
    }
  }
  if (!is_merged || user_key_.size() + operands_.merged().size() >
                        user_code_.max_merged_bytes) {
    TakeOperand();
    return Outcome::kKept;
  }
  drops_.hidden += operands_.size() - 1;
  next_operand_ = operands_.size();
  if (base != Base::kUnknown) entry->type = ValueType::kValue;
  SetEntry(*entry, operands_.merged());
  return Outcome::kKept;
}

void CompactionIterator::TakeOperand() {
  SetEntry({user_key_, operands_.sequence(next_operand_), last_stripe_,
            ValueType::kMerge},
           operands_.value(next_operand_));
  ++next_operand_;
}

// ---- All entries ------------------------------------------------------------

void CompactionIterator::FindNext() {
  valid_ = false;
  for (; input_->Valid(); MoveOn()) {
    if (MustStop()) return;
    key_ = input_->key();
    if (end_ != nullptr &&
        comparator_->CompareUser(ExtractUserKey(key_), *end_) >= 0) {
      return;
    }
    ++input_count_;
    has_own_value_ = false;
    Entry entry{ExtractUserKey(key_), ExtractSequence(key_), 0,
                ExtractValueType(key_)};
    // The older versions that are skipped elsewhere have smaller ones.
    input_end_ = std::max(input_end_, entry.sequence);
    entry.stripe = StripeOf(entry.sequence);
    if (IsCovered(entry.user_key, entry.sequence, entry.stripe)) {
      ++drops_.range_deleted;
      continue;
    }
    if (skip_until_ && !PassesSkip(&entry)) continue;
    const bool same_key = has_user_key_ && comparator_->CompareUser(
                                               entry.user_key, user_key_) == 0;
    bool is_removed = false;
    if (same_key && entry.stripe == last_stripe_ && !stripe_is_open_) {
      // Every reader that sees it sees a newer one.
      if (entry.type != ValueType::kSingleDeletion || !hidden_by_value_ ||
          !IsLastOfStripe(entry.stripe)) {
        ++drops_.hidden;
        continue;
      }
      entry.user_key = user_key_;
      hidden_ = false;
      kept_for_ = kMaxSequenceNumber;
    } else {
      if (user_code_.filter != nullptr && !same_key &&
          entry.stripe == kMaxSequenceNumber &&
          entry.type == ValueType::kValue) {
        const Outcome outcome = FilterValue(&entry);
        if (outcome == Outcome::kDropped) continue;
        is_removed = outcome == Outcome::kRemoved;
      }
      BeginStripe(entry, same_key);
      if (entry.type == ValueType::kMerge) {
        const Outcome outcome = MergeOperands(&entry);
        if (outcome == Outcome::kStopped) return;
        if (outcome == Outcome::kDropped) continue;
      }
      hidden_by_value_ = entry.type == ValueType::kValue;
      stripe_is_open_ = entry.type == ValueType::kMerge;
      if (!stripe_is_open_) has_closed_stripe_ = true;
    }
    if (entry.stripe != kMaxSequenceNumber &&
        IsCovered(entry.user_key, entry.sequence, kMaxSequenceNumber)) {
      hidden_ = true;
      if (IsCovered(entry.user_key, entry.sequence, NextStripe(entry.stripe))) {
        kept_for_ = entry.stripe;
      }
    }
    const bool oldest_stripe =
        snapshots_.empty() || entry.sequence <= snapshots_.front();
    if (entry.type == ValueType::kValue) {
      if (oldest_stripe && entry.sequence != 0 && !is_for_level0_ &&
          !OlderTablesMayHave(entry.user_key) &&
          !IsCovered(entry.user_key, 0, kMaxSequenceNumber)) {
        entry.sequence = 0;
        SetEntry(entry, value());
      }
    } else if (IsDeletion(entry.type) && !OlderTablesMayHave(entry.user_key)) {
      if (oldest_stripe) {
        if (!is_removed) ++drops_.obsolete;
        continue;
      }
      hidden_ = true;  // It hides nothing from readers of the present.
    }
    valid_ = true;
    starts_user_key_ = !any_of_user_key_;
    any_of_user_key_ = true;
    return;
  }
  status_ = input_->status();
}

void CompactionIterator::BeginStripe(const Entry& entry, bool same_key) {
  if (!same_key) {
    user_key_.assign(entry.user_key.data(), entry.user_key.size());
    has_user_key_ = true;
    any_of_user_key_ = false;
    has_closed_stripe_ = false;
    stripe_hidden_ = false;
    stripe_kept_for_ = kMaxSequenceNumber;
  } else if (entry.stripe != last_stripe_) {
    // The operator would merge it with newer operands.
    const bool is_apart =
        !has_closed_stripe_ && user_code_.merge_operator != nullptr;
    stripe_hidden_ = has_closed_stripe_ || is_apart;
    stripe_kept_for_ =
        !stripe_is_open_ && last_stripe_ == NextStripe(entry.stripe)
            ? entry.stripe
            : kMaxSequenceNumber;
  }
  last_stripe_ = entry.stripe;
  hidden_ = stripe_hidden_;
  kept_for_ = stripe_kept_for_;
}

}  // namespace varve
