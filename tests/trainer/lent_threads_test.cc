// Steps on borrowed threads end in the same bits as steps on the trainer's own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "advantages/branching_calls.h"
#include "kernels/compute_share.h"
#include "makers.h"
#include "trainer/trainer.h"
#include "trials.h"

namespace ingot::trainer {
namespace {

TrainBatch Batch(int64_t step, int64_t vocab) {
  Draws draws(90 + static_cast<uint64_t>(step));
  TrainBatch batch;
  batch.step = step;
  for (int64_t group = 0; group < 3; ++group) {
    const std::vector<int32_t> prompt = draws.Tokens(120, vocab);
    std::vector<v1::EpisodeTree> episodes;
    for (int sample = 0; sample < 4; ++sample) {
      CallSpec call;
      call.context = Joined(prompt, draws.Tokens(40, vocab));
      call.sampled = draws.Tokens(50, vocab);
      Annotate(call, draws, step);
      episodes.push_back(MakeEpisode(absl::StrCat(step, ".", group, ".", sample), sample % 2, {call}));
    }
    batch.groups.push_back(MakeGroup(3 * step + group, std::move(episodes)));
  }
  return batch;
}

struct Trained {
  std::map<std::string, at::Tensor> parameters;
  std::vector<double> figures;
};

Trained TrainTwoSteps(at::ScalarType dtype, int threads, std::shared_ptr<kernels::ComputeMember> compute) {
  const model::ModelConfig config = BranchingConfig(dtype);
  TrainerOptions options;
  options.threads = threads;
  options.optimizer.learning_rate = 1e-3;
  options.micro_batch_tokens = 700;  // several parts
  options.reference_kl_coefficient = 0.03;
  auto trainer = *Trainer::Create(options, config, BranchingParameters(config, dtype));
  trainer->BorrowThreads(std::move(compute));
  Trained trained;
  for (int64_t step = 0; step < 2; ++step) {
    const auto report = trainer->TrainStep(Batch(step, config.vocab_size));
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->metrics.at("trainer/skipped"), 0);
    for (const char* name : {"actor/loss", "actor/grad_norm", "actor/entropy"}) {
      trained.figures.push_back(report->metrics.at(name));
    }
  }
  for (const auto& [name, tensor] : trainer->parameters().tensors()) {
    trained.parameters[name] = tensor.detach().clone();
  }
  return trained;
}

class LentThreads : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(LentThreads, ChangeNoBitOfAStep) {
  const Trained own = TrainTwoSteps(GetParam(), 1, nullptr);
  for (const int total : FirstOf<int>(1, {4, 2})) {
    const auto table = std::make_shared<kernels::ComputeTable>();
    const auto member = std::make_shared<kernels::ComputeMember>(table, 0, 1, total, [](int) { return 9; });
    const Trained lent = TrainTwoSteps(GetParam(), 1, member);
    EXPECT_GT(table->entries[0].borrowed_ns, 0);
    EXPECT_EQ(lent.figures, own.figures) << total;
    for (const auto& [name, tensor] : own.parameters) EXPECT_TRUE(at::equal(lent.parameters.at(name), tensor)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(, LentThreads, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

}  // namespace
}  // namespace ingot::trainer
