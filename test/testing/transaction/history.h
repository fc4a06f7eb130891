// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A record of transactions, for a check of their isolation (history_checker.h).
// The values are lists. A transaction appends an element that nothing else ever
// appends, so that a list that is read tells the versions before it.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace varve::test {

using ElementList = std::vector<int>;

struct HistoryStep {
  enum class Kind : uint8_t {
    kAppend,
    kRead,         // An empty list is an absent key.
    kScan,         // All keys in [key, end) that are there.
    kDelete,       // Nothing is ever appended to a deleted key.
    kDeleteRange,  // Of [key, end).
  };
  Kind kind = Kind::kRead;
  std::string key;
  std::string end;
  int element = 0;
  ElementList list;
  std::map<std::string, ElementList> found;

  static HistoryStep Append(std::string key, int element) {
    return {Kind::kAppend, std::move(key), {}, element, {}, {}};
  }
  static HistoryStep Read(std::string key, ElementList list) {
    return {Kind::kRead, std::move(key), {}, 0, std::move(list), {}};
  }
  static HistoryStep Scan(std::string begin, std::string end,
                          std::map<std::string, ElementList> found) {
    return {Kind::kScan, std::move(begin), std::move(end), 0,
            {},          std::move(found)};
  }
  static HistoryStep Delete(std::string key) {
    return {Kind::kDelete, std::move(key), {}, 0, {}, {}};
  }
  static HistoryStep DeleteRange(std::string begin, std::string end) {
    return {Kind::kDeleteRange, std::move(begin), std::move(end), 0, {}, {}};
  }

  bool Covers(const std::string& other) const {
    return key <= other && other < end;
  }
};

struct HistoryTransaction {
  enum class Outcome : uint8_t {
    kCommitted,
    kAborted,
    kUnknown,  // The process ended in its commit.
  };
  std::vector<HistoryStep> steps;
  Outcome outcome = Outcome::kCommitted;
  // Numbers of a clock that all threads share: before the first step, before
  // the call of Commit, and after it returned.
  uint64_t begin = 0;
  uint64_t commit = UINT64_MAX;
  uint64_t end = UINT64_MAX;
};

using History = std::vector<HistoryTransaction>;

// Thread-safety: any number of threads.
class HistoryClock {
 public:
  // seq_cst: a number that a thread took before another began is smaller.
  uint64_t Next() { return next_.fetch_add(1) + 1; }
  // Returns an element that no other call returned.
  int NextElement() { return next_element_.fetch_add(1) + 1; }

 private:
  std::atomic<uint64_t> next_{0};
  std::atomic<int> next_element_{0};
};

// ---- Texts ------------------------------------------------------------------

// "1,2,3", as a database's value has it, or "" for none.
inline std::string ToText(const ElementList& list) {
  std::string text;
  for (const int element : list) {
    if (!text.empty()) text += ',';
    text += std::to_string(element);
  }
  return text;
}
inline ElementList ListOf(const std::string& text) {
  ElementList list;
  std::istringstream stream(text);
  std::string element;
  while (std::getline(stream, element, ','))
    list.push_back(atoi(element.c_str()));
  return list;
}

// A step as Parse reads it: "x+3", "x=1,2", "a..c=a:1,2;b:3", "-x", "-a..c".
inline std::string ToText(const HistoryStep& step) {
  switch (step.kind) {
    case HistoryStep::Kind::kAppend:
      return step.key + "+" + std::to_string(step.element);
    case HistoryStep::Kind::kRead:
      return step.key + "=" + ToText(step.list);
    case HistoryStep::Kind::kDelete:
      return "-" + step.key;
    case HistoryStep::Kind::kDeleteRange:
      return "-" + step.key + ".." + step.end;
    case HistoryStep::Kind::kScan:
      break;
  }
  std::string text;
  for (const auto& [key, list] : step.found) {
    if (!text.empty()) text += ';';
    text += key + ":" + ToText(list);
  }
  return step.key + ".." + step.end + "=" + text;
}

inline std::string ToText(const HistoryTransaction& transaction) {
  std::string text;
  for (const HistoryStep& step : transaction.steps) {
    if (!text.empty()) text += ' ';
    text += ToText(step);
  }
  if (transaction.outcome == HistoryTransaction::Outcome::kAborted) {
    text += " !aborted";
  }
  if (transaction.outcome == HistoryTransaction::Outcome::kUnknown) {
    text += " !unknown";
  }
  if (transaction.end != UINT64_MAX) {
    text += " @" + std::to_string(transaction.begin) + "-" +
            std::to_string(transaction.commit) + "-" +
            std::to_string(transaction.end);
  }
  return text;
}

inline HistoryStep ParseHistoryStep(std::string text) {
  const bool deletes = text[0] == '-';
  if (deletes) text.erase(0, 1);
  const size_t equals = text.find('=');
  const std::string keys = text.substr(0, equals);
  const size_t dots = keys.find("..");
  const std::string begin = keys.substr(0, dots);
  const std::string end =
      dots == std::string::npos ? "" : keys.substr(dots + 2);
  if (deletes) {
    return end.empty() ? HistoryStep::Delete(begin)
                       : HistoryStep::DeleteRange(begin, end);
  }
  if (equals == std::string::npos) {
    const size_t plus = keys.find('+');
    return HistoryStep::Append(keys.substr(0, plus),
                               atoi(keys.c_str() + plus + 1));
  }
  const std::string result = text.substr(equals + 1);
  if (end.empty()) return HistoryStep::Read(begin, ListOf(result));
  std::map<std::string, ElementList> found;
  std::istringstream stream(result);
  std::string entry;
  while (std::getline(stream, entry, ';')) {
    const size_t colon = entry.find(':');
    found[entry.substr(0, colon)] = ListOf(entry.substr(colon + 1));
  }
  return HistoryStep::Scan(begin, end, std::move(found));
}

// A line for each transaction, as ToText has it. Words: steps, "!aborted",
// "!unknown", and "@begin-end" or "@begin-commit-end", its times.
inline History ParseHistory(const std::string& text) {
  History history;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    HistoryTransaction transaction;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      if (word == "!aborted") {
        transaction.outcome = HistoryTransaction::Outcome::kAborted;
      } else if (word == "!unknown") {
        transaction.outcome = HistoryTransaction::Outcome::kUnknown;
      } else if (word[0] == '@') {
        const size_t first = word.find('-');
        const size_t last = word.rfind('-');
        transaction.begin = strtoull(word.c_str() + 1, nullptr, 10);
        transaction.commit = strtoull(word.c_str() + first + 1, nullptr, 10);
        transaction.end = strtoull(word.c_str() + last + 1, nullptr, 10);
      } else {
        transaction.steps.push_back(ParseHistoryStep(word));
      }
    }
    if (!transaction.steps.empty()) history.push_back(std::move(transaction));
  }
  return history;
}

}  // namespace varve::test
