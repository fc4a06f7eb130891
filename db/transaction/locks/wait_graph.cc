// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/locks/wait_graph.h"

#include <algorithm>
#include <utility>

#include "util/base/append_format.h"

namespace varve {

namespace {

// The most transactions of a cycle, and bytes of a key, in a status' text.
constexpr size_t kMaxTextSteps = 16;
constexpr size_t kMaxTextKeyBytes = 64;

// "1 waits for 2 (family 0, key 6B, exclusive), 2 waits for 1 (...)"
std::string CycleText(const std::vector<DeadlockInfo>& path) {
  std::string text;
  // The last one of the path waits for the first one.
  size_t at = path.size() - 1;
  for (size_t i = 0; i < path.size() && i < kMaxTextSteps; ++i) {
    const DeadlockInfo& info = path[at];
    at = (at + 1) % path.size();
    Slice key = info.m_waiting_key;
    const bool is_long = key.size() > kMaxTextKeyBytes;
    if (is_long) key = Slice(key.data(), kMaxTextKeyBytes);
    AppendFormat(&text, "%s%llu waits for %llu (family %u, key %s%s, %s)",
                 i == 0 ? "" : ", ",
                 static_cast<unsigned long long>(info.m_txn_id),
                 static_cast<unsigned long long>(path[at].m_txn_id),
                 info.m_cf_id, key.ToString(true).c_str(), is_long ? "..." : "",
                 info.m_exclusive ? "exclusive" : "shared");
  }
  if (path.size() > kMaxTextSteps) text += ", ...";
  return text;
}

}  // namespace

bool WaitGraph::AddHolders(const LockEntry& entry, const LockOwner* wanted,
                           const LockOwner* waiter, LockOwner* from) {
  for (LockHold* hold = entry.holds; hold != nullptr;
       hold = hold->next_of_key) {
    LockOwner* const owner = hold->owner;
    if (owner == waiter) continue;
    if (owner == wanted) return true;
    if (owner->waiting_ == nullptr || owner->search_ == search_) continue;
    owner->search_ = search_;
    owner->came_from_ = from;
    found_.push_back(owner);
  }
  return false;
}

Status WaitGraph::Check(const LockAttempt& attempt, int64_t now_seconds) {
  ++search_;
  found_.clear();
  LockOwner* const self = &attempt.owner_;
  AddHolders(*attempt.entry_, nullptr, self, nullptr);
  for (size_t i = 0; i < found_.size(); ++i) {
    if (i >= attempt.request_.detect_depth) {
      return Record({{}, true, now_seconds}, attempt);
    }
    LockOwner* const owner = found_[i];
    if (AddHolders(*owner->waiting_->entry_, self, owner, owner)) {
      return Record({PathTo(attempt, owner), false, now_seconds}, attempt);
    }
  }
  return Status::OK();
}

std::vector<DeadlockInfo> WaitGraph::PathTo(const LockAttempt& attempt,
                                            LockOwner* last) {
  std::vector<DeadlockInfo> path;  // Backwards, until the end.
  const auto add = [&](const LockAttempt& each) {
    const LockRequest& request = each.request_;
    path.push_back({each.owner_.id(), request.family,
                    request.mode == LockMode::kExclusive,
                    request.key.ToString()});
  };
  // A shared lock does not wait for another one, but for a waiter between. The
  // waiters before `each` are at `before` and before that.
  const auto add_between = [&](const LockAttempt& each,
                               const LockAttempt* before,
                               const LockOwner& holder) {
    if (each.request_.mode == LockMode::kExclusive ||
        each.entry_->mode == LockMode::kExclusive) {
      return;
    }
    const LockAttempt* between = nullptr;
    for (; before != nullptr; before = before->previous_) {
      if (before->request_.mode == LockMode::kShared) continue;
      if (&before->owner_ == &holder) return;
      if (between == nullptr) between = before;
    }
    if (between != nullptr) add(*between);
  };
  add(attempt);
  const LockOwner* holder = &attempt.owner_;
  for (LockOwner* owner = last; owner != nullptr; owner = owner->came_from_) {
    add_between(*owner->waiting_, owner->waiting_->previous_, *holder);
    add(*owner->waiting_);
    holder = owner;
  }
  add_between(attempt, attempt.entry_->last, *holder);
  std::reverse(path.begin(), path.end());
  return path;
}

Status WaitGraph::Record(DeadlockPath path, const LockAttempt& attempt) {
  std::string text = "Deadlock: ";
  if (path.limit_exceeded) {
    AppendFormat(&text, "assumed after %u transactions that wait",
                 attempt.request_.detect_depth);
  } else {
    text += CycleText(path.path);
  }
  history_.push_front(std::move(path));
  if (history_.size() > history_size_) history_.pop_back();
  return Status::Busy(Status::Subcode::kDeadlock, text);
}

std::vector<DeadlockPath> WaitGraph::History() const {
  return {history_.begin(), history_.end()};
}

void WaitGraph::SetHistorySize(uint32_t size) {
  history_size_ = size;
  if (history_.size() > size) history_.resize(size);
}

std::vector<uint64_t> WaitGraph::WaitsFor(const LockOwner& owner,
                                          uint32_t* family, std::string* key) {
  std::vector<uint64_t> ids;
  if (owner.waiting_ == nullptr) return ids;
  const LockEntry& entry = *owner.waiting_->entry_;
  *family = entry.family;
  *key = entry.key().ToString();
  for (const LockHold* hold = entry.holds; hold != nullptr;
       hold = hold->next_of_key) {
    if (hold->owner != &owner) ids.push_back(hold->owner->id());
  }
  return ids;
}

}  // namespace varve
