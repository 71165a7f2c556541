#include "app/models/weight_reference.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "engines/external/adapter_versions.h"
#include "engines/verification/weight_verifier.h"
#include "model/plain_model.h"
#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"
#include "trainer/weights_of.h"

namespace ingot::app {
namespace {

using engines::PromptScores;
using Snapshot = std::shared_ptr<const weights::Snapshot>;
using Tensors = std::map<std::string, at::Tensor>;

const at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16};

model::ModelConfig Config(at::ScalarType dtype) {
  model::ModelConfig config = model::testing::SmallConfig("qwen3");
  config.torch_dtype = dtype == at::kFloat ? "float32" : "bfloat16";
  return config;
}

Tensors Weights(uint64_t seed, at::ScalarType dtype) {
  return model::testing::RandomParameters(Config(dtype), seed, dtype).tensors();
}

Snapshot VersionOf(const Tensors& tensors) { return *trainer::SnapshotOf(1, tensors); }

std::vector<std::vector<int32_t>> Prompts() {
  return engines::VerificationPrompts({.vocab_size = 53, .context_length = 512, .eos_ids = {}});
}

std::vector<PromptScores> ScoresOf(const Snapshot& snapshot, at::ScalarType dtype) {
  return *NewWeightReference(Config(dtype), 1)->Score(snapshot, Prompts());
}

// What a server with these weights reports without rounding.
std::vector<engines::ServerScores> ServerWith(const Snapshot& snapshot, at::ScalarType dtype) {
  std::vector<engines::ServerScores> server;
  for (const PromptScores& scores : ScoresOf(snapshot, dtype)) server.push_back({scores.logprobs, 5, scores.next[5]});
  return server;
}

TEST(WeightReference, EqualsIngotsEngineToTheBit) {
  for (const at::ScalarType dtype : kTypes) {
    rollout::EngineOptions options;
    options.kv_cache_tokens = 4096;
    options.threads = 1;
    const Snapshot snapshot = VersionOf(Weights(3, dtype));
    rollout::Engine::Parts parts;
    parts.runner = *rollout::NewTorchRunner(Config(dtype), options, "cpu");
    const auto engine = *rollout::Engine::Create(options, std::move(parts), snapshot);
    const std::vector<PromptScores> expected = ScoresOf(snapshot, dtype);
    const auto prompts = Prompts();
    for (size_t p = 0; p < prompts.size(); ++p) {
      v1::GenerateRequest request;
      request.mutable_prompt_ids()->Add(prompts[p].begin(), prompts[p].end());
      request.set_pinned_version(1);
      request.set_score_ids(static_cast<int32_t>(prompts[p].size()) - 1);
      request.mutable_sampling()->set_temperature(1);
      request.mutable_sampling()->set_max_new_tokens(1);
      rollout::Collect scored, sampled;
      const auto first = engine->Generate(request, scored.OnChunk());
      ASSERT_EQ(scored.Wait(), absl::OkStatus());
      EXPECT_EQ(scored.logprobs, expected[p].logprobs);
      request.set_score_ids(0);
      request.mutable_sampling()->set_ignore_eos(true);
      const auto second = engine->Generate(request, sampled.OnChunk());
      ASSERT_EQ(sampled.Wait(), absl::OkStatus());
      EXPECT_EQ(sampled.logprobs[0], expected[p].next[static_cast<size_t>(sampled.ids[0])]);
    }
    engine->Shutdown();
  }
}

// The weights before and after a step that moved each number by a thousandth.
struct Step {
  explicit Step(at::ScalarType dtype) : before(Weights(3, dtype)) {
    for (const auto& [name, tensor] : Weights(4, dtype)) {
      after[name] = before.at(name) + tensor.sign() * before.at(name).abs().mean() * 1e-3;
    }
  }
  Tensors before, after;
};

TEST(WeightReference, ShowsWeightsThatAreNotTheVersions) {
  const Step step(at::kFloat);
  std::map<std::string, Tensors> faults;
  faults["old head"] = faults["one old tensor"] = faults["half an update"] = faults["another adapter"] = step.after;
  faults["old weights"] = step.before;
  faults["old head"]["lm_head.weight"] = step.before.at("lm_head.weight");
  const std::string down = "model.layers.1.mlp.down_proj.weight", query = "model.layers.0.self_attn.q_proj.weight";
  faults["one old tensor"][down] = step.before.at(down);
  size_t taken = 0;
  for (auto& [name, tensor] : faults["half an update"]) {
    if (taken++ % 2 == 0) tensor = step.before.at(name);
  }
  faults["another adapter"][query] = step.after.at(query) + 0.02 * at::ones_like(step.after.at(query));
  for (const auto& [name, tensor] : step.after) {
    faults["rounded to bf16"][name] = tensor.to(at::kBFloat16).to(at::kFloat);
  }
  const Snapshot version = VersionOf(step.after);
  const std::vector<PromptScores> expected = ScoresOf(version, at::kFloat);
  const double bound = engines::RoundingBound(*version);
  EXPECT_EQ(engines::DifferenceOf(expected, ServerWith(version, at::kFloat)).worst_mean(), 0);
  for (const auto& [name, tensors] : faults) {
    const auto found = engines::DifferenceOf(expected, ServerWith(VersionOf(tensors), at::kFloat));
    EXPECT_GT(found.worst_mean(), bound) << name << ": " << found.Text();
  }
}

TEST(WeightReference, PerturbedWeightsShowEachTensorThatStaysBehind) {
  for (const at::ScalarType dtype : kTypes) {
    const Snapshot given = VersionOf(Weights(3, dtype));
    const Snapshot perturbed = *NewWeightReference(Config(dtype), 1)->Perturb(given);
    EXPECT_EQ(perturbed->version(), given->version());
    EXPECT_NE(perturbed->checksum(), given->checksum());
    const std::vector<PromptScores> expected = ScoresOf(perturbed, dtype);
    const double bound = engines::TrialBound(*perturbed, expected, ScoresOf(given, dtype));
    const Tensors old = trainer::ParametersOf(given).tensors(), all = trainer::ParametersOf(perturbed).tensors();
    for (const auto& [name, tensor] : old) {
      Tensors behind = all;
      behind[name] = tensor;
      const auto found = engines::DifferenceOf(expected, ServerWith(VersionOf(behind), dtype));
      EXPECT_GT(found.worst_mean(), bound) << name << ": " << found.Text();
    }
  }
}

// A server whose folder ties the head to the embedding, and that loads only the embedding anew. In bf16, rounding hides
// such a head after a step, so the trial load must show it.
TEST(WeightReference, PerturbedWeightsShowATiedHeadThatStaysBehind) {
  const std::string embedding = "model.embed_tokens.weight";
  for (const at::ScalarType dtype : kTypes) {
    model::ModelConfig tied = Config(dtype);
    tied.tie_word_embeddings = true;
    const Tensors before = model::testing::RandomParameters(tied, 3, dtype).tensors();
    ASSERT_EQ(before.count("lm_head.weight"), 0u);
    const auto reference = NewWeightReference(tied, 1);
    const auto server_with = [&](const Tensors& tensors, const at::Tensor& head, at::ScalarType computed) {
      Tensors all;
      for (const auto& [name, tensor] : tensors) all[name] = tensor.to(computed);
      all["lm_head.weight"] = head.to(computed);
      return ServerWith(VersionOf(all), computed);
    };

    const Snapshot given = VersionOf(before), perturbed = *reference->Perturb(given);
    const Tensors other = trainer::ParametersOf(perturbed).tensors();
    const std::vector<PromptScores> expected = *reference->Score(perturbed, Prompts());
    const double bound = engines::TrialBound(*perturbed, expected, *reference->Score(given, Prompts()));
    const auto stale = engines::DifferenceOf(expected, server_with(other, before.at(embedding), dtype));
    EXPECT_GT(stale.worst_mean(), bound) << stale.Text();
    const auto right = engines::DifferenceOf(expected, server_with(other, other.at(embedding), at::kFloat));
    EXPECT_LT(right.worst_mean(), bound) << "rounding alone: " << right.Text();

    Tensors after = before;
    for (auto& [name, tensor] : after) tensor = tensor + tensor.sign() * tensor.abs().mean() * 1e-3;
    const Snapshot step = VersionOf(after);
    const auto hidden =
        engines::DifferenceOf(*reference->Score(step, Prompts()), server_with(after, before.at(embedding), dtype));
    EXPECT_EQ(hidden.worst_mean() > engines::RoundingBound(*step), dtype == at::kFloat) << hidden.Text();
  }
}

model::ModelConfig AdapterConfig(at::ScalarType dtype) {
  model::ModelConfig config = Config(dtype);
  config.lora.rank = 4;
  config.lora.alpha = 8;
  config.lora.targets = {"down_proj", "q_proj", "up_proj", "v_proj"};
  return config;
}

// An adapter after some steps, or before the first: A as at the start, and B small or zero.
Tensors Adapter(at::ScalarType dtype, double b) {
  const model::ModelConfig config = AdapterConfig(dtype);
  Tensors tensors = model::testing::RandomParameters(config, 3, dtype).tensors();
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with("lora_A.weight")) tensor = tensor / tensor.abs().max() / std::sqrt(tensor.size(1));
    if (name.ends_with("lora_B.weight")) tensor = tensor.sign() * b;
  }
  return tensors;
}

// For an adapter that was hardly trained, too: its own effect is below bf16 rounding.
TEST(WeightReference, PerturbedAdaptersShowFactorsThatStayBehind) {
  for (const at::ScalarType dtype : kTypes) {
    for (const double b : {0.0, 1e-3}) {
      const auto reference = NewWeightReference(AdapterConfig(dtype), 1);
      const auto wide = NewWeightReference(AdapterConfig(at::kFloat), 1);
      const Tensors before = Adapter(dtype, b);
      const Snapshot given = VersionOf(before);
      const Tensors other = trainer::ParametersOf(*reference->Perturb(given)).tensors();
      Tensors all = before, wider;
      for (auto& [name, tensor] : all) {
        if (engines::IsFactor(name)) tensor = other.at(name);
        wider[name] = tensor.to(at::kFloat);
      }
      const Snapshot perturbed = VersionOf(all);
      const std::vector<PromptScores> expected = *reference->Score(perturbed, Prompts());
      const std::vector<PromptScores> original = *reference->Score(given, Prompts());
      const double bound = engines::AdapterTrialBound(*perturbed, expected, original);
      EXPECT_LT(engines::DistanceOf(expected, *wide->Score(VersionOf(wider), Prompts())), 0.8 * bound)
          << "rounding alone, of a distance of " << engines::DistanceOf(expected, original);
      for (const char* part :
           {"q_proj.", "v_proj.", "up_proj.", "down_proj.", "layers.0.", "layers.1.", "lora_A", "lora_B"}) {
        Tensors behind = all;
        for (auto& [name, tensor] : behind) {
          if (engines::IsFactor(name) && name.find(part) != std::string::npos) tensor = before.at(name);
        }
        const std::vector<PromptScores> stale = *reference->Score(VersionOf(behind), Prompts());
        EXPECT_GT(engines::DistanceOf(expected, stale), bound) << part;
      }
    }
  }
}

TEST(WeightReference, ReportsWeightsOfAnotherShape) {
  model::ModelConfig other = Config(at::kFloat);
  other.num_hidden_layers = 3;
  EXPECT_FALSE(NewWeightReference(other, 1)->Score(VersionOf(Weights(3, at::kFloat)), Prompts()).ok());
}

}  // namespace
}  // namespace ingot::app
