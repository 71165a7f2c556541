#include "base/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/json.h"

namespace ingot::base {
namespace {

TEST(JsonTextTest, NumbersKeepTheirDigits) {
  constexpr char kText[] = " {\"n\": 265252859812191058636308480000000, \"f\" :1.50,\n\"l\": [-0, 1e2 , true, null]} ";
  EXPECT_EQ(JsonText(kText).Compact(), "{\"n\":265252859812191058636308480000000,\"f\":1.50,\"l\":[-0,1e2,true,null]}");
  EXPECT_EQ(JsonText(kText).At("n")->text(), "265252859812191058636308480000000");
  EXPECT_EQ(JsonText(kText).At("l.1")->text(), "1e2");
  EXPECT_TRUE(JsonText(kText).At("l.0")->is_number());
}

TEST(JsonTextTest, PartsAreFoundByTheirPath) {
  constexpr char kText[] =
      R"({"a": {"b": [1, {"c": "x, \"]}\\"}]}, "": 2, "\u0061b": 3, "d": 4, "d": 5, "e": {}, "l": []})";
  const JsonText json(kText);
  EXPECT_EQ(json.At("a.b.1.c")->string(), "x, \"]}\\");
  EXPECT_EQ(json.At("")->text(), "2");
  EXPECT_EQ(json.At("ab")->text(), "3");
  EXPECT_EQ(json.At("d")->text(), "5") << "the last one counts, as in ParseJson";
  for (const char* none : {"b", "a.b.2", "a.b.x", "a.b.-1", "d.x", "e.x", "l.0", "a.b.1.c.0"}) {
    EXPECT_FALSE(json.At(none).has_value()) << none;
  }
  EXPECT_TRUE(json.At("e")->is_object());
  EXPECT_EQ(json.fields().size(), 6u);
  EXPECT_EQ(json.At("a.b")->items().size(), 2u);
}

TEST(JsonTextTest, CountsValuesWithoutReadingThem) {
  const std::pair<const char*, size_t> cases[] = {{"1", 1},
                                                  {"[]", 1},
                                                  {"[ ]", 1},
                                                  {"[1]", 2},
                                                  {"[1, 2, [3]]", 5},
                                                  {R"({"a": 1, "b": {"c": []}})", 4},
                                                  {R"(["a,b[{", "\\\"," , {}])", 4}};
  for (const auto& [text, values] : cases) EXPECT_EQ(CountJsonValues(text), values) << text;
  EXPECT_GE(CountJsonValues("[1,"), 2u);  // malformed text: any number
  EXPECT_GE(CountJsonValues("\"\\"), 1u);
}

TEST(JsonTextTest, HalvesOfSurrogatePairsAreReplacedInTheirPlace) {
  EXPECT_EQ(WithoutLoneSurrogates(R"(["\ud83d"])"), R"(["\ufffd"])");
  EXPECT_EQ(WithoutLoneSurrogates(R"("\ud83d\ud83d\ude00\uDE00x")"), R"("\ufffd\ud83d\ude00\ufffdx")");
  EXPECT_EQ(WithoutLoneSurrogates(R"("\ud83d\n")"), R"("\ufffd\n")");
  EXPECT_EQ(WithoutLoneSurrogates(R"("\ud83)"), std::nullopt);
  for (const char* sound : {R"("\ud83d\ude00")", R"("\\ud83d")", R"("\u00e9 \\\u0041")", "", "\\", "\"\\u"}) {
    EXPECT_EQ(WithoutLoneSurrogates(sound), std::nullopt) << sound;
  }
}

TEST(JsonTextTest, AStringEndsAtItsQuoteWhereverItsEscapesStand) {
  for (size_t bytes = 0; bytes < 40; ++bytes) {
    for (size_t at = 0; at <= bytes; ++at) {
      for (const char* escape : {"", "\\\"", "\\\\", "\\\\\\\""}) {
        const std::string string = "\"" + std::string(bytes, ',').insert(at, escape) + "\"";
        const std::string list = "[" + string + ",1]";
        const auto items = JsonText(list).items();
        ASSERT_EQ(items.size(), 2u) << list;
        EXPECT_EQ(items[0].text(), string);
        EXPECT_EQ(CountJsonValues(list), 3u) << list;
      }
    }
  }
}

std::string RandomJson(std::mt19937& rng, int depth) {
  const auto space = [&] { return std::string(rng() % 3, " \n\t"[rng() % 3]); };
  const auto text = [&] {
    static const std::vector<std::string> texts = {"\"\"",     "\"a\"",   "\"\\\"\"",
                                                   "\"\\\\\"", "\"}],\"", "\"\\u00e9é\\n\""};
    return texts[rng() % texts.size()];
  };
  const unsigned kind = rng() % (depth > 0 ? 7 : 5);
  if (kind < 2) return text();
  if (kind == 2) return std::to_string(static_cast<int64_t>(rng()) - 2'000'000'000);
  if (kind == 3) return "0.25";
  if (kind == 4) return std::vector<std::string>{"true", "false", "null"}[rng() % 3];
  std::string out = kind == 5 ? "[" : "{";
  for (size_t i = 0, count = rng() % 4; i < count; ++i) {
    if (i > 0) out += ",";
    out += space();
    if (kind == 6) out += "\"k" + std::to_string(i) + "\"" + space() + ":" + space();
    out += RandomJson(rng, depth - 1) + space();
  }
  return out + space() + (kind == 5 ? "]" : "}");
}

// The text and all its parts equal the values of ParseJson, for numbers that have one spelling.
void ExpectSame(const JsonText& text, const json::value& value) {
  EXPECT_EQ(text.Compact(), PrintJson(value));
  EXPECT_EQ(text.is_string(), value.is_string());
  EXPECT_EQ(text.is_object(), value.is_object());
  EXPECT_EQ(text.is_array(), value.is_array());
  EXPECT_EQ(text.is_number(), value.is_number());
  if (value.is_string()) {
    EXPECT_EQ(text.string(), std::string(value.get_string()));
  } else if (value.is_array()) {
    const auto items = text.items();
    ASSERT_EQ(items.size(), value.get_array().size());
    for (size_t i = 0; i < items.size(); ++i) ExpectSame(items[i], value.get_array()[i]);
  } else if (value.is_object()) {
    const auto fields = text.fields();
    ASSERT_EQ(fields.size(), value.get_object().size());
    for (const auto& [key, part] : fields) ExpectSame(part, value.at(key));
  }
}

TEST(JsonTextTest, AgreesWithTheParser) {
  std::mt19937 rng(3);
  for (int trial = 0; trial < 500; ++trial) {
    const std::string text = " " + RandomJson(rng, 4) + "\n";
    const auto value = ParseJson(text);
    ASSERT_TRUE(value.ok()) << text;
    ExpectSame(JsonText(text), *value);
  }
}

}  // namespace
}  // namespace ingot::base
