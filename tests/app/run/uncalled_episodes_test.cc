#include "app/run/uncalled_episodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/run/fake_gateway.h"
#include "base/hostile_text.h"

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

class UncalledEpisodesTest : public ::testing::Test {
 protected:
  UncalledEpisodesTest() {
    first_->ages_ms = {{"a", 161'500}, {"b", 2'000}};
    second_->ages_ms = {{"c", 90'000}};
  }
  const std::shared_ptr<FakeGateway> first_ = std::make_shared<FakeGateway>();
  const std::shared_ptr<FakeGateway> second_ = std::make_shared<FakeGateway>();
  const Gateways gateways_ = {{"gateway", first_}, {"gateway-1", second_}};
};

TEST_F(UncalledEpisodesTest, AreThoseOfAllGatewaysTheOldestFirst) {
  const UncalledEpisodes uncalled = AskUncalled(gateways_);
  EXPECT_EQ(DescribeUncalled(uncalled.all), "3 episodes have made no call yet (oldest 161 s)");
  std::string ids;
  for (const v1::UncalledEpisode& one : uncalled.all.uncalled()) ids += one.episode_id();
  EXPECT_EQ(ids, "acb");
  EXPECT_TRUE(uncalled.silent.empty());
}

TEST_F(UncalledEpisodesTest, AreCountedWithoutAGatewayThatDoesNotAnswer) {
  first_->fault = absl::UnavailableError("it restarts");
  const UncalledEpisodes uncalled = AskUncalled(gateways_);
  EXPECT_EQ(DescribeUncalled(uncalled.all), "1 episode has made no call yet (90 s old)");
  EXPECT_THAT(uncalled.silent, ::testing::ElementsAre("gateway: it restarts"));
  EXPECT_EQ(DescribeUncalled(AskUncalled({}).all), "");
}

TEST_F(UncalledEpisodesTest, EndAtTheGatewayThatServesThem) {
  EXPECT_EQ(EndUncalled(gateways_, "c", "").value(), 1);
  EXPECT_EQ(EndUncalled(gateways_, "a", "").value(), 1);
  EXPECT_EQ(second_->asked, (std::vector<std::string>{"c"})) << "the first one ended it";
  EXPECT_EQ(EndUncalled(gateways_, "", "").value(), 1);
  EXPECT_EQ(EndUncalled(gateways_, "", "").value(), 0);
}

TEST_F(UncalledEpisodesTest, AnUnknownOneIsNotFoundUnlessAGatewayIsSilent) {
  EXPECT_EQ(EndUncalled(gateways_, "x", "").status(), absl::NotFoundError("there is no open episode"));
  second_->fault = absl::UnavailableError("it restarts");
  const absl::Status silent = EndUncalled(gateways_, "x", "").status();
  EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
  EXPECT_THAT(std::string(silent.message()), HasSubstr("gateway-1 does not answer: it restarts"));
  const absl::Status all = EndUncalled(gateways_, "", "").status();
  EXPECT_THAT(std::string(all.message()), HasSubstr("gateway-1, after 2 episodes were ended: it restarts"));
  EXPECT_TRUE(absl::IsNotFound(EndUncalled({}, "x", "").status()));
}

TEST_F(UncalledEpisodesTest, AWrongKeyEndsNothing) {
  first_->key = second_->key = "right";
  for (const char* id : {"a", ""}) {
    EXPECT_TRUE(absl::IsPermissionDenied(EndUncalled(gateways_, id, "wrong").status()));
  }
  EXPECT_EQ(AskUncalled(gateways_).all.uncalled_episodes(), 3);
}

TEST_F(UncalledEpisodesTest, NoGatewayGetsWhatIsNoId) {
  for (const std::string& hostile : base::HostileTexts()) {
    const absl::Status rejected = EndUncalled(gateways_, hostile, "").status();
    if (!absl::IsInvalidArgument(rejected)) {
      EXPECT_TRUE(absl::IsNotFound(rejected)) << rejected;  // must be printable and short
    }
    EXPECT_LT(rejected.message().size(), 250u);
  }
  for (const std::string& asked : first_->asked) EXPECT_LE(asked.size(), 64u);
}

}  // namespace
}  // namespace ingot::app
