#include "app/terminal/path_tails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::app {
namespace {

using ::testing::ElementsAre;

TEST(PathTails, AreAsShortAsTellsThemApart) {
  EXPECT_THAT(PathTails({"runs/a", "runs/b/", "/x/c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(PathTails({"one/run", "two/run", "other"}), ElementsAre("one/run", "two/run", "other"));
  EXPECT_THAT(PathTails({"one/x/run", "two/x/run", "three/run"}), ElementsAre("one/x/run", "two/x/run", "three/run"));
  EXPECT_THAT(PathTails({"/run", "/one/run"}), ElementsAre("/run", "one/run"));
}

TEST(PathTails, OfEqualPathsAreEqual) {
  EXPECT_THAT(PathTails({"one/run", "one/../one/run/", "two/run"}), ElementsAre("run", "run", "two/run"));
  EXPECT_THAT(PathTails({"/"}), ElementsAre("/"));
}

}  // namespace
}  // namespace ingot::app
