// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Values for tests of compaction filters, and the filter for them. A value is a
// list of parts, as the string append operator makes it. A part says when it
// expires, and whether it is then removed or changed. So a value depends on
// when compactions saw it, but only part by part.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "varve/compaction_filter.h"

namespace varve::test {

// ---- Parts ------------------------------------------------------------------

enum class PartKind : char { kKept = 'k', kRemoved = 'r', kChanged = 'c' };

// Returns a part that expires at `expiry_s`. No two parts have the same number.
inline std::string MakePart(PartKind kind, uint64_t expiry_s, uint64_t number,
                            size_t padding) {
  return static_cast<char>(kind) + std::to_string(expiry_s) + "." +
         std::to_string(number) + "." + std::string(padding, 'x');
}

inline std::vector<std::string> PartsOf(const std::string& value) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    parts.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Returns what the filter leaves of a part: nothing, the part, or another form.
inline std::string FilteredPart(const std::string& part, uint64_t now_s) {
  const bool has_expired = strtoull(part.c_str() + 1, nullptr, 10) <= now_s;
  if (!has_expired) return part;
  if (part[0] == static_cast<char>(PartKind::kRemoved)) return "";
  if (part[0] != static_cast<char>(PartKind::kChanged)) return part;
  return 'C' + part.substr(1);
}

// Returns what the filter leaves of a value, empty if it removes the entry.
inline std::string FilteredValue(const std::string& value, uint64_t now_s) {
  std::string left;
  for (const std::string& part : PartsOf(value)) {
    const std::string filtered = FilteredPart(part, now_s);
    if (!left.empty() && !filtered.empty()) left += ',';
    left += filtered;
  }
  return left;
}

// Returns whether a reader may find `found` if `written` was written, and
// filters saw all parts, some or none. An empty text stands for no entry.
inline bool MayBeFiltered(const std::string& written, const std::string& found,
                          uint64_t now_s) {
  const std::vector<std::string> there = PartsOf(found);
  size_t next = 0;
  for (const std::string& part : PartsOf(written)) {
    const std::string filtered = FilteredPart(part, now_s);
    if (next < there.size() &&
        (there[next] == part || there[next] == filtered)) {
      ++next;
    } else if (!filtered.empty()) {
      return false;
    }
  }
  return next == there.size();
}

// ---- The filter -------------------------------------------------------------

// Thread-safety: any number of threads.
class ExpiryFilter final : public CompactionFilter {
 public:
  // `now_s` must outlive this.
  explicit ExpiryFilter(const std::atomic<uint64_t>* now_s) : now_s_(*now_s) {}

  Decision FilterV2(int /*level*/, const Slice& /*key*/, ValueType /*type*/,
                    const Slice& existing_value, std::string* new_value,
                    std::string* /*skip_until*/) const override {
    const std::string before = existing_value.ToString();
    *new_value = FilteredValue(before, now_s_.load());
    if (new_value->empty()) return Decision::kRemove;
    return *new_value == before ? Decision::kKeep : Decision::kChangeValue;
  }
  const char* Name() const override { return "ExpiryFilter"; }

 private:
  const std::atomic<uint64_t>& now_s_;
};

// Filters flushes as well.
class ExpiryFilterFactory final : public CompactionFilterFactory {
 public:
  explicit ExpiryFilterFactory(const std::atomic<uint64_t>* now_s)
      : now_s_(now_s) {}
  bool ShouldFilterTableFileCreation(
      TableFileCreationReason /*reason*/) const override {
    return true;
  }
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& /*context*/) override {
    return std::make_unique<ExpiryFilter>(now_s_);
  }
  const char* Name() const override { return "ExpiryFilterFactory"; }

 private:
  const std::atomic<uint64_t>* const now_s_;
};

}  // namespace varve::test
