#include "sandbox/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::sandbox {
namespace {

using testing::HasSubstr;

const std::vector<std::string>& Known() {
  static const auto* const known = new std::vector<std::string>{"base_url", "task", "task."};
  return *known;
}

std::string Rendered(const std::string& text, const std::string& task) {
  const auto parsed = Template::Parse(text, Known());
  if (!parsed.ok()) return std::string(parsed.status().message());
  const auto rendered =
      parsed->Render({.text = {{"base_url", "http://h/v1"}}, .json = {{"task", base::JsonText(task)}}});
  return rendered.ok() ? *rendered : std::string(rendered.status().message());
}

TEST(TemplateTest, ReplacesVariablesAndLeavesOtherDollarsAlone) {
  EXPECT_EQ(Rendered("$HOME ${base_url} $$ $", "{}"), "$HOME http://h/v1 $$ $");
  EXPECT_EQ(Rendered("", "{}"), "");
  EXPECT_EQ(Rendered("${base_url}${base_url}", "{}"), "http://h/v1http://h/v1");
}

TEST(TemplateTest, EscapeGivesALiteralBrace) { EXPECT_EQ(Rendered("$${base_url} $${x", "{}"), "${base_url} ${x"); }

TEST(TemplateTest, TaskFieldsAreRawStringsAndOtherwiseJson) {
  const std::string task = R"({"s":"a \"b\"","n":1.5,"o":{"k":[1,"two"]},"t":true})";
  EXPECT_EQ(Rendered("${task.s}|${task.n}|${task.o}|${task.o.k.1}|${task.t}", task),
            R"(a "b"|1.5|{"k":[1,"two"]}|two|true)");
  EXPECT_EQ(Rendered("${task}", R"({"a":1})"), R"({"a":1})");
}

TEST(TemplateTest, NumbersKeepTheirDigits) {
  const std::string task = R"({"n": 265252859812191058636308480000000, "l": [ 18446744073709551616, 1.0 ]})";
  EXPECT_EQ(Rendered("${task.n} ${task.l}", task), "265252859812191058636308480000000 [18446744073709551616,1.0]");
  EXPECT_EQ(Rendered("${task}", task), R"({"n":265252859812191058636308480000000,"l":[18446744073709551616,1.0]})");
}

TEST(TemplateTest, AFieldAsJsonFitsIntoAnyJsonText) {
  const std::string task = R"({"s":"a \"b\"\n","n":1.50,"o":{"k":[1,"two"]}})";
  EXPECT_EQ(Rendered(R"({"q": ${json:task.s}, "n": ${json:task.n}, "o": ${json:task.o}, "u": ${json:base_url}})", task),
            R"({"q": "a \"b\"\n", "n": 1.50, "o": {"k":[1,"two"]}, "u": "http://h/v1"})");
  EXPECT_EQ(Rendered("${json:task}", R"({"a": "x"})"), R"({"a":"x"})");
  EXPECT_THAT(Rendered("${json:task.c}", "{}"), HasSubstr("no value at"));
  EXPECT_THAT(Rendered("${json:tsk}", "{}"), HasSubstr("unknown variable"));
}

TEST(TemplateTest, ValuesAreNotTemplatesThemselves) {
  EXPECT_EQ(Rendered("${task.s}", R"({"s":"${base_url}"})"), "${base_url}");
}

TEST(TemplateTest, UnknownVariableNamesItselfAndTheKnownOnes) {
  EXPECT_EQ(Rendered("x ${bas_url}", "{}"),
            "unknown variable ${bas_url}: known variables are ${base_url}, ${task}, ${task.FIELD}; the prefix json: "
            "inserts the value as quoted JSON (write a literal ${ as $${)");
  EXPECT_THAT(Rendered("${task.}", "{}"), HasSubstr("unknown variable"));
  EXPECT_THAT(Rendered("${}", "{}"), HasSubstr("unknown variable"));
}

TEST(TemplateTest, UnclosedVariableIsAnError) { EXPECT_THAT(Rendered("ab ${task", "{}"), HasSubstr("character 4")); }

TEST(TemplateTest, AMissingFieldListsTheFieldsOfItsParent) {
  EXPECT_EQ(Rendered("${task.c.d}", R"({"a":1,"c":{}})"), "the task has no value at ${task.c.d}: its fields are a, c");
  EXPECT_LE(Rendered("${task.c}", "{\"" + std::string(70'000, 'w') + "\":1}").size(), 1000u);
  EXPECT_THAT(Rendered("${task.a.5}", R"({"a":[1]})"), HasSubstr("no value at"));
  EXPECT_THAT(Rendered("${task.a.x}", R"({"a":"text"})"), HasSubstr("no value at"));
}

}  // namespace
}  // namespace ingot::sandbox
