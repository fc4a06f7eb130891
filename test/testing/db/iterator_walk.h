// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Walks with an iterator, and what they show, as text.

#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>

#include "test/testing/model_db.h"
#include "varve/iterator.h"

namespace varve::test {

// Returns "key=value" of the entry, "end" if there is none, or the error.
inline std::string At(const Iterator& it) {
  if (!it.status().ok()) return it.status().ToString();
  if (!it.Valid()) return "end";
  return it.key().ToString() + "=" + it.value().ToString();
}

// Takes steps, and returns what each shows, with a space between. The steps are
// "first", "last", "next", "prev", "seek:<key>" and "for_prev:<key>". After one
// that ends with a comma nothing is shown.
inline std::string Walk(Iterator* it, const std::string& steps) {
  std::istringstream in(steps);
  std::string step, shown;
  while (in >> step) {
    const bool is_silent = step.back() == ',';
    if (is_silent) step.pop_back();
    const std::string key = step.substr(step.find(':') + 1);
    if (step == "first") it->SeekToFirst();
    if (step == "last") it->SeekToLast();
    if (step == "next") it->Next();
    if (step == "prev") it->Prev();
    if (step.starts_with("seek:")) it->Seek(key);
    if (step.starts_with("for_prev:")) it->SeekForPrev(key);
    if (!is_silent) shown += (shown.empty() ? "" : " ") + At(*it);
  }
  return shown;
}

// Takes a random step with an iterator, and with `*at` in the entries that it
// shows: to `target`, to an end, or to a neighbor.
inline void TakeRandomStep(uint64_t random, const std::string& target,
                           const Entries& entries, Iterator* it,
                           Entries::const_iterator* at) {
  const auto before = [&](Entries::const_iterator place) {
    return place == entries.begin() ? entries.end() : std::prev(place);
  };
  const uint64_t step = random % (*at == entries.end() ? 4 : 40);
  if (step == 0) {
    it->SeekToFirst();
    *at = entries.begin();
  } else if (step == 1) {
    it->SeekToLast();
    *at = before(entries.end());
  } else if (step == 2) {
    it->Seek(target);
    *at = entries.lower_bound(target);
  } else if (step == 3) {
    it->SeekForPrev(target);
    *at = before(entries.upper_bound(target));
  } else if (step % 2 == 0) {
    it->Next();
    ++*at;
  } else {
    it->Prev();
    *at = before(*at);
  }
}

inline std::string At(const Entries& entries, Entries::const_iterator at) {
  return at == entries.end() ? "end" : at->first + "=" + at->second;
}

}  // namespace varve::test
