#include "text/output/argument_values.h"

#include <gtest/gtest.h>

#include <random>

#include "cpu_time.h"
#include "text/output/python_literal.h"
#include "text/output/value_scanner.h"

namespace ingot::text {
namespace {

std::string FromPython(std::string_view text) { return JsonOfPython(text).value_or("none"); }

// Expected: json.dumps(ast.literal_eval(text), ensure_ascii=False) of Python 3.11, where it writes numbers alike.
TEST(PythonLiterals, BecomeJson) {
  EXPECT_EQ(FromPython("'a'"), "\"a\"");
  EXPECT_EQ(FromPython(R"('it\'s "q"\n\t\\ \x41\u00e9\U0001F600 \d')"), R"("it's \"q\"\n\t\\ Aé😀 \\d")");
  EXPECT_EQ(FromPython(R"(r'\n' "x" '''y'z''')"), R"("\\nxy'z")");
  EXPECT_EQ(FromPython("[1, -2, +3, 1.5, .5, 5., 1e5, 1_000, 0, 00]"), "[1, -2, 3, 1.5, 0.5, 5.0, 1e5, 1000, 0, 0]");
  EXPECT_EQ(FromPython("(1,)"), "[1]");
  EXPECT_EQ(FromPython("(1)"), "1");
  EXPECT_EQ(FromPython("()"), "[]");
  EXPECT_EQ(FromPython("{'a': [True, False, None], \"b\": {}, }"), R"({"a": [true, false, null], "b": {}})");
  EXPECT_EQ(FromPython(" [ ] "), "[]");
  EXPECT_EQ(FromPython(R"('\ud83d\ude00')"), "\"😀\"");
  for (const char* bad : {"",   "a", "f(1)", "1 2",       "[1 2]",  "[1",    "'a",    "{1: 2}", "{'a'}", "012", "1..2",
                          "1e", "-", "--1",  "'\\ud83d'", "'\\x4'", "1 + 1", "True1", "[,]",    "'a' 1", "0x10"}) {
    EXPECT_EQ(FromPython(bad), "none") << bad;
  }
  EXPECT_EQ(FromPython(std::string(5000, '[')), "none");
}

// The schema refers to itself a thousand times at every level.
TEST(ParameterTypes, SelfReferencingSchemasTakeBoundedTime) {
  base::json::array itself;
  for (int i = 0; i < 1000; ++i) itself.push_back(base::json::object{{"$ref", "#/properties/a"}});
  base::json::object properties{{"a", base::json::object{{"allOf", itself}}},
                                {"b", base::json::object{{"type", "integer"}}}};
  const std::vector<base::json::value> tools = {base::json::object{
      {"function", base::json::object{{"name", "f"}, {"parameters", base::json::object{{"properties", properties}}}}}}};
  unsigned known = 1;
  EXPECT_LT(CpuSeconds([&] { known = ParameterTypes(tools).Of("f", "a"); }), 1.0 * kSlowdown);
  EXPECT_EQ(known, 0u) << "anything";
}

base::json::value RandomValue(std::mt19937& random, int depth) {
  const char* const texts[] = {"", "a", "it's", "\"", "\\", "\n\x01", "é\U0001F600", "{", "]", ",", "None"};
  switch (random() % (depth > 3 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random()) - 2000000000;
    case 3:
      return static_cast<double>(random() % 100000) / 4;  // few digits: Boost 1.81 misreads the last one of many
    case 4:
      return base::json::string(texts[random() % std::size(texts)]);
    case 5: {
      base::json::array array;
      for (int k = random() % 4; k > 0; --k) array.push_back(RandomValue(random, depth + 1));
      return array;
    }
    default: {
      base::json::object object;
      for (int k = random() % 4; k > 0; --k)
        object[texts[random() % std::size(texts)]] = RandomValue(random, depth + 1);
      return object;
    }
  }
}

TEST(PythonLiterals, ReadBackWrittenValues) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 3000; ++trial) {
    const base::json::value value = RandomValue(random, 0);
    const std::string python = PythonOfJson(value);
    EXPECT_EQ(base::PrintJson(*base::ParseJson(FromPython(python))), base::PrintJson(value)) << python;
    // PythonScanner finds the literal's end, wherever the text is cut.
    const std::string text = python + ", next";
    PythonScanner scanner;
    size_t used = 0;
    Scan scan = Scan::kMore;
    for (size_t end = 1; end <= text.size() && scan == Scan::kMore; ++end) {
      scan = scanner.Feed(std::string_view(text).substr(used, end - used), end == text.size(), used);
    }
    ASSERT_EQ(scan, Scan::kDone);
    EXPECT_EQ(text.substr(0, used), python);
  }
}

TEST(JsonScanner, FindsTheEndWhereverTheTextIsCut) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::string value = base::PrintJson(RandomValue(random, 0));
    const std::string text = value + "}";
    JsonScanner scanner;
    size_t used = 0;
    Scan scan = Scan::kMore;
    while (scan == Scan::kMore) {
      ASSERT_LT(used, text.size());
      scan = scanner.Feed(std::string_view(text).substr(used, 1 + random() % 4), used);
    }
    ASSERT_EQ(scan, Scan::kDone) << text;
    EXPECT_EQ(text.substr(0, used), value);
  }
  for (const char* bad : {"{'a': 1}", "{\"a\": <", "}", "x", "{\"a\": \xFF"}) {
    JsonScanner scanner;
    size_t used = 0;
    EXPECT_EQ(scanner.Feed(bad, used), Scan::kFailed) << bad;
  }
}

TEST(ParameterTypes, ComeFromTheSchema) {
  const std::vector<base::json::value> tools = {
      *base::ParseJson(R"({"type":"function","function":{"name":"f","parameters":{"properties":{
        "s":{"type":"string"},"n":{"type":["integer","null"]},"e":{"enum":["a",1]},"c":{"const":true},
        "u":{"anyOf":[{"type":"string"},{"type":"array"}]},"any":{"anyOf":[{"type":"string"},{}]},
        "r":{"$ref":"#/$defs/R"},"loop":{"$ref":"#/$defs/L"},"lost":{"$ref":"#/no"},"p":{"properties":{}},
        "all":{"allOf":[{"description":"x"},{"type":"boolean"}]},"free":{}},
        "$defs":{"R":{"type":"number"},"L":{"$ref":"#/$defs/L"}}}}})"),
      *base::ParseJson(R"({"name":"g","input_schema":{"properties":{"x":{"type":"boolean"}}}})"),
      *base::ParseJson("17"), *base::ParseJson(R"({"function":{"name":3,"parameters":[]}})")};
  const ParameterTypes types(tools);
  EXPECT_EQ(types.Of("f", "s"), kStringBit);
  EXPECT_EQ(types.Of("f", "n"), kNumberBit | kNullBit);
  EXPECT_EQ(types.Of("f", "e"), kStringBit | kNumberBit);
  EXPECT_EQ(types.Of("f", "c"), kBoolBit);
  EXPECT_EQ(types.Of("f", "u"), kStringBit | kArrayBit);
  EXPECT_EQ(types.Of("f", "r"), kNumberBit);
  EXPECT_EQ(types.Of("f", "p"), kObjectBit);
  EXPECT_EQ(types.Of("f", "all"), kBoolBit);
  for (const char* unknown : {"any", "loop", "lost", "free", "missing"})
    EXPECT_EQ(types.Of("f", unknown), 0u) << unknown;
  EXPECT_EQ(types.Of("g", "x"), kBoolBit);
  EXPECT_EQ(types.Of("h", "x"), 0u);
}

TEST(JsonOfText, IsAlwaysJson) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 5000; ++trial) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = random() % 3 == 0 ? static_cast<char>(random()) : "[]{}'\":,1eTrue"[random() % 14];
    EXPECT_TRUE(base::ParseJson(JsonOfText(text, random() % 64)).ok()) << text;
  }
}

}  // namespace
}  // namespace ingot::text
