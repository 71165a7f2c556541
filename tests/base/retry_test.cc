#include "base/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/waits.h"

namespace ingot::base {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using Causes = std::vector<std::string>;

TEST(RetryTest, OnlyAskersOfASuccessorRetryWhatWasTaken) {
  for (int code = 0; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "x");
    const bool down = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    const bool passes = down || absl::IsResourceExhausted(status) || absl::IsCancelled(status);
    EXPECT_EQ(MayAnswerLater(status), down) << status;
    EXPECT_EQ(IsTransient(status), passes) << status;
    EXPECT_EQ(IsTransientOrMoved(status), passes || absl::IsAborted(status)) << status;
  }
}

class PersistTest : public testing::Test {
 protected:
  absl::Status Try(const std::vector<absl::Status>& answers) {
    attempts = 0;
    return Persist(how, "a call", [&] { return answers[std::min(attempts++, answers.size() - 1)]; });
  }

  ManualClock clock;
  bool stop = false;
  size_t attempts = 0;
  std::vector<nanoseconds> slept;
  Retries how{.stopped = [this] { return stop; },
              .sleep =
                  [this](nanoseconds time) {
                    slept.push_back(time);
                    clock.Advance(time);
                  },
              .pause = seconds(1),
              .longest_pause = seconds(5),
              .clock = &clock};
  const absl::Status away = absl::UnavailableError("away");
};

TEST_F(PersistTest, PausesDoubleUpToTheLongest) {
  EXPECT_EQ(Try({away, away, away, away, away, absl::OkStatus()}), absl::OkStatus());
  EXPECT_THAT(slept, testing::ElementsAre(seconds(1), seconds(2), seconds(4), seconds(5), seconds(5)));
}

TEST_F(PersistTest, TimeoutEndsWithALastAttempt) {
  how.timeout = seconds(8);
  EXPECT_EQ(Try({away}), away);
  EXPECT_THAT(slept, testing::ElementsAre(seconds(1), seconds(2), seconds(4), seconds(1)));
  EXPECT_EQ(attempts, 5);
}

TEST_F(PersistTest, AStopEndsItAfterTheAttempt) {
  how.on_failure = [&](const absl::Status&) { stop = slept.size() == 2; };
  EXPECT_EQ(Try({away}), away);
  EXPECT_EQ(attempts, 4);
  EXPECT_EQ(Try({absl::OkStatus()}), absl::OkStatus());
  EXPECT_EQ(Try({away}), away);
  EXPECT_EQ(attempts, 1);
}

TEST_F(PersistTest, OtherErrorsEndItAtOnce) {
  const absl::Status taken = absl::AbortedError("taken");
  EXPECT_EQ(Try({away, taken}), taken);
  how.passes = IsTransientOrMoved;
  EXPECT_EQ(Try({taken, absl::DataLossError("damaged")}), absl::DataLossError("damaged"));
  EXPECT_EQ(attempts, 2);
}

TEST_F(PersistTest, ReportsTheWaitAndEachFailure) {
  const auto waits = [] { return Waits::OfProcess().Longer(seconds(0), WaitKind::kFault); };
  std::vector<Causes> seen;
  Causes reported;
  how.sleep = [&](nanoseconds) { seen.push_back(waits()); };
  how.on_failure = [&](const absl::Status& status) { reported.emplace_back(status.message()); };
  EXPECT_EQ(Try({away, absl::ResourceExhaustedError("full\n"), absl::OkStatus()}), absl::OkStatus());
  EXPECT_THAT(seen, testing::ElementsAre(Causes{"a call (away)"}, Causes{"a call (full\\n)"}));
  EXPECT_EQ(reported, (Causes{"away", "full\n"}));
  EXPECT_EQ(waits(), Causes());
}

}  // namespace
}  // namespace ingot::base
