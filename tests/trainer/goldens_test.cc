// Models written by `transformers` give its log-probs in rollout and in training: branching calls (make_goldens.py --calls)
// through the engine, whose cache they share, and through merged trees, in one part and in several, before and after the
// folder is saved and loaded again.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <iostream>

#include "forced_calls.h"
#include "model/goldens.h"
#include "model/peft.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

using Logprobs = std::vector<std::vector<double>>;  // by call, then by sampled id

struct GoldenCalls {
  static GoldenCalls Of(const std::string& name) {
    GoldenCalls golden;
    const auto json = base::ParseJson(model::testing::ReadFile(model::testing::GoldenData(name) + "/calls.json"));
    for (const base::json::value& row : json->as_array()) {
      std::vector<int32_t> context, sampled;
      for (const auto& id : row.at("context").as_array()) context.push_back(id.to_number<int32_t>());
      for (const auto& id : row.at("sampled").as_array()) sampled.push_back(id.to_number<int32_t>());
      std::vector<double> expected;
      for (const auto& value : row.at("logprobs").as_array()) expected.push_back(value.to_number<double>());
      golden.Add(std::move(context), std::move(sampled), std::move(expected));
    }
    return golden;
  }
  void Add(std::vector<int32_t> context, std::vector<int32_t> sampled, std::vector<double> expected) {
    tree::CallPath& call = calls.emplace_back();
    call.context = tree::TokenPath(std::move(context));
    call.sampled = std::move(sampled);
    call.logprobs.assign(call.sampled.size(), 0);
    call.versions.assign(call.sampled.size(), 0);
    call.kv_mixed.assign(call.sampled.size(), 0);
    theirs.push_back(std::move(expected));
  }
  double Gap(const Logprobs& ours) const {
    double largest = 0;
    for (size_t c = 0; c < theirs.size(); ++c) {
      EXPECT_EQ(ours[c].size(), theirs[c].size()) << c;
      for (size_t i = 0; i < ours[c].size(); ++i) largest = std::max(largest, std::abs(ours[c][i] - theirs[c][i]));
    }
    return largest;
  }
  std::vector<tree::CallPath> calls;
  Logprobs theirs;
};

// Prompts are computed in pieces; the calls run together, then once more with their prompts in the cache.
Logprobs OfTheEngine(const model::ModelFolder& folder, const std::vector<tree::CallPath>& calls) {
  rollout::EngineOptions options;
  options.kv_cache_tokens = 1024;
  options.max_running = 4;
  options.max_batch_tokens = 8;
  Logprobs all;
  for (const std::vector<float>& call : ForcedLogprobs(folder.config, folder.parameters, calls, options, 2)) {
    all.emplace_back(call.begin(), call.end());
  }
  return all;
}

// The sum of all log-probs.
class Everything final : public EntryLoss {
 public:
  double Evaluate(std::span<const tree::LossEntry>, std::span<const double> logprobs, std::span<const double>,
                  std::span<double> by_logprob, std::span<double>) override {
    double loss = 0;
    for (size_t i = 0; i < logprobs.size(); ++i) loss += logprobs[i], by_logprob[i] = 1;
    return loss;
  }
  bool uses_entropy() const override { return false; }
};

Logprobs OfTheTrainer(const model::ModelFolder& folder, const std::vector<tree::CallPath>& calls,
                      const PassOptions& pass, bool gradients) {
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  EXPECT_LT(forest.size(), static_cast<size_t>(forest.unmerged_tokens)) << "the calls merge";
  PassResult result;
  if (gradients) {
    Everything loss;
    result = AccumulateGradients(TrainableModel(folder.config, folder.parameters), forest, calls, loss, pass);
  } else {
    result = ScoreForest(*model::Transformer::Create(folder.config, folder.parameters), forest, calls, pass);
  }
  Logprobs all;
  for (const tree::CallPath& call : calls) all.emplace_back(call.sampled.size(), NAN);
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const tree::LossEntry& e = forest.entries[i];
    all[static_cast<size_t>(e.call)][static_cast<size_t>(e.offset)] = result.logprobs[i];
  }
  return all;
}

class Goldens : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Goldens, ::testing::ValuesIn(model::testing::kGoldens));

// Every way of computing log-probs, and all of them after the folder is saved and loaded again.
void ExpectTheirs(const std::string& name, const model::ModelFolder& folder, const GoldenCalls& golden) {
  constexpr double kMax = 1e-5;
  const std::string again = ::testing::TempDir() + "/golden_again_" + std::to_string(getpid());
  ASSERT_EQ(model::SaveModelDir(again, folder.config, folder.parameters), absl::OkStatus());
  const auto reloaded = model::LoadModelDir(again);
  std::filesystem::remove_all(again);
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  PassOptions whole, exact, cut;
  exact.numerics = kernels::Numerics::kExact;
  cut.part_tokens = 16;
  const double rollout = golden.Gap(OfTheEngine(folder, golden.calls));
  const double scored = golden.Gap(OfTheTrainer(folder, golden.calls, whole, false));
  const double in_parts = golden.Gap(OfTheTrainer(folder, golden.calls, cut, false));
  const double trained = golden.Gap(OfTheTrainer(folder, golden.calls, exact, true));
  const double after = std::max(golden.Gap(OfTheEngine(*reloaded, golden.calls)),
                                golden.Gap(OfTheTrainer(*reloaded, golden.calls, cut, true)));
  std::cout << name << ": largest difference in rollout " << rollout << ", scored " << scored << ", in parts "
            << in_parts << ", trained " << trained << ", saved and loaded again " << after << "\n";
  for (const double gap : {rollout, scored, in_parts, trained, after}) EXPECT_LT(gap, kMax);
}

TEST_P(Goldens, RolloutAndTrainingGiveTheLogprobsOfTransformers) {
  const GoldenCalls golden = GoldenCalls::Of(GetParam());
  ASSERT_EQ(golden.calls.size(), 4u);
  const auto loaded = model::LoadModelDir(model::testing::FolderOf(GetParam()));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectTheirs(GetParam(), *loaded, golden);
}

TEST(GoldenAdapter, RolloutAndTrainingGiveTheLogprobsOfPeft) {
  const std::string dir = ::testing::TempDir() + "/golden_adapter_" + std::to_string(getpid());
  model::testing::WriteGoldenAdapter(dir);
  model::ModelFolder folder = *model::LoadModelDir(model::testing::FolderOf("qwen3"));
  const absl::Status added = model::AddAdapters(dir, &folder);
  std::filesystem::remove_all(dir);
  ASSERT_TRUE(added.ok()) << added;
  const auto theirs = base::ParseJson(model::testing::ReadFile(model::testing::GoldenData("lora") + "/golden.json"));
  std::vector<int32_t> ids;
  for (const auto& id : theirs->at("token_ids").as_array()) ids.push_back(id.to_number<int32_t>());
  ASSERT_GT(ids.size(), 8u);
  // From two places of the sequence on, so that the calls merge.
  GoldenCalls golden;
  for (const size_t start : {3, 6}) {
    std::vector<double> expected;
    for (size_t i = start; i < ids.size(); ++i) {
      std::vector<double> logits;
      for (const auto& logit : theirs->at("logits").at(i - 1).as_array()) logits.push_back(logit.to_number<double>());
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      expected.push_back(logits[static_cast<size_t>(ids[i])] - std::log(sum));
    }
    const auto at = ids.begin() + static_cast<std::ptrdiff_t>(start);
    golden.Add({ids.begin(), at}, {at, ids.end()}, std::move(expected));
  }
  ExpectTheirs("the adapter", folder, golden);
}

}  // namespace
}  // namespace ingot::trainer
