#include "engines/api/structural_tag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/fault.h"

namespace ingot::engines::structural_tag_test {
namespace {

using base::json::value;
using ::testing::HasSubstr;

value FormatOf(const v1::Grammar& grammar) {
  const auto tag = StructuralTagOf(grammar);
  EXPECT_EQ(tag.status(), absl::OkStatus());
  return tag.ok() ? tag->at("format") : value();
}

v1::Grammar Schema(const std::string& schema) {
  v1::Grammar grammar;
  grammar.add_alternatives()->add_parts()->set_json_schema(schema);
  return grammar;
}

TEST(StructuralTag, AForcedCallIsASequenceAfterFreeText) {
  v1::Grammar grammar;
  v1::GrammarSequence& call = *grammar.add_alternatives();
  call.add_parts()->set_literal("<tool_call>");
  v1::GrammarRepeat& repeat = *call.add_parts()->mutable_repeat();
  repeat.set_between("\n");
  repeat.add_alternatives()->add_parts()->set_json_schema(R"({"type":"object"})");
  grammar.set_begins_after("</think>");
  const value want = *base::ParseJson(R"({"type":"sequence","elements":[
    {"type":"tag","begin":"","content":{"type":"any_text"},"end":"</think>"},
    {"type":"or","elements":[{"type":"sequence","elements":[
      {"type":"const_string","value":"<tool_call>"},
      {"type":"sequence","elements":[
        {"type":"or","elements":[{"type":"sequence","elements":[
          {"type":"json_schema","json_schema":{"type":"object"}}]}]},
        {"type":"star","content":{"type":"sequence","elements":[
          {"type":"const_string","value":"\n"},
          {"type":"or","elements":[{"type":"sequence","elements":[
            {"type":"json_schema","json_schema":{"type":"object"}}]}]}]}}]}]}]}]})");
  EXPECT_EQ(FormatOf(grammar), want);
}

TEST(StructuralTag, TakesSchemasThatTheServerApplies) {
  for (const char* schema :
       {"{}", "true", R"({"type":"integer","minimum":3})", R"({"type":"string","format":"date"})",
        R"({"type":"object","properties":{"not":{"type":"string"}},"required":["not"]})", R"({"enum":[{"not":1}]})",
        R"({"type":"array","items":{"anyOf":[{"type":"null"},{"type":"string","pattern":"^a$"}]},"maxItems":2})"}) {
    EXPECT_EQ(StructuralTagOf(Schema(schema)).status(), absl::OkStatus()) << schema;
  }
}

struct Refused {
  const char* schema;
  const char* named;
};

// xgrammar accepts each of them, and then allows answers that violate them.
TEST(StructuralTag, NamesTheConstraintThatTheServerIgnores) {
  for (const Refused& refused : {
           Refused{R"({"not":{"type":"integer"}})", "/not"},
           Refused{R"({"type":"object","properties":{"a":{"type":"string","format":"odd"}}})", "/properties/a/format"},
           Refused{R"({"type":"object","properties":{"a":{}},"required":["a","b"]})", "/required/b"},
           Refused{R"({"allOf":[{"type":"integer"},{"type":"integer","minimum":4}]})", "/allOf"},
           Refused{R"({"items":{"minimum":3}})", "/items/minimum"},
           Refused{R"({"type":"string","pattern":"^a*$","minLength":2})", "minLength"},
           Refused{R"({"type":"array","uniqueItems":true})", "/uniqueItems"},
       }) {
    const absl::Status status = StructuralTagOf(Schema(refused.schema)).status();
    ASSERT_TRUE(absl::IsInvalidArgument(status)) << refused.schema;
    EXPECT_EQ(base::FaultOf(status)->field, "grammar.alternatives[0]");
    EXPECT_THAT(std::string(status.message()), HasSubstr(refused.named)) << refused.schema;
  }
}

TEST(StructuralTag, NamesPartsThatTheServerLacks) {
  v1::Grammar grammar;
  grammar.add_alternatives()->add_parts()->set_literal("a");
  grammar.add_alternatives()->add_parts()->mutable_parameters()->set_json_schema("{}");
  const absl::Status parameters = StructuralTagOf(grammar).status();
  EXPECT_EQ(base::FaultOf(parameters)->field, "grammar.alternatives[1]");
  grammar.mutable_alternatives(1)->mutable_parts(0)->set_python_keywords("{}");
  EXPECT_THAT(std::string(StructuralTagOf(grammar).status().message()), HasSubstr("Python keywords"));
  EXPECT_TRUE(absl::IsInvalidArgument(StructuralTagOf(v1::Grammar()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(StructuralTagOf(Schema("{")).status()));
}

}  // namespace
}  // namespace ingot::engines::structural_tag_test
