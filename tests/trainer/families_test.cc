// Every family in the trainer: merged trees equal the engine to the bit, and training each call alone to rounding.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "branching_calls.h"
#include "makers.h"
#include "per_call_reference.h"
#include "tiny_model.h"
#include "trainer/forest_pass.h"
#include "trainer/trainer.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

void AddExperts(model::ModelConfig& config) {
  config.experts.count = 5;
  config.experts.per_token = 2;
  config.experts.width = 24;
  config.experts.normalize = true;
}

void MakeFamily(const std::string& name, model::ModelConfig& c) {
  c.tie_word_embeddings = false;
  c.qk_norm = name != "mistral" && name != "gpt_oss";
  c.model_type = name == "lora" ? "qwen3" : name;
  if (name == "lora")
    c.lora = {.rank = 3, .alpha = 6, .targets = {"down_proj", "gate_proj", "o_proj", "q_proj", "v_proj"}};
  if (name == "mistral") c.sliding_window = 9;
  if (name == "gemma3_text") {
    c.gemma = c.tie_word_embeddings = true;
    c.hidden_act = "gelu_pytorch_tanh";
    c.query_scale = 0.3;
    c.local_rope_theta = 500;
    c.sliding_window = 9;
    c.windowed = {true, false};
  }
  if (name == "qwen3_moe") AddExperts(c);
  if (name == "glm4_moe") {
    AddExperts(c);
    c.experts.count = 6;
    c.experts.groups = 2;
    c.experts.groups_per_token = 1;
    c.experts.scoring = "sigmoid";
    c.experts.correction_bias = true;
    c.experts.scale = 1.5;
    c.experts.shared_width = 24;
    c.experts.dense_layers = 1;
    c.rotary_dim = c.head_dim / 2;
  }
  if (name == "minimax_m2") {
    AddExperts(c);
    c.experts.scoring = "sigmoid";
    c.experts.correction_bias = true;
    c.qk_norm_whole = true;
    c.rotary_dim = c.head_dim / 2;
  }
  if (name == "deepseek_v3") {
    AddExperts(c);
    c.experts.scoring = "sigmoid";
    c.experts.correction_bias = true;
    c.experts.shared_width = 24;
    c.experts.dense_layers = 1;
    c.qk_norm = false;
    c.num_key_value_heads = c.num_attention_heads;
    c.latent = {.kv_rank = 12, .query_rank = 8, .plain_dim = 6, .rotary_dim = c.head_dim, .value_dim = 5};
    c.query_scale = 0.3;
  }
  if (name == "gpt_oss") {
    AddExperts(c);
    c.experts.normalize = false;
    c.experts.scoring = "softmax_chosen";
    c.experts.router_bias = c.experts.bias = true;
    c.attention_bias = c.attention_out_bias = c.sinks = true;
    c.hidden_act = "clamped";
    c.sliding_window = 9;
    c.windowed = {true, false};
  }
}

// Weights of all tensors random: biases, norms, sinks and adapters too.
model::Parameters Shaken(const model::ModelConfig& config, at::ScalarType dtype, double factor) {
  model::Parameters parameters = model::Parameters::Init(config, 5, at::kDouble);
  uint64_t n = 0;
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(factor);
    double* values = tensor.mutable_data_ptr<double>();
    for (int64_t i = 0; i < tensor.numel(); ++i) values[i] += 0.1 * (2 * base::UniformAt(11, n++) - 1);
    tensor = tensor.to(dtype);
  }
  return parameters;
}

class Families : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Families,
                         ::testing::Values("mistral", "gemma3_text", "qwen3_moe", "glm4_moe", "minimax_m2", "gpt_oss",
                                           "deepseek_v3", "lora"));

TEST_P(Families, MergedTreesAreTheEnginesToTheBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    model::ModelConfig config = BranchingConfig(at::kFloat);
    MakeFamily(GetParam(), config);
    ASSERT_TRUE(config.Validate().ok()) << config.Validate();
    const model::Parameters parameters = Shaken(config, dtype, 3);
    rollout::EngineOptions options;
    options.max_batch_tokens = 48;
    options.max_running = 24;
    const auto engine = EngineOver(config, options, parameters);
    Brancher brancher(*engine, config.vocab_size, 3);
    SampleBranches(brancher, 12, 2);
    const auto model = *model::Transformer::Create(config, parameters);
    PassOptions pass;
    pass.numerics = kernels::Numerics::kExact;
    pass.part_tokens = 700;
    const auto forest = *tree::PackForest(brancher.calls, tree::OrderChainFirst(brancher.calls));
    const PassResult result = ScoreForest(model, forest, brancher.calls, pass);
    int64_t unequal = 0;
    for (size_t i = 0; i < forest.entries.size(); ++i) {
      const tree::LossEntry& e = forest.entries[i];
      unequal += result.logprobs[i] != brancher.calls[size_t(e.call)].logprobs[size_t(e.offset)];
    }
    EXPECT_GT(forest.entries.size(), 500u);
    EXPECT_EQ(unequal, 0) << "of " << forest.entries.size() << " in " << dtype;
  }
}

// A sum of log-probs with fixed factors.
class Mix final : public EntryLoss {
 public:
  static double Factor(const tree::LossEntry& e) { return std::sin(1.0 + 3 * e.call + 7 * e.offset); }
  double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs, std::span<const double>,
                  std::span<double> by_logprob, std::span<double>) override {
    double loss = 0;
    for (size_t i = 0; i < entries.size(); ++i) loss += (by_logprob[i] = Factor(entries[i])) * logprobs[i];
    return loss;
  }
  bool uses_entropy() const override { return false; }
};

std::vector<tree::CallPath> ForkedCalls(int64_t vocab) {
  Draws draws(6);
  const auto spine = draws.Tokens(40, vocab);
  std::vector<tree::CallPath> calls;
  for (const int64_t fork : {5, 12, 12, 26, 39}) {
    tree::CallPath call;
    call.context = tree::TokenPath({spine.begin(), spine.begin() + fork});
    call.sampled = draws.Tokens(7 + fork % 9, vocab);
    const size_t sampled = call.sampled.size();
    call.logprobs.assign(sampled, 0), call.versions.assign(sampled, 0), call.kv_mixed.assign(sampled, 0);
    calls.push_back(call);
  }
  return calls;
}

model::Transformer Trainable(const model::ModelConfig& config, at::ScalarType dtype) {
  return TrainableModel(config, Shaken(config, dtype, 8));
}

// The largest distance of two sets of gradients, relative to the second's norm, over the trained tensors.
double Distance(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  double largest = 0;
  for (const auto& [name, gradient] : b) {
    const double norm = gradient.norm().item<double>(), gap = (a.at(name) - gradient).norm().item<double>();
    if (gap > 0) largest = std::max(largest, gap / std::max(norm, 1e-30));
  }
  return largest;
}

TEST_P(Families, GradientsEqualTrainingEachCallAlone) {
  model::ModelConfig config = TinyConfig();
  MakeFamily(GetParam(), config);
  const model::Transformer model = Trainable(config, at::kDouble);
  const std::vector<tree::CallPath> calls = ForkedCalls(config.vocab_size);
  for (size_t c = 0; c < calls.size(); ++c) {
    const at::Tensor logprobs = LabelLogprobs(SampledLogSoftmax(model, calls[c]), calls[c]);
    at::Tensor loss = at::zeros({}, logprobs.options());
    for (int64_t t = 0; t < logprobs.size(0); ++t) {
      loss = loss + logprobs[t] * Mix::Factor({0, 0, int32_t(c), int32_t(t)});
    }
    loss.backward();
  }
  const auto expected = TakeGradients(model);
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  for (const int64_t part_tokens : {int64_t{1} << 20, int64_t{16}}) {
    for (const bool checkpointed : {false, true}) {
      Mix mix;
      PassOptions pass;
      pass.part_tokens = part_tokens;
      pass.checkpoint_layers = checkpointed;
      AccumulateGradients(model, forest, calls, mix, pass);
      EXPECT_LT(Distance(TakeGradients(model), expected), 1e-9) << part_tokens;
    }
  }
}

class Routed : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Routed, ::testing::Values("qwen3_moe", "glm4_moe", "minimax_m2", "gpt_oss"));

// The load-balancing term of a merged tree, with its gradient, is that of the calls side by side.
TEST_P(Routed, TheBalanceOfAMergedTreeIsThatOfItsCallsAlone) {
  model::ModelConfig config = TinyConfig();
  MakeFamily(GetParam(), config);
  const model::Transformer model = Trainable(config, at::kDouble);
  const std::vector<tree::CallPath> calls = ForkedCalls(config.vocab_size);
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  // Each call under a vocabulary of its own roots: no two merge, as their first tokens differ in depth-0 copies.
  tree::PackedForest apart;
  std::vector<tree::PackedForest> alone;
  for (size_t c = 0; c < calls.size(); ++c) {
    const auto one = *tree::PackForest(calls, std::vector<int32_t>{int32_t(c)});
    const auto begin = static_cast<int32_t>(apart.size());
    apart.token_ids.insert(apart.token_ids.end(), one.token_ids.begin(), one.token_ids.end());
    apart.positions.insert(apart.positions.end(), one.positions.begin(), one.positions.end());
    for (const int32_t end : one.visible_end) apart.visible_end.push_back(begin + end);
    for (tree::LossEntry entry : one.entries) {
      entry.row += begin;
      apart.entries.push_back(entry);
    }
    for (const int32_t end : one.call_ends) apart.call_ends.push_back(begin + end);
    apart.call_indices.push_back(int32_t(c));
  }
  const auto run = [&](const tree::PackedForest& packed, StepMetrics& metrics) {
    Mix mix;
    ExpertRecord record(packed, config.num_hidden_layers, 0.5);
    PassOptions pass;
    pass.experts = &record;
    AccumulateGradients(model, packed, calls, mix, pass);
    record.Report(metrics);
    return TakeGradients(model);
  };
  StepMetrics merged, unmerged, none;
  const auto expected = run(apart, unmerged), found = run(forest, merged);
  EXPECT_LT(forest.size(), apart.size());
  EXPECT_LT(Distance(found, expected), 1e-9);
  for (const char* name : {"experts/load_max", "experts/load_min", "experts/router_entropy", "experts/balance_loss"}) {
    EXPECT_NEAR(merged.at(name), unmerged.at(name), 1e-9) << name;
  }
  EXPECT_GT(unmerged.at("experts/balance_loss"), 0);
  Mix mix;
  AccumulateGradients(model, forest, calls, mix, {});
  EXPECT_GT(Distance(TakeGradients(model), expected), 1e-4) << "the term has a gradient";
}

// Routes that are replayed are those that the router chooses, so that with one engine replay changes nothing.
TEST_P(Routed, ReplayOfItsOwnRoutesChangesNothing) {
  model::ModelConfig config = TinyConfig();
  MakeFamily(GetParam(), config);
  const model::Transformer model = Trainable(config, at::kFloat);
  const at::Tensor positions = at::arange(11, at::kLong);
  const at::Tensor x = at::randn({11, config.hidden_size});
  const int64_t layer = config.num_hidden_layers - 1;
  DenseCausal attention;
  model::Aux told, replayed, other;
  const at::Tensor first = model.RunLayer(layer, x, positions, attention, &told);
  replayed.replay = told.routes;
  EXPECT_TRUE(at::equal(model.RunLayer(layer, x, positions, attention, &replayed), first));
  EXPECT_TRUE(at::equal(replayed.load, told.load));
  other.replay = (told.routes + 1).remainder(config.experts.count);
  EXPECT_FALSE(at::equal(model.RunLayer(layer, x, positions, attention, &other), first));
}

TEST(RouterBias, MovesTowardsEvenLoads) {
  model::ModelConfig config = TinyConfig();
  MakeFamily("minimax_m2", config);
  const model::Transformer model = Trainable(config, at::kFloat);
  const auto calls = ForkedCalls(config.vocab_size);
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  ExpertRecord record(forest, config.num_hidden_layers, 0);
  PassOptions pass;
  pass.experts = &record;
  Mix mix;
  AccumulateGradients(model, forest, calls, mix, pass);
  const std::string name = "model.layers.0.block_sparse_moe.e_score_correction_bias";
  const at::Tensor before = model.parameters().at(name).clone();
  UpdateRouterBiases(model, record, 0.25);
  const at::Tensor change = model.parameters().at(name) - before, load = record.load(0);
  for (int64_t e = 0; e < config.experts.count; ++e) {
    const double mean = load.mean().item<double>(), own = load[e].item<double>();
    EXPECT_NEAR(change[e].item<double>(), own < mean ? 0.25 : own > mean ? -0.25 : 0, 1e-6);
  }
}

}  // namespace
}  // namespace ingot::trainer
