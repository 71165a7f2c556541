// Who loses its place on a full server.
#include "http/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace ingot::http::places_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A server's places, and who was evicted, in order.
struct Server {
  explicit Server(int most) : places(most, clock) {}
  // It has sent some of its head.
  std::shared_ptr<Place> Enter(const std::string& source, const std::string& name, int most = 0) {
    const std::shared_ptr<Place> place = EnterNew(source, name, most);
    if (place != nullptr) place->Set(Stage::kHead);
    return place;
  }
  std::shared_ptr<Place> EnterNew(const std::string& source, const std::string& name, int most = 0) {
    return places.Enter(source, most, [this, name] { evicted.push_back(name); });
  }
  std::shared_ptr<Place> Enter(const std::string& source, const std::string& name, Stage stage) {
    const std::shared_ptr<Place> place = Enter(source, name);
    EXPECT_TRUE(place != nullptr && place->Set(stage)) << name;
    return place;
  }
  base::ManualClock clock;
  std::vector<std::string> evicted;
  Places places;
};

TEST(PlacesTest, WhoeverHasMostLosesItsOldestSilentOne) {
  Server server(4);
  const auto quiet = server.Enter("a", "a1");
  for (const char* const name : {"b1", "b2", "b3"}) server.Enter("b", name);
  EXPECT_NE(server.Enter("a", "a2"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("b1"));
  EXPECT_NE(server.Enter("b", "b4"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("b1", "b2")) << "its own, as nobody has more";
  EXPECT_TRUE(quiet->Set(Stage::kAnswer));
}

TEST(PlacesTest, AnEvictedConnectionIsNotAnswered) {
  Server server(1);
  const auto slow = server.Enter("a", "a1");
  ASSERT_NE(server.Enter("b", "b1"), nullptr);
  EXPECT_FALSE(slow->Set(Stage::kAnswer));
  server.places.Leave(slow);  // when its socket is closed
  ASSERT_NE(server.Enter("c", "c1"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("a1", "b1")) << "a place that was taken is not free twice";
}

TEST(PlacesTest, RequestsThatAreAnsweredStay) {
  Server server(2);
  const auto first = server.Enter("a", "a1", Stage::kAnswer), second = server.Enter("a", "a2", Stage::kAnswer);
  EXPECT_EQ(server.Enter("b", "b1"), nullptr);
  EXPECT_THAT(server.evicted, IsEmpty());
  EXPECT_TRUE(first->Set(Stage::kIdle));
  EXPECT_NE(server.Enter("b", "b2"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("a1"));
}

TEST(PlacesTest, ABodyToComeYieldsToASourceThatHasLess) {
  Server server(3);
  for (const char* const name : {"a1", "a2", "a3"}) server.Enter("a", name, Stage::kBody);
  EXPECT_EQ(server.Enter("a", "a4"), nullptr) << "not to one of its own";
  EXPECT_NE(server.Enter("b", "b1"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("a1"));
}

TEST(PlacesTest, ASourceWithFewKeepsThemWhenOneWithManyAsksForMore) {
  Server server(3);
  server.Enter("few", "few1", Stage::kBody);
  server.Enter("many", "many1", Stage::kAnswer);
  server.Enter("many", "many2", Stage::kAnswer);
  EXPECT_EQ(server.Enter("many", "many3"), nullptr);
  EXPECT_THAT(server.evicted, IsEmpty());
}

// Otherwise a full server would take the place of each client that has just come for the next one, and answer none.
TEST(PlacesTest, ANewConnectionHasASecondToBeginItsHead) {
  Server server(2);
  server.Enter("a", "a1", Stage::kAnswer);
  const auto fresh = server.EnterNew("a", "a2");
  EXPECT_EQ(server.EnterNew("a", "a3"), nullptr);
  EXPECT_THAT(server.evicted, IsEmpty());
  server.clock.Advance(std::chrono::seconds(2));
  const auto next = server.EnterNew("a", "a4");
  EXPECT_NE(next, nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("a2"));
  EXPECT_FALSE(fresh->Set(Stage::kHead));
  EXPECT_TRUE(next->Set(Stage::kHead));
}

TEST(PlacesTest, NewConnectionsOfASourceWithManyYieldToOneWithFew) {
  Server server(3);
  for (const char* const name : {"a1", "a2", "a3"}) server.EnterNew("a", name);
  EXPECT_NE(server.EnterNew("b", "b1"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("a1"));
}

// Under AddressSanitizer: nothing reads the places of a source whose last one was just evicted.
TEST(PlacesTest, AnOverdueHeadThatIsItsSourcesOnlyPlaceYields) {
  Server server(2);
  server.Enter("a", "a1");
  server.Enter("b", "b1", Stage::kAnswer);
  server.clock.Advance(std::chrono::seconds(2));
  EXPECT_NE(server.Enter("c", "c1"), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("a1"));
}

TEST(PlacesTest, ASilentConnectionOfASandboxYieldsAfterASecond) {
  Server server(8);
  EXPECT_NE(server.EnterNew("room", "1", 1), nullptr);
  EXPECT_EQ(server.EnterNew("room", "2", 1), nullptr);
  server.clock.Advance(std::chrono::seconds(2));
  EXPECT_NE(server.EnterNew("room", "3", 1), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("1"));
}

TEST(PlacesTest, ARoomHasItsShareAlone) {
  Server server(64);
  EXPECT_EQ(server.places.share(), 16);
  EXPECT_EQ(Places(10240).share(), 640);
  EXPECT_EQ(Places(4).share(), 4);
  EXPECT_NE(server.Enter("room", "1", 2), nullptr);
  const auto second = server.Enter("room", "2", 2);
  EXPECT_NE(server.Enter("room", "3", 2), nullptr);
  EXPECT_THAT(server.evicted, ElementsAre("1")) << "though the server has places";
  EXPECT_TRUE(second->Set(Stage::kAnswer));
  const auto fourth = server.Enter("room", "4", 2);
  EXPECT_TRUE(fourth->Set(Stage::kAnswer));
  EXPECT_EQ(server.Enter("room", "5", 2), nullptr);
}

}  // namespace
}  // namespace ingot::http::places_test
