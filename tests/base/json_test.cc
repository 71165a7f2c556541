#include "base/json.h"

#include <gtest/gtest.h>

namespace ingot::base {
namespace {

TEST(JsonTest, ErrorsNameLineAndColumn) {
  const auto value = ParseJson("{\"a\": 1,\n \"b\": }");
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.status().message().find("line 2, column 7"), std::string::npos) << value.status();
}

TEST(JsonTest, TextAfterTheValueIsAnError) { EXPECT_FALSE(ParseJson("{} x").ok()); }

TEST(JsonTest, DeepNestingIsRefusedNotRecursedInto) { EXPECT_FALSE(ParseJson(std::string(100000, '[')).ok()); }

TEST(JsonTest, DoublesPrintAsPeopleWriteThem) {
  EXPECT_EQ(PrintJson(*ParseJson("[1.0, 0.1, 1e5, 0.0001, 1e300, 3]")), "[1.0,0.1,100000.0,0.0001,1e+300,3]");
}

TEST(JsonTest, CanonicalFormSortsKeysAtEveryDepth) {
  EXPECT_EQ(CanonicalJson(*ParseJson(R"({"b": {"d": 1, "c": 2}, "a": []})")), R"({"a":[],"b":{"c":2,"d":1}})");
}

}  // namespace
}  // namespace ingot::base
