// The cost of training a draft head next to the policy (draft.enabled).
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release draft_step_bench
//   build/release/benchmarks/draft_step_bench [rounds=5] [hidden size=512] [layers=8] [vocabulary=32768] [threads=1]
//     [draft.rows_per_step=8192]
//
// Trains two random fp32 policies on the same batches, one of them with a draft head with default options. Their steps
// are interleaved. A batch has 2 groups of 4 episodes with a shared prompt of 256 tokens, and 256 sampled tokens each,
// 2,048 in total. Fewer rows per step than that show the share in a larger batch, of which the head learns from a part.
// Prints the medians and ranges of the steps' times, and the head's share, and exits with 1 if the policies' parameters
// differ in a bit. Not measured: bf16, CUDA, publishing the head.
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/rng.h"
#include "trainer/trainer.h"
#include "tree/segment_key.h"

namespace {

using namespace ingot;

constexpr int kGroups = 2, kEpisodes = 4, kPrompt = 256, kSampled = 256;

int64_t Argument(int argc, char** argv, int place, int64_t otherwise) {
  return argc > place ? std::atoll(argv[place]) : otherwise;
}

std::string AddSegment(v1::EpisodeTree& tree, v1::Source source, uint64_t seed, int tokens, int64_t vocabulary) {
  v1::Segment segment;
  segment.set_source(source);
  for (int i = 0; i < tokens; ++i) {
    segment.add_token_ids(
        static_cast<int32_t>(base::DeriveSeed(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocabulary)));
    if (source == v1::SOURCE_SAMPLED) segment.add_logprobs(-10);
  }
  if (source == v1::SOURCE_SAMPLED) segment.add_versions()->set_count(tokens);
  const std::string key = tree::SegmentKey(segment);
  (*tree.mutable_segments())[base::Hex(key)] = segment;
  return key;
}

v1::EpisodeTree EpisodeOf(uint64_t group, uint64_t sample, int64_t vocabulary) {
  v1::EpisodeTree tree;
  v1::Episode& episode = *tree.mutable_episode();
  episode.set_episode_id(std::to_string(group) + "-" + std::to_string(sample));
  episode.mutable_ref()->set_group_id(static_cast<int64_t>(group));
  episode.mutable_ref()->set_sample_index(static_cast<int32_t>(sample));
  episode.set_state(v1::EPISODE_FINISHED);
  episode.set_pinned_version(-1);
  episode.set_reward(static_cast<double>(sample % 2));
  v1::Call& call = *tree.add_calls();
  call.set_call_id(episode.episode_id() + "/0");
  call.set_episode_id(episode.episode_id());
  call.mutable_sampling()->set_temperature(1);
  call.set_finish(v1::FINISH_STOP);
  call.add_context_keys(AddSegment(tree, v1::SOURCE_PROMPT, group, kPrompt, vocabulary));
  const uint64_t seed = base::DeriveSeed(group, 1000 + sample);
  call.add_sampled_keys(AddSegment(tree, v1::SOURCE_SAMPLED, seed, kSampled, vocabulary));
  return tree;
}

trainer::TrainBatch BatchOf(int64_t step, int64_t vocabulary) {
  trainer::TrainBatch batch;
  batch.step = step;
  for (int g = 0; g < kGroups; ++g) {
    const auto id = static_cast<uint64_t>(step * kGroups + g);
    v1::Group& group = batch.groups.emplace_back();
    group.set_group_id(static_cast<int64_t>(id));
    for (int e = 0; e < kEpisodes; ++e) *group.add_episodes() = EpisodeOf(id, static_cast<uint64_t>(e), vocabulary);
  }
  return batch;
}

struct Trained {
  std::unique_ptr<trainer::Trainer> trainer;
  std::vector<double> seconds, head_seconds;

  bool Step(const trainer::TrainBatch& batch, bool counts) {
    const auto start = std::chrono::steady_clock::now();
    const auto report = trainer->TrainStep(batch);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (!report.ok()) {
      std::printf("%s\n", report.status().ToString().c_str());
      return false;
    }
    if (!counts) return true;
    seconds.push_back(took.count());
    const auto head = report->metrics.find("draft/seconds");
    if (head != report->metrics.end()) head_seconds.push_back(head->second);
    return true;
  }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const char* name, const std::vector<double>& seconds) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  std::printf("%-22s %8.1f ms   %8.1f to %.1f\n", name, 1e3 * Median(seconds), 1e3 * *least, 1e3 * *most);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t rounds = Argument(argc, argv, 1, 5);
  model::ModelConfig config;
  config.hidden_size = Argument(argc, argv, 2, 512);
  config.num_hidden_layers = Argument(argc, argv, 3, 8);
  config.vocab_size = Argument(argc, argv, 4, 32768);
  config.intermediate_size = 3 * config.hidden_size;
  config.head_dim = 64;
  config.num_attention_heads = config.num_key_value_heads = std::max<int64_t>(config.hidden_size / 64, 1);
  config.max_position_embeddings = 4096;
  config.qk_norm = config.tie_word_embeddings = true;
  const model::Parameters parameters = model::Parameters::Init(config, 1, at::kFloat);
  Trained ways[2];
  for (const bool draft : {false, true}) {
    trainer::TrainerOptions options;
    options.optimizer.learning_rate = 1e-4;
    options.threads = static_cast<int>(Argument(argc, argv, 5, 1));
    options.draft.enabled = draft;
    options.draft.rows_per_step = Argument(argc, argv, 6, 8192);
    auto made = trainer::Trainer::Create(options, config, parameters);
    if (!made.ok()) return std::printf("%s\n", made.status().ToString().c_str()), 1;
    ways[draft ? 1 : 0].trainer = *std::move(made);
  }
  for (int64_t round = 0; round <= rounds; ++round) {  // the first one warms up
    const trainer::TrainBatch batch = BatchOf(round, config.vocab_size);
    for (Trained& way : ways) {
      if (!way.Step(batch, round > 0)) return 1;
    }
  }
  Print("step without a head", ways[0].seconds);
  Print("step with a head", ways[1].seconds);
  Print("of it, the head", ways[1].head_seconds);
  std::printf("share of the step %5.1f %%   longer by %.1f %%\n",
              100 * Median(ways[1].head_seconds) / Median(ways[1].seconds),
              100 * (Median(ways[1].seconds) / Median(ways[0].seconds) - 1));
  for (const auto& [name, tensor] : ways[0].trainer->parameters().tensors()) {
    if (at::equal(tensor, ways[1].trainer->parameters().at(name))) continue;
    std::printf("%s differs\n", name.c_str());
    return 1;
  }
  return 0;
}
