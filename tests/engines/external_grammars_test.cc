// Answers to requests with grammars, and servers that ignore them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "engines/api/structural_tag.h"
#include "engines/external_rig.h"
#include "engines/verification/answer_grammar.h"
#include "grammar/random_schemas.h"
#include "rollout/sampling/constraint.h"
#include "trials.h"

namespace ingot::engines::external_grammars_test {
namespace {

namespace json = base::json;
using grammar::Random;
using rollout::Collect;
using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

class ExternalGrammars : public OnEachServer {};
INSTANTIATE_TEST_SUITE_P(Servers, ExternalGrammars, kEachServer, KindName);

constexpr int32_t kByteEnd = 256, kByteIds = 257;
constexpr int kCalls = 200, kMostCalls = 1000;
constexpr char kToolBegin[] = "<tool_call>\n{\"name\": \"weigh\", \"arguments\": ", kToolEnd[] = "}\n</tool_call>";

Ids ByteIds() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.push_back(std::string(1, static_cast<char>(byte)));
  pieces.emplace_back("<end>");
  return {.count = kByteIds, .ends = {kByteEnd}, .tokenizer = std::make_shared<rollout::PieceTokenizer>(pieces)};
}

// A grammar, and a text that it allows, as a server may spell it.
struct Case {
  v1::Grammar grammar;
  std::string text;
  json::value schema = nullptr;  // of the value in the text; null = none
  std::string value = {};
};

// Adds whitespace that JSON allows, and Ingot's engine does not sample.
std::string Spaced(const std::string& text, Random& random) {
  std::string spaced;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (!in_string && (c == '}' || c == ']' || c == ',') && random.Chance(4))
      spaced += random.Chance(2) ? "   " : "\n\t";
    spaced += c;
    if (!in_string && (c == '{' || c == '[' || c == ':' || c == ',') && random.Chance(4)) spaced += " \n  ";
    if (!escaped && c == '"') in_string = !in_string;
    escaped = in_string && !escaped && c == '\\';
  }
  return spaced;
}

std::optional<Case> SchemaCase(Random& random, bool tool) {
  Case made;
  made.schema = grammar::RandomDocument(random);
  const auto text = grammar::Spell(made.schema, made.schema, random, 2);
  if (!text.has_value() || text->size() > 100) return std::nullopt;
  made.value = Spaced(*text, random);
  v1::GrammarSequence& sequence = *made.grammar.add_alternatives();
  if (tool) sequence.add_parts()->set_literal(kToolBegin);
  sequence.add_parts()->set_json_schema(base::PrintJson(made.schema));
  if (tool) sequence.add_parts()->set_literal(kToolEnd);
  made.text = tool ? kToolBegin + made.value + kToolEnd : made.value;
  if (!StructuralTagOf(made.grammar).ok()) return std::nullopt;  // the server does not take it
  return made;
}

Case TextCase(Random& random) {
  Case made;
  if (random.Chance(2)) {
    made.grammar.add_alternatives()->add_parts()->set_regex("[ab]{3}-[0-9]{2}( left| right)?");
    for (int i = 0; i < 3; ++i) made.text += random.Chance(2) ? 'a' : 'b';
    made.text += "-" + std::to_string(10 + random(90)) + (random.Chance(2) ? " left" : "");
    return made;
  }
  const std::vector<std::string> choices = {"left", "right ahead", "\xC3\xA9t\xC3\xA9", "left over"};
  for (const std::string& choice : choices) made.grammar.add_alternatives()->add_parts()->set_literal(choice);
  made.text = choices[random(choices.size())];
  return made;
}

Case RandomCase(Random& random, int index) {
  if (index % 4 == 0) return TextCase(random);
  while (true) {
    std::optional<Case> made = SchemaCase(random, /*tool=*/index % 4 == 1);
    if (made.has_value()) return *std::move(made);
  }
}

v1::GenerateRequest AskFor(const Case& one, int index) {
  v1::GenerateRequest ask;
  ask.set_request_id(std::to_string(index));
  ask.add_prompt_ids(index / 256);
  ask.add_prompt_ids(index % 256);
  ask.mutable_sampling()->set_temperature(1);
  ask.mutable_sampling()->set_max_new_tokens(400);
  *ask.mutable_sampling()->mutable_grammar() = one.grammar;
  ask.set_pinned_version(-1);
  return ask;
}

json::array IdsOf(const std::string& text, bool ends) {
  json::array ids;
  for (const char c : text) ids.emplace_back(static_cast<uint8_t>(c));
  if (ends) ids.emplace_back(kByteEnd);
  return ids;
}

struct GrammarRig {
  GrammarRig() : server(0, "--vocab 257"), rig({}, Wide(), server.url(), /*adapters=*/false, WriteSeed, ByteIds()) {
    EXPECT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  }
  static rollout::EngineOptions Wide() {
    rollout::EngineOptions options = Options();
    options.context_length = 500;
    return options;
  }
  // Asks for all at once; the server answers each with its text.
  std::deque<Collect> Answers(const std::vector<Case>& cases, bool end = true) {
    json::object scripts;
    for (size_t i = 0; i < cases.size(); ++i) {
      scripts[std::to_string(i / 256) + " " + std::to_string(i % 256)] = IdsOf(cases[i].text, end);
    }
    server.Post("/fake/script", json::object{{"by_prompt", scripts}});
    std::deque<Collect> answers(cases.size());
    std::deque<std::unique_ptr<rollout::Client::Request>> requests;
    for (size_t i = 0; i < cases.size(); ++i) {
      requests.push_back(rig.engine->Generate(AskFor(cases[i], static_cast<int>(i)), answers[i].OnChunk()));
    }
    for (Collect& answer : answers) (void)answer.Wait();
    return answers;
  }
  FakeServer server;
  Rig rig;
};

TEST_P(ExternalGrammars, ValidAnswersAreRecordedWithThePolicysLogprobs) {
  GrammarRig rig;
  Random random{.seed = 11};
  std::vector<Case> cases;
  for (int i = 0; i < Trials(kCalls, kMostCalls); ++i) cases.push_back(RandomCase(random, i));
  std::deque<Collect> answers = rig.Answers(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    ASSERT_EQ(answers[i].Wait(), absl::OkStatus()) << one.grammar.DebugString() << one.text;
    EXPECT_EQ(answers[i].ids.size(), one.text.size() + 1);
    EXPECT_EQ(answers[i].last.finish(), v1::FINISH_STOP);
    EXPECT_TRUE(answers[i].last.grammar_acted());
    CheckAnswer(answers[i], 2, SeedOf);
    if (!one.schema.is_null()) {
      EXPECT_TRUE(grammar::Valid(one.schema, *base::ParseJson(one.value), one.schema)) << one.text;
    }
  }
}

// No byte of a text that any of these grammars allows is a control character other than whitespace.
TEST_P(ExternalGrammars, AnAnswerOfAServerThatIgnoresTheGrammarIsNotRecorded) {
  GrammarRig rig;
  Random random{.seed = 12};
  std::vector<Case> cases;
  for (int i = 0; i < Trials(kCalls, kMostCalls); ++i) {
    cases.push_back(RandomCase(random, i));
    std::string& text = cases.back().text;
    text.insert(random(text.size() + 1), 1, '\x01');
  }
  std::deque<Collect> answers = rig.Answers(cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const absl::Status end = answers[i].Wait();
    ASSERT_TRUE(absl::IsDataLoss(end)) << end << cases[i].grammar.DebugString() << cases[i].text;
    EXPECT_THAT(std::string(end.message()), HasSubstr("does not follow the request's grammar"));
    EXPECT_TRUE(answers[i].ids.empty());
  }
  EXPECT_EQ(rig.rig.engine->fault(), absl::OkStatus());
}

TEST_P(ExternalGrammars, AnAnswerThatStopsEarlyIsNotRecorded) {
  GrammarRig rig;
  std::vector<Case> cases(3);
  cases[0].grammar.add_alternatives()->add_parts()->set_json_schema(
      R"({"type": "array", "items": {"type": "integer"}})");
  cases[0].text = "[1, 2";
  cases[1].grammar.add_alternatives()->add_parts()->set_regex("[ab]{3}");
  cases[1].text = "ab";
  cases[2].grammar.add_alternatives()->add_parts()->set_literal("left");
  cases[2].text = "lef";
  std::deque<Collect> answers = rig.Answers(cases);
  for (Collect& answer : answers) EXPECT_TRUE(absl::IsDataLoss(answer.Wait())) << answer.Wait();
}

// The limit on its length may cut off an answer.
TEST_P(ExternalGrammars, AnAnswerThatIsCutMustBeginAsTheGrammarDoes) {
  GrammarRig rig;
  std::vector<Case> cases(2);
  for (Case& one : cases) one.grammar.add_alternatives()->add_parts()->set_regex("[ab]*c");
  cases[0].text = "ab";  // again and again
  cases[1].text = "abd";
  std::deque<Collect> answers = rig.Answers(cases, /*end=*/false);
  EXPECT_EQ(answers[0].Wait(), absl::OkStatus());
  EXPECT_EQ(answers[0].last.finish(), v1::FINISH_LENGTH);
  EXPECT_TRUE(absl::IsDataLoss(answers[1].Wait()));
}

class AnswerGrammarTest : public ::testing::Test {
 protected:
  std::shared_ptr<const AnswerGrammar> Of(const v1::Grammar& grammar) {
    v1::SamplingParams sampling;
    *sampling.mutable_grammar() = grammar;
    return grammars_.Of(sampling);
  }
  static v1::Grammar Schema(const std::string& schema) {
    v1::Grammar grammar;
    grammar.add_alternatives()->add_parts()->set_json_schema(schema);
    return grammar;
  }
  AnswerGrammars grammars_{ByteIds().tokenizer};
};

TEST_F(AnswerGrammarTest, WhitespaceInJsonDoesNotCount) {
  const auto grammar =
      Of(Schema(R"({"type": "object", "properties": {"a b": {"enum": ["c  d"]}}, "required": ["a b"]})"));
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(grammar->Allows("{   \"a b\"\n\n:\t\"c  d\" }", true));
  EXPECT_FALSE(grammar->Allows("{\"a b\": \"c d\"}", true)) << "in a string, it does";
  EXPECT_FALSE(grammar->Allows("{\"ab\": \"c  d\"}", true));
  EXPECT_TRUE(grammar->Allows("{   \"a b\"  :  \"c ", false));
  EXPECT_FALSE(grammar->Allows("{   \"a b\"  :  \"c ", true));
}

TEST_F(AnswerGrammarTest, FreeTextMayComeFirst) {
  v1::Grammar schema = Schema(R"({"type": "array", "items": {"type": "integer"}})");
  schema.set_begins_after("</think>");
  const auto grammar = Of(schema);
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(grammar->Allows("any \"text</think>[1,    2]", true));
  EXPECT_FALSE(grammar->Allows("any text</think>[1, \"2\"]", true));
  EXPECT_TRUE(grammar->Allows("any text", false));
  EXPECT_FALSE(grammar->Allows("[1, 2]", true)) << "the free text does not end";
}

TEST_F(AnswerGrammarTest, RepeatedCallsMayBeSpaced) {
  v1::Grammar grammar;
  v1::GrammarRepeat& repeat = *grammar.add_alternatives()->add_parts()->mutable_repeat();
  repeat.set_between("\n");
  v1::GrammarSequence& call = *repeat.add_alternatives();
  call.add_parts()->set_literal("<call>");
  call.add_parts()->set_json_schema(R"({"type": "integer"})");
  const auto calls = Of(grammar);
  ASSERT_NE(calls, nullptr);
  EXPECT_TRUE(calls->Allows("<call>1\n<call> 22", true));
  EXPECT_FALSE(calls->Allows("<call>1\n<call>", true));
}

TEST_F(AnswerGrammarTest, SomeGrammarsCannotBeChecked) {
  EXPECT_EQ(Of(Schema(R"({"type": "string", "format": "uri"})")), nullptr);
  v1::Grammar mixed = Schema(R"({"type": "integer"})");
  mixed.add_alternatives()->add_parts()->set_regex("[a ]*");
  EXPECT_EQ(Of(mixed), nullptr);
  EXPECT_EQ(AnswerGrammars(nullptr).Of({}), nullptr);
  EXPECT_EQ(grammars_.Of({}), nullptr);
}

TEST_F(AnswerGrammarTest, TheEndOfTheTurnIsNoPartOfTheText) {
  v1::GenerateRequest ask;
  ask.add_prompt_ids('x');
  v1::Grammar& grammar = *ask.mutable_sampling()->mutable_grammar();
  grammar.add_alternatives()->add_parts()->set_literal("ab");
  const auto literal = grammars_.Of(ask.sampling());
  ASSERT_NE(literal, nullptr);
  const std::vector<int32_t> ends = {kByteEnd};
  const auto check = [&](std::vector<int32_t> ids, bool stopped) {
    return grammars_.Check(*literal, ask, ids, stopped, ends);
  };
  EXPECT_EQ(check({'a', 'b', kByteEnd}, true), absl::OkStatus());
  EXPECT_EQ(check({'a', 'b'}, true), absl::OkStatus()) << "xgrammar ends without it if nothing may follow";
  EXPECT_EQ(check({'a'}, false), absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(check({'a', kByteEnd}, true)));
  EXPECT_TRUE(absl::IsDataLoss(check({'a', kByteEnd}, false)));
}

}  // namespace
}  // namespace ingot::engines::external_grammars_test
