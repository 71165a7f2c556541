// Random schemas: a text sampled under one is valid JSON and valid under it, by an independent validator. Generated
// valid texts, in the documented spelling, are accepted. Mutated schemas never crash, hang or exhaust memory.
#include <ctime>

#include "grammar/random_schemas.h"

namespace ingot::grammar::grammar_property_test {
namespace {

TEST(GrammarPropertyTest, SampledTextsAreValidAndValidTextsAreAccepted) {
  Compiler compiler(
      MakeVocabulary({"\"name\": \"", "\", \"", "ab", "}}", "\xA9\"", "\xC3\xA9", "[[", "]}", "],", "12", "\n  "}), 0);
  int compiled = 0, taken = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    Random random{seed};
    const json::value document = RandomDocument(random);
    const std::string text = base::PrintJson(document);
    const auto program = compiler.Compile(SchemaSpec(text));
    if (!program.ok()) {
      EXPECT_THAT(std::string(program.status().message()), testing::HasSubstr("no string")) << text;
      continue;
    }
    ++compiled;
    for (int round = 0; round < 3; ++round) {
      const std::string sampled = Sample(*program, random);
      const auto value = base::ParseJson(sampled);
      ASSERT_TRUE(value.ok()) << text << "\n" << sampled << "\n" << value.status();
      ASSERT_TRUE(Valid(document, *value, document)) << text << "\n" << sampled;
    }
    for (int round = 0; round < 10; ++round) {
      const std::optional<std::string> made = Spell(document, document, random, 4);
      if (!made.has_value()) continue;
      ++taken;
      ASSERT_TRUE(Takes(*program, *made)) << text << "\n" << *made;
    }
  }
  EXPECT_GT(compiled, 200);
  EXPECT_GT(taken, 1500);
}

// --- broken and hostile schemas ---

std::string Mutated(std::string text, Random& random) {
  const std::string tokens[] = {"null",
                                "true",
                                "{}",
                                "[]",
                                "-1",
                                "1e9",
                                "\"$ref\":\"#\",",
                                "\"anyOf\":[{},{\"$ref\":\"#\"}],",
                                "\"allOf\":[{\"$ref\":\"#\"}],",
                                "\"minLength\":100000000,",
                                "\"maxItems\":999999,",
                                "\"pattern\":\"(a|b)*a(a|b){12}\",",
                                "\"not\":{},",
                                "\xFF",
                                "{",
                                "]"};
  for (size_t n = 1 + random(3); n-- > 0 && !text.empty();) {
    const size_t at = random(text.size());
    switch (random(4)) {
      case 0:
        text.erase(at, 1 + random(6));
        break;
      case 1:
        text.insert(at, tokens[random(16)]);
        break;
      case 2:
        text[at] = static_cast<char>(random(256));
        break;
      default:
        // Behind an opening brace, in the place of a keyword.
        if (const size_t brace = text.find('{', at); brace != std::string::npos)
          text.insert(brace + 1, tokens[6 + random(6)]);
    }
  }
  return text;
}

TEST(GrammarPropertyTest, MutatedSchemasAreRejectedOrCompiled) {
  Compiler compiler(MakeVocabulary({"\": \"", "ab", "}}"}), 0);
  int compiled = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Random random{1000 + seed};
    const std::string text = Mutated(base::PrintJson(RandomDocument(random)), random);
    const auto program = compiler.Compile(SchemaSpec(text));
    if (!program.ok()) {
      EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << text;
      continue;
    }
    ++compiled;
    Matcher matcher(*program);
    for (int step = 0; step < 30; ++step) {
      const auto allowed = matcher.Allowed();
      if (!allowed.ok() || (*allowed)->count() == 0) break;
      const size_t skip = random((*allowed)->count());
      int32_t id = 0;
      for (size_t seen = 0; !(*allowed)->contains(id) || seen++ < skip;) ++id;
      ASSERT_TRUE(matcher.Accept(id)) << text;
    }
  }
  EXPECT_GT(compiled, 50);
}

TEST(GrammarPropertyTest, HostileSchemasEndSoon) {
  std::vector<std::string> schemas = {
      R"({"type":"string","pattern":"((((a{1000}){1000}){1000}){1000}){1000}"})",
      R"({"type":"string","pattern":"(a|b)*a(a|b){40}"})",
      R"({"type":"string","pattern":"^[^a]{1000}(.*b){1000}$"})",
      R"({"type":"string","pattern":"^a*$","maxLength":1000000000})",
      R"({"type":"array","maxItems":1000000000,"items":{}})",
      R"({"type":"array","minItems":1000000000})",
      R"({"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"$ref":"#"}]},{"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"minLength":1}]}}}]})",
      R"({"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"properties":{"b":{"$ref":"#"}}}]}}})",
      R"({"type":"array","items":{"anyOf":[{"type":"array","items":{"$ref":"#"},"maxItems":3},{"$ref":"#"}]}})",
  };
  std::string doubling = "{\"$defs\":{\"d0\":{\"type\":\"null\"}";  // 2^40 alternatives by reference
  for (int i = 1; i <= 40; ++i) {
    absl::StrAppend(&doubling, ",\"d", i, "\":{\"anyOf\":[{\"$ref\":\"#/$defs/d", i - 1,
                    "\"},{\"title\":\"x\",\"$ref\":\"#/$defs/d", i - 1, "\"}]}");
  }
  schemas.push_back(doubling + "},\"$ref\":\"#/$defs/d40\"}");
  std::string wide = "{\"type\":\"object\",\"properties\":{\"p\":true";
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&wide, ",\"key", i, "\":{\"type\":\"integer\",\"minimum\":", i, "}");
  schemas.push_back(wide + "}}");
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += R"({"type":"array","items":)";
  schemas.push_back(deep + "{}" + std::string(60, '}'));
  Compiler compiler(MakeVocabulary({"[[", "]]", "\"a"}), 0);
  for (const std::string& schema : schemas) {
    const std::clock_t start = std::clock();
    const auto program = compiler.Compile(SchemaSpec(schema));
    if (program.ok()) {
      Matcher matcher(*program);
      for (int i = 0; i < 20 && matcher.Allowed().ok() && matcher.AcceptText("["); ++i) {
      }
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // CPU time of this process
    EXPECT_LT(seconds, 60) << schema.substr(0, 200);  // only unbounded work exceeds this
  }
}

}  // namespace
}  // namespace ingot::grammar::grammar_property_test
