// vLLM's words: requests, events, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/fault.h"
#include "base/json.h"
#include "engines/api/engine_api.h"

namespace ingot::engines::vllm_api_test {
namespace {

using base::json::object;
using base::json::value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ServedModel kModel{.vocab_size = 100, .context_length = 50, .eos_ids = {7, 8}};

v1::GenerateRequest Ask() {
  v1::GenerateRequest request;
  for (const int32_t id : {1, 2, 3}) request.add_prompt_ids(id);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_max_new_tokens(200);
  return request;
}

value BodyOf(const v1::GenerateRequest& request, const GenerateContext& context) {
  return *base::ParseJson(NewVllmApi()->Generate(request, context)->body);
}

TEST(VllmApi, WritesARequest) {
  v1::GenerateRequest request = Ask();
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_top_p(0.5F);
  sampling.set_top_k(5);
  sampling.set_min_p(0.25F);
  sampling.set_frequency_penalty(0.5F);
  sampling.set_min_new_tokens(2);
  sampling.add_stop_token_ids(9);
  sampling.add_stop("never sent");
  sampling.set_seed(10);
  (*sampling.mutable_logit_bias())[4] = -1;
  request.set_top_logprobs(3);
  const value body = BodyOf(request, {.model = kModel, .salt = "v", .seeds = true});
  EXPECT_EQ(body.at("token_ids"), (base::json::array{1, 2, 3}));
  EXPECT_EQ(body.at("cache_salt"), "v");
  EXPECT_EQ(body.at("stream"), true);
  const object& params = body.at("sampling_params").as_object();
  EXPECT_EQ(params.at("max_tokens"), 47);  // the context's rest
  EXPECT_EQ(params.at("logprobs"), 4);     // the sampled id may take a place
  EXPECT_EQ(params.at("stop_token_ids"), (base::json::array{9, 7, 8}));
  EXPECT_EQ(params.at("ignore_eos"), true);
  EXPECT_EQ(params.at("min_tokens"), 2);
  EXPECT_EQ(params.at("seed"), 10);
  EXPECT_EQ(params.at("logit_bias").at("4").to_number<double>(), -1);
  EXPECT_EQ(params.at("top_k"), 5);
  EXPECT_FALSE(params.contains("stop"));
}

TEST(VllmApi, KeepsToTheServersBounds) {
  v1::GenerateRequest request = Ask();
  request.set_top_logprobs(20);
  request.mutable_sampling()->set_seed((uint64_t{1} << 63) + 11);
  const value params = BodyOf(request, {.model = kModel, .seeds = true}).at("sampling_params");
  EXPECT_EQ(params.at("logprobs"), 20);
  EXPECT_EQ(params.at("seed"), 11);
}

TEST(VllmApi, LeavesOutWhatIsOff) {
  v1::GenerateRequest request = Ask();
  request.mutable_sampling()->set_ignore_eos(true);
  const value body = BodyOf(request, {.model = kModel});
  EXPECT_FALSE(body.as_object().contains("cache_salt"));
  const object& params = body.at("sampling_params").as_object();
  EXPECT_EQ(params.at("stop_token_ids"), base::json::array());
  for (const char* absent : {"seed", "top_p", "top_k", "min_p", "logit_bias", "min_tokens", "structured_outputs"}) {
    EXPECT_FALSE(params.contains(absent)) << absent;
  }
}

TEST(VllmApi, WritesGrammarsAsStructuralTags) {
  v1::GenerateRequest request = Ask();
  request.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex("[ab]");
  const value params = BodyOf(request, {.model = kModel}).at("sampling_params");
  EXPECT_EQ(params.at("ignore_eos"), false);
  const value tag = *base::ParseJson(std::string(params.at("structured_outputs").at("structural_tag").as_string()));
  EXPECT_EQ(tag.at("type"), "structural_tag");
  EXPECT_EQ(tag.at("format").at("elements").at(0).at("elements").at(0),
            (object{{"type", "regex"}, {"pattern", "[ab]"}}));
}

struct Refused {
  const char* name;
  std::function<void(v1::GenerateRequest&)> change;
  LogprobKind kind;
  bool ok;
};

// Recorded is log_softmax(raw logits / temperature); no mode of the server gives it for every request.
TEST(VllmApi, RefusesRequestsWhoseLogprobsItWouldNotRecord) {
  const auto heat = [](float t) { return [t](v1::GenerateRequest& r) { r.mutable_sampling()->set_temperature(t); }; };
  const auto top_p = [](v1::GenerateRequest& r) { r.mutable_sampling()->set_top_p(0.5F); };
  const auto penalty = [](v1::GenerateRequest& r) { r.mutable_sampling()->set_presence_penalty(1); };
  const std::vector<Refused> table = {
      {"T 1, raw", heat(1), LogprobKind::kRaw, true},
      {"greedy, raw", heat(0), LogprobKind::kRaw, true},
      {"T 0.7, raw", heat(0.7F), LogprobKind::kRaw, false},
      {"top_p, raw", top_p, LogprobKind::kRaw, true},
      {"penalty, raw", penalty, LogprobKind::kRaw, true},
      {"T 0.7, processed", heat(0.7F), LogprobKind::kProcessed, true},
      {"greedy, processed", heat(0), LogprobKind::kProcessed, false},
      {"top_p, processed", top_p, LogprobKind::kProcessed, false},
      {"penalty, processed", penalty, LogprobKind::kProcessed, false},
      {"routes", [](v1::GenerateRequest& r) { r.set_record_routes(true); }, LogprobKind::kRaw, false},
      {"forced", [](v1::GenerateRequest& r) { r.add_forced_ids(1); }, LogprobKind::kRaw, false},
      {"placeholders", [](v1::GenerateRequest& r) { r.add_placeholders(); }, LogprobKind::kRaw, false}};
  for (const Refused& row : table) {
    v1::GenerateRequest request = Ask();
    row.change(request);
    const absl::Status status = NewVllmApi()->Generate(request, {.model = kModel, .logprobs = row.kind}).status();
    EXPECT_EQ(status.ok(), row.ok) << row.name << " " << status;
    EXPECT_EQ(base::FaultOf(status).has_value(), !row.ok) << row.name;
  }
}

TEST(VllmApi, ReadsEvents) {
  const auto api = NewVllmApi();
  EXPECT_FALSE((*api->ReadEvent("[DONE]")).has_value());
  EXPECT_FALSE((*api->ReadEvent(R"({"request_id":"a","choices":[],"usage":{}})")).has_value());
  const auto event = *api->ReadEvent(
      R"({"request_id":"a","choices":[{"index":0,"token_ids":[5],"finish_reason":"length","logprobs":{"content":[
          {"token_id":5,"logprob":-2.5,"rank":3,"top_logprobs":[{"token_id":5,"logprob":-2.5},{"token_id":6,"logprob":-1}]}]},
          "weight_versions":[{"version":"1-ab","start":0,"end":4}]}]})");
  EXPECT_EQ(event->request_id, "a");
  EXPECT_THAT(event->ids, ElementsAre(5));
  EXPECT_THAT(event->logprobs, ElementsAre(-2.5F));
  EXPECT_EQ(event->top_logprobs[0].entries(0).token_id(), 6);  // most likely first
  EXPECT_EQ(event->finish, ServerFinish::kLength);
  ASSERT_EQ(event->spans.size(), 1u);
  EXPECT_EQ(event->spans[0].label, "1-ab");
  EXPECT_EQ(event->spans[0].end, 4);
}

TEST(VllmApi, RejectsBrokenEvents) {
  const auto api = NewVllmApi();
  for (const char* data :
       {"", "{", "[]", "1", R"({"choices":1})", R"({"choices":[{"token_ids":[1]}]})",
        R"({"choices":[{"token_ids":[1.5],"logprobs":{"content":[{"token_id":1,"logprob":-1}]}}]})",
        R"({"choices":[{"token_ids":[-1],"logprobs":{"content":[{"token_id":-1,"logprob":-1}]}}]})",
        R"({"choices":[{"token_ids":[99999999999],"logprobs":{"content":[{"token_id":1,"logprob":-1}]}}]})",
        R"({"choices":[{"token_ids":[1],"logprobs":{"content":[{"token_id":2,"logprob":-1}]}}]})",
        R"({"choices":[{"token_ids":[1],"logprobs":{"content":[{"token_id":1,"logprob":null}]}}]})",
        R"({"choices":[{"token_ids":[1,2],"logprobs":{"content":[{"token_id":1,"logprob":-1}]}}]})",
        R"({"choices":[{"token_ids":[],"weight_versions":[{"version":1,"start":0,"end":1}]}]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(api->ReadEvent(data).status())) << data;
  }
  EXPECT_TRUE(absl::IsUnavailable(api->ReadEvent(R"({"error":{"message":"engine dead"}})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(api->ReadEvent(R"({"error":{"message":"too long","code":400}})").status()));
  // As a 32-bit number, this code is 200.
  EXPECT_TRUE(absl::IsUnavailable(api->ReadEvent(R"({"error":{"code":4294967496}})").status()));
  EXPECT_TRUE(api->ReadEvent(R"({"error":null,"choices":[{"token_ids":[]}]})").ok());
}

// vLLM writes -9999 for a log-prob that is not a number or that it does not have.
TEST(VllmApi, ReadsTheStandInForNoLogprobAsNotANumber) {
  const auto event = *NewVllmApi()->ReadEvent(
      R"({"choices":[{"token_ids":[1],"logprobs":{"content":[{"token_id":1,"logprob":-9999.0}]}}]})");
  EXPECT_TRUE(std::isnan(event->logprobs[0]));
}

TEST(VllmApi, NamesTheFlagThatAServerLacks) {
  const auto api = NewVllmApi();
  EXPECT_TRUE(api->StatusOf(200, "").ok());
  EXPECT_THAT(std::string(api->StatusOf(403, "Scale-out endpoints are disabled").message()),
              HasSubstr("--enable-scale-out"));
  EXPECT_THAT(std::string(api->StatusOf(404, "").message()), HasSubstr("VLLM_SERVER_DEV_MODE=1"));
  EXPECT_THAT(std::string(api->StatusOf(401, "").message()), HasSubstr("rollout.external.api_key_file"));
  EXPECT_TRUE(absl::IsUnavailable(api->StatusOf(404, R"({"type": "NotFoundError"})"))) << "an adapter, not a route";
  EXPECT_TRUE(absl::IsInvalidArgument(api->StatusOf(400, "too long")));
  EXPECT_TRUE(absl::IsResourceExhausted(api->StatusOf(429, "")));
  EXPECT_TRUE(absl::IsUnavailable(api->StatusOf(503, "")));
  EXPECT_LT(api->StatusOf(500, std::string(100000, 'x')).message().size(), 400u);
}

// The server samples one id after them.
TEST(VllmApi, ScoresFewerIdsThanTheContextHas) {
  v1::GenerateRequest request = Ask();
  while (request.prompt_ids_size() < kModel.context_length - 1) request.add_prompt_ids(1);
  request.set_score_ids(2);
  EXPECT_EQ(NewVllmApi()->Generate(request, {.model = kModel}).status(), absl::OkStatus());
  request.add_prompt_ids(1);
  const absl::Status refused = NewVllmApi()->Generate(request, {.model = kModel}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("fewer than the context of 50"));
}

}  // namespace
}  // namespace ingot::engines::vllm_api_test
