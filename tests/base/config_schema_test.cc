// A configuration's keys as JSON Schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config.h"
#include "base/json.h"

namespace ingot::base {
namespace {

struct Item {
  std::string name;
  int32_t count = 2;
};

void Bind(Schema& schema, Item& item) {
  schema.Field("name", &item.name, "its name");
  schema.Field("count", &item.count, "how many");
}

TEST(ConfigSchema, NestsSectionsAndNamesTypesChoicesAndDefaults) {
  int64_t steps = 7;
  double rate = 0.5;
  bool on = true;
  std::string word = "fast", path;
  std::vector<Item> items;
  Schema schema;
  schema.Field("trainer.steps", &steps, "optimizer steps");
  schema.Field("trainer.rate", &rate, "step size");
  schema.Field("on", &on, "whether");
  schema.Choice("mode", &word, {"fast", "exact"}, "how");
  schema.Field("model.path", &path, "a folder");
  schema.Shorthand("model",
                   [](const std::string&) -> absl::StatusOr<std::string> { return std::string("model.path"); });
  schema.List("items", &items, "things");
  const json::value parsed = ParseJson(schema.JsonSchema()).value();
  const auto at = [&](const char* pointer) { return parsed.at_pointer(pointer); };
  EXPECT_EQ(at("/additionalProperties"), false);
  EXPECT_EQ(at("/properties/trainer/properties/steps/type/0"), "integer");
  EXPECT_EQ(at("/properties/trainer/properties/steps/description"), "optimizer steps (default: 7)");
  EXPECT_EQ(at("/properties/trainer/properties/rate/type"), "number");
  EXPECT_EQ(at("/properties/trainer/additionalProperties"), false);
  EXPECT_EQ(at("/properties/on/type"), "boolean");
  EXPECT_EQ(at("/properties/mode/enum"), (json::array{"fast", "exact"}));
  EXPECT_EQ(at("/properties/items/items/properties/count/description"), "how many (default: 2)");
  EXPECT_EQ(at("/properties/model/anyOf/1/type"), "string");
  EXPECT_THAT(schema.Keys(),
              testing::ElementsAre("trainer.steps", "trainer.rate", "on", "mode", "model.path", "items"));
}

TEST(ConfigSchema, ShowsTheBoundsOfNumbers) {
  int32_t count = 1;
  double share = 1, clip = 0, any = 0;
  std::map<std::string, double> weights;
  Schema schema;
  schema.Field("count", &count, "how many", InRange(1, 64));
  schema.Field("share", &share, "of all", Fraction());
  schema.Field("clip", &clip, "bound", Above(1).OrZero());
  schema.Field("any", &any, "a number");
  schema.Field("weights", &weights, "by name", NotNegative());
  const json::value parsed = ParseJson(schema.JsonSchema()).value();
  const auto at = [&](const char* key) { return parsed.at("properties").at(key).as_object(); };
  EXPECT_EQ(at("count").at("minimum"), 1);
  EXPECT_EQ(at("count").at("maximum"), 64);
  EXPECT_EQ(at("share").at("exclusiveMinimum"), 0);
  EXPECT_EQ(at("share").at("maximum"), 1);
  EXPECT_EQ(at("clip").at("minimum"), 0);
  EXPECT_FALSE(at("clip").contains("maximum"));
  EXPECT_FALSE(at("any").contains("minimum"));
  EXPECT_EQ(at("weights").at("additionalProperties").at("minimum"), 0);
}

}  // namespace
}  // namespace ingot::base
