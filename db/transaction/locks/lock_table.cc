// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/locks/lock_table.h"

#include <algorithm>
#include <bit>
#include <string>

#include "util/base/append_format.h"
#include "util/bytes/hash.h"

namespace varve {

namespace {

uint64_t HashOf(uint32_t family, const Slice& key) {
  // An odd multiplier spreads the family over all bits.
  return PreviewXxh3(key) ^ family * uint64_t{0x9E3779B97F4A7C15};
}

uint64_t AddSaturated(uint64_t now_ns, int64_t timeout_us) {
  if (timeout_us < 0) return kNever;
  const uint64_t us = static_cast<uint64_t>(timeout_us);
  return us >= (kNever - now_ns) / 1000 ? kNever : now_ns + us * 1000;
}

// " key 6B of column family 0", for the text of an error.
std::string KeyText(const LockRequest& request) {
  constexpr size_t kMaxBytes = 64;
  const bool is_long = request.key.size() > kMaxBytes;
  const Slice key(request.key.data(), is_long ? kMaxBytes : request.key.size());
  std::string text;
  AppendFormat(&text, "key %s%s of column family %u",
               key.ToString(true).c_str(), is_long ? "..." : "",
               request.family);
  return text;
}

Status LockTimeout(const LockRequest& request) {
  return Status::TimedOut(Status::Subcode::kLockTimeout,
                          "Timeout waiting to lock key: " + KeyText(request));
}

Status Expired(const LockOwner& owner) {
  return Status::Expired("transaction " + std::to_string(owner.id()));
}

}  // namespace

LockTable::LockTable(const LockTableOptions& options)
    : own_parking_(options.env),
      parking_(options.parking == nullptr ? own_parking_ : *options.parking),
      max_num_locks_(
          static_cast<uint64_t>(std::max(options.max_num_locks, int64_t{0}))),
      stripe_mask_(std::bit_ceil(std::clamp(options.stripe_count, 1u, 65536u)) -
                   1),
      stripes_(std::make_unique<LockStripe[]>(stripe_mask_ + 1)),
      graph_(options.max_num_deadlocks) {}

LockTable::~LockTable() = default;

// ---- Lock -------------------------------------------------------------------

Status LockTable::Lock(LockOwner* owner, const LockRequest& request,
                       LockHold** hold) {
  LockAttempt attempt(owner, request);
  Step step = Start(&attempt);
  while (step == Step::kWait) [[unlikely]] {
    parking_.Sleep(&attempt.word_, attempt.wake_at_ns_,
                   attempt.waits_for_long_);
    step = Continue(&attempt);
  }
  if (hold != nullptr && attempt.status_.ok()) *hold = attempt.hold_;
  return attempt.TakeStatus();
}

LockTable::Step LockTable::Start(LockAttempt* attempt) {
  const LockRequest& request = attempt->request_;
  const uint64_t hash = HashOf(request.family, request.key);
  LockOwner& owner = attempt->owner_;
  if (owner.IsStolen()) [[unlikely]]
    return Fail(attempt, Expired(owner));
  LockStripe& stripe = StripeOf(static_cast<uint32_t>(hash >> 32));
  Wakes wakes(&parking_);
  MutexLock lock(stripe.mutex());
  LockEntry* const entry = stripe.Find(hash, request.family, request.key);
  if (entry == nullptr) [[likely]]
    return TakeFree(&stripe, hash, attempt);
  return TakeLocked(&stripe, entry, attempt, &wakes);
}

LockTable::Step LockTable::TakeFree(LockStripe* stripe, uint64_t hash,
                                    LockAttempt* attempt) {
  const LockRequest& request = attempt->request_;
  if (!CountLock(request.family)) {
    return Fail(
        attempt,
        Status::Busy(Status::Subcode::kLockLimit,
                     "Failed to acquire lock due to max_num_locks limit"));
  }
  LockEntry* const entry = stripe->Add(hash, request.family, request.key);
  Take(stripe, entry, attempt);
  return Finish(attempt);
}

LockTable::Step LockTable::TakeLocked(LockStripe* stripe, LockEntry* entry,
                                      LockAttempt* attempt, Wakes* wakes) {
  LockOwner& owner = attempt->owner_;
  LockHold* const own = HoldOf(owner, *entry);
  if (own != nullptr && (entry->mode == LockMode::kExclusive ||
                         attempt->request_.mode == LockMode::kShared)) {
    attempt->hold_ = own;
    return Step::kDone;
  }
  attempt->entry_ = entry;
  attempt->own_ = own;
  const auto can_take = [entry, attempt] {
    return CanTake(*entry, *attempt) &&
           (entry->first == nullptr || attempt->IsUpgrade());
  };
  if (entry->first == nullptr && can_take()) {
    Take(stripe, entry, attempt);
    return Finish(attempt);
  }
  const MutexLock graph(graph_.mutex());
  const uint64_t now_ns = parking_.NowNanos();
  StealGraphLocked(entry, owner, now_ns, wakes);
  GrantGraphLocked(stripe, entry, wakes);
  if (can_take()) {
    Take(stripe, entry, attempt);
    return Finish(attempt);
  }
  return WaitGraphLocked(entry, attempt, now_ns);
}

LockTable::Step LockTable::WaitGraphLocked(LockEntry* entry,
                                           LockAttempt* attempt,
                                           uint64_t now_ns) {
  LockOwner& owner = attempt->owner_;
  const LockRequest& request = attempt->request_;
  if (request.timeout_us == 0) return Fail(attempt, LockTimeout(request));
  if (owner.HasExpired(now_ns)) return Fail(attempt, Expired(owner));
  if (request.detects_deadlock) {
    Status status = graph_.Check(*attempt, parking_.NowSeconds());
    if (!status.ok()) return Fail(attempt, std::move(status));
  }
  LockAttempt* before = entry->last;
  if (attempt->IsUpgrade()) {
    while (before != nullptr && !before->IsUpgrade()) {
      before = before->previous_;
    }
  }
  attempt->previous_ = before;
  LockAttempt*& to_it = before == nullptr ? entry->first : before->next_;
  attempt->next_ = std::exchange(to_it, attempt);
  (attempt->next_ == nullptr ? entry->last : attempt->next_->previous_) =
      attempt;
  owner.waiting_ = attempt;
  attempt->deadline_ns_ = AddSaturated(now_ns, request.timeout_us);
  attempt->wake_at_ns_ = WakeAt(*attempt);
  // Others come first, each of which sleeps and is woken before this one.
  attempt->waits_for_long_ = entry->first != attempt;
  return Step::kWait;
}

LockTable::Step LockTable::Continue(LockAttempt* attempt) {
  // acquire: pairs with the exchange of Signal.
  if (attempt->word_.load(std::memory_order_acquire) == LockParking::kSettled) {
    return Finish(attempt);
  }
  const uint64_t hash = HashOf(attempt->request_.family, attempt->request_.key);
  LockStripe& stripe = StripeOf(static_cast<uint32_t>(hash >> 32));
  Wakes wakes(&parking_);
  MutexLock lock(stripe.mutex());
  if (attempt->outcome_ != LockAttempt::Outcome::kPending) {
    return Finish(attempt);  // B2.
  }
  // relaxed: the mutex orders it before the exchanges, which are all under it.
  attempt->word_.store(LockParking::kAwake, std::memory_order_relaxed);
  attempt->wake_at_ns_ = 0;  // It looks now, and needs no kLook.
  LockEntry* const entry = attempt->entry_;
  LockOwner& owner = attempt->owner_;
  const MutexLock graph(graph_.mutex());
  const uint64_t now_ns = parking_.NowNanos();
  StealGraphLocked(entry, owner, now_ns, &wakes);
  GrantGraphLocked(&stripe, entry, &wakes);
  if (attempt->outcome_ != LockAttempt::Outcome::kPending) {
    return Finish(attempt);
  }
  const bool has_expired = owner.HasExpired(now_ns);
  if (has_expired || now_ns >= attempt->deadline_ns_) {
    Leave(entry, attempt);
    owner.waiting_ = nullptr;
    GrantGraphLocked(&stripe, entry, &wakes);
    return Fail(attempt,
                has_expired ? Expired(owner) : LockTimeout(attempt->request_));
  }
  attempt->wake_at_ns_ = WakeAt(*attempt);
  return Step::kWait;
}

LockTable::Step LockTable::Finish(LockAttempt* attempt) {
  if (attempt->outcome_ == LockAttempt::Outcome::kExpired) {
    return Fail(attempt, Expired(attempt->owner_));
  }
  if (attempt->outcome_ == LockAttempt::Outcome::kFamilyDropped) {
    return Fail(attempt,
                Status::InvalidArgument(
                    "column family " + std::to_string(attempt->request_.family),
                    "was dropped"));
  }
  // An upgrade has been linked before.
  if (attempt->hold_ != attempt->own_) attempt->owner_.Link(attempt->hold_);
  return Step::kDone;
}

LockTable::Step LockTable::Fail(LockAttempt* attempt, Status status) {
  attempt->status_ = std::move(status);
  return Step::kDone;
}

// ---- Entries ----------------------------------------------------------------

LockHold* LockTable::HoldOf(const LockOwner& owner, const LockEntry& entry) {
  // The shorter list of the two, since both can be long.
  if (owner.lock_count_ < entry.hold_count) {
    const auto tag = static_cast<uint32_t>(entry.hash >> 32);
    LockHold* hold = owner.newest_;
    // A hold of the same tag belongs to this stripe, whose mutex guards
    // `entry`.
    while (hold != nullptr && (hold->tag != tag || hold->entry != &entry)) {
      hold = hold->older;
    }
    return hold;
  }
  LockHold* hold = entry.holds;
  while (hold != nullptr && hold->owner != &owner) hold = hold->next_of_key;
  return hold;
}

bool LockTable::CanTake(const LockEntry& entry, const LockAttempt& attempt) {
  const uint32_t others = entry.hold_count - (attempt.IsUpgrade() ? 1 : 0);
  return others == 0 || (entry.mode == LockMode::kShared &&
                         attempt.request_.mode == LockMode::kShared);
}

void LockTable::Take(LockStripe* stripe, LockEntry* entry,
                     LockAttempt* attempt) {
  entry->mode = attempt->request_.mode;
  attempt->hold_ = attempt->own_ != nullptr && attempt->own_->entry == entry
                       ? attempt->own_
                       : stripe->AddHold(entry, &attempt->owner_);
}

void LockTable::StealGraphLocked(LockEntry* entry, const LockOwner& thief,
                                 uint64_t now_ns, Wakes* wakes) {
  for (LockHold* hold = entry->holds; hold != nullptr;) {
    LockHold* const next = hold->next_of_key;
    LockOwner* const owner = hold->owner;
    if (owner != &thief && owner->HasExpired(now_ns) && owner->Steal()) {
      LockStripe::Detach(hold);
      LockAttempt* const upgrade = owner->waiting_;
      if (upgrade != nullptr && upgrade->entry_ == entry) {
        SettleGraphLocked(entry, upgrade, LockAttempt::Outcome::kExpired,
                          wakes);
      }
    }
    hold = next;
  }
}

void LockTable::GrantGraphLocked(LockStripe* stripe, LockEntry* entry,
                                 Wakes* wakes) {
  while (entry->first != nullptr && CanTake(*entry, *entry->first)) {
    LockAttempt* const attempt = entry->first;
    Take(stripe, entry, attempt);
    SettleGraphLocked(entry, attempt, LockAttempt::Outcome::kGranted, wakes);
  }
  LockAttempt* const first = entry->first;
  if (first == nullptr || FirstExpiry(*entry) >= first->wake_at_ns_) return;
  Signal(first, LockParking::kLook, wakes);
}

void LockTable::SettleGraphLocked(LockEntry* entry, LockAttempt* attempt,
                                  LockAttempt::Outcome outcome, Wakes* wakes) {
  Leave(entry, attempt);
  attempt->owner_.waiting_ = nullptr;
  attempt->outcome_ = outcome;
  Signal(attempt, LockParking::kSettled, wakes);
}

void LockTable::Signal(LockAttempt* attempt, LockParking::Word word,
                       Wakes* wakes) {
  std::atomic<uint32_t>* const target = &attempt->word_;
  // release: pairs with the acquire of Continue. The old value needs no order.
  // The attempt may be gone afterwards (B3).
  const uint32_t old = target->exchange(word, std::memory_order_release);
  if (old == LockParking::kAsleep) wakes->Add(target);
}

void LockTable::Leave(LockEntry* entry, LockAttempt* attempt) {
  LockAttempt* const previous = attempt->previous_;
  LockAttempt* const next = attempt->next_;
  (previous == nullptr ? entry->first : previous->next_) = next;
  (next == nullptr ? entry->last : next->previous_) = previous;
}

uint64_t LockTable::WakeAt(const LockAttempt& attempt) {
  const LockOwner& owner = attempt.owner_;
  uint64_t wake_at_ns = attempt.deadline_ns_;
  if (owner.expiry_ns_ != 0) {
    wake_at_ns = std::min(wake_at_ns, owner.expiry_ns_);
  }
  const LockEntry& entry = *attempt.entry_;
  return entry.first == &attempt ? std::min(wake_at_ns, FirstExpiry(entry))
                                 : wake_at_ns;
}

uint64_t LockTable::FirstExpiry(const LockEntry& entry) {
  uint64_t first_ns = kNever;
  for (const LockHold* hold = entry.holds; hold != nullptr;
       hold = hold->next_of_key) {
    const LockOwner& owner = *hold->owner;
    if (owner.expiry_ns_ == 0 || owner.IsCommitting()) continue;
    first_ns = std::min(first_ns, owner.expiry_ns_);
  }
  return first_ns;
}

// ---- Unlock -----------------------------------------------------------------

void LockTable::Unlock(LockOwner* owner, LockHold* hold) {
  VARVE_DCHECK(hold->owner == owner);
  owner->Unlink(hold);
  Release(hold);
}

bool LockTable::Unlock(LockOwner* owner, uint32_t family, const Slice& key) {
  LockHold* const hold = Find(*owner, family, key);
  if (hold == nullptr) return false;
  Unlock(owner, hold);
  return true;
}

void LockTable::UnlockSince(LockOwner* owner, uint32_t mark) {
  LockHold* hold = owner->newest_;
  while (hold != nullptr && hold->number >= mark) {
    LockHold* const older = hold->older;
    Unlock(owner, hold);
    hold = older;
  }
}

void LockTable::Release(LockHold* hold) {
  LockStripe& stripe = StripeOf(hold->tag);
  Wakes wakes(&parking_);
  MutexLock lock(stripe.mutex());
  LockEntry* const entry = hold->entry;
  if (entry != nullptr && entry->first != nullptr) {
    const MutexLock graph(graph_.mutex());
    LockStripe::Detach(hold);
    GrantGraphLocked(&stripe, entry, &wakes);
  } else if (entry != nullptr) {
    LockStripe::Detach(hold);
    if (entry->hold_count == 0) RemoveEntry(&stripe, entry);
  }
  stripe.Free(hold);
}

void LockTable::RemoveEntry(LockStripe* stripe, LockEntry* entry) {
  const uint32_t family = entry->family;
  stripe->Remove(entry);
  if (max_num_locks_ == 0) return;
  const MutexLock lock(&counts_mutex_);
  const auto it = counts_.find(family);
  if (--it->second == 0) counts_.erase(it);
}

bool LockTable::CountLock(uint32_t family) {
  if (max_num_locks_ == 0) return true;
  const MutexLock lock(&counts_mutex_);
  uint64_t& count = counts_[family];
  if (count >= max_num_locks_) return false;
  ++count;
  return true;
}

LockHold* LockTable::Find(const LockOwner& owner, uint32_t family,
                          const Slice& key) {
  const uint64_t hash = HashOf(family, key);
  LockStripe& stripe = StripeOf(static_cast<uint32_t>(hash >> 32));
  const MutexLock lock(stripe.mutex());
  const LockEntry* const entry = stripe.Find(hash, family, key);
  return entry == nullptr ? nullptr : HoldOf(owner, *entry);
}

void LockTable::DropFamily(uint32_t family) {
  for (uint32_t i = 0; i <= stripe_mask_; ++i) {
    LockStripe& stripe = stripes_[i];
    Wakes wakes(&parking_);
    MutexLock lock(stripe.mutex());
    for (size_t bucket = 0; bucket < stripe.bucket_count(); ++bucket) {
      while (LockEntry* const entry = stripe.FirstOf(bucket, family)) {
        DropEntry(&stripe, entry, &wakes);
      }
    }
  }
}

void LockTable::DropEntry(LockStripe* stripe, LockEntry* entry, Wakes* wakes) {
  const MutexLock graph(graph_.mutex());
  while (entry->first != nullptr) {
    SettleGraphLocked(entry, entry->first, LockAttempt::Outcome::kFamilyDropped,
                      wakes);
  }
  while (entry->holds != nullptr) LockStripe::Detach(entry->holds);
  RemoveEntry(stripe, entry);
}

// ---- Reports ----------------------------------------------------------------

std::unordered_multimap<uint32_t, KeyLockInfo> LockTable::GetLockStatusData() {
  std::unordered_multimap<uint32_t, KeyLockInfo> locks;
  for (uint32_t i = 0; i <= stripe_mask_; ++i) {
    LockStripe& stripe = stripes_[i];
    const MutexLock lock(stripe.mutex());
    stripe.ForEach([&locks](const LockEntry& entry) {
      KeyLockInfo info{
          entry.key().ToString(), {}, entry.mode == LockMode::kExclusive};
      for (const LockHold* hold = entry.holds; hold != nullptr;
           hold = hold->next_of_key) {
        info.ids.push_back(hold->owner->id());
      }
      locks.emplace(entry.family, std::move(info));
    });
  }
  return locks;
}

std::vector<DeadlockPath> LockTable::GetDeadlockInfoBuffer() {
  const MutexLock lock(graph_.mutex());
  return graph_.History();
}

void LockTable::SetDeadlockInfoBufferSize(uint32_t count) {
  const MutexLock lock(graph_.mutex());
  graph_.SetHistorySize(count);
}

std::vector<uint64_t> LockTable::GetWaitingTxns(const LockOwner& owner,
                                                uint32_t* family,
                                                std::string* key) {
  const MutexLock lock(graph_.mutex());
  return WaitGraph::WaitsFor(owner, family, key);
}

}  // namespace varve
