// Grammars in the engine, on the model of plain code with a byte vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <regex>
#include <set>

#include "base/fault.h"
#include "base/json.h"
#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/fake_model.h"
#include "rollout/fake_tokenizer.h"

namespace ingot::rollout::engine_grammar_test {
namespace {

using testing::HasSubstr;

// Bytes, some pieces, an atomic token, the end of the turn, and two ids that the tokenizer does not have.
constexpr int32_t kPieces = 256, kCall = 259, kEnd = 260;
constexpr int64_t kWide = 263;

class ByteTokenizer final : public text::Tokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, bool) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return ids;
  }
  std::string Decode(std::span<const int32_t> ids, bool) const override {
    static const std::vector<std::string> extra = {"\": \"", "},", "\xA9\"", "<call>", "<end>"};
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0 && id < 256) text += static_cast<char>(id);
      if (id >= 256 && id <= kEnd) text += extra[id - 256];
    }
    return text;
  }
  std::optional<int32_t> SpecialId(std::string_view text) const override {
    if (text == "<call>") return kCall;
    if (text == "<end>") return kEnd;
    return std::nullopt;
  }
  bool IsSpecial(int32_t id) const override { return id == kEnd; }
  int32_t vocab_size() const override { return kEnd + 1; }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  const std::string fingerprint_ = "bytes";
};

struct GrammarRig {
  explicit GrammarRig(int64_t kv_tokens = 8000, std::shared_ptr<const text::Tokenizer> tokenizer = nullptr) {
    EngineOptions options;
    options.kv_block_tokens = 4;
    options.kv_cache_tokens = kv_tokens;
    options.max_running = 8;
    options.max_batch_tokens = 64;
    options.context_length = 700;
    auto runner = std::make_unique<FakeRunner>(kWide, 8192, kv_tokens, 4);
    runner->eos = {kEnd};
    Engine::Parts parts;
    parts.runner = std::move(runner);
    parts.tokenizer = tokenizer != nullptr ? std::move(tokenizer) : std::make_shared<ByteTokenizer>();
    engine = *Engine::Create(options, std::move(parts), FakeSnapshot(1, 1001));
  }
  std::unique_ptr<Engine> engine;
};

v1::GenerateRequest Ask(uint64_t seed, int32_t max_new = 600) {
  v1::GenerateRequest request;
  request.mutable_prompt_ids()->Add(static_cast<int32_t>(seed % 200));
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(seed);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.set_pinned_version(-1);
  return request;
}

v1::GenerateRequest AskSchema(const std::string& schema, uint64_t seed, int32_t max_new = 600) {
  v1::GenerateRequest request = Ask(seed, max_new);
  request.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_json_schema(schema);
  return request;
}

std::string TextOf(const Collect& result) {
  std::vector<int32_t> ids = result.ids;
  if (!ids.empty() && ids.back() == kEnd) ids.pop_back();
  return ByteTokenizer().Decode(ids, false);
}

std::unique_ptr<Collect> Answer(GrammarRig& rig, const v1::GenerateRequest& ask) {
  auto result = std::make_unique<Collect>();
  auto request = rig.engine->Generate(ask, result->OnChunk());
  EXPECT_EQ(result->Wait(), absl::OkStatus());
  return result;
}

absl::Status FaultOf(GrammarRig& rig, const v1::GenerateRequest& ask) {
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  return result.Wait();
}

constexpr const char* kSchema =
    R"({"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":99999},
        "name":{"type":"string","maxLength":12},"kind":{"enum":["caf\u00e9","tea"]},
        "tags":{"type":"array","items":{"type":"boolean"},"maxItems":3}},"required":["id","name","kind"]})";

TEST(EngineGrammarTest, ABiasThatExcludesAllThatTheGrammarAllowsEndsThatRequestAlone) {
  GrammarRig rig;
  v1::GenerateRequest ask = AskSchema(R"({"enum":["tea"]})", 1);
  ask.mutable_sampling()->set_frequency_penalty(1);
  EXPECT_EQ(TextOf(*Answer(rig, ask)), R"("tea")");
  (*ask.mutable_sampling()->mutable_logit_bias())['e'] = -100;
  Collect other;
  auto request = rig.engine->Generate(Ask(2, 20), other.OnChunk());
  const absl::Status excluded = FaultOf(rig, ask);
  EXPECT_EQ(excluded.code(), absl::StatusCode::kFailedPrecondition) << excluded;
  EXPECT_THAT(std::string(excluded.message()), HasSubstr("logit_bias"));
  EXPECT_EQ(other.Wait(), absl::OkStatus());
}

TEST(EngineGrammarTest, TextsMatchAllOfTheirExpression) {
  GrammarRig rig;
  const char* const expressions[] = {"(yes|no)[0-9]{2}", "[a-c]*", "caf\u00e9|x?", "a|b$"};
  std::set<std::string> seen;
  for (const std::string expression : expressions) {
    const std::string bytes = expression == "caf\\u00e9|x?" ? "caf\xC3\xA9|x?" : expression;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      v1::GenerateRequest ask = Ask(seed);
      ask.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex(expression);
      const auto result = Answer(rig, ask);
      ASSERT_EQ(result->last.finish(), v1::FINISH_STOP) << TextOf(*result);
      EXPECT_TRUE(std::regex_match(TextOf(*result), std::regex(bytes))) << TextOf(*result) << " of " << expression;
      seen.insert(TextOf(*result));
    }
  }
  EXPECT_TRUE(seen.contains("") && seen.contains("caf\xC3\xA9")) << "an expression may match nothing";
  for (const char* bad : {"a)|(b", "(?=a)b", "[^\\s\\S]"}) {
    v1::GenerateRequest ask = Ask(1);
    ask.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex(bad);
    const absl::Status fault = FaultOf(rig, ask);
    EXPECT_EQ(fault.code(), absl::StatusCode::kInvalidArgument) << bad;
    ASSERT_TRUE(base::FaultOf(fault).has_value()) << fault;
    EXPECT_EQ(base::FaultOf(fault)->field, "grammar.alternatives[0].parts[0].regex");
  }
}

// The model is all but sure to end at once, or to repeat the stop string.
TEST(EngineGrammarTest, NothingEndsACallBeforeItsLeastLength) {
  GrammarRig rig;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    v1::GenerateRequest ask = Ask(seed, 60);
    (*ask.mutable_sampling()->mutable_logit_bias())[kEnd] = 20;
    EXPECT_EQ(Answer(rig, ask)->ids.size(), 1u);
    ask.mutable_sampling()->set_min_new_tokens(10);
    const auto ended = Answer(rig, ask);
    EXPECT_EQ(ended->ids.size(), 11u);
    EXPECT_EQ(std::count(ended->ids.begin(), ended->ids.end(), kEnd), 1);
    EXPECT_TRUE(ended->last.bias_acted());
    EXPECT_EQ(ended->last.finish(), v1::FINISH_STOP);
    ask = Ask(seed, 60);
    (*ask.mutable_sampling()->mutable_logit_bias())['a'] = 20;
    ask.mutable_sampling()->add_stop("aaa");
    EXPECT_EQ(Answer(rig, ask)->ids.size(), 3u);
    ask.mutable_sampling()->set_min_new_tokens(10);
    const auto stopped = Answer(rig, ask);
    EXPECT_EQ(stopped->ids.size(), 13u) << "the stop string stands behind the least length";
    EXPECT_EQ(stopped->last.stop_string(), "aaa");
  }
}

TEST(EngineGrammarTest, TextsAreWholeAndEndWithTheTurn) {
  GrammarRig rig;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto result = Answer(rig, AskSchema(kSchema, seed));
    ASSERT_EQ(result->last.finish(), v1::FINISH_STOP) << TextOf(*result);
    EXPECT_EQ(result->ids.back(), kEnd);
    EXPECT_TRUE(result->last.grammar_acted());
    const auto value = base::ParseJson(TextOf(*result));
    ASSERT_TRUE(value.ok()) << TextOf(*result);
    EXPECT_TRUE(value->at("id").is_int64());
    EXPECT_TRUE(value->at("kind") == "tea" || value->at("kind") == "caf\xC3\xA9");
  }
}

TEST(EngineGrammarTest, GreedyTextsAreWholeToo) {
  GrammarRig rig;
  v1::GenerateRequest ask = AskSchema(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})", 3);
  ask.mutable_sampling()->set_temperature(0);
  const auto result = Answer(rig, ask);
  EXPECT_TRUE(std::regex_match(TextOf(*result), std::regex("\\{\\s*\"a\":\\s*-?\\d+\\s*\\}"))) << TextOf(*result);
}

// The recorded log-prob is the policy's over the whole vocabulary, not the masked draw's.
TEST(EngineGrammarTest, LogprobsAreThePolicys) {
  GrammarRig rig;
  v1::GenerateRequest ask = AskSchema(kSchema, 5);
  ask.mutable_sampling()->set_repetition_penalty(1.1f);
  (*ask.mutable_sampling()->mutable_logit_bias())['t'] = 3;
  ask.set_top_logprobs(4);
  const auto result = Answer(rig, ask);
  std::vector<int32_t> tokens = {ask.prompt_ids(0)};
  for (size_t n = 0; n < result->ids.size(); ++n) {
    std::vector<uint64_t> entries;
    for (size_t i = 0; i < tokens.size(); ++i) {
      entries.push_back(FakeRunner::Entry(1001, tokens[i], static_cast<int64_t>(i)));
    }
    const std::vector<float> row = FakeRunner::Row(entries, 1001, kWide, 1);
    ASSERT_EQ(result->logprobs[n], row[result->ids[n]]);
    ASSERT_EQ(result->top[n].SerializeAsString(), TopOf(row, 4).SerializeAsString());
    tokens.push_back(result->ids[n]);
  }
}

TEST(EngineGrammarTest, ManyTogetherDrawWhatTheyDrawAlone) {
  std::vector<v1::GenerateRequest> asks;
  for (uint64_t seed = 0; seed < 18; ++seed) {
    asks.push_back(seed % 3 == 2 ? Ask(seed, 40)
                                 : AskSchema(seed % 3 == 0 ? kSchema : R"({"type":"array"})", seed, 80));
  }
  std::vector<std::vector<int32_t>> alone;
  GrammarRig single;
  for (const v1::GenerateRequest& ask : asks) alone.push_back(Answer(single, ask)->ids);
  GrammarRig crowded(/*kv_tokens=*/300);  // preempts
  std::deque<Collect> results(asks.size());
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (size_t i = 0; i < asks.size(); ++i) requests.push_back(crowded.engine->Generate(asks[i], results[i].OnChunk()));
  for (size_t i = 0; i < asks.size(); ++i) {
    ASSERT_EQ(results[i].Wait(), absl::OkStatus());
    EXPECT_EQ(results[i].ids, alone[i]) << "request " << i;
  }
}

TEST(EngineGrammarTest, AToolCallOfLiteralsAndArgumentsAfterFreeText) {
  GrammarRig rig;
  v1::GenerateRequest ask = Ask(11);
  v1::Grammar& grammar = *ask.mutable_sampling()->mutable_grammar();
  grammar.set_begins_after("\": \"");  // any text with this piece in it
  for (const char* name : {"read", "write"}) {
    v1::GrammarSequence& sequence = *grammar.add_alternatives();
    sequence.add_parts()->set_literal(absl::StrCat("<call>{\"name\": \"", name, "\", \"arguments\": "));
    sequence.add_parts()->set_json_schema(
        R"({"type":"object","properties":{"n":{"type":"integer","maximum":9,"minimum":0}},
                                             "required":["n"]})");
    sequence.add_parts()->set_literal("}");
  }
  (*ask.mutable_sampling()->mutable_logit_bias())[kPieces] = 6;
  const auto result = Answer(rig, ask);
  const std::string text = TextOf(*result);
  const size_t after = text.find("\": \"");
  ASSERT_NE(after, std::string::npos) << text;
  EXPECT_EQ(result->last.finish(), v1::FINISH_STOP);
  EXPECT_EQ(std::count(result->ids.begin(), result->ids.end(), kEnd), 1) << "not before the text is complete";
  const std::regex call("<call>\\{\"name\": \"(read|write)\", \"arguments\": \\{\\s*\"n\":\\s*\\d\\s*\\}\\}");
  EXPECT_TRUE(std::regex_match(text.substr(after + 4), call)) << text;
  EXPECT_GE(std::count(result->ids.begin(), result->ids.end(), kCall), 1) << "taken whole";
}

TEST(EngineGrammarTest, IdsOutsideTheTokenizerAreNeverDrawn) {
  GrammarRig rig;
  v1::GenerateRequest ask = AskSchema(R"({"type":"string","minLength":200,"maxLength":200})", 2);
  for (const int32_t id : {261, 262}) (*ask.mutable_sampling()->mutable_logit_bias())[id] = 100;
  const auto result = Answer(rig, ask);
  EXPECT_EQ(result->last.finish(), v1::FINISH_STOP);
  for (const int32_t id : result->ids) EXPECT_LE(id, kEnd);
}

TEST(EngineGrammarTest, LimitsEndAConstrainedRequest) {
  GrammarRig rig;
  const auto result = Answer(rig, AskSchema(R"({"type":"string","minLength":500})", 2, 20));
  EXPECT_EQ(result->last.finish(), v1::FINISH_LENGTH);
  EXPECT_EQ(result->ids.size(), 20u);
}

TEST(EngineGrammarTest, AStopIdThatIsAnOrdinaryTokenEndsOnlyWholeTexts) {
  GrammarRig rig;
  v1::GenerateRequest ask =
      AskSchema(R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"minItems":3})", 8);
  ask.mutable_sampling()->add_stop_token_ids('1');
  const auto result = Answer(rig, ask);
  EXPECT_EQ(result->last.finish(), v1::FINISH_STOP);
  std::string text = TextOf(*result);
  if (result->ids.back() == '1') text.pop_back();
  EXPECT_EQ(text.find('1'), std::string::npos);
  EXPECT_TRUE(base::ParseJson(text).ok()) << text;
}

TEST(EngineGrammarTest, AGrammarThatTheVocabularyCannotSpellFailsItsRequestAlone) {
  GrammarRig rig(8000, std::make_shared<PieceTokenizer>(std::vector<std::string>{"a", "b", "\""}));
  Collect stuck, free;
  auto first = rig.engine->Generate(AskSchema(R"({"const":"ax"})", 1), stuck.OnChunk());
  auto second = rig.engine->Generate(Ask(2, 10), free.OnChunk());
  EXPECT_EQ(stuck.Wait().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stuck.Wait().message()), HasSubstr("allows no token"));
  EXPECT_EQ(free.Wait(), absl::OkStatus());
}

TEST(EngineGrammarTest, FaultsAreNamedBeforeTheRequestIsQueued) {
  GrammarRig rig;
  std::string at;  // the fault's subject
  const auto fault = [&](const v1::GenerateRequest& ask) {
    const absl::Status status = FaultOf(rig, ask);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    at = base::FaultOf(status).value_or(base::Fault()).field;
    return std::string(status.message());
  };
  EXPECT_THAT(fault(AskSchema(R"({"not":{}})", 1)), HasSubstr("keyword 'not'"));
  EXPECT_EQ(at, "grammar.alternatives[0].parts[0]");
  EXPECT_THAT(fault(AskSchema("false", 1)), HasSubstr("no string"));
  EXPECT_EQ(at, "sampling.grammar");
  EXPECT_THAT(fault(AskSchema("{", 1)), HasSubstr("json_schema"));
  v1::GenerateRequest ask = Ask(1);
  ask.mutable_sampling()->mutable_grammar();
  EXPECT_THAT(fault(ask), HasSubstr("alternatives"));
  ask.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts();
  EXPECT_THAT(fault(ask), HasSubstr("literal, json_schema"));
  ask = AskSchema("true", 1);
  ask.mutable_sampling()->set_ignore_eos(true);
  EXPECT_THAT(fault(ask), HasSubstr("ends the turn"));
}

TEST(EngineGrammarTest, ForcedIdsIgnoreTheGrammar) {
  GrammarRig rig;
  v1::GenerateRequest ask = AskSchema("true", 1);
  for (const char c : std::string("not json")) ask.add_forced_ids(c);
  const auto result = Answer(rig, ask);
  EXPECT_EQ(TextOf(*result), "not json");
  EXPECT_FALSE(result->last.grammar_acted());
}

}  // namespace
}  // namespace ingot::rollout::engine_grammar_test
