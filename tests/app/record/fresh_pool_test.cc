// A pool that is opened again for reading, while it is written, gone, or there again.
#include "app/record/fresh_pool.h"

#include <gtest/gtest.h>

#include "datapool/make_pool.h"

namespace ingot::app {
namespace {

class FreshPoolTest : public ::testing::Test {
 protected:
  FreshPoolTest() : first_(datapool::OpenPool(datapool::testing::QuickOptions(dir_.path() + "/pool")).value()) {}

  std::function<FreshPool::Pool()> Open() {
    return [this] {
      ++opened_;
      return next_;
    };
  }
  FreshPool::Pool AskLater(FreshPool& pool) {
    clock_.Advance(FreshPool::kStale);
    return pool.Get();
  }

  datapool::testing::TempDir dir_;
  const std::shared_ptr<datapool::Client> first_;
  FreshPool::Pool next_ = absl::UnavailableError("it changes");
  int opened_ = 0;
  base::ManualClock clock_;
};

TEST_F(FreshPoolTest, IsOpenedAgainOnceItIsOld) {
  FreshPool pool(Open(), first_, clock_);
  EXPECT_EQ(*pool.Get(), first_);
  EXPECT_EQ(opened_, 0);
  const std::shared_ptr<datapool::Client> other =
      datapool::OpenPool(datapool::testing::QuickOptions(dir_.path() + "/other")).value();
  next_ = other;
  EXPECT_EQ(*AskLater(pool), other);
  EXPECT_EQ(*pool.Get(), other);
  EXPECT_EQ(opened_, 1);
}

TEST_F(FreshPoolTest, ReportsTheErrorAfterSomeFailuresInARow) {
  FreshPool pool(Open(), first_, clock_);
  for (int round = 0; round < 2; ++round) {
    for (int failure = 1; failure < FreshPool::kFailures; ++failure) EXPECT_EQ(AskLater(pool).value(), first_);
    next_ = first_;  // a success in between
    EXPECT_EQ(AskLater(pool).value(), first_);
    next_ = absl::UnavailableError("it changes");
  }
  for (int failure = 1; failure < FreshPool::kFailures; ++failure) EXPECT_TRUE(AskLater(pool).ok());
  EXPECT_EQ(AskLater(pool).status(), next_.status());
  EXPECT_EQ(pool.Get().status(), next_.status());
  next_ = first_;
  EXPECT_EQ(AskLater(pool).value(), first_);
}

TEST_F(FreshPoolTest, OfARunWithoutAPoolTellsTheReasonAtOnce) {
  FreshPool pool(Open(), absl::NotFoundError("no agents"), clock_);
  EXPECT_TRUE(absl::IsNotFound(pool.Get().status()));
  next_ = absl::NotFoundError("no agents yet");
  EXPECT_EQ(AskLater(pool).status(), next_.status());
  next_ = first_;
  EXPECT_EQ(AskLater(pool).value(), first_);
}

}  // namespace
}  // namespace ingot::app
