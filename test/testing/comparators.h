// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "varve/comparator.h"

namespace varve::test {

// A base for orders that leave separators alone.
class ComparatorWithoutSeparators : public Comparator {
 public:
  explicit ComparatorWithoutSeparators(const char* name) : name_(name) {}

  const char* Name() const override { return name_; }
  void FindShortestSeparator(std::string* /*start*/,
                             const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  const char* const name_;
};

// The bytewise order, backwards: one that the engine knows nothing of.
class ReverseComparator : public ComparatorWithoutSeparators {
 public:
  ReverseComparator() : ComparatorWithoutSeparators("test.reverse") {}
  int Compare(const Slice& a, const Slice& b) const override {
    return b.compare(a);
  }
};

// The bytewise order under its own name, but by an object that the engine does
// not recognize, so that it goes the general ways.
class UnrecognizedBytewiseComparator : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    return a.compare(b);
  }
  const char* Name() const override { return BytewiseComparator()->Name(); }
  void FindShortestSeparator(std::string* start,
                             const Slice& limit) const override {
    BytewiseComparator()->FindShortestSeparator(start, limit);
  }
  void FindShortSuccessor(std::string* key) const override {
    BytewiseComparator()->FindShortSuccessor(key);
  }
};

// The bytewise order. Calls a function once, when keys are compared, on the
// thread that compares them.
class CallingComparator final : public ComparatorWithoutSeparators {
 public:
  CallingComparator() : ComparatorWithoutSeparators("test.calling") {}
  int Compare(const Slice& a, const Slice& b) const override {
    if (is_armed_.exchange(false)) call_();
    return a.compare(b);
  }
  void CallOnce(std::function<void()> call) {
    call_ = std::move(call);
    is_armed_ = true;
  }
  bool is_armed() const { return is_armed_; }

 private:
  std::function<void()> call_;
  mutable std::atomic<bool> is_armed_{false};
};

}  // namespace varve::test
