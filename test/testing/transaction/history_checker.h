// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Finds what isolation forbids in a history (history.h): cycles of the
// dependencies between committed transactions, by Adya's kinds ("Weak
// Consistency: A Generalized Theory and Optimistic Implementations for
// Distributed Transactions", 1999), and what shows without a cycle.
//
// The order of a key's versions is the longest list that was read of it. So a
// history ends with a transaction that reads all keys. A scan reads all keys of
// its range that occur in the history: those that it did not find are absent.
// If a key was deleted, its absence may be before its first append or after its
// deletion. The times tell which, or else it counts for nothing.

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/transaction/history.h"
#include "test/testing/transaction/history_graph.h"

namespace varve::test {

enum class Anomaly : uint8_t {
  kUnknownElement,      // Read what nobody appended, or the same twice.
  kOwnWrites,           // A read does not have the transaction's own appends.
  kIncompatibleOrders,  // Two reads of a key, of which none is a prefix.
  kLostWrite,           // A committed append that later reads do not have.
  kAbortedRead,         // G1a: read what was rolled back.
  kIntermediateRead,    // G1b: read an append before its writer's last one.
  kWriteCycle,          // G0
  kCircularFlow,        // G1c
  kLostUpdate,          // G-single of two writers of one key.
  kReadSkew,            // G-single
  kLongFork,            // G-nonadjacent: snapshots without an order.
  kWriteSkew,           // G2-item
  kPhantom,             // G2
};

inline const char* NameOf(Anomaly anomaly) {
  constexpr const char* kNames[] = {
      "unknown element", "own writes missed", "incompatible orders",
      "lost write",      "aborted read",      "intermediate read",
      "write cycle",     "circular flow",     "lost update",
      "read skew",       "long fork",         "write skew",
      "phantom"};
  return kNames[static_cast<size_t>(anomaly)];
}

enum class Isolation : uint8_t { kReadCommitted, kSnapshot, kSerializable };

inline bool Forbids(Isolation isolation, Anomaly anomaly) {
  switch (isolation) {
    case Isolation::kReadCommitted:
      return anomaly <= Anomaly::kCircularFlow;
    case Isolation::kSnapshot:
      return anomaly <= Anomaly::kLongFork;
    case Isolation::kSerializable:
      return true;
  }
  return true;
}

struct Finding {
  Anomaly anomaly;
  std::string text;
};

struct HistoryCheckOptions {
  // A transaction that ended before another began is before it in any order.
  bool real_time = true;
  // Checks the reads of aborted transactions as well. Snapshots keep them
  // consistent. Validation, which they did not pass, is what makes transactions
  // serializable.
  bool aborted_reads = false;
};

class HistoryChecker {
 public:
  // `history` must outlive this.
  HistoryChecker(const History& history, const HistoryCheckOptions& options)
      : history_(history), options_(options), graph_(history.size()) {}

  std::vector<Finding> Check() {
    CollectWriters();
    CollectDeleters();
    for (size_t i = 0; i < history_.size(); ++i) {
      if (IsUsed(i)) CheckReads(i);
    }
    for (auto& [key, versions] : keys_) {
      OrderVersions(key, &versions);
      FindLostWrites(key, versions);
      AddDependencies(key, versions);
    }
    if (options_.real_time) AddRealTime();
    FindCycles();
    return std::move(findings_);
  }

 private:
  using Outcome = HistoryTransaction::Outcome;

  struct Writer {
    size_t transaction;
    std::string key;
    bool is_last;  // Of this transaction's to the key.
  };
  // A read of a version that is not the transaction's own.
  struct Observation {
    size_t transaction;
    ElementList list;
    bool by_scan;
  };
  struct Versions {
    ElementList order;
    std::vector<Observation> observations;
    std::set<size_t> appenders;
    std::set<size_t> deleters;  // All that may have deleted it.
    // The one that has, if it can be no other.
    std::optional<size_t> deleter;
  };
  // The state of a key after a transaction's own writes.
  struct Own {
    ElementList appended;
    bool deleted = false;
  };

  void CollectWriters() {
    std::map<std::pair<size_t, std::string>, int> last;
    for (size_t i = 0; i < history_.size(); ++i) {
      for (const HistoryStep& step : history_[i].steps) {
        if (step.kind != HistoryStep::Kind::kAppend) continue;
        writers_[step.element] = {i, step.key, true};
        keys_[step.key].appenders.insert(i);
        int& before = last[{i, step.key}];
        if (before != 0) writers_[before].is_last = false;
        before = step.element;
      }
    }
    took_effect_.resize(history_.size());
    for (size_t i = 0; i < history_.size(); ++i) {
      if (history_[i].outcome != Outcome::kCommitted) continue;
      took_effect_[i] = true;
      for (const HistoryStep& step : history_[i].steps) {
        NoteSeen(i, step.list);
        for (const auto& [key, list] : step.found) NoteSeen(i, list);
      }
    }
  }
  // If another has read it, it was committed.
  void NoteSeen(size_t reader, const ElementList& list) {
    for (const int element : list) {
      const auto writer = writers_.find(element);
      if (writer == writers_.end()) continue;
      const size_t other = writer->second.transaction;
      if (other != reader && history_[other].outcome == Outcome::kUnknown) {
        took_effect_[other] = true;
      }
    }
  }

  // A deletion whose outcome is unknown counts, too: its keys may be absent.
  void CollectDeleters() {
    for (size_t i = 0; i < history_.size(); ++i) {
      if (history_[i].outcome == Outcome::kAborted) continue;
      std::set<std::string> seen;
      const auto& steps = history_[i].steps;
      for (size_t at = 0; at < steps.size(); ++at) {
        if (!steps[at].list.empty()) seen.insert(steps[at].key);
        for (const auto& [key, list] : steps[at].found) seen.insert(key);
        for (const std::string& key : DeletedKeys(steps[at])) {
          Versions& versions = keys_[key];
          if (IsDeletedBeforeAppends(i, at, key, versions)) continue;
          versions.deleters.insert(i);
          const bool surely = versions.deleters.size() == 1 &&
                              took_effect_[i] && seen.count(key) != 0;
          versions.deleter = surely ? std::optional(i) : std::nullopt;
        }
      }
    }
  }
  // A range was deleted into which keys were put later.
  bool IsDeletedBeforeAppends(size_t i, size_t at, const std::string& key,
                              const Versions& versions) const {
    const auto& steps = history_[i].steps;
    return std::all_of(versions.appenders.begin(), versions.appenders.end(),
                       [&](size_t appender) {
                         if (appender != i)
                           return history_[i].end < history_[appender].begin;
                         return std::none_of(
                             steps.begin(),
                             steps.begin() + static_cast<ptrdiff_t>(at),
                             [&](const HistoryStep& step) {
                               return step.kind == HistoryStep::Kind::kAppend &&
                                      step.key == key;
                             });
                       });
  }
  std::vector<std::string> DeletedKeys(const HistoryStep& step) const {
    if (step.kind == HistoryStep::Kind::kDelete) return {step.key};
    std::vector<std::string> deleted;
    if (step.kind != HistoryStep::Kind::kDeleteRange) return deleted;
    for (const auto& [key, versions] : keys_) {
      if (step.Covers(key)) deleted.push_back(key);
    }
    return deleted;
  }

  bool IsUsed(size_t i) const {
    return took_effect_[i] ||
           (options_.aborted_reads && history_[i].outcome == Outcome::kAborted);
  }
  std::string Name(size_t i) const { return "T" + std::to_string(i); }
  void Find(Anomaly anomaly, std::string text) {
    findings_.push_back({anomaly, std::move(text)});
  }

  // ---- Reads ----------------------------------------------------------------

  void CheckReads(size_t i) {
    std::map<std::string, Own> own;
    for (const HistoryStep& step : history_[i].steps) {
      switch (step.kind) {
        case HistoryStep::Kind::kAppend:
          own[step.key].appended.push_back(step.element);
          break;
        case HistoryStep::Kind::kRead:
          CheckRead(i, step.key, step.list, own[step.key], false);
          break;
        case HistoryStep::Kind::kScan:
          CheckScan(i, step, &own);
          break;
        case HistoryStep::Kind::kDelete:
        case HistoryStep::Kind::kDeleteRange:
          for (const std::string& key : DeletedKeys(step)) {
            own[key] = {{}, true};
          }
          break;
      }
    }
  }
  void CheckScan(size_t i, const HistoryStep& step,
                 std::map<std::string, Own>* own) {
    for (const auto& [key, list] : step.found) {
      if (!step.Covers(key) || keys_.count(key) == 0) {
        Find(Anomaly::kUnknownElement,
             Name(i) + " found " + key + ": " + ToText(step));
        continue;
      }
      CheckRead(i, key, list, (*own)[key], false);
    }
    for (const auto& [key, versions] : keys_) {
      if (!step.Covers(key) || step.found.count(key) != 0) continue;
      CheckRead(i, key, {}, (*own)[key], true);
    }
  }
  void CheckRead(size_t i, const std::string& key, ElementList list,
                 const Own& own, bool by_scan) {
    const std::string text = Name(i) + " read " + key + "=" + ToText(list);
    const size_t appended = own.appended.size();
    if (list.size() < appended ||
        !std::equal(own.appended.begin(), own.appended.end(),
                    list.end() - static_cast<ptrdiff_t>(appended)) ||
        (own.deleted && list.size() != appended)) {
      return Find(Anomaly::kOwnWrites,
                  text + " after its own +" + ToText(own.appended));
    }
    list.resize(list.size() - appended);
    if (own.deleted) return;
    std::set<int> seen;
    for (const int element : list) {
      const auto found = writers_.find(element);
      if (found == writers_.end() || found->second.key != key ||
          !seen.insert(element).second) {
        return Find(Anomaly::kUnknownElement, text);
      }
      const size_t writer = found->second.transaction;
      if (writer == i) return Find(Anomaly::kOwnWrites, text);
      if (!took_effect_[writer]) {
        return Find(Anomaly::kAbortedRead, text + " of " + Name(writer));
      }
    }
    if (!list.empty() && !writers_[list.back()].is_last) {
      Find(Anomaly::kIntermediateRead,
           text + " of " + Name(writers_[list.back()].transaction));
    }
    keys_[key].observations.push_back({i, std::move(list), by_scan});
  }

  // ---- Versions -------------------------------------------------------------

  void OrderVersions(const std::string& key, Versions* versions) {
    size_t longest = 0;
    for (const Observation& each : versions->observations) {
      if (each.list.size() <= versions->order.size()) continue;
      versions->order = each.list;
      longest = each.transaction;
    }
    std::erase_if(versions->observations, [&](const Observation& each) {
      if (std::equal(each.list.begin(), each.list.end(),
                     versions->order.begin())) {
        return false;
      }
      Find(Anomaly::kIncompatibleOrders,
           Name(each.transaction) + " read " + key + "=" + ToText(each.list) +
               ", " + Name(longest) + " read " + ToText(versions->order));
      return true;
    });
  }

  void FindLostWrites(const std::string& key, const Versions& versions) {
    if (!versions.deleters.empty()) return;
    uint64_t latest = 0;
    for (const Observation& each : versions.observations) {
      latest = std::max(latest, history_[each.transaction].begin);
    }
    const std::set<int> there(versions.order.begin(), versions.order.end());
    for (const size_t i : versions.appenders) {
      const bool must_be_there =
          history_[i].outcome == Outcome::kCommitted
              ? history_[i].end < latest
              : took_effect_[i];  // All of it, or nothing.
      if (!must_be_there) continue;
      for (const HistoryStep& step : history_[i].steps) {
        if (step.kind == HistoryStep::Kind::kAppend && step.key == key &&
            there.count(step.element) == 0) {
          Find(Anomaly::kLostWrite, Name(i) + " " + ToText(step));
        }
      }
    }
  }

  // ---- Dependencies ---------------------------------------------------------

  size_t WriterOf(int element) { return writers_[element].transaction; }

  void AddDependencies(const std::string& key, const Versions& versions) {
    const ElementList& order = versions.order;
    for (size_t at = 0; at + 1 < order.size(); ++at) {
      graph_.Add(WriterOf(order[at]), WriterOf(order[at + 1]), kWriteWrite,
                 key + "+" + std::to_string(order[at]) + ",+" +
                     std::to_string(order[at + 1]));
    }
    if (versions.deleter && !order.empty()) {
      graph_.Add(WriterOf(order.back()), *versions.deleter, kWriteWrite,
                 "-" + key);
    }
    for (const Observation& each : versions.observations) {
      AddDependencies(key, versions, each);
    }
  }
  void AddDependencies(const std::string& key, const Versions& versions,
                       const Observation& read) {
    const ElementList& order = versions.order;
    const size_t at = read.list.size();
    const std::string text = key + "=" + ToText(read.list);
    if (at == 0 && !versions.deleters.empty()) {
      if (IsAfterDeletion(versions, read)) {
        graph_.Add(*versions.deleter, read.transaction, kWriteRead, text);
        return;
      }
      if (!IsBeforeDeletions(versions, read)) return;
    }
    if (at > 0) {
      graph_.Add(WriterOf(order[at - 1]), read.transaction, kWriteRead, text);
    }
    if (at < order.size()) {
      graph_.Add(read.transaction, WriterOf(order[at]),
                 read.by_scan ? kAbsentWrite : kReadWrite,
                 text + ",+" + std::to_string(order[at]));
    } else if (versions.deleter && at > 0) {
      graph_.Add(read.transaction, *versions.deleter, kReadWrite,
                 text + ",-" + key);
    }
  }
  bool IsAfterDeletion(const Versions& versions, const Observation& read) {
    return versions.deleter &&
           history_[*versions.deleter].outcome == Outcome::kCommitted &&
           history_[*versions.deleter].end < history_[read.transaction].begin;
  }
  bool IsBeforeDeletions(const Versions& versions, const Observation& read) {
    const uint64_t time = history_[read.transaction].commit;
    return std::all_of(versions.deleters.begin(), versions.deleters.end(),
                       [&](size_t i) { return time < history_[i].commit; });
  }

  // Edges from transactions that ended to the ones that began later, without
  // the edges that follow from others.
  void AddRealTime() {
    struct Event {
      uint64_t time;
      bool is_end;
      size_t transaction;
    };
    std::vector<Event> events;
    for (size_t i = 0; i < history_.size(); ++i) {
      if (!IsUsed(i)) continue;
      events.push_back({history_[i].begin, false, i});
      if (history_[i].outcome == Outcome::kUnknown) continue;
      events.push_back({history_[i].end, true, i});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::pair(a.time, a.is_end) < std::pair(b.time, b.is_end);
    });
    std::set<size_t> ended;
    std::map<size_t, std::set<size_t>> before;
    for (const Event& event : events) {
      const size_t i = event.transaction;
      if (event.is_end) {
        for (const size_t implied : before[i]) ended.erase(implied);
        before.erase(i);
        // A reader that was rolled back orders nothing.
        if (took_effect_[i]) ended.insert(i);
        continue;
      }
      before[i] = ended;
      for (const size_t other : ended) graph_.Add(other, i, kRealTime, "time");
    }
  }

  // ---- Cycles ---------------------------------------------------------------

  void FindCycles() {
    constexpr uint8_t kFlow = kWriteWrite | kWriteRead | kRealTime;
    Report(kWriteWrite, kWriteWrite | kRealTime, false);
    Report(kWriteRead, kFlow, false);
    Report(kAntiDependencies, kFlow, false);
    Report(kAntiDependencies, kFlow | kAntiDependencies, true);
    Report(kReadWrite, kFlow | kReadWrite, false);
    Report(kAbsentWrite, kFlow | kAntiDependencies, false);
  }
  void Report(uint8_t first, uint8_t rest, bool no_adjacent) {
    for (const auto& cycle : graph_.Cycles(first, rest, no_adjacent)) {
      const Anomaly anomaly = KindOf(cycle);
      std::string text;
      std::set<size_t> members;
      for (const DependencyEdge* edge : cycle) {
        text += Name(edge->from) + " -" + NameOf(edge->kind) + "(" + edge->why +
                ")-> ";
        members.insert(edge->from);
      }
      text += Name(cycle.front()->from);
      // A weaker kind's search may find the same cycle again.
      if (!reported_.insert({anomaly, members}).second) continue;
      for (const size_t i : members) {
        text += "\n  " + Name(i) + ": " + ToText(history_[i]);
      }
      Find(anomaly, text);
    }
  }
  static const char* NameOf(Dependency kind) {
    switch (kind) {
      case kWriteWrite:
        return "ww";
      case kWriteRead:
        return "wr";
      case kReadWrite:
        return "rw";
      case kAbsentWrite:
        return "phantom";
      case kRealTime:
        return "rt";
    }
    return "?";
  }

  Anomaly KindOf(const DependencyGraph::Path& cycle) {
    size_t anti = 0;
    size_t absent = 0;
    size_t reads = 0;
    bool adjacent = false;
    for (size_t i = 0; i < cycle.size(); ++i) {
      const auto is_anti = [&](size_t at) {
        return (cycle[at % cycle.size()]->kind & kAntiDependencies) != 0;
      };
      if (is_anti(i)) ++anti;
      if (is_anti(i) && is_anti(i + 1)) adjacent = true;
      if (cycle[i]->kind == kAbsentWrite) ++absent;
      if (cycle[i]->kind == kWriteRead) ++reads;
    }
    if (anti == 0)
      return reads > 0 ? Anomaly::kCircularFlow : Anomaly::kWriteCycle;
    if (anti == 1) {
      return IsLostUpdate(cycle) ? Anomaly::kLostUpdate : Anomaly::kReadSkew;
    }
    if (!adjacent) return Anomaly::kLongFork;
    return absent > 0 ? Anomaly::kPhantom : Anomaly::kWriteSkew;
  }
  // Two transactions, both of which appended to the key that one has read.
  bool IsLostUpdate(const DependencyGraph::Path& cycle) {
    if (cycle.size() != 2) return false;
    const size_t reader = cycle[0]->from;
    const size_t other = cycle[0]->to;
    return cycle[1]->kind == kWriteWrite &&
           std::any_of(keys_.begin(), keys_.end(), [&](const auto& entry) {
             const Versions& versions = entry.second;
             return versions.appenders.count(reader) != 0 &&
                    versions.appenders.count(other) != 0 &&
                    cycle[0]->why.rfind(entry.first + "=", 0) == 0;
           });
  }

  const History& history_;
  const HistoryCheckOptions options_;
  std::map<int, Writer> writers_;  // By element.
  std::map<std::string, Versions> keys_;
  std::vector<bool> took_effect_;
  DependencyGraph graph_;
  std::set<std::pair<Anomaly, std::set<size_t>>> reported_;
  std::vector<Finding> findings_;
};

// Returns all that is wrong in the history by the strictest isolation.
inline std::vector<Finding> CheckHistory(
    const History& history, const HistoryCheckOptions& options = {}) {
  return HistoryChecker(history, options).Check();
}

// Returns the findings that this isolation forbids, as a text. It is empty if
// there are none.
inline std::string ViolationsOf(Isolation isolation,
                                const std::vector<Finding>& findings) {
  constexpr size_t kMost = 5;
  std::string text;
  size_t count = 0;
  for (const Finding& each : findings) {
    if (!Forbids(isolation, each.anomaly)) continue;
    if (++count > kMost) continue;
    text += std::string(NameOf(each.anomaly)) + ": " + each.text + "\n";
  }
  if (count > kMost) text += std::to_string(count - kMost) + " more\n";
  return text;
}

}  // namespace varve::test
