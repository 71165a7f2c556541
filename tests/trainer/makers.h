// Makers for the trainer's tests: episodes from token lists, and random forests with real branches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/rng.h"
#include "proto/tree.pb.h"
#include "trainer/batch_source.h"
#include "tree/segment_key.h"

namespace ingot::trainer {

struct CallSpec {
  std::vector<int32_t> context;
  std::vector<int32_t> sampled;
  std::vector<float> logprobs;    // one per sampled token
  std::vector<int64_t> versions;  // empty = all 0
  std::vector<bool> kv_mixed;     // empty = all false
  float temperature = 1.0f;
  std::vector<uint16_t> routes = {};  // v1::Segment::routes; empty = none
};

inline std::string AddSegment(v1::EpisodeTree& tree, const v1::Segment& segment) {
  const std::string key = tree::SegmentKey(segment);
  (*tree.mutable_segments())[base::Hex(key)] = segment;
  return key;
}

inline void AddCall(v1::EpisodeTree& tree, const CallSpec& spec) {
  v1::Call& call = *tree.add_calls();
  call.set_call_id(tree.episode().episode_id() + "/" + std::to_string(tree.calls_size() - 1));
  call.set_episode_id(tree.episode().episode_id());
  call.set_sequence(tree.calls_size() - 1);
  call.mutable_sampling()->set_temperature(spec.temperature);
  call.set_finish(v1::FINISH_STOP);
  // Segment borders have no meaning: the context is cut in two.
  const size_t half = spec.context.size() / 2;
  for (const auto& [begin, end] : {std::pair(size_t{0}, half), std::pair(half, spec.context.size())}) {
    if (begin == end) continue;
    v1::Segment segment;
    segment.set_source(v1::SOURCE_PROMPT);
    for (size_t i = begin; i < end; ++i) segment.add_token_ids(spec.context[i]);
    call.add_context_keys(AddSegment(tree, segment));
  }
  if (spec.sampled.empty()) return;
  v1::Segment segment;
  segment.set_source(v1::SOURCE_SAMPLED);
  for (size_t i = 0; i < spec.sampled.size(); ++i) {
    segment.add_token_ids(spec.sampled[i]);
    segment.add_logprobs(spec.logprobs[i]);
    const int64_t version = spec.versions.empty() ? 0 : spec.versions[i];
    const bool mixed = !spec.kv_mixed.empty() && spec.kv_mixed[i];
    v1::VersionRun* last =
        segment.versions_size() == 0 ? nullptr : segment.mutable_versions(segment.versions_size() - 1);
    if (last != nullptr && last->version() == version && last->kv_mixed() == mixed) {
      last->set_count(last->count() + 1);
    } else {
      v1::VersionRun& run = *segment.add_versions();
      run.set_version(version);
      run.set_kv_mixed(mixed);
      run.set_count(1);
    }
  }
  for (const uint16_t expert : spec.routes) {
    *segment.mutable_routes() += static_cast<char>(expert & 0xFF);
    *segment.mutable_routes() += static_cast<char>(expert >> 8);
  }
  call.add_sampled_keys(AddSegment(tree, segment));
}

inline v1::EpisodeTree MakeEpisode(const std::string& id, double reward, const std::vector<CallSpec>& calls) {
  v1::EpisodeTree tree;
  tree.mutable_episode()->set_episode_id(id);
  tree.mutable_episode()->set_state(v1::EPISODE_FINISHED);
  tree.mutable_episode()->set_purpose(v1::PURPOSE_TRAIN);
  tree.mutable_episode()->set_pinned_version(-1);
  tree.mutable_episode()->set_reward(reward);
  for (const CallSpec& call : calls) AddCall(tree, call);
  return tree;
}

inline v1::Group MakeGroup(int64_t id, std::vector<v1::EpisodeTree> episodes) {
  v1::Group group;
  group.set_group_id(id);
  for (v1::EpisodeTree& episode : episodes) {
    episode.mutable_episode()->mutable_ref()->set_group_id(id);
    episode.mutable_episode()->mutable_ref()->set_sample_index(group.episodes_size());
    *group.add_episodes() = std::move(episode);
  }
  return group;
}

// Random draws for forests; every test names its seed.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(base::UniformAt(seed_, count_++) * static_cast<double>(n)); }
  double Between(double low, double high) { return low + (high - low) * base::UniformAt(seed_, count_++); }
  std::vector<int32_t> Tokens(int64_t count, int64_t vocab) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(Below(vocab)));
    return tokens;
  }

 private:
  const uint64_t seed_;
  uint64_t count_ = 0;
};

// Recorded values differ from call to call, even where the tokens are shared.
inline void Annotate(CallSpec& call, Draws& draws, int64_t version) {
  call.temperature = static_cast<float>(0.5 + 0.25 * static_cast<double>(draws.Below(4)));
  call.logprobs.clear();
  call.versions.clear();
  call.kv_mixed.clear();
  for (size_t i = 0; i < call.sampled.size(); ++i) {
    call.logprobs.push_back(static_cast<float>(draws.Between(-6.0, -0.5)));
    call.versions.push_back(version - draws.Below(std::min<int64_t>(3, version + 1)));
    call.kv_mixed.push_back(draws.Below(4) == 0);
  }
}

inline std::vector<int32_t> Join(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Groups over one system prompt: turns that continue, contexts that are rewritten, sub-agents; and in every group one
// episode that is sampled twice with equal tokens.
inline TrainBatch RandomBatch(uint64_t seed, int64_t vocab, int64_t version, int groups = 3, int samples = 4) {
  Draws draws(seed);
  const std::vector<int32_t> system = draws.Tokens(3 + draws.Below(6), vocab);
  TrainBatch batch;
  batch.step = version;
  for (int g = 0; g < groups; ++g) {
    const std::vector<int32_t> prompt = Join(system, draws.Tokens(1 + draws.Below(5), vocab));
    std::vector<v1::EpisodeTree> episodes;
    std::vector<CallSpec> last;
    for (int s = 0; s < samples; ++s) {
      std::vector<CallSpec> calls;
      if (s + 1 == samples && !last.empty()) {
        calls = last;  // equal samples stay two episodes
      } else {
        std::vector<int32_t> history = prompt;
        const int64_t turns = 1 + draws.Below(3);
        for (int64_t turn = 0; turn < turns; ++turn) {
          CallSpec call;
          if (turn > 0 && draws.Below(3) == 0) {  // the agent rewrote its context
            history = Join(prompt, draws.Tokens(2, vocab));
          } else if (turn > 0 && draws.Below(4) == 0) {  // a sub-agent with its own prompt
            history = draws.Tokens(3, vocab);
          }
          call.context = history;
          call.sampled = draws.Tokens(1 + draws.Below(6), draws.Below(2) == 0 ? 3 : vocab);
          calls.push_back(call);
          history = Join(Join(history, call.sampled), draws.Tokens(draws.Below(4), vocab));
        }
      }
      for (CallSpec& call : calls) Annotate(call, draws, version);
      episodes.push_back(MakeEpisode("g" + std::to_string(g) + "s" + std::to_string(s),
                                     static_cast<double>(draws.Below(5)) / 4.0, calls));
      last = calls;
    }
    batch.groups.push_back(MakeGroup(g, std::move(episodes)));
  }
  return batch;
}

}  // namespace ingot::trainer
