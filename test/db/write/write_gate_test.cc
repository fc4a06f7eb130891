// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: writers pass while nothing holds them up, and a request to look at the
// families is neither lost nor taken for a stall.

#include "db/write/write_gate.h"

#include <gtest/gtest.h>

namespace varve::test {
namespace {

TEST(WriteGateTest, PressureHoldsWritersUp) {
  WriteGate gate;
  EXPECT_TRUE(gate.IsClear());
  EXPECT_TRUE(gate.LetsLeaderPass());
  gate.Update(false, false, true);
  EXPECT_FALSE(gate.IsClear());
  EXPECT_TRUE(gate.LetsLeaderPass());  // A leader has been slowed down already.
  gate.Update(false, true, false);
  EXPECT_FALSE(gate.LetsLeaderPass());
  EXPECT_FALSE(gate.HasError());
  gate.Update(true, false, false);
  EXPECT_TRUE(gate.HasError());
  EXPECT_FALSE(gate.LetsLeaderPass());
  gate.Update(false, false, false);
  EXPECT_TRUE(gate.IsClear());
}

TEST(WriteGateTest, ARequestIsForTheNextLeader) {
  WriteGate gate;
  gate.RequestLook();
  EXPECT_TRUE(gate.IsClear());
  EXPECT_FALSE(gate.LetsLeaderPass());
  // It outlives a change of the pressure.
  gate.Update(false, false, true);
  gate.Update(false, false, false);
  EXPECT_FALSE(gate.LetsLeaderPass());
  EXPECT_TRUE(gate.TakeRequest());
  EXPECT_FALSE(gate.TakeRequest());
  EXPECT_TRUE(gate.LetsLeaderPass());
}

TEST(WriteGateTest, AChildOfForkWritesNothing) {
  WriteGate gate;
  gate.RequestLook();
  gate.StopInChild();
  EXPECT_TRUE(gate.HasError());
  EXPECT_FALSE(gate.IsClear());
}

}  // namespace
}  // namespace varve::test
