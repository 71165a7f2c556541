// Calls whose sampled ids are forced upon an engine, one by one, for its log-probs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "advantages/branching_calls.h"
#include "rollout/collect.h"
#include "tree/forest.h"

namespace ingot::trainer {

// By call, then by sampled id. The calls run together, `rounds` times; in later rounds their prompts are in the cache.
inline std::vector<std::vector<float>> ForcedLogprobs(const model::ModelConfig& config,
                                                      const model::Parameters& parameters,
                                                      const std::vector<tree::CallPath>& calls,
                                                      const rollout::EngineOptions& options, int rounds) {
  const auto engine = EngineOver(config, options, parameters);
  std::vector<std::vector<float>> all;
  for (int round = 0; round < rounds; ++round) {
    std::deque<rollout::Collect> results(calls.size());
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    for (size_t c = 0; c < calls.size(); ++c) {
      v1::GenerateRequest ask;
      for (const int32_t id : calls[c].context.Tokens()) ask.add_prompt_ids(id);
      ask.mutable_forced_ids()->Add(calls[c].sampled.begin(), calls[c].sampled.end());
      ask.mutable_sampling()->set_temperature(1);
      ask.mutable_sampling()->set_max_new_tokens(static_cast<int32_t>(calls[c].sampled.size()));
      ask.mutable_sampling()->set_ignore_eos(true);
      ask.set_pinned_version(-1);
      requests.push_back(engine->Generate(ask, results[c].OnChunk()));
    }
    all.clear();
    for (size_t c = 0; c < calls.size(); ++c) {
      EXPECT_TRUE(results[c].Wait().ok());
      EXPECT_EQ(std::vector<int32_t>(results[c].ids.begin(), results[c].ids.end()),
                std::vector<int32_t>(calls[c].sampled.begin(), calls[c].sampled.end()));
      all.emplace_back(results[c].logprobs.begin(), results[c].logprobs.end());
    }
  }
  return all;
}

}  // namespace ingot::trainer
