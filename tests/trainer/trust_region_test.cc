// The trust region of a step: the measure against a second computation over whole rows, and the three outcomes of a
// step (kept, halved, taken back) by the bits of weights and moments.
#include "trainer/trust_region.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "makers.h"
#include "tiny_model.h"
#include "trainer/trainer.h"

namespace ingot::trainer::trust_region_test {
namespace {

constexpr int64_t kVocab = 37;
using Tensors = std::map<std::string, at::Tensor>;

TrainerOptions Plain() {
  TrainerOptions options;
  options.optimizer.learning_rate = 0.02;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.decay = "constant";
  options.threads = 1;
  options.micro_batch_tokens = 24;  // several parts
  return options;
}

TrainerOptions Bounded(double max_mean, double max_position, int64_t halvings = 2) {
  TrainerOptions options = Plain();
  options.trust_region.max_mean = max_mean;
  options.trust_region.max_position = max_position;
  options.trust_region.halvings = halvings;
  options.trust_region.share = 0.5;
  return options;
}

std::unique_ptr<Trainer> MakeTrainer(const TrainerOptions& options, at::ScalarType dtype = at::kFloat) {
  const model::ModelConfig config = TinyConfig(kVocab);
  auto trainer = Trainer::Create(options, config, TinyParameters(config, 2, dtype));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

Tensors CopyOf(const Tensors& tensors) {
  Tensors copy;
  for (const auto& [name, tensor] : tensors) copy[name] = tensor.detach().clone();
  return copy;
}

bool SameBits(const Tensors& a, const Tensors& b) {
  for (const auto& [name, tensor] : a) {
    if (!at::equal(tensor, b.at(name))) return false;
  }
  return a.size() == b.size();
}

StepReport Step(Trainer& trainer, uint64_t seed = 100) {
  const int64_t step = trainer.version();
  const auto report = trainer.TrainStep(RandomBatch(seed + static_cast<uint64_t>(step), kVocab, step));
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(StepReport{});
}

TEST(TrustRegion, AStepWithinTheBoundsHasTheBitsOfAnUnmeasuredOne) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(dtype));
    auto plain = MakeTrainer(Plain(), dtype), measured = MakeTrainer(Bounded(1e6, 1e6), dtype);
    for (int step = 0; step < 3; ++step) {
      Step(*plain);
      const StepReport report = Step(*measured);
      EXPECT_EQ(report.metrics.at("trainer/step_scale"), 1);
      EXPECT_GT(report.metrics.at("trainer/step_kl_positions"), 0);
      EXPECT_GT(report.metrics.at("trainer/step_kl_max"), 0);
      EXPECT_GT(report.metrics.at("trainer/step_kl_mean"), 0);
    }
    EXPECT_TRUE(SameBits(CopyOf(plain->parameters().tensors()), CopyOf(measured->parameters().tensors())));
    EXPECT_TRUE(SameBits(plain->optimizer_state(), measured->optimizer_state()));
  }
}

TEST(TrustRegion, AStepTakenBackMakesAVersionOfEqualWeights) {
  auto trainer = MakeTrainer(Bounded(1e-12, 0));
  auto free = MakeTrainer(Plain());
  Step(*free);
  const Tensors weights = CopyOf(trainer->parameters().tensors());
  const Tensors state = CopyOf(trainer->optimizer_state());
  const auto before = trainer->TakeSnapshot();
  ASSERT_TRUE(before.ok());
  const StepReport report = Step(*trainer);
  EXPECT_EQ(report.version, 1);
  EXPECT_EQ(report.metrics.at("trainer/step_scale"), 0);
  EXPECT_EQ(report.metrics.at("trainer/step_kl_mean"), 0);
  EXPECT_GT(report.metrics.at("trainer/step_kl_proposed_mean"), 1e-12);
  EXPECT_TRUE(SameBits(weights, CopyOf(trainer->parameters().tensors())));
  EXPECT_TRUE(SameBits(state, trainer->optimizer_state())) << "moments are those before the step";
  const auto after = trainer->TakeSnapshot();
  ASSERT_TRUE(after.ok());
  EXPECT_EQ((*after)->version(), 1);
  // The optimizer's counter did not move either: the next step, unbounded, has the size of a first one.
  auto next = MakeTrainer(Bounded(1e6, 0));
  EXPECT_EQ(Step(*next).metrics.at("trainer/step_scale"), 1);
  EXPECT_TRUE(SameBits(CopyOf(next->parameters().tensors()), CopyOf(free->parameters().tensors())));
}

TEST(TrustRegion, HalvingScalesTheChangeAndKeepsTheMoments) {
  auto full = MakeTrainer(Bounded(1e6, 0), at::kDouble);
  const Tensors start = CopyOf(full->parameters().tensors());
  const double mean = Step(*full).metrics.at("trainer/step_kl_mean");
  // KL is quadratic in a small step, so that half a step keeps a bound just below the whole step's.
  auto halved = MakeTrainer(Bounded(0.9 * mean, 0), at::kDouble);
  const StepReport report = Step(*halved);
  ASSERT_EQ(report.metrics.at("trainer/step_scale"), 0.5);
  EXPECT_LE(report.metrics.at("trainer/step_kl_mean"), 0.9 * mean);
  EXPECT_EQ(report.metrics.at("trainer/step_kl_proposed_mean"), mean);
  for (const auto& [name, tensor] : halved->parameters().tensors()) {
    const at::Tensor expected = start.at(name) + 0.5 * (full->parameters().at(name) - start.at(name));
    EXPECT_TRUE(at::allclose(tensor, expected, 1e-12, 1e-14)) << name;
  }
  EXPECT_TRUE(SameBits(full->optimizer_state(), halved->optimizer_state()));
}

TEST(TrustRegion, TheLargestPositionHasABoundOfItsOwn) {
  auto full = MakeTrainer(Bounded(1e6, 1e6));
  const double max = Step(*full).metrics.at("trainer/step_kl_max");
  ASSERT_GT(max, 0);
  auto bounded = MakeTrainer(Bounded(0, 0.9 * max));
  const StepReport report = Step(*bounded);
  EXPECT_LT(report.metrics.at("trainer/step_scale"), 1);
  EXPECT_LE(report.metrics.at("trainer/step_kl_max"), 0.9 * max);
}

TEST(TrustRegion, AReplayedStepIsDecidedAlikeToTheBit) {
  const TrainerOptions options = Bounded(0.1, 0.3, /*halvings=*/6);
  bool halved = false;
  auto first = MakeTrainer(options), again = MakeTrainer(options);
  for (int step = 0; step < 4; ++step) {
    const StepReport a = Step(*first), b = Step(*again);
    for (const char* name : {"trainer/step_scale", "trainer/step_kl_mean", "trainer/step_kl_max",
                             "trainer/step_kl_proposed_mean", "trainer/step_kl_positions"}) {
      EXPECT_EQ(a.metrics.at(name), b.metrics.at(name)) << name;
    }
    halved = halved || (a.metrics.at("trainer/step_scale") > 0 && a.metrics.at("trainer/step_scale") < 1);
  }
  EXPECT_TRUE(halved);
  EXPECT_TRUE(SameBits(CopyOf(first->parameters().tensors()), CopyOf(again->parameters().tensors())));
}

// Log-probs [vocab] of the policy after `tokens`, from a pass over these tokens alone: one label after the other.
std::vector<double> PolicyAfter(const model::Transformer& model, const std::vector<int32_t>& tokens,
                                float temperature) {
  std::vector<tree::CallPath> calls;
  std::vector<int32_t> all;
  for (int32_t id = 0; id < kVocab; ++id) {
    tree::CallPath call;
    call.temperature = temperature;
    call.context = tree::TokenPath(tokens);
    call.sampled = {id};
    call.logprobs = {0};
    call.versions = {0};
    call.kv_mixed = {0};
    all.push_back(id);
    calls.push_back(call);
  }
  return ScoreForest(model, *tree::PackForest(calls, all), calls, {}).logprobs;
}

double Kl(const std::vector<double>& old, const std::vector<double>& now) {
  double kl = 0;
  for (size_t i = 0; i < old.size(); ++i) kl += std::exp(old[i]) * (old[i] - now[i]);
  return kl;
}

PolicyShift ShiftOf(TrustRegion& region, const PreparedBatch& batch, const tree::PackedForest& forest,
                    const model::Transformer& old, const model::Transformer& now) {
  PassOptions pass;
  pass.part_tokens = 24;
  pass.read_policy = region.Reader();
  ScoreForest(old, forest, batch.calls, pass);
  pass.read_policy = nullptr;
  EXPECT_TRUE(region.Remember(old, pass).ok());
  EXPECT_EQ(region.Measure(old, pass).sum, 0) << "the same policy again";
  return region.Measure(now, pass);
}

// All calls, so that the expected numbers need no draw; tokens are drawn at a quarter of the positions.
TEST(TrustRegion, TheMeasureIsKlOverWholeRows) {
  const model::ModelConfig config = TinyConfig(kVocab);
  const auto old = TrainableModel(config, TinyParameters(config, 2, at::kDouble));
  const auto now = TrainableModel(config, TinyParameters(config, 3, at::kDouble));
  const auto batch = PrepareBatch(RandomBatch(7, kVocab, 0), Plain(), TokenLimits(kVocab), 0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const auto forest = PackBatch(*batch);
  ASSERT_TRUE(forest.ok());
  auto region = TrustRegion::Choose({.max_mean = 1, .share = 1}, *batch, *forest, 1000000, 5, 0, 0);
  ASSERT_TRUE(region.ok()) << region.status();
  const PolicyShift shift = ShiftOf(*region, *batch, *forest, old, now);

  double sum = 0, max = 0;
  int64_t samples = 0;
  for (const tree::CallPath& call : batch->calls) {
    std::vector<int32_t> tokens = call.context.Tokens();
    for (const int32_t id : call.sampled) {
      const double kl = Kl(PolicyAfter(old, tokens, call.temperature), PolicyAfter(now, tokens, call.temperature));
      sum += kl;
      max = std::max(max, kl);
      ++samples;
      tokens.push_back(id);
    }
  }
  EXPECT_EQ(samples, static_cast<int64_t>(forest->entries.size()));
  EXPECT_GT(shift.positions, samples) << "positions behind drawn tokens";
  EXPECT_LE(shift.positions, samples + (samples + 3) / 4);
  EXPECT_LE(shift.max, max * (1 + 1e-9)) << "weighed by the share of episodes that reach the row";
  EXPECT_GE(shift.sum, sum * (1 - 1e-9));
}

// A long system prompt that all calls share must not use up the share of each run.
TEST(TrustRegion, TheCallsHaveTheShareOfTheMergedRows) {
  Draws draws(3);
  const std::vector<int32_t> system = draws.Tokens(200, kVocab);
  TrainBatch raw;
  for (int group = 0; group < 8; ++group) {
    std::vector<v1::EpisodeTree> episodes;
    std::vector<int32_t> prompt = system;
    for (const int32_t id : draws.Tokens(5, kVocab)) prompt.push_back(id);
    for (int sample = 0; sample < 2; ++sample) {
      CallSpec call{prompt, draws.Tokens(20, kVocab), {}, {}, {}, 1.0f};
      Annotate(call, draws, 0);
      episodes.push_back(MakeEpisode("e" + std::to_string(group) + "." + std::to_string(sample), sample, {call}));
    }
    raw.groups.push_back(MakeGroup(group, episodes));
  }
  const auto batch = PrepareBatch(raw, Plain(), TokenLimits(kVocab), 0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const auto forest = PackBatch(*batch);
  ASSERT_TRUE(forest.ok());
  const auto calls = [&](double share, uint64_t seed) {
    const auto region = TrustRegion::Choose({.max_mean = 1, .share = share}, *batch, *forest, 1000000, seed, 0, 0);
    EXPECT_TRUE(region.ok()) << region.status();
    return region.ok() ? region->calls().size() : 0;
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(calls(1, seed), 16u);
    EXPECT_EQ(calls(0.75, seed), 8u) << "of 560 rows: the system prompt, and 180 to 200 rows of two calls a place";
    EXPECT_EQ(calls(0.01, seed), 4u) << "one call from each place";
  }
}

TEST(TrustRegion, TheRowsThatAreHeldHaveABound) {
  const model::ModelConfig config = TinyConfig(kVocab);
  const auto old = TrainableModel(config, TinyParameters(config, 2, at::kDouble));
  const auto now = TrainableModel(config, TinyParameters(config, 3, at::kDouble));
  const auto batch = PrepareBatch(RandomBatch(7, kVocab, 0), Plain(), TokenLimits(kVocab), 0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const auto forest = PackBatch(*batch);
  ASSERT_TRUE(forest.ok());
  std::set<double> sums;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    auto region = TrustRegion::Choose({.max_mean = 1, .share = 1}, *batch, *forest, 5, seed, 0, 0);
    ASSERT_TRUE(region.ok()) << region.status();
    const PolicyShift shift = ShiftOf(*region, *batch, *forest, old, now);
    EXPECT_GE(shift.positions, 4) << "one row of five may be behind a drawn token";
    EXPECT_LE(region->rows_held(), 5);
    sums.insert(shift.sum);
  }
  EXPECT_GT(sums.size(), 1u) << "another seed, other positions";
}

// Samples of one token behind one context share its row.
TEST(TrustRegion, ARowCountsOncePerSampleAndADrawnTokenAddsTheRowAfterIt) {
  constexpr int kSamples = 3;
  const model::ModelConfig config = TinyConfig(kVocab);
  const auto old = TrainableModel(config, TinyParameters(config, 2, at::kDouble));
  const auto now = TrainableModel(config, TinyParameters(config, 3, at::kDouble));
  Draws draws(3);
  CallSpec call{draws.Tokens(5, kVocab), draws.Tokens(1, kVocab), {}, {}, {}, 1.0f};
  Annotate(call, draws, 0);
  TrainBatch raw;
  raw.groups = {MakeGroup(0, {MakeEpisode("a", 1, {call}), MakeEpisode("b", 0, {call}), MakeEpisode("c", 0, {call})})};
  const auto batch = PrepareBatch(raw, Plain(), TokenLimits(kVocab), 0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  const auto forest = PackBatch(*batch);
  ASSERT_TRUE(forest.ok());
  const std::vector<int32_t> context = batch->calls[0].context.Tokens();
  const float t = batch->calls[0].temperature;
  const double at_sample = Kl(PolicyAfter(old, context, t), PolicyAfter(now, context, t));
  int drawn = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto region = TrustRegion::Choose({.max_mean = 1, .share = 1}, *batch, *forest, 100, seed, 0, 0);
    ASSERT_TRUE(region.ok());
    const PolicyShift shift = ShiftOf(*region, *batch, *forest, old, now);
    if (shift.positions == kSamples) {  // the draw was the sampled token
      EXPECT_NEAR(shift.sum, kSamples * at_sample, 1e-9);
      EXPECT_NEAR(shift.max, at_sample, 1e-9) << "all episodes of the group reach the row";
      continue;
    }
    ++drawn;
    ASSERT_EQ(shift.positions, kSamples + 1);
    bool found = false;  // the second row is that of some other token
    for (int32_t id = 0; id < kVocab && !found; ++id) {
      std::vector<int32_t> beside = context;
      beside.push_back(id);
      const double kl = Kl(PolicyAfter(old, beside, t), PolicyAfter(now, beside, t));
      found = id != batch->calls[0].sampled[0] && std::abs(shift.sum - kSamples * at_sample - kl) < 1e-9 &&
              std::abs(shift.max - std::max(at_sample, kl / kSamples)) < 1e-9;
    }
    EXPECT_TRUE(found) << seed;
  }
  EXPECT_GT(drawn, 0);
}

TEST(TrustRegion, TheLargestPositionIsWeighedByTheEpisodesThatReachIt) {
  PolicyShift shift;
  shift.AddRow(/*kl=*/4, /*visits=*/1, /*share=*/1.0 / 16);
  EXPECT_EQ(shift.max, 0.25) << "one stray sample of sixteen";
  shift.AddRow(0.5, 16, 1);
  EXPECT_EQ(shift.max, 0.5) << "the row of all samples";
  shift.AddRow(0.6, 32, 2);  // two groups of one task
  EXPECT_EQ(shift.max, 0.6);
  EXPECT_EQ(shift.positions, 49);
  EXPECT_NEAR(shift.sum, 4 + 8 + 19.2, 1e-12);
  shift.AddRow(-1e-9, 1, 1);
  EXPECT_NEAR(shift.sum, 31.2, 1e-12) << "rounding below zero";
  shift.AddRow(std::nan(""), 3, 1);
  EXPECT_EQ(shift.not_finite, 3);
}

TEST(TrustRegion, NumbersThatAreNotFiniteAreOutsideEveryBound) {
  EXPECT_TRUE((PolicyShift{.sum = 3, .max = 2, .positions = 3}).Within({.max_mean = 1, .max_position = 2}));
  EXPECT_FALSE((PolicyShift{.sum = 3.1, .max = 2, .positions = 3}).Within({.max_mean = 1, .max_position = 2}));
  EXPECT_FALSE((PolicyShift{.sum = 3, .max = 2.1, .positions = 3}).Within({.max_mean = 1, .max_position = 2}));
  EXPECT_FALSE((PolicyShift{.positions = 3, .not_finite = 1}).Within({.max_mean = 1}));
  EXPECT_TRUE(PolicyShift{}.Within({.max_mean = 1})) << "a rank without calls";
}

TEST(TrustRegion, RejectsBoundsThatMeanNothing) {
  for (const auto& change : std::vector<std::function<void(TrustRegionOptions&)>>{
           [](auto& o) { o.max_mean = -1; }, [](auto& o) { o.max_position = std::nan(""); },
           [](auto& o) { o.share = 0; }, [](auto& o) { o.memory_mb = 0; }, [](auto& o) { o.halvings = -1; }}) {
    TrainerOptions options = Plain();
    change(options.trust_region);
    EXPECT_FALSE(options.Validate().ok());
  }
}

}  // namespace
}  // namespace ingot::trainer::trust_region_test
