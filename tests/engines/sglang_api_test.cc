// SGLang's words: requests, events, settings, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/json.h"
#include "engines/api/engine_api.h"

namespace ingot::engines::sglang_api_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ServedModel kModel{.vocab_size = 100, .context_length = 50, .eos_ids = {7, 8}};

v1::GenerateRequest Ask(int prompt = 3) {
  v1::GenerateRequest request;
  for (int id = 1; id <= prompt; ++id) request.add_prompt_ids(id);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_max_new_tokens(200);
  return request;
}

value BodyOf(const v1::GenerateRequest& request, const GenerateContext& context) {
  return *base::ParseJson(NewSglangApi()->Generate(request, context)->body);
}

TEST(SglangApi, WritesARequest) {
  v1::GenerateRequest request = Ask();
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_top_p(0.5F);
  sampling.set_top_k(5);
  sampling.set_min_p(0.25F);
  sampling.add_stop_token_ids(9);
  sampling.add_stop("never sent");
  sampling.set_seed((uint64_t{1} << 63) + 11);
  request.set_top_logprobs(3);
  const value body = BodyOf(request, {.model = kModel, .salt = "v", .seeds = true, .adapter = "a"});
  EXPECT_EQ(body.at("input_ids"), (array{1, 2, 3}));
  EXPECT_EQ(body.at("extra_key"), "v");
  EXPECT_EQ(body.at("lora_path"), "a");
  EXPECT_EQ(body.at("stream"), true);
  EXPECT_EQ(body.at("return_logprob"), true);
  EXPECT_EQ(body.at("top_logprobs_num"), 3);
  EXPECT_FALSE(body.as_object().contains("logprob_start_len"));
  const object& params = body.at("sampling_params").as_object();
  EXPECT_EQ(params.at("max_new_tokens"), 45);  // the context's rest, without two
  EXPECT_EQ(params.at("stop_token_ids"), (array{9, 7, 8}));
  EXPECT_EQ(params.at("ignore_eos"), true);
  EXPECT_EQ(params.at("sampling_seed"), 11);
  EXPECT_EQ(params.at("top_k"), 5);
  EXPECT_FALSE(params.contains("stop"));
}

TEST(SglangApi, LeavesOutWhatIsOff) {
  v1::GenerateRequest request = Ask();
  request.mutable_sampling()->set_ignore_eos(true);
  const value body = BodyOf(request, {.model = kModel});
  for (const char* absent : {"extra_key", "lora_path", "top_logprobs_num"}) {
    EXPECT_FALSE(body.as_object().contains(absent)) << absent;
  }
  const object& params = body.at("sampling_params").as_object();
  EXPECT_EQ(params.at("stop_token_ids"), array());
  for (const char* absent : {"sampling_seed", "top_p", "top_k", "min_p", "logit_bias", "min_new_tokens",
                             "structural_tag", "frequency_penalty"}) {
    EXPECT_FALSE(params.contains(absent)) << absent;
  }
}

// The server's log-probs are from after these, so the answer is scored by a second request, which needs room.
TEST(SglangApi, ScoresAnswersWhoseLogitsAreChanged) {
  const auto api = NewSglangApi();
  v1::GenerateRequest penalty = Ask(), bias = Ask(), least = Ask(), grammar = Ask(), truncated = Ask();
  penalty.mutable_sampling()->set_presence_penalty(1);
  (*bias.mutable_sampling()->mutable_logit_bias())[4] = -1;
  least.mutable_sampling()->set_min_new_tokens(2);
  grammar.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex("[ab]");
  truncated.mutable_sampling()->set_top_p(0.5F);
  for (v1::GenerateRequest& request : std::vector<v1::GenerateRequest>{penalty, bias, least, grammar}) {
    EXPECT_TRUE(api->NeedsScoring(request.sampling()));
    EXPECT_EQ(BodyOf(request, {.model = kModel}).at("sampling_params").at("max_new_tokens"), 40);
    request.mutable_sampling()->set_temperature(0.7F);
    EXPECT_TRUE(absl::IsInvalidArgument(
        api->Generate(request, {.model = kModel, .logprobs = LogprobKind::kProcessed}).status()));
  }
  EXPECT_FALSE(api->NeedsScoring(truncated.sampling()));
  const value params = BodyOf(grammar, {.model = kModel}).at("sampling_params");
  EXPECT_EQ(params.at("ignore_eos"), false);
  EXPECT_EQ(base::ParseJson(std::string(params.at("structural_tag").as_string()))->at("type"), "structural_tag");
  EXPECT_EQ(BodyOf(bias, {.model = kModel}).at("sampling_params").at("logit_bias").at("4").to_number<double>(), -1);
}

TEST(SglangApi, RefusesRequestsWhoseLogprobsItWouldNotRecord) {
  const auto ok = [](const v1::GenerateRequest& request, LogprobKind kind) {
    const absl::Status status = NewSglangApi()->Generate(request, {.model = kModel, .logprobs = kind}).status();
    EXPECT_EQ(base::FaultOf(status).has_value(), !status.ok());
    return status.ok();
  };
  v1::GenerateRequest hot = Ask(), greedy = Ask(), scores = Ask(), forced = Ask();
  hot.mutable_sampling()->set_temperature(0.7F);
  greedy.mutable_sampling()->set_temperature(0);
  scores.mutable_sampling()->set_temperature(0.7F);
  scores.set_score_ids(1);
  forced.add_forced_ids(1);
  for (const LogprobKind kind : {LogprobKind::kRaw, LogprobKind::kProcessed}) {
    EXPECT_TRUE(ok(Ask(), kind));
    EXPECT_TRUE(ok(greedy, kind));
    EXPECT_FALSE(ok(scores, kind));
    EXPECT_FALSE(ok(forced, kind));
    EXPECT_EQ(ok(hot, kind), kind == LogprobKind::kProcessed);
  }
  EXPECT_TRUE(ok(Ask(43), LogprobKind::kRaw));
  EXPECT_FALSE(ok(Ask(44), LogprobKind::kRaw));  // the server takes prompts of fewer than 44 ids
}

TEST(SglangApi, ReadsEvents) {
  const auto api = NewSglangApi();
  EXPECT_FALSE((*api->ReadEvent("[DONE]")).has_value());
  const auto event = *api->ReadEvent(
      R"({"text":"x","output_ids":[5],"meta_info":{"id":"a","finish_reason":{"type":"length","length":4},
          "completion_tokens":4,"output_token_logprobs":[[-2.5,5,null]],"output_top_logprobs":[[[-1,6,null],[-2.5,5,null]]],
          "weight_versions":[{"version":"1-ab","start":0,"end":4}]}})");
  EXPECT_EQ(event->request_id, "a");
  EXPECT_THAT(event->ids, ElementsAre(5));
  EXPECT_THAT(event->logprobs, ElementsAre(-2.5F));
  EXPECT_EQ(event->top_logprobs[0].entries(0).token_id(), 6);
  EXPECT_EQ(event->finish, ServerFinish::kLength);
  EXPECT_EQ(event->total, 4);
  ASSERT_EQ(event->spans.size(), 1u);
  EXPECT_EQ(event->spans[0].label, "1-ab");
}

// The event of an abort repeats the last id.
TEST(SglangApi, TakesNoIdsFromAnAbort) {
  const auto event = *NewSglangApi()->ReadEvent(
      R"({"output_ids":[5],"meta_info":{"finish_reason":{"type":"abort","message":"m"},"completion_tokens":4,
          "output_token_logprobs":[[-1,4,null],[-2.5,5,null]],"weight_versions":[{"version":"1","start":0,"end":4}]}})");
  EXPECT_EQ(event->finish, ServerFinish::kAborted);
  EXPECT_TRUE(event->ids.empty());
  EXPECT_EQ(event->total, 0);
  EXPECT_EQ(event->spans.size(), 1u);
}

TEST(SglangApi, RejectsBrokenEvents) {
  const auto api = NewSglangApi();
  for (const char* data : {"", "{", "[]", "1", R"({"meta_info":1})", R"({"output_ids":[1],"meta_info":{}})",
                           R"({"output_ids":[1.5],"meta_info":{"output_token_logprobs":[[-1,1,null]]}})",
                           R"({"output_ids":[-1],"meta_info":{"output_token_logprobs":[[-1,-1,null]]}})",
                           R"({"output_ids":[1],"meta_info":{"output_token_logprobs":[[-1,2,null]]}})",
                           R"({"output_ids":[1],"meta_info":{"output_token_logprobs":[[null,1,null]]}})",
                           R"({"output_ids":[1],"meta_info":{"output_token_logprobs":[[-1]]}})",
                           R"({"output_ids":[1],"meta_info":{"output_token_logprobs":[5]}})",
                           R"({"output_ids":[1,2],"meta_info":{"output_token_logprobs":[[-1,1,null]]}})",
                           R"({"output_ids":[],"meta_info":{"weight_versions":[{"version":1,"start":0,"end":1}]}})"}) {
    EXPECT_TRUE(absl::IsDataLoss(api->ReadEvent(data).status())) << data;
  }
  EXPECT_TRUE(absl::IsUnavailable(api->ReadEvent(R"({"error":{"message":"dead","code":4294967496}})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(api->ReadEvent(R"({"error":{"message":"too long","code":400}})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      api->ReadEvent(
             R"({"output_ids":[],"meta_info":{"finish_reason":{"type":"abort","message":"m","status_code":400}}})")
          .status()));
}

TEST(SglangApi, ReadsScores) {
  const auto api = NewSglangApi();
  v1::GenerateRequest request = Ask(4);
  request.set_score_ids(2);
  const value body = BodyOf(request, {.model = kModel});
  EXPECT_EQ(body.at("logprob_start_len"), 1);
  EXPECT_EQ(body.at("stream"), false);
  // It writes 0 for the last id of the vocabulary.
  const auto scores = [](const char* input) {
    return std::string(R"({"output_ids":[9],"meta_info":{"finish_reason":{"type":"length"},"completion_tokens":1,
        "output_token_logprobs":[[-3,9,null]],"weight_versions":[{"version":"v","start":0,"end":1}],
        "input_token_logprobs":)") +
           input + "}}";
  };
  const auto read = *api->ReadScores(request, scores("[[null,2,null],[-1,3,null],[-2,0,null]]"));
  EXPECT_THAT(read.ids, ElementsAre(3, 4));
  EXPECT_THAT(read.logprobs, ElementsAre(-1, -2));
  ASSERT_EQ(read.spans.size(), 1u);
  EXPECT_EQ(read.spans[0].end, 2);
  for (const char* bad : {"[]", "[[null,2,null],[-1,3,null]]", "[[null,2,null],[-1,3,null],[null,4,null]]",
                          "[[null,2,null],[-1,4,null],[-2,4,null]]"}) {
    EXPECT_TRUE(absl::IsDataLoss(api->ReadScores(request, scores(bad)).status())) << bad;
  }
}

TEST(SglangApi, NamesTheFlagThatAServerLacks) {
  const auto api = NewSglangApi();
  const auto info = [](bool incremental, bool no_overlap) {
    return base::PrintJson(object{{"incremental_streaming_output", incremental},
                                  {"disable_overlap_schedule", no_overlap},
                                  {"max_req_input_len", 44}});
  };
  EXPECT_EQ(*api->ReadContextLength(info(true, true), SwapMode::kKeep), 50);
  EXPECT_EQ(*api->ReadContextLength(info(true, false), SwapMode::kRecompute), 50);
  EXPECT_THAT(std::string(api->ReadContextLength(info(true, false), SwapMode::kKeep).status().message()),
              HasSubstr("--disable-overlap-schedule"));
  EXPECT_THAT(std::string(api->ReadContextLength(info(false, true), SwapMode::kKeep).status().message()),
              HasSubstr("--incremental-streaming-output"));
  EXPECT_TRUE(absl::IsDataLoss(api->ReadContextLength("[]", SwapMode::kKeep).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(api->StatusOf(404, "")));
  EXPECT_TRUE(absl::IsFailedPrecondition(api->StatusOf(401, "")));
  EXPECT_TRUE(absl::IsUnavailable(api->StatusOf(503, "")));
  EXPECT_TRUE(absl::IsResourceExhausted(api->StatusOf(429, "")));
  EXPECT_TRUE(absl::IsUnavailable(api->StatusOf(400, "Got LoRA adapter that has never been loaded: a")));
  EXPECT_THAT(std::string(api->StatusOf(400, "LoRA is not enabled").message()), HasSubstr("--enable-lora"));
}

}  // namespace
}  // namespace ingot::engines::sglang_api_test
