#include "registry/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "events.h"

namespace ingot::registry {
namespace {

using ::testing::ElementsAre;

Entry At(const std::string& key, const std::string& value, int64_t revision) {
  return {key, value, revision, revision, 0};
}

std::vector<std::string> Show(const std::vector<Event>& events) {
  std::vector<std::string> shown;
  for (const Event& event : events) shown.push_back(testing::Show(event));
  return shown;
}

TEST(View, ReportsTheDifferencesOfTwoListingsInOrderOfRevisions) {
  View view;
  EXPECT_THAT(Show(view.Replace({{At("a", "1", 7), At("b", "1", 5)}, 8})), ElementsAre("b=1", "a=1"));
  EXPECT_THAT(Show(view.Replace({{At("a", "2", 9), At("c", "1", 11)}, 12})), ElementsAre("a=2", "c=1", "-b"));
  EXPECT_TRUE(view.Replace({{At("a", "2", 9), At("c", "1", 11)}, 30}).empty());
}

TEST(View, ReportsAnEntryThatWasMadeAnewAsAPut) {
  View view;
  view.Replace({{At("a", "1", 7)}, 7});
  EXPECT_THAT(Show(view.Replace({{At("a", "1", 9)}, 9})), ElementsAre("a=1"));
}

TEST(View, TakesEachChangeOnce) {
  View view;
  view.Replace({{At("a", "1", 7)}, 8});
  const Event old{false, At("a", "1", 7)}, fresh{false, At("a", "2", 9)}, same_revision{false, At("b", "2", 9)};
  EXPECT_FALSE(view.Apply(old));
  EXPECT_TRUE(view.Apply(fresh));
  EXPECT_TRUE(view.Apply(same_revision));
  EXPECT_FALSE(view.Apply(fresh));
  const Event gone{true, {"a", "", 0, 10, 0}};
  EXPECT_TRUE(view.Apply(gone));
  EXPECT_FALSE(view.Apply(gone));
}

}  // namespace
}  // namespace ingot::registry
