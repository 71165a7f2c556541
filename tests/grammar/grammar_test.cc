// The texts that a grammar accepts, by examples.
#include "grammar/grammar.h"

#include <ctime>

#include "grammar/support.h"

namespace ingot::grammar {
namespace {

using testing::HasSubstr;

void ExpectTakes(const std::string& schema, const std::vector<std::string>& yes, const std::vector<std::string>& no) {
  for (const std::string& text : yes) EXPECT_TRUE(Takes(schema, text)) << schema << "\n  must take " << text;
  for (const std::string& text : no) EXPECT_FALSE(Takes(schema, text)) << schema << "\n  must not take " << text;
}

TEST(SchemaTest, Scalars) {
  ExpectTakes(R"({"type":"null"})", {"null"}, {"", "nul", "nulll", "\"null\"", " null"});
  ExpectTakes(R"({"type":"boolean"})", {"true", "false"}, {"null", "True"});
  ExpectTakes(R"({"type":["integer","null"]})", {"null", "12", "-3"}, {"1.5", "true"});
  ExpectTakes("false", {}, {});
}

TEST(SchemaTest, Strings) {
  ExpectTakes(R"({"type":"string"})",
              {R"("")", R"("a b")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\uD83D\ude00")", "\"\xC3\xA9\xF0\x9F\x98\x80\""},
              {"\"", "\"a", "a", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ud83da")", R"("\ude00")", "\"\xC3\"",
               "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\xF5\x80\x80\x80\""});
  // Lengths count characters, not bytes; a surrogate pair is one character.
  ExpectTakes(R"({"type":"string","minLength":2,"maxLength":3})",
              {R"("ab")", R"("abc")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\u00e9\ud83d\ude00x")", R"("\n\"")"},
              {R"("")", R"("a")", R"("abcd")", R"("\ud83d\ude00")"});
  ExpectTakes(R"({"type":"string","minLength":2000})", {"\"" + std::string(2000, 'x') + "\""},
              {"\"" + std::string(1999, 'x') + "\""});
}

TEST(SchemaTest, Integers) {
  ExpectTakes(R"({"type":"integer"})", {"0", "-1", "10", "9223372036854775807", "-9223372036854775808"},
              {"-0", "01", "1.0", "1e3", "9223372036854775808", "-", ""});
  ExpectTakes(R"({"type":"integer","minimum":-12,"maximum":105})", {"-12", "-9", "-1", "0", "7", "99", "100", "105"},
              {"-13", "-20", "106", "110", "1000", "-100"});
  ExpectTakes(R"({"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10})", {"1", "9"}, {"0", "10", "-1"});
  ExpectTakes(R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"});
  ExpectTakes(R"({"type":"integer","maximum":-5})", {"-5", "-6", "-123"}, {"-4", "0", "5"});
  // Every integer of a range, and none outside it.
  for (const auto& [low, high] : {std::pair{-7, 23}, {95, 1203}, {-1000, -99}, {0, 0}}) {
    const std::string schema = absl::StrCat("{\"type\":\"integer\",\"minimum\":", low, ",\"maximum\":", high, "}");
    const auto program = *CompileSchema(schema);
    for (int i = -1500; i <= 1500; ++i) {
      ASSERT_EQ(Takes(program, std::to_string(i)), i >= low && i <= high) << schema << " " << i;
    }
  }
}

TEST(SchemaTest, Numbers) {
  ExpectTakes(R"({"type":"number"})", {"0", "-0.5", "12.25", "1e5", "1E-07", "3.25e+10"},
              {".5", "1.", "01", "+1", "1e", "1e123", "NaN", "1.234567890123456789"});
  ExpectTakes(R"({"type":"number","minimum":0,"maximum":1})", {"0", "0.0", "0.5", "1", "1.000", "0.999"},
              {"-0.1", "1.0001", "1.1", "2", "1e0", "-0"});
  ExpectTakes(R"({"type":"number","exclusiveMinimum":-1.5,"maximum":2.25})", {"-1.49", "-1.4999", "-1", "0", "2.25"},
              {"-1.5", "-1.50", "-1.51", "-2", "2.251", "2.3", "3"});
  // Compared with arithmetic, in steps of 0.01, with two digits and, where the number is equal, with one.
  const auto program = *CompileSchema(R"({"type":"number","minimum":-3.14,"exclusiveMaximum":12.5})");
  for (int i = -2000; i <= 2000; ++i) {
    if (i == 0) continue;
    const std::string text =
        absl::StrCat(i < 0 ? "-" : "", std::abs(i) / 100, ".", std::abs(i) % 100 / 10, std::abs(i) % 10);
    ASSERT_EQ(Takes(program, text), i >= -314 && i < 1250) << text;
  }
}

TEST(SchemaTest, ALenientSchemaIgnoresUnsupportedKeywords) {
  const auto lenient = [](const std::string& members) { return "{\"x-lenient\":true," + members + "}"; };
  ExpectTakes(lenient(R"("type":"integer","minimum":3,"nullable":true,"not":{},"exclusiveMinimum":true)"), {"3", "10"},
              {"2", "null", "1.5"});
  ExpectTakes(lenient(R"("type":"string","pattern":"(?=a)b","maxLength":2)"), {R"("zz")"}, {R"("zzz")", "1"});
  ExpectTakes(lenient(R"("type":"any","enum":[1,"a"])"), {"1", R"("a")"}, {"2"});
  ExpectTakes(lenient(R"("type":"object","required":["a"],"patternProperties":{},"properties":{
                "a":{"type":"array","items":{"type":"integer"},"uniqueItems":true},"b":{"$ref":"other.json"}})"),
              {R"({"a":[1,1]})", R"({"a":[],"b":"anything"})"}, {R"({"b":1})", R"({"a":["x"]})"});
  ExpectTakes(lenient(R"("allOf":[{"type":"string","pattern":"^a+$"},{"pattern":"^b+$"}])"), {R"("aa")"}, {R"("bb")"});
  EXPECT_THAT(FaultOf(R"({"x-lenient":"yes","not":{}})"), HasSubstr("'not'"));
}

// A lenient document: property "a" has these members, "b" is an integer.
std::string LenientObject(const std::string& a) {
  return R"({"x-lenient":true,"type":"object","properties":{"a":{)" + a +
         R"(},"b":{"type":"integer"}},"required":["a","b"]})";
}

TEST(SchemaTest, ALenientSchemaDropsComplexAndContradictoryKeywords) {
  const auto expect = [](const std::string& a, const std::vector<std::string>& yes,
                         const std::vector<std::string>& no) {
    for (const std::string& value : yes)
      EXPECT_TRUE(Takes(LenientObject(a), "{\"a\":" + value + ",\"b\":1}")) << a << value;
    for (const std::string& value : no)
      EXPECT_FALSE(Takes(LenientObject(a), "{\"a\":" + value + ",\"b\":1}")) << a << value;
    EXPECT_FALSE(Takes(LenientObject(a), R"({"a":)" + yes[0] + R"(,"b":"x"})")) << "the rest is held to";
  };
  expect(R"("type":"string","pattern":"^(a|b)*a(a|b){40}$","maxLength":3)", {R"("xyz")"}, {R"("wxyz")", "1"});
  expect(R"("type":"number","multipleOf":1e-10,"minimum":2)", {"2.5"}, {"1", "\"\""});
  expect(R"("type":"integer","minimum":3,"maximum":2)", {"1", "7"}, {"1.5", "null"});
  expect(R"("type":"string","minLength":3,"maxLength":2,"pattern":"^a")", {R"("a")"}, {R"("b")"});
  expect(R"("type":"array","maxItems":100000,"items":{"type":"null"})", {"[]", "[null,null]"}, {"[1]"});
  expect(R"("type":"array","minItems":2,"maxItems":1)", {"[1,2]", "[1,2,3]"}, {"[1]"});
  expect(R"("type":"object","properties":{"x":{}},"enum":[{"x":1}])", {R"({"x":1})"}, {R"({"x":2})"});
  expect(R"("type":"integer","enum":["1","2"])", {R"("1")"}, {"1", R"("3")"});
  expect(R"("allOf":[{"type":"string"},{"type":"null"}])", {"null", "3"}, {});
  std::string alternatives;
  for (int i = 0; i < 600; ++i) absl::StrAppend(&alternatives, i > 0 ? "," : "", R"({"const":)", i, "}");
  expect("\"anyOf\":[" + alternatives + "]", {"7", "null"}, {});
}

TEST(SchemaTest, AnUnsatisfiableLenientSchemaKeepsItsType) {
  for (const std::string root : {R"("type":"object","properties":{"a":false},"required":["a"])",
                                 R"("type":"object","properties":{"a":{"$ref":"#"}},"required":["a"])"}) {
    ExpectTakes("{\"x-lenient\":true," + root + "}", {"{}", R"({"b":1})"}, {"[]", "1"});
  }
  ExpectTakes(R"({"x-lenient":true,"type":"array","items":{"$ref":"#"},"minItems":1})", {"[1]"}, {"1"});
  // One such schema does not weaken the rest of the grammar.
  Compiler compiler(MakeVocabulary());
  const std::string broken = R"({"x-lenient":true,"type":"object","properties":{"a-b":{}},"required":["a-b"]})";
  const auto program =
      compiler.Compile({{{{false, "f("}, {.is_schema = true, .text = broken, .keywords = true}, {false, ")"}},
                         {{true, R"({"type":"integer"})"}}},
                        ""});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(Takes(*program, "f(x=1)"));
  EXPECT_TRUE(Takes(*program, "12"));
  EXPECT_FALSE(Takes(*program, "1.5"));
}

TEST(GrammarTest, CombiningSchemasIsBoundedAndItsRejectionIsCached) {
  std::string alternatives, properties;
  for (int i = 0; i < 500; ++i) {
    absl::StrAppend(&alternatives, i > 0 ? "," : "",
                    R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"minLength":)", i, "}");
  }
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&properties, i > 0 ? "," : "", "\"p", i, R"(":{"$ref":"#/$defs/x"})");
  const std::string schema =
      R"({"$defs":{"x":{"anyOf":[)" + alternatives + R"(]}},"type":"object","properties":{)" + properties + "}}";
  Compiler compiler(MakeVocabulary());
  const auto rejected = [&] { return compiler.Compile(SchemaSpec(schema)).status().code(); };
  const Compiler::Stats before = compiler.stats();
  const std::clock_t start = std::clock();
  EXPECT_EQ(rejected(), absl::StatusCode::kInvalidArgument);
  // Takes half a second; comparing each schema with each took fifteen.
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 8);
  const Compiler::Stats first = compiler.stats();
  EXPECT_EQ(first.compilations, before.compilations + 1);
  EXPECT_GT(first.steps, before.steps);
  EXPECT_EQ(rejected(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(compiler.stats().compilations, first.compilations);
  EXPECT_EQ(compiler.stats().steps, first.steps);
}

TEST(SchemaTest, Multiples) {
  ExpectTakes(R"({"type":"number","multipleOf":0.01})", {"0", "-12.3", "12.34", "12.340", "7.00"},
              {"12.345", "12.341", "1e2", "1.", "-", ".5"});
  ExpectTakes(R"({"type":"integer","multipleOf":2.5})", {"0", "5", "-10"}, {"1", "2", "2.5", "-0"});
  ExpectTakes(R"({"multipleOf":1000})", {"0", "3000", "-1000", "3000.0"}, {"1", "300", "3000.5", "\"a\""});
  ExpectTakes(R"({"enum":[1,1.5,2,"x"],"multipleOf":0.5,"maximum":1.5})", {"1", "1.5"}, {"2"});
  EXPECT_THAT(FaultOf(R"({"type":"integer","multipleOf":99999999})"), HasSubstr("too complex"));
  // A step with zeros at its end: its multiples end with them too.
  ExpectTakes(R"({"type":"integer","multipleOf":86400000})", {"0", "86400000", "-172800000", "864000000"},
              {"-0", "86400", "8640000", "86400001", "00", "432000000000000001"});
  ExpectTakes(R"({"type":"number","multipleOf":1e9})", {"0", "0.0", "7000000000", "7000000000.00"},
              {"700000000", "7000000000.5", "0.", "7000000000."});
  ExpectTakes(R"({"enum":[0,500,1500,2000],"multipleOf":1000})", {"0", "2000"}, {"500", "1500"});
  // Compared with arithmetic: every integer, and every number of two digits behind the point.
  for (const int step : {1, 2, 3, 7, 10, 12, 60, 365}) {
    const std::string by = absl::StrCat("\"multipleOf\":", step, ",\"minimum\":-700,\"maximum\":1100}");
    const auto integers = *CompileSchema(absl::StrCat("{\"type\":\"integer\",", by));
    for (int i = -1500; i <= 1500; ++i) {
      ASSERT_EQ(Takes(integers, std::to_string(i)), i % step == 0 && i >= -700 && i <= 1100) << by << " " << i;
    }
    const auto numbers = *CompileSchema(
        absl::StrCat("{\"type\":\"number\",\"multipleOf\":", step / 100, ".", step % 100 / 10, step % 10, "}"));
    for (int i = 0; i <= 1500; ++i) {
      const std::string text = absl::StrCat(i / 100, ".", i % 100 / 10, i % 10);
      ASSERT_EQ(Takes(numbers, text), i % step == 0) << step << " " << text;
    }
  }
}

TEST(SchemaTest, EnumsAndConstants) {
  ExpectTakes(R"({"enum":["a","b c",1,2.5,null,{"k":[1,2]},"\u00e9\n"]})",
              {R"("a")", R"("b c")", "1", "2.5", "null", R"({"k":[1,2]})", "{ \"k\":\n  [1, 2 ] }", "\"\xC3\xA9\\n\""},
              {R"("b")", "2", "true", R"({"k":[2,1]})", R"({"k":[1]})", R"("\u0061")"});
  ExpectTakes(R"({"const":"x"})", {R"("x")"}, {R"("y")", "x"});
  ExpectTakes(R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"});
  ExpectTakes(R"({"type":"integer","enum":[1,5,9],"maximum":6})", {"1", "5"}, {"9"});
  ExpectTakes(R"({"enum":["ab","abc","x"],"minLength":2,"pattern":"^a"})", {R"("ab")", R"("abc")"}, {R"("x")"});
}

TEST(SchemaTest, ObjectsInTheOrderOfTheirProperties) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},
      "c":{"type":"boolean"}},"required":["b"]})";
  ExpectTakes(schema,
              {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({"a":1,"b":"x","c":true})", R"({"b":"","c":false})",
               R"({ "a": 1, "b": "x" })", "{\n  \"b\": \"x\",\n  \"c\": true\n}"},
              {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":1})", R"({"b":"x","d":1})", R"({"b":"x",})",
               R"({"b" :"x"})", R"({  "b":"x"})", R"({"b":"x"} )", R"({"b":"x","b":"x"})", R"({,"b":"x"})"});
  ExpectTakes(R"({"type":"object","properties":{"a":true}})", {"{}", "{ }", R"({"a":[{"x":null}]})"}, {R"({"b":1})"});
  ExpectTakes(R"({"type":"object"})", {"{}", R"({"x":1,"y":{"z":[]}})"}, {"[]", R"({"x"})"});
  ExpectTakes(R"({"properties":{"a":{"type":"null"}}})", {R"({"a":null})"}, {"1"});
}

TEST(SchemaTest, AdditionalProperties) {
  const std::string open =
      R"({"type":"object","properties":{"a":{"type":"integer"},"ab":{"type":"null"}},
          "additionalProperties":{"type":"boolean"}})";
  ExpectTakes(open, {"{}", R"({"a":1})", R"({"a":1,"ab":null,"x":true})", R"({"abc":true,"":false})", R"({"b":true})"},
              {R"({"a":true})", R"({"x":1})", R"({"x":true,"a":1})", R"({"\u0061":true})", R"({"x":true,"ab":true})"});
  ExpectTakes(R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"});
  ExpectTakes(R"({"type":"object","required":["k"]})", {R"({"k":1})", R"({"k":1,"z":2})"}, {"{}", R"({"z":1})"});
  ExpectTakes(R"({"type":"object","properties":{"a":true},"required":["k"],"additionalProperties":{"type":"null"}})",
              {R"({"a":1,"k":null})", R"({"k":null,"z":null})"}, {R"({"k":1})", R"({"a":1})"});
}

TEST(SchemaTest, Arrays) {
  ExpectTakes(R"({"type":"array","items":{"type":"integer"}})", {"[]", "[ ]", "[1]", "[1,2, 3]", "[\n  1,\n  2\n]"},
              {"[1,]", "[,1]", "[1 ,2]", "[\"a\"]", "[1"});
  ExpectTakes(R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
              {"[null,null]", "[null,null,null]"}, {"[]", "[null]", "[null,null,null,null]"});
  ExpectTakes(R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})", {"[]", "[1]", R"([1,"a"])"},
              {R"(["a"])", R"([1,"a",2])"});
  ExpectTakes(R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":1})",
              {"[1]", "[1,null,null]"}, {"[]", "[null]", "[1,1]"});
  ExpectTakes(R"({"type":"array","items":false})", {"[]"}, {"[1]"});
  ExpectTakes(R"({"type":"array","items":true,"maxItems":0})", {"[]"}, {"[1]"});
}

TEST(SchemaTest, Combinators) {
  ExpectTakes(R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"12", R"("a")"},
              {R"("ab")", "null"});
  ExpectTakes(R"({"oneOf":[{"type":"integer"},{"const":"x"}]})", {"1", R"("x")"}, {R"("y")"});
  ExpectTakes(R"({"allOf":[{"type":"integer","minimum":3},{"maximum":5},{"type":"number","minimum":2}]})", {"3", "5"},
              {"2", "6", "3.5"});
  ExpectTakes(R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
                           {"properties":{"b":{"type":"null"},"a":{"minimum":5}},"required":["b"]}]})",
              {R"({"a":5,"b":null})"}, {R"({"a":4,"b":null})", R"({"a":5})"});
  ExpectTakes(R"({"type":"object","properties":{"k":{"type":"string"}},
                  "anyOf":[{"properties":{"k":{"const":"x"},"v":{"type":"integer"}},"required":["k","v"]},
                           {"properties":{"k":{"const":"y"}},"required":["k"]}]})",
              {R"({"k":"x","v":1})", R"({"k":"y"})"}, {R"({"k":"x"})", R"({"k":"z"})", R"({"k":"y","v":1})"});
  ExpectTakes(R"({"allOf":[{"properties":{"a":true},"additionalProperties":false},{"properties":{"b":true}}],
                  "type":"object"})",
              {"{}", R"({"a":1})"}, {R"({"b":1})"});
  ExpectTakes(
      R"({"type":"array","allOf":[{"prefixItems":[{"type":"integer"}]},{"items":{"type":"number","minimum":4}}]})",
      {"[4]", "[]"}, {"[3]", "[4.5]"});
  ExpectTakes(R"({"enum":[1,2,3],"const":2})", {"2"}, {"1", "3"});
}

TEST(SchemaTest, ReferencesMayRecur) {
  const std::string tree = R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{
      "v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["v"]}}})";
  ExpectTakes(tree, {R"({"v":1})", R"({"v":1,"kids":[{"v":2},{"v":3,"kids":[{"v":4,"kids":[]}]}]})"},
              {R"({"kids":[]})", R"({"v":1,"kids":[{}]})", R"({"v":1,"kids":[{"v":2}})"});
  ExpectTakes(R"({"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]})", {"null", "[[null],[],null]"},
              {"1"});
  ExpectTakes(R"({"anyOf":[{"$ref":"#"},{"type":"integer"}]})", {"3"}, {"null"});
  ExpectTakes(R"({"$ref":"#/$defs/a~1b/items/0%20","$defs":{"a/b":{"items":{"0 ":{"const":7}}}}})", {"7"}, {"8"});
  ExpectTakes(
      R"({"$defs":{"n":{"type":"integer"}},"type":"object","properties":{"a":{"$ref":"#/$defs/n","minimum":3}}})",
      {R"({"a":3})"}, {R"({"a":2})"});
}

TEST(SchemaTest, NestingEndsAtTheLimit) {
  const std::string nested = R"({"type":"array","items":{"$ref":"#"}})";
  ExpectTakes(nested, {std::string(64, '[') + std::string(64, ']')}, {std::string(65, '[') + std::string(65, ']')});
  // If a member is required on every level, the last level that can hold it is one earlier.
  Matcher matcher(*CompileSchema(R"({"anyOf":[{"type":"null"},{"type":"object","properties":{"n":{"$ref":"#"}},
                                     "required":["n"]}]})"));
  int levels = 0;
  while (matcher.AcceptText("{\"n\":")) ++levels;
  EXPECT_EQ(levels, kMaxNesting);
}

TEST(SchemaTest, FormatsOfStrings) {
  const auto format = [](const std::string& name, const std::string& more = "") {
    return "{\"type\":\"string\",\"format\":\"" + name + "\"" + more + "}";
  };
  ExpectTakes(
      format("date"), {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")", R"("2023-04-30")"},
      {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")", R"("2023-1-1")", R"("soon")"});
  ExpectTakes(format("time"), {R"("23:59:59Z")", R"("00:00:00.25+05:30")"},
              {R"("24:00:00Z")", R"("12:00:00")", R"("12:00Z")", R"("12:60:00Z")"});
  ExpectTakes(format("date-time"), {R"("2024-02-29T01:02:03Z")", R"("1999-12-31T23:59:59.999-08:00")"},
              {R"("2024-02-29")", R"("2024-02-29 01:02:03Z")", R"("2023-02-29T01:02:03Z")"});
  ExpectTakes(format("duration"), {R"("P1Y2M3D")", R"("PT36H")", R"("P4W")", R"("P1DT12H30M5S")"},
              {R"("P")", R"("PT")", R"("1D")", R"("P1D2Y")", R"("P1Y3D")"});
  ExpectTakes(format("email"), {R"("a.b+c@example.com")", R"("x@host")"},
              {R"("a@")", R"("@b.c")", R"("a b@c.d")", R"("a")"});
  ExpectTakes(format("hostname"), {R"("example.com")", R"("a-1.b")", R"("localhost")"},
              {R"("-a.com")", R"("a-.com")", R"("a..b")", R"("a b")", R"("")"});
  ExpectTakes(format("ipv4"), {R"("0.0.0.0")", R"("255.199.20.1")"},
              {R"("256.1.1.1")", R"("1.2.3")", R"("01.2.3.4")", R"("1.2.3.4.5")"});
  ExpectTakes(format("ipv6"),
              {R"("::")", R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")", R"("1::")", R"("1::8")",
               R"("1:2:3:4:5:6::8")", R"("1::3:4:5:6:7:8")"},
              {R"("1:2:3")", R"("1::2::3")", R"("12345::")", R"("1:2:3:4:5:6:7:8:9")", R"(":1:2")", R"("g::")"});
  ExpectTakes(format("uuid"), {R"("123e4567-E89b-12d3-a456-426614174000")"},
              {R"("123e4567e89b12d3a456426614174000")", R"("123e4567-e89b-12d3-a456-42661417400g")"});
  // With other keywords, without a type, in an anyOf, and in an enum.
  ExpectTakes(format("date", R"(,"pattern":"^2024","maxLength":10)"), {R"("2024-01-01")"}, {R"("2023-01-01")"});
  ExpectTakes(R"({"format":"ipv4"})", {R"("1.2.3.4")"}, {R"("x")", "1"});
  ExpectTakes(R"({"type":["string","null"],"format":"uuid"})", {"null"}, {R"("x")"});
  ExpectTakes(R"({"allOf":[{"type":"string","format":"date"},{"format":"date"}]})", {R"("2024-01-01")"}, {R"("x")"});
  ExpectTakes(R"({"enum":["2024-01-01","soon",7],"format":"date"})", {R"("2024-01-01")"}, {R"("soon")"});
  EXPECT_THAT(FaultOf(R"({"allOf":[{"format":"date"},{"format":"time"}]})"), HasSubstr("two different formats"));
  // An unknown format is ignored.
  ExpectTakes(format("color"), {R"("any")"}, {"1"});
  ExpectTakes(R"({"type":"integer","format":"int32"})", {"7"}, {R"("7")"});
  ExpectTakes(R"({"type":"string","format":7})", {R"("any")"}, {"1"});
}

TEST(SchemaTest, Patterns) {
  const auto pattern = [](const std::string& p, const std::string& more = "") {
    return "{\"type\":\"string\",\"pattern\":\"" + p + "\"" + more + "}";
  };
  ExpectTakes(pattern("^[A-Z]{2}-[0-9]+$"), {R"("AB-1")", R"("ZZ-0042")"},
              {R"("AB-")", R"("ab-1")", R"("xAB-1")", R"("AB-1x")"});
  ExpectTakes(pattern("b+"), {R"("abbc")", R"("b")"}, {R"("ac")", R"("")"});
  ExpectTakes(pattern("^(a|b(c|d)?)*$"), {R"("")", R"("abcbda")"}, {R"("c")", R"("abb c")"});
  ExpectTakes(pattern("^a|b$"), {R"("axyz")", R"("xyzb")"}, {R"("xay")", R"("bx")"});
  ExpectTakes(pattern("^\\\\d{4}-\\\\d{2}$"), {R"("2024-01")"}, {R"("2024-1")"});
  ExpectTakes(pattern("^[^\\\"a-c]+$"), {R"("xyz")", R"("\\")", "\"\xC3\xA9\""}, {R"("\"")", R"("xa")"});
  ExpectTakes(pattern("^.$"), {R"("a")", R"("\"")", R"("\u0001")", "\"\xF0\x9F\x98\x80\""},
              {R"("\n")", R"("ab")", R"("\u0061")"});
  ExpectTakes(pattern("^\\\\u00e9{2}$"), {"\"\xC3\xA9\xC3\xA9\""}, {"\"\xC3\xA9\""});
  ExpectTakes(pattern("^(?:x(?<n>y)?)??z$"), {R"("z")", R"("xz")", R"("xyz")"}, {R"("yz")"});
  ExpectTakes(pattern("^(ab)*$", R"(,"minLength":3,"maxLength":6)"), {R"("abab")", R"("ababab")"},
              {R"("ab")", R"("abababab")"});
  ExpectTakes(pattern("^$"), {R"("")"}, {R"("a")"});
  // A hyphen beside a class means itself.
  ExpectTakes(pattern("^[\\\\w-.]+@([\\\\w-\\\\.]+)$"), {R"("a.b-c@d-e.f")"}, {R"("a@")", R"("a,b@c")"});
  EXPECT_THAT(FaultOf(pattern("^\\\\uD83D\\\\u0041$")), HasSubstr("is not a character"));
  EXPECT_THAT(FaultOf(pattern("^(ab)*$", R"(,"minLength":3,"maxLength":3)")), HasSubstr("no string"));
  for (const char* bad : {"(", ")", "[a", "a**", "(?=a)", "(?<!a)", "\\\\bx", "(a)\\\\1", "\\\\p{L}", "a{2,1}",
                          "a{1001}", "*a", "[z-a]", "\\\\"}) {
    EXPECT_THAT(FaultOf(pattern(bad)), HasSubstr("pattern")) << bad;
  }
}

TEST(SchemaTest, CharactersAreCountedBesideAPattern) {
  // Patterns that may end behind any character.
  ExpectTakes(R"({"pattern":"^[a-z]*$","maxLength":3})", {R"("")", R"("abc")"},
              {R"("abcd")", R"("abcdefghijklmnopq")"});
  ExpectTakes(R"({"pattern":"^[a-z]*$","maxLength":0})", {R"("")"}, {R"("a")"});
  ExpectTakes(R"({"pattern":"^[0-9]+$","maxLength":2})", {R"("1")", R"("12")"}, {R"("")", R"("123")"});
  const std::string word = R"({"type":"string","pattern":"^[^\\s]+$","maxLength":4096})";
  ExpectTakes(word, {R"("a")", "\"" + std::string(4096, 'x') + "\""}, {R"("")", "\"" + std::string(4097, 'x') + "\""});
  ExpectTakes(R"({"format":"email","maxLength":9})", {R"("a@bc.d.ef")", R"("a@b")"}, {R"("a@bc.d.efg")", R"("a@")"});
  EXPECT_EQ(FaultOf(R"({"type":"string","format":"email","maxLength":254})"), "");
  // Escapes and multi-byte characters count as one, in the spellings of both notations.
  ExpectTakes(R"({"type":"string","pattern":"^[^a]*$","minLength":2,"maxLength":3})",
              {R"("\n\"")", R"("\u0001b\\")", "\"\xC3\xA9\xF0\x9F\x98\x80\xE2\x82\xAC\""},
              {R"("\n")", R"("\n\n\n\n")", "\"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\"", R"("bab")"});
  // No character is allowed that could not end in time.
  Matcher matcher(*CompileSchema(R"({"type":"string","pattern":"^(x|abc|abcdef)*!$","maxLength":5})"));
  ASSERT_TRUE(matcher.AcceptText("\""));
  EXPECT_EQ((*matcher.Allowed())->count(), 3u) << "x, a and !";
  Matcher longer = matcher;
  EXPECT_TRUE(longer.AcceptText("abc"));
  EXPECT_FALSE(longer.AcceptText("d"));
  ASSERT_TRUE(matcher.AcceptText("xx"));
  EXPECT_EQ((*matcher.Allowed())->count(), 2u) << "abc and the end no longer fit";
  EXPECT_THAT(FaultOf(R"({"type":"string","pattern":"^abc$","maxLength":2})"), HasSubstr("no string"));
}

TEST(SchemaTest, NumbersAreExact) {
  ExpectTakes(R"({"allOf":[{"type":"integer","minimum":9007199254740992},{"minimum":9007199254740993}]})",
              {"9007199254740993"}, {"9007199254740992"});
  ExpectTakes(R"({"type":"integer","enum":[1.0,2,2.5]})", {"1", "2"}, {"1.0", "2.5"});
  ExpectTakes(R"({"type":"integer","const":-3.0})", {"-3"}, {"3"});
  ExpectTakes(R"({"const":18446744073709551615})", {"18446744073709551615"}, {"18446744073709551616"});
  EXPECT_THAT(FaultOf(R"({"const":12345678901234567890123})"), HasSubstr("64 bits"));
  EXPECT_THAT(FaultOf(R"({"enum":[{"k":[12345678901234567890123]}]})"), HasSubstr("64 bits"));
  EXPECT_THAT(FaultOf(R"({"type":"number","minimum":1e20})"), HasSubstr("18 digits"));
  EXPECT_THAT(FaultOf(R"({"type":"integer","maximum":-1e20})"), HasSubstr("64 bits"));
  ExpectTakes(R"({"type":"number","minimum":-1e20,"maximum":1e20})", {"5", "-999999999999999999.5"}, {"1e2"});
}

TEST(SchemaTest, AnnotationsArePassedOver) {
  ExpectTakes(R"({"$schema":"https://json-schema.org/draft/2020-12/schema","title":"T","description":"d","default":1,
                  "examples":[2],"format":"date","x-order":3,"type":"null"})",
              {"null"}, {"1"});
}

TEST(SchemaTest, UnsupportedKeywordsAreNamedWithTheirPlace) {
  const auto nested = [](const std::string& member) {
    return "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{" + member + "}}}}";
  };
  for (const auto& [member, keyword] : std::vector<std::pair<std::string, std::string>>{
           {R"("not":{})", "'not'"},
           {R"("if":{},"then":{})", "'if'"},
           {R"("patternProperties":{})", "'patternProperties'"},
           {R"("uniqueItems":true)", "'uniqueItems'"},
           {R"("multipleOf":0)", "multipleOf must be above 0"},
           {R"("multipleOf":"2")", "multipleOf must be a number"},
           {R"("multipleOf":0.0000000001)", "at most 9 digits"},
           {R"("allOf":[{"multipleOf":2},{"multipleOf":3}])", "multipleOfs"},
           {R"("minProperties":1)", "'minProperties'"},
           {R"("dependentRequired":{})", "'dependentRequired'"},
           {R"("nullable":true)", "'nullable'"},
           {R"("unheardOf":1)", "'unheardOf'"},
           {R"("$ref":"other.json")", "other.json"},
           {R"("$ref":"#/$defs/none")", "does not exist"},
           {R"("type":"text")", "type"},
           {R"("type":"string","minLength":-1)", "minLength"},
           {R"("type":"string","minLength":1.5)", "minLength"},
           {R"("type":"integer","minimum":"3")", "minimum"},
           {R"("items":[{}])", "prefixItems"},
           {R"("required":"a")", "required"},
           {R"("properties":[])", "properties"},
           {R"("anyOf":{})", "anyOf"},
           {R"("enum":1)", "enum"},
           {R"("allOf":[{"pattern":"a"},{"pattern":"b"}])", "patterns"}}) {
    const std::string fault = FaultOf(nested(member));
    EXPECT_THAT(fault, HasSubstr(keyword)) << member;
    EXPECT_THAT(fault, HasSubstr("#/properties/a/items")) << member;
  }
  EXPECT_THAT(FaultOf("{"), HasSubstr("json_schema"));
  EXPECT_THAT(FaultOf("3"), HasSubstr("object or a boolean"));
}

TEST(SchemaTest, AnUnsatisfiableSchemaIsRejected) {
  for (const char* schema :
       {"false", R"({"enum":[]})", R"({"type":"integer","minimum":3,"maximum":2})",
        R"({"type":"string","minLength":3,"maxLength":2})",
        R"({"type":"object","properties":{"a":false},"required":["a"]})",
        R"({"allOf":[{"type":"null"},{"type":"string"}]})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", R"({"$ref":"#"})",
        R"({"type":"array","items":{"$ref":"#"},"minItems":1})", R"({"type":"array","items":false,"minItems":1})",
        R"({"type":"object","required":["a"],"additionalProperties":false})"}) {
    EXPECT_THAT(FaultOf(schema), HasSubstr("no string")) << schema;
  }
}

// --- whole grammars ---

constexpr int32_t kCall = 256, kEnd = 257, kThink = 258;

std::shared_ptr<const Program> CompileSpec(const Spec& spec) {
  static auto* const compiler = new Compiler(MakeVocabulary({}, {"<tool_call>", "</tool_call>", "</think>"}));
  return *compiler->Compile(spec);
}

TEST(GrammarTest, LiteralsAndSchemasFollowOneAnother) {
  const auto program = CompileSpec({{{{false, "call "}, {true, R"({"type":"integer"})"}, {false, "!"}},
                                     {{false, "call none"}},
                                     {{true, R"({"const":null})"}, {true, R"({"const":true})"}}},
                                    ""});
  for (const char* yes : {"call 12!", "call -3!", "call none", "nulltrue"}) EXPECT_TRUE(Takes(program, yes)) << yes;
  for (const char* no : {"", "call ", "call 12", "call none!", "null", "call x!"})
    EXPECT_FALSE(Takes(program, no)) << no;
}

TEST(GrammarTest, AtomicTokensAreTakenWholeWhereALiteralSpellsThem) {
  const auto program =
      CompileSpec({{{{false, "a<tool_call>"}, {true, R"({"type":"string"})"}, {false, "</tool_call>"}}}, ""});
  Matcher matcher(program);
  EXPECT_TRUE(matcher.Accept('a'));
  EXPECT_TRUE((*matcher.Allowed())->contains(kCall));
  EXPECT_FALSE((*matcher.Allowed())->contains('<')) << "not letter by letter";
  Matcher spelled = matcher;
  EXPECT_FALSE(spelled.Accept('<'));
  ASSERT_TRUE(matcher.Accept(kCall));
  ASSERT_TRUE(matcher.AcceptText("\"x<tool_call>"));
  EXPECT_FALSE((*matcher.Allowed())->contains(kCall)) << "not inside a string";
  EXPECT_FALSE((*matcher.Allowed())->contains(kEnd));
  ASSERT_TRUE(matcher.AcceptText("\""));
  EXPECT_EQ((*matcher.Allowed())->count(), 1u);
  ASSERT_TRUE(matcher.Accept(kEnd));
  EXPECT_TRUE(matcher.complete());
  EXPECT_EQ((*matcher.Allowed())->count(), 0u);
}

TEST(GrammarTest, FreeTextRunsUpToTheTrigger) {
  const auto program = CompileSpec({{{{true, R"({"type":"boolean"})"}}}, "</think>"});
  Matcher matcher(program);
  ASSERT_TRUE(matcher.AcceptText("anything \xFF </thin</t"));
  EXPECT_EQ((*matcher.Allowed())->count(), 259u);
  EXPECT_FALSE(matcher.complete());
  Matcher letters = matcher;
  EXPECT_FALSE(Matcher(matcher).AcceptText("hink></think>true")) << "the first end counts";
  ASSERT_TRUE(letters.AcceptText("hink>true"));
  EXPECT_TRUE(letters.complete());
  ASSERT_TRUE(matcher.Accept(kThink));
  EXPECT_EQ((*matcher.Allowed())->count(), 2u);
  EXPECT_TRUE(matcher.AcceptText("false"));
  EXPECT_TRUE(matcher.complete());
}

TEST(GrammarTest, TriggersMayOverlapThemselves) {
  const auto program = CompileSpec({{{{false, "!"}}}, "aabaaab"});
  for (const char* before : {"", "aab", "aabaa", "aabaabaa", "aaaa", "baabaaa"}) {
    const std::string text = std::string(before) + "aabaaab";
    const bool first = text.find("aabaaab") == text.size() - 7;
    EXPECT_EQ(Takes(program, text + "!"), first) << text;
  }
}

TEST(GrammarTest, SizesAreLimited) {
  Compiler compiler(MakeVocabulary());
  EXPECT_EQ(compiler.Compile({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(compiler.Compile({{{{false, std::string(20000, 'x')}}}, ""}).ok());
  EXPECT_FALSE(compiler.Compile({{{{false, "x"}}}, std::string(300, 'x')}).ok());
  EXPECT_FALSE(compiler.Compile(SchemaSpec(std::string(300 << 10, ' ') + "true")).ok());
  EXPECT_TRUE(compiler.Compile({{{}}, ""}).ok()) << "the empty text";
}

TEST(GrammarTest, TooManyOptionalPropertiesAreRejected) {
  const auto optional = [](int count) {
    std::string properties;
    for (int i = 0; i < count; ++i) absl::StrAppend(&properties, i > 0 ? "," : "", "\"p", i, "\":{}");
    return "{\"type\":\"object\",\"properties\":{" + properties + "}}";
  };
  EXPECT_THAT(FaultOf(optional(4200)), HasSubstr("optional properties"));
  Matcher matcher(*CompileSchema(optional(3000)));
  ASSERT_TRUE(matcher.AcceptText("{"));
  EXPECT_EQ(matcher.Allowed().status(), absl::OkStatus());
}

TEST(GrammarTest, EqualGrammarsAreCompiledOnce) {
  Compiler compiler(MakeVocabulary(), 2);
  const auto a = *compiler.Compile(SchemaSpec("true"));
  EXPECT_EQ(*compiler.Compile(SchemaSpec("true")), a);
  const auto b = *compiler.Compile(SchemaSpec(R"({"type":"null"})"));
  EXPECT_NE(b, a);
  EXPECT_EQ(*compiler.Compile(SchemaSpec("true")), a);
  ASSERT_TRUE(compiler.Compile(SchemaSpec(R"({"type":"string"})")).ok());  // drops b, the oldest
  EXPECT_EQ(*compiler.Compile(SchemaSpec("true")), a);
  EXPECT_NE(*compiler.Compile(SchemaSpec(R"({"type":"null"})")), b);
}

}  // namespace
}  // namespace ingot::grammar
