// Keyword arguments of Python: sampled texts are read back as arguments that the schema allows, and generated valid
// texts, in the documented spelling, are accepted.
#include "grammar/random_schemas.h"
#include "text/output/output_format.h"

namespace ingot::grammar {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::shared_ptr<const Program>> Compile(const std::string& schema,
                                                       const std::vector<std::string>& pieces = {}) {
  return Compiler(MakeVocabulary(pieces), 0).Compile({{{{.is_schema = true, .text = schema, .keywords = true}}}, ""});
}

void ExpectTakes(const std::string& schema, const std::vector<std::string>& yes, const std::vector<std::string>& no) {
  const auto program = Compile(schema);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const std::string& text : yes) EXPECT_TRUE(Takes(*program, text)) << "must take " << text;
  for (const std::string& text : no) EXPECT_FALSE(Takes(*program, text)) << "must not take " << text;
}

// The arguments of f(TEXT), as an output format with such calls reads them; nullopt: no call.
std::optional<json::value> Read(const std::string& text) {
  const auto parsed = (*text::FindOutputFormat("llama_pythonic"))->Parse("[f(" + text + ")]");
  if (parsed.malformed || parsed.tool_calls.size() != 1) return std::nullopt;
  auto arguments = base::ParseJson(parsed.tool_calls[0].arguments_json);
  if (!arguments.ok()) return std::nullopt;
  return *std::move(arguments);
}

TEST(Keywords, FollowTheSchemasOrderWithEveryRequiredOne) {
  ExpectTakes(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"boolean"}},
                  "required":["b"]})",
              {"b='x'", "a=1, b=\"\"", "a=-7,b='x', c=True", "b='x',\n  c=False"},
              {"", "a=1", "b='x', a=1", "b='x', d=1", "a=one, b='x'", "b='x', c=true", "b='x',", "b = 'x'", "b='x' ",
               "{'b': 'x'}", "b=x", "b='x' c=True"});
  ExpectTakes(R"({"type":"object","properties":{}})", {""}, {"a=1", ",", " "});
}

TEST(Keywords, ValuesAreLiteralsOfPython) {
  const auto one = [](const std::string& schema) {
    return R"({"type":"object","properties":{"v":)" + schema + R"(},"required":["v"]})";
  };
  ExpectTakes(one(R"({"type":"string"})"),
              {R"(v='it"s')", R"(v="it's")", R"(v='it\'s \"x\" \\')", R"(v='\n\t\xe9\u00e9\U0001f600')",
               "v='é\xF0\x9F\x98\x80'"},
              {"v='it's'", "v='a\nb'", R"(v='\ud83d\ude00')", R"(v='\U00110000')", R"(v='\q')", R"(v='\/')", "v='a\"",
               "v='a' 'b'", "v=r'a'", "v='\xC3'"});
  ExpectTakes(one(R"({"type":["null","boolean","integer"]})"), {"v=None", "v=True", "v=False", "v=12"},
              {"v=null", "v=true", "v=none", "v=012", "v=1.5", "v='None'"});
  ExpectTakes(one(R"({"enum":["a\"b'","x",1.5,true,null,{"k":["w"]}]})"),
              {R"(v='a"b\'')", R"(v="a\"b'")", "v='x'", "v=1.5", "v=True", "v=None", R"(v={'k': ["w"]})"},
              {"v=x", "v=true", "v=null", R"(v='a\"b\'')", "v={k: ['w']}"});
  ExpectTakes(one(R"({"type":"string","pattern":"^[a-z'\\n]+$","minLength":2})"),
              {R"(v='a\'')", R"(v="a'")", R"(v='a\n')"}, {"v='A'", "v='a'", R"(v="a\'")", R"(v='a\x0a')"});
  ExpectTakes(one(R"({"type":"string","minLength":2,"maxLength":3})"),
              {"v='ab'", "v=\"\\n'é\"", R"(v='\U0001f600\'x')"}, {"v='a'", "v='abcd'", "v=\"\""});
  ExpectTakes(one(R"({"type":"array","items":{"type":"object","properties":{"k":{"type":"boolean"}}}})"),
              {"v=[]", "v=[{'k': True}, {}]", "v=[ {\"k\":False}\n]"},
              {"v=({},)", "v=[{'k': true}]", "v=[{k: True}]", "v=[{},]"});
  ExpectTakes(one("true"), {"v={'a': [1, None]}", "v=-1e5", "v=[[]]"}, {"v=", "v={1: 2}", "v=null"});
}

TEST(Keywords, AdditionalOnesAppearOnlyWhereTheSchemaAllowsThem) {
  ExpectTakes(R"({"type":"object"})", {"", "x=1", "a_1='x', B=None"}, {"1x=1", "a-b=1", "=1", "a b=1"});
  ExpectTakes(R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
              {"a=1, b=True, c=False", "b=True"}, {"b=1", "b=True, a=1", "a=True"});
  ExpectTakes(R"({"anyOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},
                  {"type":"object","properties":{"b":{"type":"null"}},"required":["b"]},{"type":"array"}]})",
              {"a=None", "b=None"}, {"", "a=None, b=None", "[]"});
}

// Tools have such parameters. The output reader accepts them, although Python itself would not.
TEST(Keywords, PythonsReservedWordsAreNamesToo) {
  for (const std::string name : {"class", "from", "3d"}) {
    ExpectTakes(R"({"type":"object","properties":{")" + name + R"(":{"type":"integer"}}})", {name + "=1"}, {});
    EXPECT_TRUE(Read(name + "=1").has_value()) << name;
  }
}

TEST(Keywords, FaultsAreNamed) {
  const auto fault = [](const std::string& schema) { return std::string(Compile(schema).status().message()); };
  EXPECT_THAT(fault(R"({"type":"object","properties":{"a-b":{}}})"), HasSubstr("a-b: this name"));
  EXPECT_THAT(fault(R"({"type":"object","properties":{"":{}}})"), HasSubstr("this name"));
  EXPECT_THAT(fault(R"({"enum":[{}]})"), HasSubstr("an enum of objects"));
  EXPECT_THAT(fault(R"({"type":"array"})"), HasSubstr("matches no string"));
}

// A random object schema whose properties have names that keyword arguments can have.
json::object RandomKeywords(Random& random) {
  json::object document = RandomDocument(random);
  json::object root{{"type", "object"}, {"$defs", document["$defs"]}};
  json::object properties;
  json::array required;
  for (const char* name : {"a", "b_1", "Name", "größe"}) {
    if (random.Chance(3)) continue;
    properties[name] = RandomSchema(random, 2);
    if (random.Chance(2)) required.emplace_back(name);
  }
  root["properties"] = std::move(properties);
  root["required"] = std::move(required);
  if (random.Chance(2)) root["additionalProperties"] = RandomSchema(random, 0);
  return root;
}

TEST(Keywords, SampledTextsAreReadAndValidAndValidTextsAreAccepted) {
  int compiled = 0, taken = 0, strings = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    Random random{seed, kPythonNotation};
    const json::value document = RandomKeywords(random);
    const std::string schema = base::PrintJson(document);
    const auto program =
        Compile(schema, {"='", "', ", "\", \"", "ab", "}}", "\xA9'", "\xC3\xA9", "[[", "],", "None", "12", "\n  "});
    if (!program.ok()) {
      EXPECT_THAT(std::string(program.status().message()), HasSubstr("no string")) << schema;
      continue;
    }
    ++compiled;
    for (int round = 0; round < 3; ++round) {
      const std::string sampled = Sample(*program, random);
      strings += sampled.find('\'') != std::string::npos;
      const auto value = Read(sampled);
      ASSERT_TRUE(value.has_value()) << schema << "\n" << sampled;
      ASSERT_TRUE(Valid(document, *value, document)) << schema << "\n" << sampled;
    }
    for (int round = 0; round < 10; ++round) {
      const auto members =
          SpellMembers(document, document, random, 3, [](const std::string& name) { return name + "="; });
      if (!members.has_value()) continue;
      std::string made;
      for (const std::string& member : *members) made += (made.empty() ? "" : "," + Space(random)) + member;
      ++taken;
      ASSERT_TRUE(Takes(*program, made)) << schema << "\n" << made;
      const auto value = Read(made);
      ASSERT_TRUE(value.has_value() && Valid(document, *value, document)) << schema << "\n" << made;
    }
  }
  EXPECT_GT(compiled, 200);
  EXPECT_GT(taken, 1500);
  EXPECT_GT(strings, 100);
}

}  // namespace
}  // namespace ingot::grammar
