// Which weights a model's name stands for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "gateway/api/api_error.h"
#include "gateway/fakes.h"

namespace ingot::gateway::model_test {
namespace {

using base::json::array;
using base::json::object;

Script Say(std::string text) {
  Script script;
  script.text = std::move(text);
  return script;
}

// "policy" follows, "frozen" is pinned to version 2, "judge" lives elsewhere.
struct Models {
  Models() : world([](const auto&) { return Say("ours"); }) {
    world.options.model_name = "policy";
    world.options.models = {{.name = "frozen", .weights = ModelWeights::kPinned, .version = 2, .address = ""},
                            {.name = "judge", .weights = ModelWeights::kExternal, .version = 0, .address = "far:1"}};
    world.external["judge"] = elsewhere;
    elsewhere->context_length = 60;
  }
  World::Outcome Ask(const std::string& key, const std::string& model, array messages) {
    object body = Body(std::move(messages));
    body["model"] = model;
    return world.Chat(key, body);
  }
  std::shared_ptr<ScriptedEngine> elsewhere =
      std::make_shared<ScriptedEngine>([](const auto&) { return Say("theirs"); });
  World world;
};

TEST(Models, SampleWhereTheirWeightsAre) {
  Models models;
  const auto episode = models.world.Open();
  const array hello = {Msg("user", "hi")};
  EXPECT_EQ(models.Ask(episode.api_key(), "policy", hello).message().at("content").as_string(), "ours");
  EXPECT_EQ(models.Ask(episode.api_key(), "frozen", hello).message().at("content").as_string(), "ours");
  EXPECT_EQ(models.Ask(episode.api_key(), "judge", hello).message().at("content").as_string(), "theirs");
  EXPECT_EQ(models.Ask(episode.api_key(), "gpt-5", hello).message().at("content").as_string(), "ours");
  const auto calls = models.world.pool.calls();
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].weights(), v1::WEIGHTS_FOLLOW);
  EXPECT_EQ(calls[1].weights(), v1::WEIGHTS_PINNED);
  EXPECT_EQ(calls[2].weights(), v1::WEIGHTS_EXTERNAL);
  EXPECT_EQ(calls[3].weights(), v1::WEIGHTS_FOLLOW);
  EXPECT_EQ(calls[3].model(), "gpt-5");
  const auto ours = models.world.engine->requests(), theirs = models.elsewhere->requests();
  ASSERT_EQ(ours.size(), 3u);
  ASSERT_EQ(theirs.size(), 1u);
  EXPECT_EQ(ours[0].pinned_version(), -1);
  EXPECT_EQ(ours[1].pinned_version(), 2);
  EXPECT_EQ(theirs[0].pinned_version(), -1);
  EXPECT_EQ(theirs[0].min_version(), 0) << "an external server counts versions of its own";
}

// In `ingot serve`, another model must not answer a request with a mistyped name.
TEST(Models, OfUnknownNamesAreRejectedInTheWordsOfTheDialect) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  Models models;
  models.world.with_admission = false;
  models.world.options.any_model_name = false;
  const std::pair<const char*, const char*> bodies[] = {
      {"chat.completions", R"({"model":"Frozen","messages":[{"role":"user","content":"hi"}]})"},
      {"completions", R"({"model":"Frozen","prompt":"hi"})"},
      {"responses", R"({"model":"Frozen","input":"hi"})"},
      {"messages", R"({"model":"Frozen","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})"},
      {"messages.count_tokens", R"({"model":"Frozen","messages":[{"role":"user","content":"hi"}]})"},
      {"google.generateContent", R"({"model":"models/Frozen","contents":[{"parts":[{"text":"hi"}]}]})"}};
  for (const auto& [dialect, body] : bodies) {
    const auto rejected = models.world.Ask(dialect, "none", body);
    EXPECT_EQ(HttpStatusOf(rejected.status), 404) << dialect;
    EXPECT_THAT(std::string(rejected.status.message()),
                AllOf(HasSubstr("'Frozen'"), HasSubstr("policy, frozen, judge")));
    const Dialect::Error error = FindDialect(dialect)->ErrorOf(rejected.status);
    EXPECT_EQ(error.http, 404);
    const bool google = std::string_view(dialect).starts_with("google"),
               anthropic = std::string_view(dialect).starts_with("messages");
    EXPECT_THAT(error.body, HasSubstr(google ? "NOT_FOUND" : anthropic ? "not_found_error" : "model_not_found"));
  }
  EXPECT_EQ(models.world.gateway().Status().open_episodes(), 0);
  for (const char* name : {"policy", "frozen", "judge", ""}) {
    EXPECT_TRUE(models.Ask("none", name, {Msg("user", "hi")}).status.ok()) << name;
  }
}

TEST(Models, ContinueEachOthersTurns) {
  Models models;
  const auto episode = models.world.Open();
  array messages = {Msg("user", "hi")};
  messages.push_back(models.Ask(episode.api_key(), "judge", messages).message());
  messages.push_back(Msg("user", "and you?"));
  ASSERT_TRUE(models.Ask(episode.api_key(), "policy", messages).status.ok());
  const auto calls = models.world.pool.calls();
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].weights(), v1::WEIGHTS_FOLLOW);
}

TEST(Models, HaveContextsOfTheirOwn) {
  Models models;
  const auto episode = models.world.Open();
  const array longer = {Msg("user", std::string(80, 'x'))};
  EXPECT_TRUE(models.Ask(episode.api_key(), "policy", longer).status.ok());
  const absl::Status rejected = models.Ask(episode.api_key(), "judge", longer).status;
  EXPECT_EQ(ErrorCodeOf(rejected), kContextLengthExceeded);
  ASSERT_TRUE(models.Ask(episode.api_key(), "judge", {Msg("user", "x")}).status.ok());
  const v1::GenerateRequest request = models.elsewhere->requests().at(0);
  EXPECT_EQ(request.prompt_ids_size() + request.sampling().max_new_tokens(), 60);
}

// Knows how much text it encoded.
class WatchedTokenizer final : public text::Tokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, bool allow_special) const override {
    encoded += text.size();
    return bytes_->Encode(text, allow_special);
  }
  size_t LeastIds(std::string_view text) const override { return bytes_->LeastIds(text); }
  std::string Decode(std::span<const int32_t> ids, bool skip) const override { return bytes_->Decode(ids, skip); }
  std::optional<int32_t> SpecialId(std::string_view text) const override { return bytes_->SpecialId(text); }
  bool IsSpecial(int32_t id) const override { return bytes_->IsSpecial(id); }
  int32_t vocab_size() const override { return bytes_->vocab_size(); }
  const std::string& fingerprint() const override { return bytes_->fingerprint(); }

  mutable std::atomic<size_t> encoded{0};

 private:
  const std::shared_ptr<const text::Tokenizer> bytes_ = TestTokenizer();
};

// In every dialect, for a first request, a continued one and a prompt without a conversation.
TEST(Models, ATextThatSurelyExceedsTheContextIsRejectedBeforeItIsEncoded) {
  const auto tokenizer = std::make_shared<const WatchedTokenizer>();
  World world([](const auto&) { return Say("ok"); });
  world.with_admission = world.with_pool = false;
  world.engine->tokenizer = tokenizer;
  world.engine->context_length = 300;
  world.format = *text::MakeChatFormat("hermes", tokenizer);
  const std::string huge(1000000, 'x');
  const auto rejected = [&](const std::string& dialect, object body) {
    body["max_tokens"] = 8;
    tokenizer->encoded = 0;
    const absl::Status status = world.Ask(dialect, "key", base::PrintJson(body)).status;
    EXPECT_EQ(HttpStatusOf(status), 400) << dialect << ": " << status;
    EXPECT_EQ(ErrorCodeOf(status), kContextLengthExceeded) << dialect << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                testing::ContainsRegex("^[0-9]+ tokens > 300 maximum: .* at least [0-9]+"));
    EXPECT_LT(tokenizer->encoded.load(), 1000u) << dialect;
  };
  const object long_message = Msg("user", huge);
  rejected("messages.count_tokens", {{"messages", array{long_message}}});
  rejected("responses.input_tokens", {{"input", huge}});
  rejected("google.countTokens", {{"contents", array{object{{"parts", array{object{{"text", huge}}}}}}}});
  for (const char* dialect : {"chat.completions", "messages"}) {
    rejected(dialect, {{"messages", array{long_message}}});
    const array answered = {Msg("user", "hi"), Msg("assistant", "ok"), long_message};
    EXPECT_TRUE(
        world.Ask(dialect, "key", base::PrintJson(object{{"max_tokens", 8}, {"messages", array{Msg("user", "hi")}}}))
            .status.ok());
    rejected(dialect, {{"messages", answered}});
  }
  rejected("messages", {{"system", huge}, {"messages", array{Msg("user", "hi")}}});
  rejected("responses", {{"input", huge}});
  rejected("responses", {{"input", array{long_message}}, {"instructions", "Be brief."}});
  rejected("completions", {{"prompt", huge}});
  rejected("completions", {{"prompt", array{"short", base::json::string(huge)}}});
  object tools = {{"messages", array{Msg("user", "hi")}}, {"tools", CalculatorTools()}};
  tools["tools"].as_array()[0].at("function").as_object()["description"] = huge;
  rejected("chat.completions", tools);
}

TEST(Models, PinnedOnesStayInAnEvaluation) {
  Models models;
  models.world.admission.purpose = v1::PURPOSE_EVAL;  // of version 5
  const auto episode = models.world.Open();
  ASSERT_TRUE(models.Ask(episode.api_key(), "policy", {Msg("user", "hi")}).status.ok());
  ASSERT_TRUE(models.Ask(episode.api_key(), "frozen", {Msg("user", "hi")}).status.ok());
  ASSERT_TRUE(models.Ask(episode.api_key(), "judge", {Msg("user", "hi")}).status.ok());
  EXPECT_EQ(models.world.engine->requests()[0].pinned_version(), 5);
  EXPECT_EQ(models.world.engine->requests()[1].pinned_version(), 2);
  EXPECT_EQ(models.elsewhere->requests()[0].pinned_version(), -1);
  EXPECT_EQ(models.world.pool.calls()[0].weights(), v1::WEIGHTS_PINNED);
  EXPECT_EQ(models.world.pool.calls()[2].weights(), v1::WEIGHTS_EXTERNAL);
}

ModelOptions Model(const std::string& name, ModelWeights weights = ModelWeights::kFollow, int64_t version = 0,
                   const std::string& address = "") {
  return {.name = name, .weights = weights, .version = version, .address = address};
}

TEST(Models, AreCheckedWhenTheyAreConfigured) {
  const auto fault = [](std::vector<ModelOptions> models) {
    GatewayOptions options;
    options.models = std::move(models);
    return std::string(options.Validate().message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(fault({Model("")}), HasSubstr("models[0]"));
  EXPECT_THAT(fault({Model("ingot")}), HasSubstr("another model"));
  EXPECT_THAT(fault({Model("a"), Model("a")}), HasSubstr("models[1] ('a')"));
  EXPECT_THAT(fault({Model("a", ModelWeights::kExternal)}), HasSubstr("address"));
  EXPECT_THAT(fault({Model("a", ModelWeights::kFollow, 0, "x:1")}), HasSubstr("address"));
  EXPECT_THAT(fault({Model("a", ModelWeights::kPinned, -1)}), HasSubstr("version"));
  EXPECT_EQ(fault({Model("a"), Model("b", ModelWeights::kPinned)}), "");

  GatewayOptions options;
  options.models = {{.name = "judge", .weights = ModelWeights::kExternal, .version = 0, .address = "far:1"}};
  Models models;
  const absl::Status lonely =
      Gateway::Create(options, {.engine = models.world.engine, .tokenizer = TestTokenizer(), .format = TestFormat()})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(lonely));
  EXPECT_THAT(std::string(lonely.message()), HasSubstr("judge"));
  EXPECT_TRUE(PinsVersion(models.world.options, 2));
  EXPECT_FALSE(PinsVersion(models.world.options, 0));
}

}  // namespace
}  // namespace ingot::gateway::model_test
