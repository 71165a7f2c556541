#include "agents/open_gate.h"

#include <gtest/gtest.h>

namespace ingot::agents {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(OpenGateTest, LetsEveryoneThroughUntilARejection) {
  OpenGate gate(milliseconds(10), milliseconds(100));
  EXPECT_TRUE(gate.TryPass(milliseconds(0)));
  EXPECT_TRUE(gate.TryPass(milliseconds(0)));
}

TEST(OpenGateTest, AfterARejectionOneAsksAtATimeAndTheWaitDoubles) {
  OpenGate gate(milliseconds(10), milliseconds(35));
  nanoseconds now = milliseconds(1000);
  for (const int wait_ms : {10, 20, 35, 35}) {  // 40 and 80 are cut
    EXPECT_TRUE(gate.TryPass(now));
    gate.OnRejected(now, std::nullopt);
    EXPECT_EQ(gate.next(), now + milliseconds(wait_ms));
    EXPECT_FALSE(gate.TryPass(gate.next() - nanoseconds(1)));
    now = gate.next();
  }
  EXPECT_TRUE(gate.TryPass(now));
  EXPECT_FALSE(gate.TryPass(now)) << "a second one while the first still asks";
}

TEST(OpenGateTest, TheRejectionsTimeIsFollowedWithinTheLongestWait) {
  OpenGate gate(milliseconds(10), milliseconds(100));
  gate.OnRejected(milliseconds(0), milliseconds(70));
  EXPECT_EQ(gate.next(), milliseconds(70));
  EXPECT_TRUE(gate.TryPass(milliseconds(70)));
  gate.OnRejected(milliseconds(70), milliseconds(100000));
  EXPECT_EQ(gate.next(), milliseconds(170));
}

TEST(OpenGateTest, RejectionsOfOneWaveCountOnce) {
  OpenGate gate(milliseconds(10), milliseconds(1000));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(gate.TryPass(milliseconds(0)));
  for (int i = 0; i < 5; ++i) gate.OnRejected(milliseconds(1), std::nullopt);
  EXPECT_EQ(gate.next(), milliseconds(11));
}

TEST(OpenGateTest, AnAdmissionOpensItForAllAndForgetsTheWait) {
  OpenGate gate(milliseconds(10), milliseconds(1000));
  gate.OnRejected(milliseconds(0), std::nullopt);
  EXPECT_TRUE(gate.TryPass(milliseconds(10)));
  gate.OnAdmitted();
  EXPECT_TRUE(gate.TryPass(milliseconds(10)));
  EXPECT_TRUE(gate.TryPass(milliseconds(10)));
  gate.OnRejected(milliseconds(20), std::nullopt);
  EXPECT_EQ(gate.next(), milliseconds(30));
}

}  // namespace
}  // namespace ingot::agents
