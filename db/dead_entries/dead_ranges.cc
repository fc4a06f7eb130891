// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/dead_entries/dead_ranges.h"

#include <algorithm>
#include <utility>

namespace varve {

DeadRanges::~DeadRanges() {
  // relaxed: nobody else is here.
  delete current_.load(std::memory_order_relaxed);
}

bool DeadRanges::BeginsBy(const DeadRange& range, const Slice& user_key) const {
  if (!range.begin) return true;
  const int r = comparator_.CompareUser(*range.begin, user_key);
  return r < 0 || (r == 0 && range.includes_begin);
}

bool DeadRanges::EndsAfter(const DeadRange& range,
                           const Slice& user_key) const {
  return !range.end || comparator_.CompareUser(user_key, *range.end) < 0;
}

bool DeadRanges::BeginsBy(const DeadRange& a, const DeadRange& b) const {
  if (!a.begin) return true;
  if (!b.begin) return false;
  const int r = comparator_.CompareUser(*a.begin, *b.begin);
  return r < 0 || (r == 0 && (a.includes_begin || !b.includes_begin));
}

bool DeadRanges::EndsBy(const DeadRange& a, const DeadRange& b) const {
  if (!b.end) return true;
  return a.end && comparator_.CompareUser(*a.end, *b.end) <= 0;
}

bool DeadRanges::Touch(const DeadRange& a, const DeadRange& b) const {
  const auto begins_by_end = [this](const DeadRange& x, const DeadRange& y) {
    if (!x.begin || !y.end) return true;
    const int r = comparator_.CompareUser(*x.begin, *y.end);
    return r < 0 || (r == 0 && x.includes_begin);
  };
  return begins_by_end(a, b) && begins_by_end(b, a);
}

DeadRanges::Entries::const_iterator DeadRanges::FindKnown(
    const Set& set, const Slice& user_key) const {
  const auto it = std::partition_point(
      set.known.begin(), set.known.end(),
      [&](const auto& entry) { return !EndsAfter(entry->range, user_key); });
  return it != set.known.end() && BeginsBy((*it)->range, user_key)
             ? it
             : set.known.end();
}

const DeadRange* DeadRanges::FindInSection(const Slice* user_key,
                                           SequenceNumber sequence,
                                           bool forward, bool* contains) const {
  const Set* const ranges = set();
  if (ranges == nullptr || ranges->known.empty()) return nullptr;
  const Entries& known = ranges->known;
  auto it = forward ? known.begin() : known.end();
  if (user_key != nullptr) {
    it = std::partition_point(
        known.begin(), known.end(), [&](const auto& entry) {
          return forward ? !EndsAfter(entry->range, *user_key)
                         : BeginsBy(entry->range, *user_key);
        });
  }
  if (it == (forward ? known.end() : known.begin())) return nullptr;
  if (!forward) --it;
  const Entry& entry = **it;
  const DeadRange& range = entry.range;
  if (range.sequence > sequence) return nullptr;
  if (user_key == nullptr) {
    *contains = forward ? !range.begin : !range.end;
  } else {
    *contains =
        forward ? BeginsBy(range, *user_key) : EndsAfter(range, *user_key);
  }
  // relaxed: see Entry. Stored once, so that the line stays clean.
  if (*contains && !entry.used.load(std::memory_order_relaxed)) {
    entry.used.store(true, std::memory_order_relaxed);
  }
  return &range;
}

void DeadRanges::Publish(std::unique_ptr<const Set> next) {
  const Set* const old = set();
  const bool keeps = !next->known.empty() || !next->candidates.empty();
  // release pairs with set().
  current_.store(keeps ? next.release() : nullptr, std::memory_order_release);
  if (old == nullptr) return;
  Retire(const_cast<Set*>(old),
         [](void* object) { delete static_cast<Set*>(object); });
}

void DeadRanges::Cut(const Slice& user_key) {
  const Set* const old = set();
  if (old == nullptr) return;
  const auto known = FindKnown(*old, user_key);
  const auto is_cut = [&](const auto& candidate) {
    return Contains(candidate->range, user_key);
  };
  // Most keys are in none.
  if (known == old->known.end() &&
      std::none_of(old->candidates.begin(), old->candidates.end(), is_cut)) {
    return;
  }
  auto next = std::make_unique<Set>(*old);
  const bool fits = user_key.size() <= kMaxKeyBytes;
  if (known != old->known.end()) {
    const auto cut = next->known.begin() + (known - old->known.begin());
    DeadRange left = (*known)->range;
    DeadRange right = left;
    left.end = user_key.ToString();
    right.begin = left.end;
    right.includes_begin = false;
    // Nobody knows where in the range the deletions were. Most walks begin at
    // its begin, and a queue's values are put at the end of all keys.
    if (right.end) {
      right.dead /= 2;
      left.dead -= right.dead;
    }
    const bool keeps_right = fits && right.end && right.dead >= kLeastDead &&
                             next->known.size() < kMaxRanges;
    if (!fits || left.dead < kLeastDead) {
      next->known.erase(cut);
      if (keeps_right) {
        next->known.insert(cut, std::make_shared<Entry>(std::move(right)));
      }
    } else {
      *cut = std::make_shared<Entry>(std::move(left));
      if (keeps_right) {
        next->known.insert(cut + 1, std::make_shared<Entry>(std::move(right)));
      }
    }
  }
  if (!fits) std::erase_if(next->candidates, is_cut);
  // Of a candidate the first part is kept: most walks begin there.
  for (auto& candidate : next->candidates) {
    if (!is_cut(candidate)) continue;
    DeadRange left = candidate->range;
    left.end = user_key.ToString();
    candidate = std::make_shared<Entry>(std::move(left));
  }
  Publish(std::move(next));
}

void DeadRanges::AddKnown(DeadRange range, Set* set) const {
  Entries kept;
  kept.reserve(set->known.size() + 1);
  for (auto& entry : set->known) {
    const DeadRange& other = entry->range;
    if (!Touch(other, range)) {
      kept.push_back(std::move(entry));
      continue;
    }
    if (BeginsBy(other, range)) {
      range.begin = other.begin;
      range.includes_begin = other.includes_begin;
    }
    if (EndsBy(range, other)) range.end = other.end;
    range.sequence = std::max(range.sequence, other.sequence);
    range.dead += other.dead;
  }
  const auto place = std::find_if(
      kept.begin(), kept.end(),
      [&](const auto& entry) { return BeginsBy(range, entry->range); });
  const auto added = std::make_shared<Entry>(std::move(range));
  kept.insert(place, added);
  if (kept.size() > kMaxRanges) {
    kept.erase(std::min_element(kept.begin(), kept.end(),
                                [&](const auto& a, const auto& b) {
                                  if (a == added || b == added)
                                    return b == added && a != added;
                                  return a->range.dead < b->range.dead;
                                }));
  }
  set->known = std::move(kept);
}

void DeadRanges::Learn(const WalkedRange& walk, SequenceNumber last_sequence) {
  if (walk.begin.size() > kMaxKeyBytes || walk.end.size() > kMaxKeyBytes) {
    return;
  }
  DeadRange range;
  if (walk.has_begin) range.begin = walk.begin.ToString();
  if (walk.has_end) range.end = walk.end.ToString();
  range.includes_begin = walk.includes_begin;
  range.sequence = walk.sequence;
  range.dead = walk.dead;
  const Set* const old = set();
  auto next =
      old == nullptr ? std::make_unique<Set>() : std::make_unique<Set>(*old);
  Entries inside;
  std::erase_if(next->candidates, [&](const auto& candidate) {
    if (!BeginsBy(range, candidate->range) ||
        !EndsBy(candidate->range, range)) {
      return false;
    }
    inside.push_back(candidate);
    return true;
  });
  if (walk.sequence == last_sequence) {
    AddKnown(std::move(range), next.get());
  } else {
    for (const auto& candidate : inside) {
      if (candidate->range.sequence > walk.sequence) continue;
      DeadRange confirmed = candidate->range;
      confirmed.sequence = walk.sequence;
      AddKnown(std::move(confirmed), next.get());
    }
    range.sequence = last_sequence;
    next->candidates.push_back(std::make_shared<Entry>(std::move(range)));
    if (next->candidates.size() > kMaxCandidates) {
      next->candidates.erase(next->candidates.begin());
    }
  }
  Publish(std::move(next));
}

void DeadRanges::Clear() {
  if (!empty()) Publish(std::make_unique<Set>());
}

void DeadRanges::DropUnused() {
  const Set* const old = set();
  if (old == nullptr) return;
  auto next = std::make_unique<Set>();
  for (const auto& entry : old->known) {
    // relaxed, both: see Entry.
    if (!entry->used.load(std::memory_order_relaxed)) continue;
    entry->used.store(false, std::memory_order_relaxed);
    next->known.push_back(entry);
  }
  Publish(std::move(next));
}

std::vector<DeadRange> DeadRanges::Known() const {
  const EpochGuard guard;
  const Set* const ranges = set();
  std::vector<DeadRange> known;
  if (ranges == nullptr) return known;
  for (const auto& entry : ranges->known) known.push_back(entry->range);
  return known;
}

}  // namespace varve
