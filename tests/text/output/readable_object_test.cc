#include "text/output/readable_object.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"

namespace ingot::text {
namespace {

TEST(ReadableObject, IsTheArgumentsAsFarAsTheyCanBeRead) {
  const std::pair<const char*, const char*> cases[] = {
      // Objects stay as they were written.
      {R"({"city": "Paris", "days": [1, 2.5e-3, -0], "x": {"y": null, "z": true}, "": false})",
       R"({"city": "Paris", "days": [1, 2.5e-3, -0], "x": {"y": null, "z": true}, "": false})"},
      {" \n{ \"a\" :\t\"\\u00e9\\n\\ud83d\\ude00\\\"\" } ", "{ \"a\" :\t\"\\u00e9\\n\\ud83d\\ude00\\\"\" }"},
      {"{}", "{}"},
      {R"({"a": [], "b": {}})", R"({"a": [], "b": {}})"},
      // Cut.
      {"", "{}"},
      {"{", "{}"},
      {R"({"ci)", "{}"},
      {R"({"city")", "{}"},
      {R"({"city":)", "{}"},
      {R"({"city": ")", R"({"city": ""})"},
      {R"({"city": "Par)", R"({"city": "Par"})"},
      {R"({"city": "Par\)", R"({"city": "Par"})"},
      {R"({"city": "Par\u00e)", R"({"city": "Par"})"},
      {R"({"city": "Par\ud83d)", R"({"city": "Par"})"},
      {R"({"city": "Par\ud83d\ude0)", R"({"city": "Par"})"},
      {R"({"a": {"b": [1, {"c": "d)", R"({"a": {"b": [1, {"c": "d"}]}})"},
      {R"({"a": 1, )", R"({"a": 1})"},
      {R"({"a": [1, )", R"({"a": [1]})"},
      {R"({"a": tru)", "{}"},
      {R"({"a": -)", "{}"},
      {R"({"a": 1.)", R"({"a": 1})"},
      {R"({"a": 12e+)", R"({"a": 12})"},
      // Broken.
      {R"({"city": Paris}})", "{}"},
      {R"({"days": 3 or 4})", R"({"days": 3})"},
      {R"({"days": 3oops, "b": 1})", R"({"days": 3})"},
      {R"({"days": 3., "b": 1})", R"({"days": 3})"},
      {R"({"days": 03})", R"({"days": 0})"},
      {R"({"a": 1}})", R"({"a": 1})"},
      {R"({"a": 1} and more)", R"({"a": 1})"},
      {R"({"a": 1]})", R"({"a": 1})"},
      {R"({"a": 1,})", R"({"a": 1})"},
      {R"({"a": [1,]})", R"({"a": [1]})"},
      {R"({"a" 1})", "{}"},
      {R"({'a': 1})", "{}"},
      {R"({"a": "b\x"})", R"({"a": "b"})"},
      {R"({"a": "b\ude00"})", R"({"a": "b"})"},
      {R"({"a": "b\ud83d."})", R"({"a": "b"})"},
      {R"({"a": "b\ud83d\n"})", R"({"a": "b"})"},
      {"{\"a\": \"one\ntwo\"}", R"({"a": "one"})"},
      {R"({"a": nul})", "{}"},
      {R"({"a": NaN})", "{}"},
      {R"({"a": 1e309})", R"({"a": 1e30})"},
      {R"([{"a": 1}])", "{}"},
      {"ls -l", "{}"},
  };
  for (const auto& [arguments, object] : cases) EXPECT_EQ(ReadableObjectText(arguments), object) << arguments;
}

TEST(ReadableObject, IsSentAsFarAsItCanBeClosed) {
  ReadableObject object;
  EXPECT_EQ(object.Push(R"({"com)"), "{");
  EXPECT_EQ(object.Push(R"(mand": )"), "");
  EXPECT_EQ(object.Push(R"("ls)"), R"("command": "ls)");
  EXPECT_EQ(object.Push(R"( \)"), " ");
  EXPECT_EQ(object.Push(R"(n", "n": 1)"), R"(\n", "n": 1)");
  EXPECT_EQ(object.Push("2"), "2");
  EXPECT_EQ(object.Push("."), "");
  EXPECT_EQ(object.Push("5 "), ".5");
  EXPECT_EQ(object.Push("or 4"), "}") << "closed where it breaks";
  EXPECT_EQ(object.Push("}"), "");
  EXPECT_EQ(object.Finish(), "");
}

// Any text, in any pieces: the pieces together are one object, which a request can carry some levels deep, and which is
// the arguments themselves where those are an object.
TEST(ReadableObject, IsAnObjectWhateverTheArguments) {
  static const char* const kPieces[] = {
      "{",       "}",  "[",       "]",    ",",   ":",  "\"",    "\"a\": ", "\"b\"", "\\",        "\\n",       "\\u00e",
      "\\ud83d", "e9", "\\ude00", "true", "nul", "l",  "-",     "0",       "12",    ".5",        "e",         "+9",
      "999",     " ",  "\n",      "\x01", "ü",   "😀", "Paris", "False",   "'",     "{\"x\": [", "{\"a\": 1}"};
  std::mt19937 random(11);
  int whole = 0, filled = 0;
  for (int trial = 0; trial < 200000; ++trial) {
    std::string arguments = random() % 8 == 0 ? "" : "{\"a\": ";
    if (trial % 4 == 0) {  // an object with up to two pieces too many
      arguments = R"({"a": "b\n\ud83d\ude00", "c": [1, -2.5e3, {"d": {}}], "e": false, "f": "ü\u00e9"})";
      for (int i = random() % 3; i > 0; --i) {
        size_t at = random() % arguments.size();
        while ((arguments[at] & 0xC0) == 0x80) --at;
        arguments.insert(at, kPieces[random() % std::size(kPieces)]);
      }
    } else {
      for (int i = random() % 14; i > 0; --i) arguments += kPieces[random() % std::size(kPieces)];
    }
    ReadableObject object;
    std::string text;
    for (size_t at = 0; at < arguments.size();) {
      size_t end = at + 1 + random() % 6;
      while (end < arguments.size() && (arguments[end] & 0xC0) == 0x80) ++end;
      text += object.Push(std::string_view(arguments).substr(at, end - at));
      at = end;
    }
    text += object.Finish();
    ASSERT_EQ(text, ReadableObjectText(arguments)) << arguments;
    const auto parsed = base::ParseJson(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text << "\nof " << arguments;
    ASSERT_TRUE(parsed->is_object());
    ASSERT_EQ(ReadableObjectText(text), text);
    filled += !parsed->get_object().empty();
    const auto all = base::ParseJson(arguments);
    if (!all.ok() || !all->is_object() || base::PrintJson(*all).find("null") != std::string::npos) continue;
    ASSERT_EQ(*parsed, *all) << arguments;
    ++whole;
  }
  EXPECT_GT(whole, 10000);
  EXPECT_GT(filled, 50000);
}

TEST(ReadableObject, IsNoDeeperThanARequestCanCarry) {
  const std::string deep = "{\"a\": " + std::string(500, '[') + std::string(500, ']') + "}";
  const std::string carried =
      R"({"messages":[{"role":"assistant","content":[{"type":"tool_use","input":)" + ReadableObjectText(deep) + "}]}]}";
  EXPECT_TRUE(base::ParseJson(carried).ok());
}

TEST(ReadableObject, TakesLongNumbersInLinearTime) {
  const std::string digits(2'000'000, '7');
  EXPECT_EQ(ReadableObjectText("{\"a\": " + digits + "}").size(), std::string("{\"a\": }").size() + 256);
}

}  // namespace
}  // namespace ingot::text
