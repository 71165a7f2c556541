// Small makers of calls and episodes for the tests of trees.
#pragma once

#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "tree/forest.h"
#include "tree/segment_key.h"

namespace ingot::tree {

inline CallPath MakeCall(std::vector<int32_t> context, std::vector<int32_t> sampled, const std::string& id = "c") {
  CallPath call;
  call.call_id = id;
  call.context = TokenPath(std::move(context));
  call.sampled = sampled;
  call.logprobs.assign(sampled.size(), -0.5f);
  call.versions.assign(sampled.size(), 1);
  call.kv_mixed.assign(sampled.size(), 0);
  return call;
}

// Calls that share, extend, repeat and cut one another, over a small alphabet so that chance merges happen too.
inline std::vector<CallPath> RandomCalls(std::mt19937& rng, size_t count, int alphabet, size_t longest) {
  std::vector<CallPath> calls;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int32_t> context;
    if (!calls.empty() && rng() % 4 != 0) {
      context = calls[rng() % calls.size()].Tokens();
      if (rng() % 2 == 0) context.resize(1 + rng() % context.size());
    }
    for (size_t k = rng() % longest; k > 0; --k) context.push_back(static_cast<int32_t>(rng() % alphabet));
    if (context.empty()) context.push_back(static_cast<int32_t>(rng() % alphabet));
    std::vector<int32_t> sampled(rng() % longest);
    for (int32_t& id : sampled) id = static_cast<int32_t>(rng() % alphabet);
    calls.push_back(rng() % 5 == 0 && !calls.empty() ? calls[rng() % calls.size()] : MakeCall(context, sampled));
    calls.back().call_id = "call-" + std::to_string(i);
  }
  return calls;
}

// Decodes ids that are character codes.
inline std::string Letters(std::span<const int32_t> ids) { return std::string(ids.begin(), ids.end()); }

inline v1::Segment Prompt(const std::vector<int32_t>& ids) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_PROMPT);
  segment.mutable_token_ids()->Add(ids.begin(), ids.end());
  return segment;
}

// A prompt whose ids [first, first + count) stand for an image.
inline v1::Segment WithImage(const std::vector<int32_t>& ids, int32_t first, int32_t count,
                             const std::string& content) {
  v1::Segment segment = Prompt(ids);
  v1::Placeholders* run = segment.add_placeholders();
  run->set_first(first);
  run->set_count(count);
  run->set_content(content);
  return segment;
}

inline v1::Segment Sampled(const std::vector<int32_t>& ids, int64_t version, float logprob = -0.5f) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_SAMPLED);
  for (const int32_t id : ids) {
    segment.add_token_ids(id);
    segment.add_logprobs(logprob);
  }
  v1::VersionRun* run = segment.add_versions();
  run->set_version(version);
  run->set_count(static_cast<int32_t>(ids.size()));
  return segment;
}

inline std::string Store(v1::EpisodeTree& tree, const v1::Segment& segment) {
  const std::string key = SegmentKey(segment);
  (*tree.mutable_segments())[base::Hex(key)] = segment;
  return key;
}

inline v1::Call& AddCall(v1::EpisodeTree& tree, const std::vector<v1::Segment>& context,
                         const std::vector<v1::Segment>& sampled) {
  v1::Call& call = *tree.add_calls();
  call.set_sequence(tree.calls_size() - 1);
  call.set_call_id("call-" + std::to_string(call.sequence()));
  call.mutable_sampling()->set_temperature(1.0f);
  call.set_finish(v1::FINISH_STOP);
  for (const v1::Segment& segment : context) call.add_context_keys(Store(tree, segment));
  for (const v1::Segment& segment : sampled) call.add_sampled_keys(Store(tree, segment));
  return call;
}

}  // namespace ingot::tree
