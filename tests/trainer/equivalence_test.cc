// Law 2: training on merged trees is training on each call by itself.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>

#include "base/file.h"
#include "makers.h"
#include "model/parameters.h"
#include "per_call_reference.h"
#include "temp_dir.h"
#include "test_paths.h"
#include "tiny_model.h"
#include "trainer/custom_loss/custom_objective.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/trainer.h"
#include "tree/forest.h"

namespace ingot::trainer {
namespace {

constexpr int64_t kVersion = 2;

struct Case {
  std::string name;
  std::string loss_aggregation;
  at::ScalarType dtype;
  uint64_t seed;
  int64_t micro_batch_tokens = 100000;
  int64_t logits_chunk_elements = 1 << 24;
  double eps_clip_low = 0.5;
  double kl_coefficient = 0;
  double entropy_coefficient = 0;
  std::function<void(TrainerOptions&)> settings = nullptr;  // further options
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

TrainerOptions OptionsOf(const Case& c) {
  TrainerOptions options;
  options.loss_aggregation = c.loss_aggregation;
  options.micro_batch_tokens = c.micro_batch_tokens;
  options.logits_chunk_elements = c.logits_chunk_elements;
  options.eps_clip_low = c.eps_clip_low;
  options.kl_coefficient = c.kl_coefficient;
  options.entropy_coefficient = c.entropy_coefficient;
  options.probe_tokens = 1;
  options.threads = 1;
  if (c.settings) c.settings(options);
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  return options;
}

// Calls have rewards too, so that the turns of an episode differ under reward_to_go.
TrainBatch RewardedBatch(uint64_t seed, int64_t vocab, int64_t version) {
  TrainBatch batch = RandomBatch(seed, vocab, version);
  Draws draws(seed + 1000);
  for (v1::Group& group : batch.groups) {
    for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
      for (const v1::Call& call : tree.calls()) {
        if (draws.Below(2) == 0) continue;
        (*tree.mutable_episode()->mutable_call_rewards())[call.call_id()] = draws.Between(-0.5, 0.5);
      }
    }
  }
  return batch;
}

// A policy other than the trained one.
model::Transformer ReferencePolicy(const model::ModelConfig& config, at::ScalarType dtype) {
  return *model::Transformer::Create(config, TinyParameters(config, 4, dtype));
}

// An objective as a loss in Python: the trace of examples/losses/OBJECTIVE.py, whose bounds the options must have.
void UseCustomLoss(TrainerOptions& options, const std::string& objective, const std::string& scope) {
  options.objective = "custom";
  options.custom.function = objective + ".py:loss";
  options.custom.scope = scope;
  options.custom.graph =
      *base::ReadFile(absl::StrCat(INGOT_SOURCE_DIR, "/tests/trainer/custom_loss/", objective, ".json"));
}

// The reference does not know custom losses. It uses the objective that the loss equals.
TrainerOptions ReferenceOptions(TrainerOptions options) {
  if (options.custom_loss()) options.objective = options.custom.function.substr(0, options.custom.function.find('.'));
  return options;
}

class TreeTraining : public ::testing::TestWithParam<Case> {
 protected:
  double tolerance() const { return GetParam().dtype == at::kDouble ? 1e-10 : 1e-5; }

  // Compares every metric of the step with the reference's, through TrainStep itself.
  void ExpectTrainerReports(const ReferenceResult& reference, const model::ModelConfig& config,
                            const model::Parameters& parameters, const TrainBatch& batch, double grad_norm) {
    TrainerOptions options = OptionsOf(GetParam());
    TempDir folder;
    if (options.needs_reference()) {
      options.reference_path = folder.path();
      const model::Parameters other = TinyParameters(config, 4, GetParam().dtype);
      ASSERT_TRUE(model::SaveModelDir(folder.path(), config, other).ok());
    }
    options.max_skipped_steps = 100;           // batches before the last may have no current token
    options.optimizer.learning_rate = 1e-300;  // so that earlier steps raise the version and leave the weights
    auto trainer = Trainer::Create(options, config, parameters);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    for (int64_t version = 0; version < kVersion; ++version) {
      const auto step = (*trainer)->TrainStep(RandomBatch(1, config.vocab_size, version));
      ASSERT_TRUE(step.ok()) << step.status();
    }
    const auto report = (*trainer)->TrainStep(batch);
    ASSERT_TRUE(report.ok()) << report.status();
    for (const auto& [name, expected] : reference.metrics) {
      const bool of_objective = name.starts_with("actor/clipfrac") || name.find("/ratio_") != std::string::npos;
      if (options.custom_loss() && of_objective) continue;
      ASSERT_TRUE(report->metrics.contains(name)) << name;
      const double scale = name == "actor/loss" ? reference.loss_abs_terms : std::max(1.0, std::abs(expected));
      EXPECT_LE(std::abs(report->metrics.at(name) - expected), tolerance() * scale) << name;
    }
    EXPECT_NEAR(report->metrics.at("actor/grad_norm"), grad_norm, tolerance() * grad_norm);
    EXPECT_GT(reference.metrics.at("mismatch/probe_tokens"), 0);
    for (const auto& [name, share] : reference.metrics) {
      if (!name.starts_with("offpolicy/masked")) continue;
      EXPECT_GT(share, 0) << name << ": the forest does not reach the mask";
      EXPECT_LT(share, 1) << name;
    }
    if (options.objective == "cispo") {
      EXPECT_GT(reference.metrics.at("actor/clipfrac_high"), 0) << "the forest does not reach the clip";
    }
    EXPECT_GT(report->metrics.at("tree/token_ratio"), 1.0) << "the forest shares nothing";
  }
};

// Loss and gradients of the merged batch, added up over its parts.
double TreeGradients(const model::Transformer& model, const PreparedBatch& batch, const TrainerOptions& options) {
  const auto objective = *MakeObjective(options, MakeCustomObjective);
  const PassOptions pass = PassOptionsOf(options);
  StepLoss step(*objective, CoefficientsOf(options), batch, options.off_policy_mask);
  const std::vector<tree::PackedForest> forests = {*PackBatch(batch)};
  for (const tree::PackedForest& forest : forests) {
    if (step.needs_reference()) {
      const at::ScalarType dtype = model.parameters().tensors().begin()->second.scalar_type();
      const model::Transformer reference = ReferencePolicy(model.config(), dtype);
      step.RecordReference(forest.entries, ScoreForest(reference, forest, batch.calls, pass).logprobs);
    }
    if (step.needs_scores()) {
      step.RecordCurrent(forest.entries, ScoreForest(model, forest, batch.calls, pass).logprobs);
    }
  }
  if (step.needs_scores()) step.Fix();
  double loss = 0;
  for (const auto& forest : forests) loss += AccumulateGradients(model, forest, batch.calls, step, pass).loss;
  return loss;
}

TEST_P(TreeTraining, EqualsTrainingEachCallAlone) {
  const TrainerOptions options = OptionsOf(GetParam());
  const model::ModelConfig config = TinyConfig();
  const model::Parameters parameters = TinyParameters(config, 3, GetParam().dtype);
  const TrainBatch batch = RewardedBatch(GetParam().seed, config.vocab_size, kVersion);
  const auto prepared = PrepareBatch(batch, options, config.vocab_size, kVersion);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_GT(prepared->loss_tokens, 0) << prepared->empty_reason;

  const model::Transformer model = TrainableModel(config, parameters);
  const model::Transformer other = ReferencePolicy(config, GetParam().dtype);
  const ReferenceResult reference = PerCallReference(
      model, prepared->calls, prepared->advantages, ReferenceOptions(options), kVersion, &other, prepared->preferences);
  const auto expected = TakeGradients(model);
  const double loss = TreeGradients(model, *prepared, options);
  const auto actual = TakeGradients(model);

  EXPECT_LE(std::abs(loss - reference.loss), tolerance() * reference.loss_abs_terms);
  double squares = 0;
  for (const auto& [name, gradient] : expected) {
    const double norm = gradient.norm().item<double>();
    ASSERT_GT(norm, 0) << name;
    EXPECT_LE((actual.at(name) - gradient).norm().item<double>(), tolerance() * norm) << name;
    squares += norm * norm;
  }

  ExpectTrainerReports(reference, config, parameters, batch, std::sqrt(squares));
}

// A group of two trunks with two leaves each, and the rows of its calls written out by hand.
struct BranchedRows {
  TrainBatch batch;
  std::vector<tree::CallPath> calls;
  std::vector<double> advantages;
};

BranchedRows TwoTrunksWithTwoLeaves(int64_t vocab) {
  Draws draws(77);
  BranchedRows out;
  const std::vector<int32_t> prompt = draws.Tokens(5, vocab);
  // Returns of the first trunk's leaves and of the second one's; the group's mean is 7/16.
  const std::vector<double> rewards = {1, 0, 0.5, 0.25};
  // Among the group the rows have 9/16, -7/16, 1/16, -3/16; a trunk has the mean of its two.
  const std::vector<double> of_trunks = {1.0 / 16, -1.0 / 16}, of_leaves = {0.5, -0.5, 0.125, -0.125};
  const auto add_row = [&](const CallSpec& call, const std::string& id, int32_t episode, double advantage) {
    tree::CallPath row;
    row.call_id = id;
    row.episode = episode;
    row.temperature = call.temperature;
    row.context = tree::TokenPath(call.context);
    row.sampled = call.sampled;
    row.logprobs = call.logprobs;
    row.versions = call.versions;
    row.kv_mixed.assign(call.kv_mixed.begin(), call.kv_mixed.end());
    out.calls.push_back(std::move(row));
    out.advantages.push_back(advantage);
  };
  std::vector<v1::EpisodeTree> leaves, trunks;
  int32_t episodes = 0;
  for (size_t trunk = 0; trunk < 2; ++trunk) {
    std::vector<CallSpec> turns;
    std::vector<int32_t> history = prompt;
    for (int turn = 0; turn < 2; ++turn) {
      CallSpec call{history, draws.Tokens(4, vocab), {}, {}, {}};
      Annotate(call, draws, kVersion);
      history = Join(Join(history, call.sampled), draws.Tokens(3, vocab));
      turns.push_back(call);
    }
    const std::string trunk_id = "trunk" + std::to_string(trunk);
    trunks.push_back(MakeEpisode(trunk_id, 0, turns));
    trunks.back().mutable_episode()->clear_reward();
    trunks.back().mutable_episode()->set_state(v1::EPISODE_FORKED);
    for (size_t turn = 0; turn < turns.size(); ++turn) {
      add_row(turns[turn], absl::StrCat(trunk_id, "/", turn), episodes, of_trunks[trunk]);
    }
    ++episodes;
    for (size_t i = 2 * trunk; i < 2 * trunk + 2; ++i) {
      std::vector<CallSpec> own;
      std::vector<int32_t> path = history;
      for (int turn = 0; turn < 2; ++turn) {
        CallSpec call{path, draws.Tokens(3, vocab), {}, {}, {}};
        Annotate(call, draws, kVersion);
        path = Join(Join(path, call.sampled), draws.Tokens(2, vocab));
        own.push_back(call);
        add_row(call, absl::StrCat("leaf", i, "/", turn), episodes, of_leaves[i]);
      }
      ++episodes;
      leaves.push_back(MakeEpisode("leaf" + std::to_string(i), rewards[i], own));
      leaves.back().mutable_episode()->mutable_fork()->set_episode_id(trunk_id);
    }
  }
  for (v1::EpisodeTree& trunk : trunks) leaves.push_back(std::move(trunk));
  out.batch.groups = {MakeGroup(0, std::move(leaves))};
  return out;
}

TEST(BranchedTraining, EqualsRowsWrittenOutByHand) {
  for (const auto& [dtype, tolerance] : {std::pair(at::kDouble, 1e-10), {at::kFloat, 1e-5}}) {
    for (const char* aggregation : {"token", "sequence", "prompt"}) {
      const model::ModelConfig config = TinyConfig();
      const model::Transformer model = TrainableModel(config, TinyParameters(config, 3, dtype));
      TrainerOptions options;
      options.loss_aggregation = aggregation;
      options.group_size = 4;
      options.threads = 1;
      const BranchedRows rows = TwoTrunksWithTwoLeaves(config.vocab_size);
      const auto prepared = PrepareBatch(rows.batch, options, config.vocab_size, kVersion);
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      ASSERT_EQ(prepared->calls.size(), rows.calls.size()) << "a trunk's calls are trained once";
      const ReferenceResult reference =
          PerCallReference(model, rows.calls, rows.advantages, options, kVersion, nullptr, {});
      const auto expected = TakeGradients(model);
      const double loss = TreeGradients(model, *prepared, options);
      EXPECT_LE(std::abs(loss - reference.loss), tolerance * reference.loss_abs_terms) << aggregation;
      for (const auto& [name, gradient] : TakeGradients(model)) {
        const double norm = expected.at(name).norm().item<double>();
        ASSERT_GT(norm, 0) << name;
        EXPECT_LE((gradient - expected.at(name)).norm().item<double>(), tolerance * norm) << name << " " << aggregation;
      }
      // Leaves and trunks are one forest: the tokens of a trunk stand in it once.
      const auto forest = *PackBatch(*prepared);
      EXPECT_EQ(forest.size(), 5u + 2u * (2u * 7u + 2u * (3u + 2u + 3u)));
    }
  }
}

// With coefficients 0 the loss is the plain one to the bit.
TEST(TreePass, CoefficientsAtZeroChangeNothing) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 3, at::kFloat));
  const auto prepared = PrepareBatch(RandomBatch(5, config.vocab_size, 0), {}, config.vocab_size, 0);
  ASSERT_TRUE(prepared.ok());
  TrainerOptions options;
  const double plain = TreeGradients(model, *prepared, options);
  const auto gradients = TakeGradients(model);
  options.kl_coefficient = 0.1;
  options.entropy_coefficient = 0.1;
  EXPECT_NE(TreeGradients(model, *prepared, options), plain);
  TakeGradients(model);
  options.kl_coefficient = 0;
  options.entropy_coefficient = 0;
  EXPECT_EQ(TreeGradients(model, *prepared, options), plain);
  for (const auto& [name, gradient] : TakeGradients(model)) EXPECT_TRUE(at::equal(gradient, gradients.at(name)));
}

// The loss's own derivative, without autograd. With the clipped ratios held at their values, the loss is linear in the
// log-probs, which ScoreForest returns.
TEST(TreePass, GradientsAreTheFiniteDifferences) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 9, at::kDouble));
  TrainerOptions options;
  options.eps_clip_high = 1.5;
  const auto prepared = PrepareBatch(RandomBatch(21, config.vocab_size, 0, 2, 3), options, config.vocab_size, 0);
  ASSERT_TRUE(prepared.ok());
  const auto forest = *PackBatch(*prepared);

  std::vector<double> coefficients;
  const auto base = ScoreForest(model, forest, prepared->calls, {});
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const auto& entry = forest.entries[i];
    const size_t call = static_cast<size_t>(entry.call);
    const double ratio = std::exp(base.logprobs[i] - prepared->calls[call].logprobs[static_cast<size_t>(entry.offset)]);
    coefficients.push_back(-std::clamp(ratio, 0.0, 2.5) * prepared->advantages[call] * prepared->weights[call]);
  }
  const auto held = [&] {
    const auto scored = ScoreForest(model, forest, prepared->calls, {});
    double loss = 0;
    for (size_t i = 0; i < coefficients.size(); ++i) loss += coefficients[i] * scored.logprobs[i];
    return loss;
  };
  TreeGradients(model, *prepared, options);
  const auto gradients = TakeGradients(model);
  const at::NoGradGuard no_history;
  constexpr double kStep = 1e-5;
  Draws draws(4);
  for (const auto& [name, gradient] : gradients) {
    at::Tensor flat = model.parameters().at(name).detach().view(-1);
    for (int sample = 0; sample < 4; ++sample) {
      const int64_t at = draws.Below(flat.numel());
      const double value = flat[at].item<double>();
      flat[at].fill_(value + kStep);
      const double above = held();
      flat[at].fill_(value - kStep);
      const double below = held();
      flat[at].fill_(value);
      const double difference = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.view(-1)[at].item<double>(), difference, 1e-7 + 1e-6 * std::abs(difference))
          << name << "[" << at << "]";
    }
  }
}

using Settings = std::function<void(TrainerOptions&)>;

// Every objective and every option of the loss.
std::vector<std::pair<std::string, Settings>> Objectives() {
  const auto clip = [](TrainerOptions& o, const char* objective, const char* aggregation, double low, double high) {
    o.objective = objective, o.loss_aggregation = aggregation, o.eps_clip_low = low, o.eps_clip_high = high;
  };
  return {
      {"forge",
       [](auto& o) {
         o.loss_aggregation = "prompt", o.advantage_baseline = "leave_one_out", o.advantage_credit = "reward_to_go";
       }},
      {"grpo",
       [=](auto& o) {
         clip(o, "ppo_clip", "sequence", 0.2, 0.2);
         o.advantage_normalization = "group", o.reference_kl_coefficient = 0.04;
       }},
      {"dr_grpo",
       [=](auto& o) {
         clip(o, "ppo_clip", "constant", 0.2, 0.2);
         o.loss_constant_tokens = 16;
       }},
      {"dapo",
       [=](auto& o) {
         clip(o, "ppo_clip", "token", 0.2, 0.28);
         o.advantage_normalization = "group", o.filter_zero_variance = true;
       }},
      {"dual_clip",
       [=](auto& o) {
         clip(o, "ppo_clip", "token", 0.2, 0.2);
         o.dual_clip = 3, o.advantage_baseline = "batch", o.advantage_normalization = "batch";
       }},
      {"importance_cap",
       [=](auto& o) {
         clip(o, "ppo_clip", "prompt", 0.2, 0.2);
         o.importance_cap = 2, o.advantage_baseline = "none", o.entropy_coefficient = 0.1;
       }},
      {"gspo", [=](auto& o) { clip(o, "gspo", "sequence", 0.6, 9); }},
      {"opmd",
       [=](auto& o) {
         clip(o, "opmd", "sequence", 0, 1);
         o.opmd_tau = 0.3, o.kl_coefficient = 0.1;
       }},
      {"k15",
       [=](auto& o) {
         clip(o, "opmd", "sequence", 0, 1);
         o.advantage_credit = "reward_to_go", o.train_segments = "current_version";
       }},
      {"max_age",
       [](auto& o) { o.train_segments = "max_age", o.train_segments_max_age = 1, o.loss_aggregation = "sequence"; }},
      {"dpo", [=](auto& o) { clip(o, "dpo", "sequence", 0, 1); }},
  };
}

// Masks of tokens and of sequences, before objectives of both kinds.
std::vector<std::pair<std::string, Settings>> Masks() {
  return {
      {"masked_cispo",
       [](auto& o) {
         o.eps_clip_high = 1, o.kl_coefficient = 0.1, o.entropy_coefficient = 0.1;
         o.off_policy_mask = {0.2, 6, 0.6, 1.6, 0.3};
       }},
      {"masked_tokens",
       [](auto& o) {
         o.objective = "ppo_clip", o.loss_aggregation = "prompt", o.eps_clip_low = 0.2, o.eps_clip_high = 0.2;
         o.dual_clip = 3, o.off_policy_mask = {.token_low = 0.3, .token_high = 4};
       }},
      {"masked_gspo",
       [](auto& o) {
         o.objective = "gspo", o.loss_aggregation = "sequence", o.eps_clip_low = 0.6, o.eps_clip_high = 9;
         o.off_policy_mask = {0.2, 6, 0.6, 1.6, 0};
       }},
      {"masked_opmd",
       [](auto& o) {
         o.objective = "opmd", o.loss_aggregation = "sequence", o.opmd_tau = 0.3;
         o.advantage_credit = "reward_to_go", o.off_policy_mask = {.token_low = 0.2, .opsm_delta = 0.3};
       }},
  };
}

// Further ones, with a seed of their own: above, a seed is the number of cases before it.
std::vector<std::pair<std::string, Settings>> LaterObjectives() {
  return {
      {"kl_k1", [](auto& o) { o.kl_coefficient = 0.2, o.reference_kl_coefficient = 0.3, o.kl_kind = "k1"; }},
      {"kl_k2", [](auto& o) { o.kl_coefficient = 0.2, o.reference_kl_coefficient = 0.3, o.kl_kind = "k2"; }},
      {"kl_abs", [](auto& o) { o.reference_kl_coefficient = 0.3, o.kl_kind = "abs"; }},
      {"sapo", [](auto& o) { o.objective = "sapo", o.loss_aggregation = "sequence", o.sapo_tau_negative = 2; }},
  };
}

// Losses in Python, whole and cut.
std::vector<std::pair<std::string, Settings>> CustomLosses() {
  return {
      {"custom_cispo", [](auto& o) { UseCustomLoss(o, "cispo", "call"), o.eps_clip_low = 1, o.eps_clip_high = 4; }},
      {"custom_ppo_clip",
       [](auto& o) {
         UseCustomLoss(o, "ppo_clip", "call");
         o.eps_clip_low = 0.2, o.eps_clip_high = 0.2, o.reference_kl_coefficient = 0.1;
         o.off_policy_mask = {.token_low = 0.2, .token_high = 6};
       }},
      {"custom_gspo",
       [](auto& o) {
         UseCustomLoss(o, "gspo", "batch");
         o.loss_aggregation = "sequence", o.eps_clip_low = 3e-4, o.eps_clip_high = 4e-4;
       }},
  };
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const std::string type = dtype == at::kDouble ? "fp64" : "fp32";
    for (const char* aggregation : {"token", "sequence", "prompt"}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        cases.push_back({absl::StrCat(type, "_", aggregation, "_", seed), aggregation, dtype, seed * 101});
      }
      Case cut{absl::StrCat(type, "_", aggregation, "_cut"), aggregation, dtype, 77};
      cut.micro_batch_tokens = 24;
      cut.logits_chunk_elements = 37 * 5;
      cases.push_back(cut);
    }
    Case penalties{type + "_penalties", "token", dtype, 55};
    penalties.kl_coefficient = 0.3;
    penalties.entropy_coefficient = 0.2;
    cases.push_back(penalties);
    Case unclipped{type + "_defaults", "prompt", dtype, 56};
    unclipped.eps_clip_low = 1.0;
    cases.push_back(unclipped);
    // Tiles cut along each path (numerics exact): the same gradient, in the stream's own order.
    for (const bool cut : {false, true}) {
      Case exact{absl::StrCat(type, "_exact", cut ? "_cut" : ""), "token", dtype, 91};
      exact.settings = [](auto& o) { o.numerics = kernels::Numerics::kExact, o.entropy_coefficient = 0.1; };
      if (cut) exact.micro_batch_tokens = 24;
      cases.push_back(exact);
    }
    for (const auto& [name, settings] : Objectives()) {
      for (const bool cut : {false, true}) {
        Case c{absl::StrCat(type, "_", name, cut ? "_cut" : ""), "token", dtype, 300 + cases.size()};
        c.settings = settings;
        if (cut) {
          c.micro_batch_tokens = 24;
          c.logits_chunk_elements = 37 * 5;
        }
        cases.push_back(c);
      }
    }
  }
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const auto& [name, settings] : Masks()) {
      for (const bool cut : {false, true}) {
        Case c{absl::StrCat(dtype == at::kDouble ? "fp64_" : "fp32_", name, cut ? "_cut" : ""), "token", dtype, 700};
        c.settings = settings;
        if (cut) {
          c.micro_batch_tokens = 24;
          c.logits_chunk_elements = 37 * 5;
        }
        cases.push_back(c);
      }
    }
    for (const auto& [name, settings] : CustomLosses()) {
      for (const bool cut : {false, true}) {
        Case c{absl::StrCat(dtype == at::kDouble ? "fp64_" : "fp32_", name, cut ? "_cut" : ""), "token", dtype, 700};
        c.settings = settings;
        if (cut) c.micro_batch_tokens = 24, c.logits_chunk_elements = 37 * 5;
        cases.push_back(c);
      }
    }
    for (const auto& [name, settings] : LaterObjectives()) {
      Case c{absl::StrCat(dtype == at::kDouble ? "fp64_" : "fp32_", name), "token", dtype, 55};
      c.settings = settings;
      cases.push_back(c);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(RandomForests, TreeTraining, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ingot::trainer
