// What a client of an engine sees of a call, and calls of every kind.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "rollout/rig.h"

namespace ingot::rollout {

// What a client can see of a call.
struct Seen {
  absl::Status status;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::pair<int64_t, bool>> versions;  // by id: the version, and kv_mixed
  std::string tops, stop_string, routes;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  int32_t cached = 0;
  bool acted = false;

  bool operator==(const Seen&) const = default;
};

inline Seen SeenOf(Collect& result) {
  Seen seen;
  seen.status = result.Wait();
  seen.ids = result.ids;
  seen.logprobs = result.logprobs;
  for (const v1::VersionRun& run : result.versions) {
    for (int i = 0; i < run.count(); ++i) seen.versions.emplace_back(run.version(), run.kv_mixed());
  }
  for (const v1::TopLogprobs& top : result.top) seen.tops += top.SerializeAsString();
  seen.routes = result.routes;
  seen.stop_string = result.last.stop_string();
  seen.finish = result.last.finish();
  seen.acted = result.last.penalty_acted() || result.last.bias_acted() || result.last.grammar_acted();
  return seen;
}

inline Seen Call(Engine& engine, const v1::GenerateRequest& ask) {
  Collect result;
  auto request = engine.Generate(ask, result.OnChunk());
  return SeenOf(result);
}

// A request with a random choice of everything that shapes a call.
inline v1::GenerateRequest RandomAsk(uint64_t seed) {
  uint64_t next = 0;
  const auto draw = [&](uint64_t below) { return base::DeriveSeed(seed, next++) % below; };
  std::vector<int32_t> prompt;
  const uint64_t stream = draw(3);  // prompts share prefixes
  const size_t length = 1 + draw(30);
  for (size_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<int32_t>(base::DeriveSeed(900 + stream, i) % kVocab));
  }
  v1::GenerateRequest ask = Ask(prompt, static_cast<int32_t>(1 + draw(40)), 1 + seed, draw(2) == 0 ? -1 : 2);
  v1::SamplingParams& sampling = *ask.mutable_sampling();
  sampling.set_temperature(static_cast<float>(draw(3)) * 0.5f);
  if (draw(4) == 0) sampling.set_top_k(5);
  if (draw(4) == 0) sampling.set_top_p(0.8f);
  if (draw(4) == 0) sampling.set_min_p(0.1f);
  if (draw(4) == 0) sampling.set_frequency_penalty(0.5f);
  if (draw(4) == 0) sampling.set_repetition_penalty(1.3f);
  if (draw(4) == 0) (*sampling.mutable_logit_bias())[3] = -5;
  if (draw(4) == 0) sampling.set_min_new_tokens(7);
  if (draw(3) == 0) sampling.add_stop("ab");
  if (draw(3) == 0) sampling.add_stop("c");
  if (draw(4) == 0) sampling.add_stop_token_ids(9);
  if (draw(4) == 0) {
    sampling.add_stop_token_ids(11);
    sampling.mutable_grammar()->add_alternatives()->add_parts()->set_regex("[a-f]{2,20}");
  }
  if (draw(4) == 0) ask.set_top_logprobs(4);
  ask.set_record_routes(draw(4) == 0);
  return ask;
}

}  // namespace ingot::rollout
