// A custom loss as a graph: next to the objectives in C++, and with graphs that are not valid. The graphs of the examples
// in NAME.json are traces of examples/losses/NAME.py; tests/app/runs/custom_loss_tests.py holds them against new traces.
#include "trainer/custom_loss/custom_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "test_paths.h"
#include "trainer/objectives/off_policy_mask.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kInputs[] = R"("inputs":["logprobs","rollout_logprobs","advantages","mask","segments","episodes"])";

std::string ExampleGraph(const std::string& name) {
  return *base::ReadFile(absl::StrCat(INGOT_SOURCE_DIR, "/tests/trainer/custom_loss/", name, ".json"));
}

TrainerOptions OptionsOf(const std::string& graph, const std::string& scope = "call") {
  TrainerOptions options;
  options.objective = "custom";
  options.custom = {"losses.py:loss", scope, graph};
  return options;
}

absl::StatusOr<std::unique_ptr<Objective>> Make(const std::string& graph, const std::string& scope = "call") {
  return MakeObjective(OptionsOf(graph, scope), MakeCustomObjective);
}

// A graph from its nodes: the first has the index 6.
std::string Graph(const std::string& nodes, int loss, const std::string& metrics = "") {
  return absl::StrCat("{", kInputs, R"(,"nodes":[)", nodes, R"(],"loss":)", loss, R"(,"metrics":{)", metrics, "}}");
}

std::string MessageOf(const std::string& graph, const std::string& scope = "call") {
  const auto made = Make(graph, scope);
  EXPECT_FALSE(made.ok()) << graph;
  return std::string(made.status().message());
}

// Episodes of one to three calls, with one to five tokens each.
struct Batch {
  std::vector<double> logprobs, recorded, advantages, weights;
  std::vector<int32_t> calls, episodes;
  int32_t episode_count = 0;

  explicit Batch(uint64_t seed) {
    std::mt19937_64 rng(seed);
    int32_t call = 3;  // the batch's first calls have no loss
    const auto draw = [&](double low, double high) { return std::uniform_real_distribution(low, high)(rng); };
    for (episode_count = 0; episode_count < 6; ++episode_count) {
      const double weight = draw(0.01, 0.2);  // equal within an episode, as the objective gspo requires
      for (uint64_t turns = 1 + (rng() % (3)); turns > 0; --turns, call += 2) {
        const double advantage = draw(-1, 1);
        for (uint64_t tokens = 1 + (rng() % (5)); tokens > 0; --tokens) {
          logprobs.push_back(draw(-4, -0.01));
          recorded.push_back(logprobs.back() + draw(-1.2, 1.2));
          advantages.push_back(advantage);
          weights.push_back(weight);
          calls.push_back(call);
          episodes.push_back(episode_count);
        }
      }
    }
  }

  LossEntries entries() const {
    LossEntries made{logprobs, recorded, {}, advantages, weights, episodes, episode_count, {}};
    made.calls = calls;
    return made;
  }
};

struct Result {
  double loss = 0;
  std::vector<double> derivative;
};

Result Ask(const Objective& objective, const LossEntries& entries) {
  Result result{0, std::vector<double>(entries.logprobs.size(), 0.0)};
  result.loss = objective.Loss(entries, result.derivative);
  return result;
}

// Both compute in fp64, in another order: a few roundings of numbers below 100.
constexpr double kRounding = 1e-13;

void ExpectEqual(const Result& actual, const Result& expected) {
  EXPECT_NEAR(actual.loss, expected.loss, kRounding);
  ASSERT_EQ(actual.derivative.size(), expected.derivative.size());
  double largest = 0;
  for (size_t i = 0; i < expected.derivative.size(); ++i) {
    EXPECT_NEAR(actual.derivative[i], expected.derivative[i], kRounding) << i;
    largest = std::max(largest, std::abs(expected.derivative[i]));
  }
  EXPECT_GT(largest, 1e-3);
}

void ExpectExampleEquals(const std::string& name, const std::string& scope, const Objective& objective) {
  const auto custom = Make(ExampleGraph(name), scope);
  ASSERT_TRUE(custom.ok()) << custom.status();
  EXPECT_EQ((*custom)->scope(), objective.scope());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Batch batch(seed);
    ExpectEqual(Ask(**custom, batch.entries()), Ask(objective, batch.entries()));
    const KeptEntries kept(batch.entries(), {.token_low = 0.5, .token_high = 2.5, .opsm_delta = 0.2});
    ASSERT_LT(kept.places().size(), batch.logprobs.size());
    if (objective.scope() == Objective::Scope::kToken) {
      ExpectEqual(Ask(**custom, kept.entries()), Ask(objective, kept.entries()));
    }
  }
}

TEST(CustomLoss, TheExamplesEqualTheObjectives) {
  ExpectExampleEquals("cispo", "call", *MakeCispo(1.0, 4.0));
  ExpectExampleEquals("ppo_clip", "batch", *MakePpoClip({0.2, 0.2, 0, 0}));
  ExpectExampleEquals("gspo", "batch", *MakeGspo(3e-4, 4e-4));
}

TEST(CustomLoss, TalliesTheMeansOfItsMetrics) {
  const Batch batch(5);
  MetricSums custom, own;
  (*Make(ExampleGraph("cispo")))->Tally(batch.entries(), custom);
  MakeCispo(1.0, 4.0)->Tally(batch.entries(), own);
  EXPECT_NEAR(custom.means.at("actor/custom/ratio").mean(), own.means.at("cispo/ratio_mean").mean(), kRounding);
  EXPECT_EQ(custom.means.at("actor/custom/ratio").count, std::ssize(batch.logprobs));
  EXPECT_EQ(custom.means.at("actor/custom/clipped_high").mean(), own.means.at("actor/clipfrac_high").mean());
}

// -(logprobs - mean(logprobs)) * advantages: the mean is over what the function sees.
const std::string kCentered =
    Graph(R"({"op":"aten::mean","args":{"self":{"node":0}},"line":"l.py:3"},)"
          R"({"op":"aten::sub.Tensor","args":{"self":{"node":0},"other":{"node":6}},"line":"l.py:4"},)"
          R"({"op":"aten::mul.Tensor","args":{"self":{"node":7},"other":{"node":2}},"line":"l.py:5"},)"
          R"({"op":"aten::neg","args":{"self":{"node":8}},"line":"l.py:5"})",
          9, R"("mean":6)");

TEST(CustomLoss, SeesACallOrTheBatch) {
  Batch batch(1);
  batch.logprobs = {-1, -3, -2}, batch.recorded = {-1, -3, -2}, batch.advantages = {1, 2, 1};
  batch.weights = {1, 1, 1}, batch.calls = {4, 4, 7}, batch.episodes = {0, 0, 0}, batch.episode_count = 1;
  // Calls have the means -2 and -2: -(1 * 1 + -1 * 2 + 0 * 1) = 1. The derivative of the first token:
  // -1 + (1 + 2) / 2 = 0.5; of the second, -2 + 1.5; of the third, alone in its call, -1 + 1.
  const auto by_call = *Make(kCentered);
  EXPECT_EQ(by_call->scope(), Objective::Scope::kBatch);
  ExpectEqual(Ask(*by_call, batch.entries()), {1, {0.5, -0.5, 0}});
  // The batch's mean is -2 too, but every token has a third of it: -1 + 4/3, -2 + 4/3, -1 + 4/3.
  const auto of_batch = *Make(kCentered, "batch");
  ExpectEqual(Ask(*of_batch, batch.entries()), {1, {1.0 / 3, -2.0 / 3, 1.0 / 3}});
  MetricSums by, of;
  by_call->Tally(batch.entries(), by), of_batch->Tally(batch.entries(), of);
  EXPECT_EQ(by.means.at("actor/custom/mean").count, 2);  // a number for each call
  EXPECT_EQ(of.means.at("actor/custom/mean").count, 1);
  EXPECT_THAT(by_call->Describe(), HasSubstr("losses.py:loss over the tokens of a call"));
}

// The trace of `logprobs.float() * 0.1 + 1`: the numbers are arguments that are tensors in the schema.
TEST(CustomLoss, CalculatesWithNumbers) {
  const auto custom = Make(Graph(R"({"op":"aten::_to_copy","args":{"self":{"node":0},"dtype":{"dtype":"float32"}}},)"
                                 R"({"op":"aten::mul.Tensor","args":{"self":{"node":6},"other":0.1}},)"
                                 R"({"op":"aten::add.Tensor","args":{"self":{"node":7},"other":1}})",
                                 8));
  ASSERT_TRUE(custom.ok()) << custom.status();
  Batch batch(1);
  batch.logprobs = {-3}, batch.recorded = {-3}, batch.advantages = {1}, batch.weights = {1};
  batch.calls = {4}, batch.episodes = {0}, batch.episode_count = 1;
  const Result result = Ask(**custom, batch.entries());
  EXPECT_NEAR(result.loss, 0.7, 1e-6);
  EXPECT_EQ(result.derivative[0], static_cast<double>(0.1f));
}

// A call may be in several places of the entries, and its order there does not matter.
TEST(CustomLoss, GathersACallsTokens) {
  Batch batch(1);
  batch.logprobs = {-1, -9, -3}, batch.recorded = {-1, -9, -3}, batch.advantages = {1, 1, 2};
  batch.weights = {1, 1, 1}, batch.calls = {4, 7, 4}, batch.episodes = {0, 0, 0}, batch.episode_count = 1;
  ExpectEqual(Ask(**Make(kCentered), batch.entries()), {1, {0.5, 0, -0.5}});
}

TEST(CustomLoss, NoTokensHaveNoLoss) {
  EXPECT_EQ(Ask(**Make(kCentered), {}).loss, 0);
  EXPECT_EQ(Ask(**Make(ExampleGraph("cispo"), "batch"), {}).loss, 0);
}

TEST(CustomLoss, ALossThatIsNotFiniteReachesTheStep) {
  Batch batch(1);
  batch.logprobs[2] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(std::isfinite(Ask(**Make(ExampleGraph("ppo_clip")), batch.entries()).derivative[2]));
}

const std::string kNeg = R"({"op":"aten::neg","args":{"self":{"node":0}},"line":"losses.py:7"})";

TEST(CustomLoss, NamesWhatIsWrongWithAGraph) {
  EXPECT_THAT(MessageOf(""), HasSubstr("losses.py:loss has not been traced"));
  EXPECT_THAT(MessageOf("{"), HasSubstr("trainer.custom.function losses.py:loss: "));
  EXPECT_THAT(MessageOf("{}"), HasSubstr("its inputs must be logprobs, rollout_logprobs"));
  EXPECT_THAT(MessageOf(absl::StrCat("{", kInputs, "}")), HasSubstr("no nodes"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::from_file","args":{}})", 6)),
              HasSubstr("node 0: the operation aten::from_file is not allowed"));
  EXPECT_THAT(MessageOf(Graph("3", 6)), HasSubstr("is not allowed"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::neg"})", 6)), HasSubstr("no arguments"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::neg","args":{}})", 6)), HasSubstr("its argument self is missing"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::neg","args":{"self":{"node":0},"more":1}})", 6)),
              HasSubstr("aten::neg has no argument more"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::cumsum","args":{"self":{"node":0},"dim":0.5}})", 6)),
              HasSubstr("dim cannot be a number"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::neg","args":{"self":"x"}})", 6)), HasSubstr("is not a number"));
  EXPECT_THAT(
      MessageOf(Graph(R"({"op":"aten::_softmax","args":{"self":{"node":0},"dim":0.5,"half_to_float":false}})", 6)),
      HasSubstr("its argument dim cannot be a number"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::index_select","args":{"self":{"node":0},"dim":0,"index":99}})", 6)),
              HasSubstr("does not exist yet"));
  for (const char* at : {"6", "7", "-1", "1.5", "null", "1e30"}) {  // itself, a later one, and none
    EXPECT_THAT(MessageOf(Graph(absl::StrCat(R"({"op":"aten::neg","args":{"self":{"node":)", at, "}}}"), 6)),
                HasSubstr("does not exist yet"));
  }
  EXPECT_THAT(MessageOf(Graph(kNeg, 7)), HasSubstr("does not exist yet"));
  EXPECT_THAT(MessageOf(Graph(kNeg, 6, R"("m":9)")), HasSubstr("does not exist yet"));
  EXPECT_THAT(MessageOf(Graph(R"({"constant":1,"dtype":{"dtype":"complex64"}})", 6)), HasSubstr("unknown number type"));
  std::string many = kNeg;
  for (size_t i = 0; i < 10000; ++i) many += "," + kNeg;
  EXPECT_THAT(MessageOf(Graph(many, 6)), HasSubstr("10001 nodes, more than 10000"));
  for (const std::string& name : {std::string("a b"), std::string("a\\nb"), std::string(65, 'a'), std::string()}) {
    EXPECT_THAT(MessageOf(Graph(kNeg, 6, absl::StrCat("\"", name, "\":6"))), HasSubstr("must have a name of letters"));
  }
  // Indices are the function's own arguments, which are in bounds.
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::_to_copy","args":{"self":{"node":0},"dtype":{"dtype":"int64"}}},)"
                              R"({"op":"aten::index_select","args":{"self":{"node":0},"dim":0,"index":{"node":6}}})",
                              7)),
              HasSubstr("its index must be the argument segments or episodes"));
}

TEST(CustomLoss, TriesTheLossBeforeTheRun) {
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::sum","args":{"self":{"node":0}}})", 6)),
              HasSubstr("must have the shape [T]"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::neg","args":{"self":{"node":1}}})", 6)),
              HasSubstr("does not depend on logprobs"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::detach","args":{"self":{"node":0}}})", 6)),
              HasSubstr("does not depend on logprobs"));
  EXPECT_THAT(MessageOf(Graph(R"({"op":"aten::log","args":{"self":{"node":0}},"line":"losses.py:9"})", 6)),
              HasSubstr("the loss is nan on trial tokens"));
  // where(logprobs > 0, log(logprobs), logprobs): the other branch's derivative is 0 * NaN.
  EXPECT_THAT(MessageOf(Graph(
                  R"({"op":"aten::gt.Scalar","args":{"self":{"node":0},"other":0}},)"
                  R"({"op":"aten::sqrt","args":{"self":{"node":0}}},)"
                  R"({"op":"aten::where.self","args":{"condition":{"node":6},"self":{"node":7},"other":{"node":0}}})",
                  8)),
              HasSubstr("torch.where also differentiates"));
  // The standard deviation of a call with one token is not a number.
  const std::string deviation = Graph(R"({"op":"aten::std.correction","args":{"self":{"node":0}}},)"
                                      R"({"op":"aten::mul.Tensor","args":{"self":{"node":0},"other":{"node":6}}})",
                                      7);
  EXPECT_THAT(MessageOf(deviation), HasSubstr("the only token in their call"));
  EXPECT_TRUE(Make(deviation, "batch").ok());
  EXPECT_THAT(
      MessageOf(Graph(
          R"({"op":"aten::bitwise_and.Tensor","args":{"self":{"node":0},"other":{"node":1}},"line":"losses.py:12"})",
          6)),
      AllOf(HasSubstr("losses.py:12: "), HasSubstr("not implemented")));
}

TEST(CustomLoss, NeedsTorch) {
  EXPECT_THAT(std::string(MakeObjective(OptionsOf(ExampleGraph("cispo"))).status().message()), HasSubstr("custom"));
}

TEST(CustomLoss, ValidateNamesContradictions) {
  TrainerOptions options = OptionsOf("");
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  options.custom.function = "losses.py";
  EXPECT_THAT(std::string(options.Validate().message()),
              HasSubstr("custom.function is 'losses.py': write FILE.py:NAME"));
  options.objective = "cispo";
  EXPECT_THAT(std::string(options.Validate().message()),
              HasSubstr("set objective to custom, or remove custom.function"));
  options.custom = {"", "batch", ""};
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("custom.scope"));
}

// Damaged graphs are errors, or other losses, but never crash.
TEST(CustomLoss, SurvivesDamagedGraphs) {
  std::mt19937_64 rng(7);
  const std::string graphs[] = {ExampleGraph("cispo"), ExampleGraph("ppo_clip"), ExampleGraph("gspo"), kCentered};
  const std::string pieces[] = {"0", "9", "-1", "1e9", "\"", "{", "}", "null", "true", "sum", "neg", "[]", "node", "6"};
  int valid = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string graph = graphs[(rng() % (std::size(graphs)))];
    for (uint64_t edits = 1 + (rng() % (3)); edits > 0; --edits) {
      const std::string& piece = pieces[(rng() % (std::size(pieces)))];
      graph.replace((rng() % (graph.size())), (rng() % (piece.size() + 2)), piece);
    }
    const auto made = Make(graph, i % 2 == 0 ? "call" : "batch");
    try {
      if (made.ok()) Ask(**made, Batch(3).entries());
    } catch (const StatusError& error) {  // as in a step, which AtTorchEdge surrounds
      EXPECT_FALSE(error.status().ok());
    }
    valid += made.ok() ? 1 : 0;
  }
  EXPECT_GT(valid, 50);
  EXPECT_LT(valid, 3500);
}

}  // namespace
}  // namespace ingot::trainer
