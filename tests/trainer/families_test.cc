// Every family in the trainer: merged trees equal the engine to the bit, and training each call alone to rounding.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "advantages/branching_calls.h"
#include "makers.h"
#include "per_call_reference.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/pass/recorded_routes.h"
#include "trainer/trainer.h"
#include "tree/cut.h"
#include "weights/delta.h"

namespace ingot::trainer {
namespace {

void AddExperts(model::ModelConfig& config) {
  config.experts.count = 5;
  config.experts.per_token = 2;
  config.experts.width = 24;
  config.experts.normalize = true;
}

void MakeFamily(const std::string& name, model::ModelConfig& c) {
  if (name == "lora_experts") {
    MakeFamily("glm4_moe", c);
    c.lora = {.rank = 3, .alpha = 6, .targets = {"down_proj", "experts.down_proj", "experts.gate_proj", "q_proj"}};
    return;
  }
  if (name == "lora_hybrid") {
    MakeFamily("qwen3_next", c);
    c.lora = {
        .rank = 3, .alpha = 6, .targets = {"in_proj_ba", "in_proj_qkvz", "out_proj", "q_proj", "shared_expert_gate"}};
    return;
  }
  if (name == "lora_latent") {
    MakeFamily("deepseek_v3", c);
    c.lora = {.rank = 3, .alpha = 6, .targets = {"kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_b_proj"}};
    return;
  }
  c.tie_word_embeddings = false;
  c.qk_norm = name != "llama" && name != "mistral" && name != "gpt_oss" && name != "gemma2";
  c.model_type = name == "lora" ? "qwen3" : name;
  if (name == "lora")
    c.lora = {.rank = 3, .alpha = 6, .targets = {"down_proj", "gate_proj", "o_proj", "q_proj", "v_proj"}};
  if (name == "mistral") c.sliding_window = 9;
  if (name == "gemma2" || name == "gemma3_text") {
    c.gemma = c.tie_word_embeddings = true;
    c.hidden_act = "gelu_pytorch_tanh";
    c.query_scale = 0.3;
    if (name == "gemma3_text") c.local_rope_theta = 500;
    c.sliding_window = 9;
    c.windowed = {true, false};
  }
  if (name == "gemma2") {
    c.attention_soft_cap = 2;
    c.logit_soft_cap = 1.5;
  }
  if (name == "llama") c.mlp_bias = true;
  if (name == "qwen3_moe") {
    AddExperts(c);
    c.num_hidden_layers = 3;
    c.experts.plain_layers = {1};
  }
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
  if (name == "qwen3_next") {
    AddExperts(c);
    c.experts.shared_width = 24;
    c.experts.shared_gate = true;
    c.attention_gate = c.centred_norms = true;
    c.rotary_dim = c.head_dim / 2;
    c.num_hidden_layers = 3;
    c.recurrent = {
        .key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 10, .kernel = 4, .layers = {true, false, true}};
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
    if (name.ends_with("A_log")) tensor.sub_(4);  // states last for long
    double* values = tensor.mutable_data_ptr<double>();
    for (int64_t i = 0; i < tensor.numel(); ++i) values[i] += 0.1 * (2 * base::UniformAt(11, n++) - 1);
    tensor = tensor.to(dtype);
  }
  return parameters;
}

class Families : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Families,
                         ::testing::Values("llama", "mistral", "gemma2", "gemma3_text", "qwen3_moe", "glm4_moe",
                                           "minimax_m2", "gpt_oss", "deepseek_v3", "qwen3_next", "lora", "lora_experts",
                                           "lora_latent", "lora_hybrid"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Families, MergedTreesAreTheEnginesToTheBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    model::ModelConfig config = BranchingConfig(at::kFloat);
    MakeFamily(GetParam(), config);
    ASSERT_TRUE(config.Validate().ok()) << config.Validate();
    const model::Parameters parameters = Shaken(config, dtype, 3);
    rollout::EngineOptions options;
    options.max_batch_tokens = 48;
    options.max_running = 24;
    options.record_routes = true;
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
    // Replay of the engine's routes changes no bit.
    const RecordedRoutes routes(forest, brancher.calls, config, /*replay=*/true);
    EXPECT_EQ(routes.empty(), config.experts.count == 0);
    EXPECT_EQ(routes.conflicts(), 0);
    pass.routes = &routes;
    EXPECT_EQ(ScoreForest(model, forest, brancher.calls, pass).logprobs, result.logprobs);
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
INSTANTIATE_TEST_SUITE_P(, Routed,
                         ::testing::Values("qwen3_moe", "glm4_moe", "minimax_m2", "gpt_oss", "deepseek_v3",
                                           "qwen3_next"));

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
  model::Aux reported, replayed, other, counted;
  const at::Tensor first = model.RunLayer(layer, x, positions, attention, &reported);
  replayed.recorded = reported.routes;
  replayed.replay = true;
  EXPECT_TRUE(at::equal(model.RunLayer(layer, x, positions, attention, &replayed), first));
  EXPECT_TRUE(at::equal(replayed.load, reported.load));
  EXPECT_EQ(replayed.compared, 11);
  EXPECT_EQ(replayed.differing, 0);
  // Rows 3 to 6 have another record, rows 7 and on have none.
  other.recorded = reported.routes.clone();
  other.recorded.narrow(0, 3, 4).add_(1).remainder_(config.experts.count);
  other.recorded.narrow(0, 7, 4).fill_(-1);
  counted.recorded = other.recorded;
  other.replay = true;
  const at::Tensor changed = model.RunLayer(layer, x, positions, attention, &other);
  EXPECT_TRUE(at::equal(changed.narrow(0, 0, 3), first.narrow(0, 0, 3)));
  for (int64_t row = 3; row < 7; ++row) EXPECT_FALSE(at::equal(changed[row], first[row])) << row;
  EXPECT_TRUE(at::equal(changed.narrow(0, 7, 4), first.narrow(0, 7, 4)));
  EXPECT_TRUE(at::equal(model.RunLayer(layer, x, positions, attention, &counted), first)) << "without replay";
  for (const model::Aux& aux : {other, counted}) {
    EXPECT_EQ(aux.compared, 7);
    EXPECT_EQ(aux.differing, 4);
  }
  // The order of the record is that of the sum, not of the choice.
  model::Aux reversed;
  reversed.recorded = reported.routes.flip(1);
  reversed.replay = true;
  EXPECT_TRUE(at::allclose(model.RunLayer(layer, x, positions, attention, &reversed), first, 1e-4, 1e-5));
  EXPECT_EQ(reversed.differing, 0);
}

// The calls of one group in two episodes, with their routes as an engine recorded them.
TrainBatch BatchOf(const std::vector<tree::CallPath>& calls, int64_t shift, int64_t experts) {
  std::vector<std::vector<CallSpec>> episodes(2);
  for (size_t c = 0; c < calls.size(); ++c) {
    const tree::CallPath& call = calls[c];
    CallSpec spec{call.context.Tokens(), call.sampled, call.logprobs, {}, {}, call.temperature, call.routes};
    for (uint16_t& expert : spec.routes) expert = static_cast<uint16_t>((expert + shift) % experts);
    episodes[c % 2].push_back(std::move(spec));
  }
  TrainBatch batch;
  batch.groups = {MakeGroup(0, {MakeEpisode("a", 1, episodes[0]), MakeEpisode("b", 0, episodes[1])})};
  return batch;
}

// With the engine's own routes a step is the same to the bit, replayed or not. Forged ones change its loss if they are
// replayed, and are counted either way.
TEST(Replay, OfTheEnginesRoutesChangesNoBitOfAStep) {
  model::ModelConfig config = BranchingConfig(at::kFloat);
  MakeFamily("qwen3_moe", config);
  const model::Parameters parameters = Shaken(config, at::kFloat, 3);
  rollout::EngineOptions engine_options;
  engine_options.record_routes = true;
  const auto engine = EngineOver(config, engine_options, parameters);
  Brancher brancher(*engine, config.vocab_size, 3);
  SampleBranches(brancher, 12, 1);
  struct Step {
    StepMetrics metrics;
    uint64_t weights;
  };
  const auto step = [&](bool replay, int64_t shift) {
    TrainerOptions options;
    options.numerics = kernels::Numerics::kExact;
    options.micro_batch_tokens = 600;
    options.checkpoint_layers = true;
    options.optimizer.learning_rate = 0.01;
    options.total_steps = 1;
    options.replay_routes = replay;
    auto trainer = *Trainer::Create(options, config, parameters);
    const auto report = trainer->TrainStep(BatchOf(brancher.calls, shift, config.experts.count));
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->expert_loads.size(), 2u);
    EXPECT_EQ(report->expert_loads[1].second.size(), static_cast<size_t>(config.experts.count));
    return Step{report->metrics, (*trainer->TakeSnapshot())->checksum()};
  };
  const Step plain = step(false, 0), replayed = step(true, 0), counted = step(false, 1), forged = step(true, 1);
  EXPECT_EQ(replayed.weights, plain.weights);
  for (const char* name : {"actor/loss", "actor/grad_norm", "mismatch/logprob_abs_diff_max", "experts/load_max"}) {
    EXPECT_EQ(replayed.metrics.at(name), plain.metrics.at(name)) << name;
  }
  EXPECT_EQ(plain.metrics.at("mismatch/routes_differ"), 0);
  EXPECT_EQ(replayed.metrics.at("mismatch/routes_differ"), 0);
  EXPECT_EQ(replayed.metrics.at("mismatch/routes_conflicts"), 0);
  EXPECT_GT(plain.metrics.at("mismatch/routes_compared"), 200);
  EXPECT_EQ(counted.weights, plain.weights) << "not replayed";
  EXPECT_EQ(counted.metrics.at("mismatch/routes_differ"), 1);
  EXPECT_NE(forged.weights, plain.weights);
  EXPECT_NE(forged.metrics.at("actor/loss"), plain.metrics.at("actor/loss"));
  EXPECT_GT(forged.metrics.at("mismatch/routes_differ"), 0.5);
  EXPECT_EQ(plain.metrics.at("mismatch/logprob_abs_diff_max"), 0);
  EXPECT_GT(forged.metrics.at("mismatch/logprob_abs_diff_max"), 0);
}

// The update that goes to the engines after a step of adapters.
TEST(AdapterDelta, HoldsTheFactorsAlone) {
  model::ModelConfig config = TinyConfig();
  MakeFamily("lora_experts", config);
  TrainerOptions options;
  options.optimizer.learning_rate = 0.01;
  auto trainer = *Trainer::Create(options, config, Shaken(config, at::kFloat, 3));
  const auto before = *trainer->TakeSnapshot();
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(4, config.vocab_size, 0)).ok());
  const auto after = *trainer->TakeSnapshot();
  const auto delta = *weights::Encode(before.get(), *after, /*retain=*/false);
  int64_t factors = 0, payload = 0, changed = 0;
  for (const v1::TensorDelta& tensor : delta.tensors) {
    const std::string& name = delta.header.target().tensors(tensor.tensor()).name();
    const bool factor = name.find(".lora_") != std::string::npos;
    EXPECT_TRUE(factor || tensor.coding() == v1::TENSOR_UNCHANGED) << name;
    changed += tensor.coding() != v1::TENSOR_UNCHANGED;
    payload += static_cast<int64_t>(tensor.payload().size());
    if (factor) factors += trainer->parameters().at(name).numel();
  }
  EXPECT_EQ(factors, model::SpecOf(config).trained_elements());
  EXPECT_GT(changed, 0);
  EXPECT_LE(payload, factors * 4 + 16 * delta.header.target().tensors_size());
}

TEST(ReplayOfForgedRoutes, IsRejectedWhereTheyDoNotFitTheModel) {
  model::ModelConfig config = TinyConfig();
  MakeFamily("qwen3_moe", config);  // two layers of 5 experts, of which a token takes 2
  std::vector<tree::CallPath> calls = ForkedCalls(config.vocab_size);
  for (tree::CallPath& call : calls) {
    for (size_t i = 0; i < 4 * call.sampled.size(); ++i) call.routes.push_back(static_cast<uint16_t>(i % 2));
  }
  auto trainer = *Trainer::Create(TrainerOptions(), config, Shaken(config, at::kFloat, 3));
  const auto fault = [&](const std::vector<tree::CallPath>& of) {
    return std::string(trainer->TrainStep(BatchOf(of, 0, 1000)).status().message());
  };
  auto wrong = calls;
  wrong[0].routes.resize(2 * wrong[0].sampled.size());
  EXPECT_THAT(fault(wrong), testing::HasSubstr("the model's layers need 4 for each"));
  wrong = calls;
  wrong[2].routes[5] = 5;
  EXPECT_THAT(fault(wrong), testing::HasSubstr("the routes of sampled token 1 name expert 5, of 5"));
  wrong = calls;
  wrong[2].routes[5] = wrong[2].routes[4];
  EXPECT_THAT(fault(wrong), testing::HasSubstr("name expert 0 twice"));
  EXPECT_EQ(fault(calls), "");
  model::ModelConfig dense = TinyConfig();
  auto without = *Trainer::Create(TrainerOptions(), dense, Shaken(dense, at::kFloat, 3));
  EXPECT_EQ(without->TrainStep(BatchOf(calls, 0, 1000)).status().code(), absl::StatusCode::kInvalidArgument);
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

// A step's rate of 0.001 is less than half a unit of bf16 at 1.
TEST(RouterBias, MovesInFp32BesideWeightsInBf16) {
  model::ModelConfig config = TinyConfig();
  MakeFamily("minimax_m2", config);
  model::Parameters parameters = Shaken(config, at::kBFloat16, 3);
  const std::string name = "model.layers.0.block_sparse_moe.e_score_correction_bias";
  parameters.tensors().at(name).fill_(1);
  TrainerOptions options;
  options.expert_bias_rate = 0.001;
  auto trainer = *Trainer::Create(options, config, std::move(parameters));
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(4, config.vocab_size, 0)).ok());
  EXPECT_EQ(trainer->parameters().at("model.layers.0.self_attn.q_proj.weight").scalar_type(), at::kBFloat16);
  const at::Tensor moved = (trainer->parameters().at(name) - 1).abs();
  EXPECT_EQ(moved.scalar_type(), at::kFloat);
  EXPECT_NEAR(moved.max().item<double>(), 0.001, 1e-6);
}

// Engines take no fp64.
TEST(RouterBias, OfFp64IsFp32WhereTheTypeIsGiven) {
  model::ModelConfig config = TinyConfig();
  MakeFamily("minimax_m2", config);
  for (const auto& [dtype, type] : {std::pair("bf16", at::kBFloat16), {"fp32", at::kFloat}}) {
    TrainerOptions options;
    options.dtype = dtype;
    const auto trainer = *Trainer::Create(options, config, Shaken(config, at::kDouble, 3));
    for (const auto& [name, tensor] : trainer->parameters().tensors()) {
      EXPECT_EQ(tensor.scalar_type(), name.ends_with("e_score_correction_bias") ? at::kFloat : type) << name;
    }
  }
}

}  // namespace
}  // namespace ingot::trainer
