// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what a merge operator does wrong is a result of the call and a count,
// and the default forms apply operands in their order.
// Method: operators that join operands, fail and throw.
#include "db/merge/merge_call.h"

#include <stdexcept>

#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve {
namespace {

// Joins operands by commas. The operand "fail" fails, and "throw" throws; both
// leave something in the result. "single" cannot be combined.
class Joining : public MergeOperator {
 public:
  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    *new_value = input.existing_value != nullptr
                     ? input.existing_value->ToString()
                     : "none";
    for (const Slice& operand : input.operands) {
      if (!Join(*new_value, operand, new_value)) return false;
    }
    return true;
  }
  bool PartialMerge(const Slice&, const Slice& left, const Slice& right,
                    std::string* new_value) const override {
    EXPECT_TRUE(new_value->empty());
    if (left == "single" || right == "single") return false;
    return Join(left.ToString(), right, new_value);
  }
  const char* Name() const override { return "Joining"; }

 private:
  static bool Join(const std::string& left, const Slice& right,
                   std::string* result) {
    *result = left + "," + right.ToString();
    if (right == "throw") throw std::runtime_error("as requested");
    return right != "fail";
  }
};

class AssociativeJoining : public AssociativeMergeOperator {
 public:
  bool Merge(const Slice&, const Slice* existing_value, const Slice& value,
             std::string* new_value) const override {
    EXPECT_TRUE(new_value->empty());
    if (value == "throw") throw 1;
    if (existing_value != nullptr)
      *new_value = existing_value->ToString() + ",";
    *new_value += value.ToString();
    return value != "fail";
  }
  const char* Name() const override { return "AssociativeJoining"; }
};

// Has the default partial merges.
class Plain : public MergeOperator {
 public:
  bool FullMerge(const FullMergeInput&, std::string*) const override {
    return true;
  }
  const char* Name() const override { return "Plain"; }
};

class MergeCallTest : public testing::Test {
 protected:
  std::string Full(const MergeOperator& merge_operator, const Slice* existing,
                   const std::vector<Slice>& operands) {
    std::string result = "old";
    const bool merged = CallFullMerge(merge_operator, "key", existing, operands,
                                      &stats_, &result);
    EXPECT_TRUE(merged || result.empty());
    return merged ? result : "failed";
  }
  std::string Partial(const MergeOperator& merge_operator,
                      const std::vector<Slice>& operands) {
    std::string result = "old";
    const bool merged =
        CallPartialMerge(merge_operator, "key", operands, &stats_, &result);
    EXPECT_TRUE(merged || result.empty());
    return merged ? result : "failed";
  }
  uint64_t Failures() const {
    return stats_.getTickerCount(Ticker::kNumberMergeFailures);
  }

  StatisticsImpl stats_{StatisticsOptions()};
  const Slice value_ = "value";
};

TEST_F(MergeCallTest, FullMergeAppliesOperandsInOrder) {
  EXPECT_EQ(Full(Joining(), &value_, {"a", "b"}), "value,a,b");
  EXPECT_EQ(Full(Joining(), nullptr, {"a"}), "none,a");
  EXPECT_EQ(Full(AssociativeJoining(), &value_, {"a", "b", "c"}),
            "value,a,b,c");
  EXPECT_EQ(Full(AssociativeJoining(), nullptr, {"a", "b"}), "a,b");
  EXPECT_EQ(Full(AssociativeJoining(), nullptr, {"a"}), "a");
  EXPECT_EQ(Failures(), 0u);
}

TEST_F(MergeCallTest, PartialMergeAppliesOperandsInOrder) {
  EXPECT_EQ(Partial(Joining(), {"a", "b"}), "a,b");
  EXPECT_EQ(Partial(Joining(), {"a", "b", "c", "d"}), "a,b,c,d");
  EXPECT_EQ(Partial(AssociativeJoining(), {"a", "b", "c"}), "a,b,c");
}

TEST_F(MergeCallTest, FailuresAreCounted) {
  EXPECT_EQ(Full(Joining(), &value_, {"a", "fail"}), "failed");
  EXPECT_EQ(Full(AssociativeJoining(), nullptr, {"fail", "a"}), "failed");
  EXPECT_EQ(Failures(), 2u);
}

TEST_F(MergeCallTest, ExceptionsAreCaughtAndCounted) {
  EXPECT_EQ(Full(Joining(), nullptr, {"throw"}), "failed");
  EXPECT_EQ(Full(AssociativeJoining(), &value_, {"a", "throw"}), "failed");
  EXPECT_EQ(Partial(Joining(), {"a", "b", "throw"}), "failed");
  EXPECT_EQ(Partial(AssociativeJoining(), {"a", "b", "throw"}), "failed");
  EXPECT_EQ(Failures(), 4u);
}

TEST_F(MergeCallTest, NoPartialMergeIsNoFailure) {
  EXPECT_EQ(Partial(Joining(), {"a", "b", "single"}), "failed");
  EXPECT_EQ(Partial(Plain(), {"a", "b"}), "failed");
  EXPECT_EQ(Failures(), 0u);
}

TEST_F(MergeCallTest, StatisticsAreOptional) {
  std::string result;
  EXPECT_FALSE(
      CallFullMerge(Joining(), "key", nullptr, {"throw"}, nullptr, &result));
  EXPECT_FALSE(
      CallPartialMerge(Joining(), "key", {"a", "throw"}, nullptr, &result));
}

}  // namespace
}  // namespace varve
