// FLOPs, pairs and memory of layers that are not plain, worked by hand. A row has 8 numbers, a vocabulary 10 ids.
#include "trainer/pass/step_bound.h"

#include <gtest/gtest.h>

#include "../tiny_model.h"
#include "trainer/parallel/divide.h"
#include "trainer/pass/memory.h"
#include "trainer/pass/window_pairs.h"
#include "trainer/step/bound_meter.h"

namespace ingot::trainer {
namespace {

// Two heads of 4 numbers, one of keys.
model::ModelConfig Tiny(const std::string& type) {
  model::ModelConfig c;
  c.model_type = type;
  c.vocab_size = 10;
  c.hidden_size = 8;
  c.intermediate_size = 12;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 4;
  c.max_position_embeddings = 100;
  return c;
}

model::ModelConfig Gemma() {
  model::ModelConfig c = Tiny("gemma3_text");
  c.gemma = c.tie_word_embeddings = c.qk_norm = true;
  c.hidden_act = "gelu_pytorch_tanh";
  c.sliding_window = 3;
  c.windowed = {true, false};
  c.local_rope_theta = 500;
  return c;
}

model::ModelConfig GptOss() {
  model::ModelConfig c = Tiny("gpt_oss");
  c.experts = {.count = 4, .per_token = 2, .width = 5, .scoring = "softmax_chosen", .router_bias = true, .bias = true};
  c.attention_bias = c.attention_out_bias = c.sinks = true;
  c.hidden_act = "clamped";
  c.sliding_window = 3;
  c.windowed = {true, false};
  return c;
}

// A dense layer and one of experts, both over latents.
model::ModelConfig Deepseek() {
  model::ModelConfig c = Tiny("deepseek_v3");
  c.num_key_value_heads = 2;
  c.head_dim = 2;
  c.latent = {.kv_rank = 4, .query_rank = 3, .plain_dim = 2, .rotary_dim = 2, .value_dim = 3};
  c.query_scale = 0.5;
  c.experts = {.count = 4, .per_token = 2, .width = 5, .shared_width = 5, .dense_layers = 1, .scoring = "sigmoid"};
  c.experts.correction_bias = true;
  return c;
}

// Merging cannot gain more than its bound. "tree 10.3x of 8.0x (128%)" was caused by rates measured too slow.
TEST(BoundMeter, AStepFasterThanEveryMeasurementIsItsOwnBound) {
  TrainerOptions options;
  const model::ModelConfig config = TinyConfig();
  const Policy policy(options, TrainableModel(config, TinyParameters(config, 1, at::kFloat)), nullptr);
  BoundMeter meter(options, policy, nullptr);
  StepTally tally;
  tally.plain.work = SequenceWork(config, 100);
  tally.plain.unmerged = SequenceWork(config, 100);
  tally.plain.unmerged.Add(SequenceWork(config, 100));
  for (int step = 0; step < 8; ++step) {
    tally.plain.pass_seconds = 1e-9;
    StepMetrics metrics;
    meter.Report(tally, metrics);
    EXPECT_NEAR(metrics.at("perf/of_bound"), 1, 1e-6) << step;
    EXPECT_NEAR(metrics.at("tree/speedup"), metrics.at("tree/speedup_bound"), 1e-6) << step;
    EXPECT_NEAR(metrics.at("tree/speedup_bound"), 2, 1e-6) << step;
  }
  tally.plain.pass_seconds = 2e-9;  // a later step, half as fast
  StepMetrics metrics;
  meter.Report(tally, metrics);
  EXPECT_NEAR(metrics.at("perf/of_bound"), 0.5, 1e-6);
}

TEST(Flops, OfLocalAndGlobalLayers) {
  const model::ModelConfig c = Gemma();
  ASSERT_EQ(c.Validate(), absl::OkStatus());
  // q 64, k 32, v 32, o 64, gate, up and down 96 each: 480 a layer.
  EXPECT_EQ(LayerFlops(c, 1), 6 * 2 * 480);
  EXPECT_EQ(HeadFlops(c, 1), 6 * 80);
  const PairFlops pairs(c);
  EXPECT_EQ(pairs.full, 14 * 8);
  EXPECT_EQ(pairs.windowed, 14 * 8);
  const StepWork work = SequenceWork(c, 5);
  EXPECT_EQ(work.visible_pairs, 1 + 2 + 3 + 4 + 5);
  EXPECT_EQ(work.window_pairs, 1 + 2 + 3 + 3 + 3);
}

TEST(Flops, OfExpertsWithSinks) {
  const model::ModelConfig c = GptOss();
  ASSERT_EQ(c.Validate(), absl::OkStatus());
  // Attention 192, router 4 * 8, two experts of 3 * 5 * 8.
  EXPECT_EQ(LayerFlops(c, 3), 3 * 6 * 2 * (192 + 32 + 240));
  EXPECT_EQ(PairFlops(c).windowed, 14 * 8);
}

TEST(Flops, OfLatents) {
  model::ModelConfig c = Deepseek();
  ASSERT_EQ(c.Validate(), absl::OkStatus());
  // q_a 3 * 8, q_b 8 * 3, kv_a 6 * 8, kv_b 10 * 4, o 8 * 6: 184. Dense 288; router 32, experts 240, shared 120.
  const double products = (184 + 288) + (184 + 32 + 240 + 120);
  EXPECT_EQ(LayerFlops(c, 1), 6 * products);
  // Two heads of 4 + 2 numbers, in both layers.
  EXPECT_EQ(PairFlops(c).full, 2 * 14 * 12);
  EXPECT_EQ(PairFlops(c).windowed, 0);
  // Frozen matrices have no gradient. q_b: A 2 * 3 and B 8 * 2. kv_b: B 10 * 2, and A 2 * 4 for two heads, twice each.
  c.lora = {.rank = 2, .alpha = 2, .targets = {"kv_b_proj", "q_b_proj"}};
  ASSERT_EQ(c.Validate(), absl::OkStatus());
  EXPECT_EQ(LayerFlops(c, 1), 4 * products + 6 * 2 * (6 + 16 + 20 + 4 * 8));
  EXPECT_EQ(HeadFlops(c, 1), 4 * 80);
}

TEST(Bound, TakesEachKindOfPairAtItsRateAndRepeatsTheForwardPassAlone) {
  const model::ModelConfig c = Gemma();
  StepRates rates;
  rates.per_flop = {1, 2};
  rates.per_head_flop = {1e6, 0};
  rates.per_pair = {1e9, 0};
  rates.per_window_pair = {1e12, 0};
  StepWork work = SequenceWork(c, 5);
  work.head_rows = 2;
  EXPECT_EQ(BoundSeconds(c, work, rates).wall, 5 * 5760 + 2 * 480e6 + 15e9 + 12e12);
  EXPECT_EQ(BoundSeconds(c, work, rates).cpu, 2 * 5 * 5760);
  // 2 of 6 FLOPs of the products, 4 of 14 of the pairs.
  const StepWork scored = work.WithScoring(1);
  EXPECT_NEAR(BoundSeconds(c, scored, rates).wall - BoundSeconds(c, work, rates).wall,
              5 * 1920 + 2 * 160e6 + 15e9 * 4 / 14 + 12e12 * 4 / 14, 1);
  // Frozen: 2 of 4.
  model::ModelConfig adapted = Deepseek();
  adapted.lora = {.rank = 2, .alpha = 2, .targets = {"q_b_proj"}};
  StepWork row;
  row.repeated_rows = 1;
  EXPECT_EQ(BoundSeconds(adapted, row, rates).wall, 2 * (1048 + 2 * (6 + 16)));
}

TEST(WindowPairs, OfPackedRowsAreThoseOfTheirDepths) {
  // A stem of 3 rows with branches of 2 and 1.
  const std::vector<int32_t> depths = {0, 1, 2, 3, 4, 3};
  EXPECT_EQ(WindowPairs(depths, 3), 1 + 2 + 3 + 3 + 3 + 3);
  EXPECT_EQ(WindowPairs(depths, 0), 0);
  EXPECT_EQ(SequencePairs(5, 3), WindowPairs(std::vector<int32_t>{0, 1, 2, 3, 4}, 3));
  EXPECT_EQ(SequencePairs(2, 3), 3);
}

// The bytes that the layers of a part of 1,000 rows save for their backward pass, with its ends of 2 * 32 + 16 a row.
int64_t SavedOf(const model::ModelConfig& config) {
  const tree::ForestPart part = UncutPart(1000);
  return PredictPasses(config, 4, {}, std::span(&part, 1), true).running - 1000 * 80;
}

TEST(Memory, OfLocalAndGlobalLayers) {
  // Rows: the input, four norms' inputs and results less the two that are one: 6 * 8 numbers; gate, up and their product
  // 36; q and k three times, v twice: 3 * 8 + 3 * 4. Factors of 4 norms and 3 heads, log-sums of 2 heads.
  EXPECT_EQ(SavedOf(Gemma()), 1000 * 2 * 4 * ((48 + 36 + 36) + (4 + 3 + 2)));
  // Two tables of 100 positions by 4 numbers.
  EXPECT_EQ(WeightBytes(Gemma(), 4), 4 * (Gemma().ParameterCount() + 2 * 100 * 4));
}

TEST(Memory, OfLatentsLayerByLayer) {
  // Both: q and the attended latents 2 * 12, keys 6, per head 2 + 4 + 3, narrow vectors 2 * 3 + 4; 2 + 2 norms, 2 heads.
  const int64_t both = 24 + 6 + 18 + 10 + 4 + 2;
  const int64_t dense = 4 * 8 + 36, experts = 4 * 8 + 45 + (3 * 2 * 8 + 3 * 4 + 2 * 2 * 8);
  const int64_t turned = 2 * 2 * 4;  // of each layer, whatever the rows
  EXPECT_EQ(SavedOf(Deepseek()), 4 * (1000 * (2 * both + dense + experts) + 2 * turned));
  EXPECT_EQ(WeightBytes(Deepseek(), 4), 4 * (Deepseek().ParameterCount() + 100 * 2));
}

// Pairs of whole contexts: 5,151 of the long call, 1,596 of each other one. In a window of one position they are 101 and 56,
// and the long call takes another one beside it.
TEST(DivideCalls, CountsTheWindow) {
  std::vector<tree::CallPath> calls(4);
  for (size_t i = 0; i < 4; ++i) {
    calls[i].context = tree::TokenPath(std::vector<int32_t>(i == 0 ? 100 : 55, static_cast<int32_t>(i)));
    calls[i].sampled = {1};
  }
  RowCosts costs{.row = 0, .pair = 1};
  EXPECT_EQ(DivideCalls(calls, 2, costs), (std::vector<int32_t>{0, 1, 1, 1}));
  costs = {.row = 0, .window_pair = 1, .window = 1};
  EXPECT_EQ(DivideCalls(calls, 2, costs), (std::vector<int32_t>{0, 0, 1, 1}));
}

}  // namespace
}  // namespace ingot::trainer
