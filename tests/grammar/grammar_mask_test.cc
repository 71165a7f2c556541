// Masks against their definition: a token is allowed if and only if the grammar accepts its bytes here.
#include <functional>
#include <set>

#include "base/rng.h"
#include "grammar/support.h"
#include "trials.h"

namespace ingot::grammar::grammar_mask_test {
namespace {

struct Random {
  uint64_t seed, drawn = 0;
  size_t operator()(size_t bound) { return base::DeriveSeed(seed, drawn++) % bound; }
};

// Pieces as a tokenizer learns them, cut anywhere: inside characters, across quotation marks, through several brackets.
std::vector<std::string> Pieces(uint64_t seed) {
  const std::string corpus =
      "{\"name\": \"caf\xC3\xA9 \xF0\x9F\x98\x80\", \"age\": 12, \"tags\": [\"a\", \"b\\n\", "
      "\"\\u00e9\\ud83d\\ude00\"],\n"
      "  \"ok\": true, \"x\": null, \"n\": [[1.5, -2e10], {\"k\": {}}], \"kind\": \"alpha\"}}]]\n    \"\"\"\\\"beta "
      "gamma";
  Random random{seed};
  std::vector<std::string> pieces = {"", "      ", "\"\"", "}]", "}}}", "\",\"", "\": \"", std::string(260, ' ')};
  for (int i = 0; i < 300; ++i) pieces.push_back(corpus.substr(random(corpus.size() - 12), 2 + random(10)));
  return pieces;
}

std::vector<Spec> Specs() {
  std::vector<Spec> specs;
  for (const char* schema :
       {"true", R"({"type":"string"})", R"({"type":"string","minLength":3,"maxLength":9})",
        R"({"type":"string","pattern":"^[a-z\u00e9]{2,}( [a-z]+)*$"})", R"({"type":"number"})",
        R"({"type":"integer","minimum":-20,"maximum":1205})",
        R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"tags":{"type":"array",
            "items":{"type":"string"},"minItems":1,"maxItems":3},"ok":{"type":"boolean"}},"required":["name","tags"]})",
        R"({"type":"object","properties":{"kind":{"enum":["alpha","beta gamma"]}},"additionalProperties":true})",
        R"({"$ref":"#/$defs/t","$defs":{"t":{"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/t"}},
            {"type":"object","properties":{"k":{"$ref":"#/$defs/t"},"n":{"type":"number"}}}]}}})",
        R"({"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},
            {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}]})",
        R"({"type":"string","pattern":"^([a-z\u00e9 ]|\n)*mma$","maxLength":9})"}) {
    specs.push_back(SchemaSpec(schema));
  }
  specs.push_back(
      {{{{false, "<call>\n{\"name\": \"f\", \"arguments\": "}, {true, R"({"type":"object"})"}, {false, "}\n</call>"}},
        {{false, "<call>"}, {true, R"({"type":"integer"})"}}},
       ""});
  specs.push_back({{{{false, " ok "}, {true, "true"}}}, "\": \""});
  return specs;
}

void ExpectMaskIsExact(Matcher& matcher, const Vocabulary& vocabulary, const std::string& text) {
  const auto allowed = matcher.Allowed();
  ASSERT_EQ(allowed.status(), absl::OkStatus());
  size_t count = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    Matcher next = matcher;
    const bool expected = vocabulary.bytes(id).size() <= Vocabulary::kMaxTokenBytes && next.Accept(id);
    count += expected;
    ASSERT_EQ((*allowed)->contains(id), expected)
        << "after '" << text << "' token " << id << " '" << vocabulary.bytes(id) << "'";
  }
  EXPECT_EQ((*allowed)->count(), count);
}

TEST(MaskTest, HoldsExactlyTheTokensThatTheGrammarAccepts) {
  const auto vocabulary = MakeVocabulary(Pieces(1), {"<call>", "</call>", "<end>"});
  Compiler compiler(vocabulary);
  const std::vector<Spec> specs = Specs();
  for (size_t s = 0; s < specs.size(); ++s) {
    const auto program = compiler.Compile(specs[s]);
    ASSERT_EQ(program.status(), absl::OkStatus());
    for (int round = 0; round < Trials(2, 6); ++round) {
      Random random{100 * s + static_cast<uint64_t>(round)};
      Matcher matcher(*program);
      std::string text;
      for (int step = 0; step < 25; ++step) {
        ExpectMaskIsExact(matcher, *vocabulary, text);
        const auto allowed = *matcher.Allowed();
        if (allowed->count() == 0) break;
        std::vector<int32_t> ids;
        for (int32_t id = 0; id < vocabulary->size(); ++id) {
          if (allowed->contains(id)) ids.push_back(id);
        }
        const int32_t id = ids[random(ids.size())];
        text += vocabulary->bytes(id);
        ASSERT_TRUE(matcher.Accept(id));
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Every word of three letters, with `end` behind each; so many that walking all of them costs something.
std::vector<std::string> Words(const std::string& end = "") {
  std::vector<std::string> words;
  for (int i = 0; i < 26 * 26 * 26; ++i) {
    const auto letter = [&](int place) { return static_cast<char>('a' + i / place % 26); };
    words.push_back(std::string{letter(676), letter(26), letter(1)} + end);
  }
  return words;
}

std::string AnyOf(int count, const std::function<std::string(int)>& schema) {
  std::string list;
  for (int i = 0; i < count; ++i) absl::StrAppend(&list, i > 0 ? "," : "", schema(i));
  return absl::StrCat("{\"anyOf\":[", list, "]}");
}

std::string EndingIn(int i) { return absl::StrCat(R"({"type":"string","pattern":"^[a-z ]{40}x)", i, "$\"}"); }

TEST(MaskTest, ManyLeavesBetweenTwoStatesCostAsMuchAsOne) {
  const auto vocabulary = MakeVocabulary(Words());
  Matcher matcher(*Compiler(vocabulary).Compile(SchemaSpec(AnyOf(400, EndingIn))));
  ASSERT_TRUE(matcher.AcceptText("\""));
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(matcher.Allowed().status(), absl::OkStatus()) << i;
    ASSERT_TRUE(matcher.Accept('a'));
  }
  EXPECT_EQ((*matcher.Allowed())->count(), 1u);
  ASSERT_TRUE(matcher.AcceptText("x39"));
  EXPECT_EQ((*matcher.Allowed())->count(), 11u) << "a digit, or the end";
}

TEST(MaskTest, ACommonRestOfManyTokensIsSteppedOnce) {
  std::string properties;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&properties, i > 0 ? "," : "", "\"p", i, R"(":{"type":"string"})");
  const auto vocabulary = MakeVocabulary(Words("\", \"p1"));
  Matcher matcher(
      *Compiler(vocabulary).Compile(SchemaSpec("{\"type\":\"object\",\"properties\":{" + properties + "}}")));
  ASSERT_TRUE(matcher.AcceptText("{\"p0\":\""));
  const auto allowed = matcher.Allowed();
  ASSERT_EQ(allowed.status(), absl::OkStatus());
  EXPECT_TRUE((*allowed)->contains(256)) << "each is a string's end and the begin of p1, p10, ...";
  ASSERT_TRUE(matcher.AcceptText("\", \"p1\":\""));
  EXPECT_TRUE((*matcher.Allowed())->contains(256));
  ASSERT_TRUE(matcher.AcceptText("\", \"p200\":\""));
  EXPECT_FALSE((*matcher.Allowed())->contains(256)) << "those are behind it";
}

// Patterns in different objects cannot be united: each one costs a walk.
TEST(MaskTest, ATextWhoseMasksExceedTheAllowanceIsRejected) {
  const auto vocabulary = MakeVocabulary(Words());
  const auto in_object = [](int i) {
    return absl::StrCat(R"({"type":"object","properties":{"a":)", EndingIn(i), R"(},"required":["a"]})");
  };
  Matcher matcher(*Compiler(vocabulary).Compile(SchemaSpec(AnyOf(400, in_object))));
  ASSERT_TRUE(matcher.AcceptText("{\"a\":\""));
  int masks = 0;
  absl::Status status;
  for (; masks < 40 && status.ok(); ++masks) {
    status = matcher.Allowed().status();
    ASSERT_TRUE(matcher.Accept('a'));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("too ambiguous"));
  EXPECT_LE(masks, 3) << "the allowance is of one and a half, and each token adds a sixth";
}

// Compares with every string of up to seven letters. A string is accepted if it is short enough and matches the
// pattern; a prefix is alive if an accepted string begins with it.
TEST(MaskTest, CharactersCountedBesideAPatternAreCountedExactly) {
  const std::string letters = "ab!";
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == 7) break;
    for (const char c : letters) texts.push_back(texts[i] + c);
  }
  for (const char* pattern : {"^(a|bab)*!$", "^(ab)*$", "b!?a", "^a{2,4}(b|!!!)*$", "^(a|ab|!ba)*b$"}) {
    const std::string of = absl::StrCat(R"({"type":"string","pattern":")", pattern, "\"");
    const auto unlimited = *CompileSchema(of + "}");
    for (const size_t most : {2, 4, 5}) {
      const auto limited = *CompileSchema(absl::StrCat(of, ",\"maxLength\":", most, "}"));
      std::set<std::string> begins;
      for (const std::string& text : texts) {
        const bool valid = text.size() <= most && Takes(unlimited, "\"" + text + "\"");
        ASSERT_EQ(Takes(limited, "\"" + text + "\""), valid) << pattern << " " << most << " " << text;
        for (size_t size = 0; valid && size <= text.size(); ++size) begins.insert(text.substr(0, size));
      }
      for (const std::string& text : texts) {
        ASSERT_EQ(Matcher(limited).AcceptText("\"" + text), begins.contains(text))
            << pattern << " " << most << " " << text;
      }
    }
  }
}

TEST(MaskTest, IsTheSameFromTheCacheOfAnotherRequest) {
  const auto vocabulary = MakeVocabulary(Pieces(2));
  const Spec spec = Specs()[6];
  const auto program = *Compiler(vocabulary).Compile(spec);
  for (int round = 0; round < 2; ++round) {
    Matcher matcher(program);
    ASSERT_TRUE(matcher.AcceptText("{\"name\": \"caf"));
    ExpectMaskIsExact(matcher, *vocabulary, "");
    ASSERT_TRUE(matcher.AcceptText("\", \"tags\": [\"a\",\n  \"b"));
    ExpectMaskIsExact(matcher, *vocabulary, "");
  }
}

TEST(MaskTest, ACompleteTextThatCannotContinueAllowsNothing) {
  Matcher matcher(*CompileSchema(R"({"type":"object","properties":{}})"));
  ASSERT_TRUE(matcher.AcceptText("{}"));
  EXPECT_TRUE(matcher.complete());
  EXPECT_EQ((*matcher.Allowed())->count(), 0u);
  Matcher number(*CompileSchema(R"({"type":"integer"})"));
  ASSERT_TRUE(number.AcceptText("12"));
  EXPECT_TRUE(number.complete());
  EXPECT_EQ((*number.Allowed())->count(), 10u);
}

TEST(MaskTest, IsEmptyIfTheVocabularyCannotSpellTheNextByte) {
  const std::vector<std::string> bytes = {"a", "b", "\""};
  const auto vocabulary = std::make_shared<const Vocabulary>(bytes, std::vector<bool>(3, false));
  Matcher matcher(*Compiler(vocabulary).Compile(SchemaSpec(R"({"enum":["ab","x"]})")));
  ASSERT_TRUE(matcher.Accept(2));
  EXPECT_EQ((*matcher.Allowed())->count(), 1u);
  Matcher brackets(*Compiler(vocabulary).Compile(SchemaSpec(R"({"type":"array"})")));
  EXPECT_EQ((*brackets.Allowed())->count(), 0u);
  EXPECT_FALSE(brackets.complete());
}

TEST(MaskTest, FramesDoNotPileUpOverALongText) {
  Matcher matcher(*CompileSchema("true"));
  ASSERT_TRUE(matcher.AcceptText("["));
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(matcher.AcceptText("{\"k\":[[1,{}],\"x\"]},"));
  ASSERT_TRUE(matcher.AcceptText("null]"));
  EXPECT_TRUE(matcher.complete());
}

TEST(VocabularyTest, TheTrieHoldsEveryTokenOnce) {
  const std::vector<std::string> bytes = {"b", "ab", "a", "", "abc", "ab", "\xFF", "abd", "b"};
  const Vocabulary vocabulary(bytes, std::vector<bool>(bytes.size(), false));
  std::vector<std::string> found(bytes.size());
  std::string path;
  for (uint32_t i = 1; i < vocabulary.node_count(); ++i) {
    const Vocabulary::Node& node = vocabulary.nodes()[i];
    path.resize(node.depth - 1);
    path += static_cast<char>(node.byte);
    EXPECT_GT(node.skip, i);
    for (const int32_t id : vocabulary.TokensAt(i)) found[id] += path;
  }
  EXPECT_EQ(found, bytes);
}

TEST(TokenSetTest, IsAListWhileSmall) {
  for (const int32_t count : {3, 1024, 1025, 5000}) {
    TokenSet::Builder builder(6000);
    for (int32_t i = count; i-- > 0;) builder.Add(i * 6000 / count);
    const TokenSet set = builder.Build();
    EXPECT_EQ(set.count(), static_cast<size_t>(count));
    EXPECT_EQ(set.is_list(), count <= 1024);
    EXPECT_TRUE(set.contains(0));
    EXPECT_TRUE(set.contains((count - 1) * 6000 / count));
    EXPECT_FALSE(set.contains(5999));
  }
}

}  // namespace
}  // namespace ingot::grammar::grammar_mask_test
