// AdamW against its formula in plain doubles, and against exact arithmetic.
#include "trainer/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "trainer/policy/rank_changes.h"
#include "weights/tensor_checksum.h"

namespace ingot::trainer {
namespace {

std::map<std::string, at::Tensor> OneMatrix(at::ScalarType type) {
  return {{"w", at::tensor({0.5, -1.25, 2.0, 0.0}, type).view({2, 2}).requires_grad_(true)},
          {"norm", at::tensor({1.0, -1.0}, type).requires_grad_(true)}};
}

OptimizerOptions Options() {
  OptimizerOptions options;
  options.beta1 = 0.9;
  options.beta2 = 0.95;
  options.eps = 1e-8;
  options.weight_decay = 0.1;
  options.grad_clip_norm = 0;
  return options;
}

void SetGradients(std::map<std::string, at::Tensor>& parameters, int64_t t) {
  const auto type = parameters.at("w").scalar_type();
  const double x = static_cast<double>(t);
  parameters.at("w").mutable_grad() = at::tensor({0.1 * x, -0.2, std::cos(x), 1e-3}, at::kDouble).view({2, 2}).to(type);
  parameters.at("norm").mutable_grad() = at::tensor({std::sin(x), 0.5}, at::kDouble).to(type);
}

TEST(AdamW, FollowsItsFormula) {
  auto parameters = OneMatrix(at::kDouble);
  AdamW optimizer(Options(), parameters);
  double p[6] = {0.5, -1.25, 2.0, 0.0, 1.0, -1.0}, m[6] = {}, v[6] = {};
  for (int64_t t = 1; t <= 5; ++t) {
    const double x = static_cast<double>(t), lr = 0.01 * x;
    const double g[6] = {0.1 * x, -0.2, std::cos(x), 1e-3, std::sin(x), 0.5};
    for (int i = 0; i < 6; ++i) {
      if (i < 4) p[i] -= lr * 0.1 * p[i];  // matrices decay, norms do not
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
      p[i] -= lr * (m[i] / (1 - std::pow(0.9, x))) / (std::sqrt(v[i] / (1 - std::pow(0.95, x))) + 1e-8);
    }
    SetGradients(parameters, t);
    optimizer.Step(lr, optimizer.GradNorm());
    optimizer.ZeroGrad();
  }
  for (int i = 0; i < 6; ++i) {
    const at::Tensor flat = i < 4 ? parameters.at("w").view(-1) : parameters.at("norm");
    EXPECT_NEAR(flat[i < 4 ? i : i - 4].item<double>(), p[i], 1e-14) << i;
  }
  EXPECT_EQ(optimizer.steps(), 5);
}

TEST(AdamW, GivesTheNumbersOfExactArithmetic) {
  // The first step moves by the rate itself, since m' / sqrt(v') is the gradient's sign. The expected numbers are the
  // formula's, computed with 40 decimal digits.
  auto parameters = OneMatrix(at::kDouble);
  AdamW optimizer(Options(), parameters);
  SetGradients(parameters, 1);
  optimizer.Step(0.01, 1.0);
  EXPECT_NEAR(parameters.at("w")[0][1].item<double>(), -1.25 * (1 - 0.001) + 0.01 / (1 + 1e-8 / 0.2), 1e-15);
  EXPECT_NEAR(parameters.at("w")[0][0].item<double>(), 0.48950000099999990, 1e-15);
  SetGradients(parameters, 2);
  optimizer.Step(0.02, 1.0);
  EXPECT_NEAR(parameters.at("w")[0][0].item<double>(), 0.46936128481174682, 1e-15);
  EXPECT_NEAR(parameters.at("w")[1][0].item<double>(), 1.98248826414108218, 1e-15);
}

TEST(AdamW, ClipsToTheGlobalNorm) {
  OptimizerOptions options = Options();
  options.weight_decay = 0;
  options.grad_clip_norm = 1.0;
  auto parameters = OneMatrix(at::kDouble);
  AdamW optimizer(options, parameters);
  parameters.at("w").mutable_grad() = at::tensor({3.0, 0.0, 0.0, 0.0}, at::kDouble).view({2, 2});
  parameters.at("norm").mutable_grad() = at::tensor({0.0, 4.0}, at::kDouble);
  const double norm = optimizer.GradNorm();
  EXPECT_DOUBLE_EQ(norm, 5.0);  // over both tensors
  optimizer.Step(0.1, norm);
  // First moments are 0.1 of the clipped gradients 0.6 and 0.8.
  const auto state = optimizer.State();
  EXPECT_NEAR(state.at("exp_avg.w")[0][0].item<double>(), 0.06, 1e-15);
  EXPECT_NEAR(state.at("exp_avg.norm")[1].item<double>(), 0.08, 1e-15);
}

TEST(AdamW, LeavesSmallGradientsAlone) {
  OptimizerOptions options = Options();
  options.grad_clip_norm = 10.0;
  auto parameters = OneMatrix(at::kDouble);
  AdamW optimizer(options, parameters);
  parameters.at("norm").mutable_grad() = at::tensor({0.0, 4.0}, at::kDouble);
  optimizer.Step(0.1, optimizer.GradNorm());
  EXPECT_NEAR(optimizer.State().at("exp_avg.norm")[1].item<double>(), 0.4, 1e-15);
}

TEST(AdamW, KeepsAMasterCopyOfNarrowParameters) {
  std::map<std::string, at::Tensor> parameters = {{"w", at::ones({2, 2}, at::kBFloat16).requires_grad_(true)}};
  OptimizerOptions options = Options();
  options.weight_decay = 0;
  AdamW optimizer(options, parameters);
  // Each step is far below bf16's resolution at 1; the sum of the steps is not.
  for (int i = 0; i < 20; ++i) {
    parameters.at("w").mutable_grad() = at::ones({2, 2}, at::kBFloat16);
    optimizer.Step(0.001, 2.0);
  }
  EXPECT_NEAR(optimizer.State().at("master.w")[0][0].item<double>(), 0.98, 1e-4);
  EXPECT_NEAR(parameters.at("w")[0][0].item<double>(), 0.98, 0.004);
}

// The marks of `name` are the words that differ from `before`.
void ExpectMarked(const std::map<std::string, RoundedParameter>& changes, const std::string& name,
                  const at::Tensor& before, const at::Tensor& after) {
  const weights::ChangeMask& mask = changes.at(name).changes;
  ASSERT_EQ(mask.words(), before.numel());
  const at::Tensor differ = before.view(-1).view(at::kShort).ne(after.view(-1).view(at::kShort));
  const bool* const expected = differ.const_data_ptr<bool>();
  for (int64_t i = 0; i < before.numel(); ++i) {
    const bool marked = (mask.entries()[static_cast<size_t>(i / 64)] >> (i % 64) & 1) != 0;
    ASSERT_EQ(marked, expected[i]) << name << " " << i;
  }
}

TEST(AdamW, MarksTheWordsThatItChanges) {
  at::manual_seed(3);
  std::map<std::string, at::Tensor> parameters = {
      {"large",
       at::randn({700, 301}).to(at::kBFloat16).requires_grad_(true)},  // several tasks, and a last entry in part
      {"norm", at::ones({70}, at::kBFloat16).requires_grad_(true)},
      {"wide", at::ones({64}, at::kFloat).requires_grad_(true)}};
  AdamW optimizer(Options(), parameters);
  for (int step = 0; step < 3; ++step) {
    const std::map<std::string, at::Tensor> before = {{"large", parameters.at("large").detach().clone()},
                                                      {"norm", parameters.at("norm").detach().clone()}};
    for (auto& [name, parameter] : parameters) parameter.mutable_grad() = at::randn(parameter.sizes()).to(parameter);
    optimizer.Step(1e-4, 1.0);
    const auto changes = optimizer.TakeRounded();
    EXPECT_EQ(changes.size(), 2u) << "an fp32 parameter is not marked";
    for (const auto& [name, old] : before) ExpectMarked(changes, name, old, parameters.at(name).detach());
    // The words are those that torch rounds to.
    EXPECT_TRUE(parameters.at("large").equal(optimizer.State().at("master.large").to(at::kBFloat16)));
    optimizer.ZeroGrad();
  }
  const auto none = optimizer.TakeRounded();
  for (const uint64_t entry : none.at("large").changes.entries()) ASSERT_EQ(entry, 0u);
}

std::span<const std::byte> BytesOf(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// The values that rank 0 gets are those of the marked words, and a damaged message is an error.
TEST(AdamW, ChangesSurviveTheWayToAnotherRank) {
  at::manual_seed(4);
  std::map<std::string, at::Tensor> parameters = {
      {"large", at::randn({30, 301}).to(at::kBFloat16).requires_grad_(true)},
      {"norm", at::ones({70}, at::kBFloat16).requires_grad_(true)}};
  const at::Tensor before = parameters.at("large").detach().clone();
  AdamW optimizer(Options(), parameters);
  for (auto& [name, parameter] : parameters) parameter.mutable_grad() = at::randn(parameter.sizes()).to(parameter);
  optimizer.Step(1e-4, 1.0);
  const auto own = optimizer.TakeValues();
  ExpectMarked(own, "large", before, parameters.at("large").detach());
  const std::string message = EncodeChanges(own);
  std::map<std::string, RoundedParameter> all;
  ASSERT_TRUE(DecodeChanges(message, all).ok());
  ASSERT_EQ(all.size(), 2u);
  ExpectMarked(all, "large", before, parameters.at("large").detach());
  const at::Tensor now = parameters.at("large").detach().view(-1),
                   changed = now.masked_select(now.view(at::kShort).ne(before.view(-1).view(at::kShort)));
  ASSERT_GT(changed.numel(), 0);
  ASSERT_EQ(all.at("large").values->size(), changed.nbytes());
  EXPECT_EQ(std::memcmp(all.at("large").values->data(), changed.const_data_ptr(), changed.nbytes()), 0);
  for (size_t size = 1; size < message.size(); size += 997) {
    all.clear();
    EXPECT_TRUE(absl::IsDataLoss(DecodeChanges(std::string_view(message).substr(0, size), all))) << size;
  }
  for (const auto& [name, none] : optimizer.TakeValues()) EXPECT_TRUE(none.values->empty()) << "they were taken";
}

TEST(AdamW, AVersionKeepsTheMemoryThatNoUpdateChanges) {
  at::manual_seed(5);
  std::map<std::string, at::Tensor> parameters = {
      {"large", at::randn({3, 70000}).to(at::kBFloat16).requires_grad_(true)}};
  AdamW optimizer(Options(), parameters);
  const at::Tensor alias = parameters.at("large").detach();
  const auto step = [&] {
    parameters.at("large").mutable_grad() = at::randn({3, 70000}).to(at::kBFloat16);
    optimizer.Step(1e-2, 1.0);
    optimizer.ZeroGrad();
  };
  EXPECT_EQ(optimizer.TakeRounded().at("large").memory, nullptr) << "no update yet";
  step();
  auto first = optimizer.TakeRounded();
  const at::Tensor words = parameters.at("large").detach().clone();
  EXPECT_EQ(first.at("large").memory.get(), static_cast<std::byte*>(parameters.at("large").mutable_data_ptr()));
  EXPECT_EQ(first.at("large").checksum, weights::TensorChecksum(BytesOf(words)));
  step();
  step();  // not taken in between: it rounds where the one before did
  EXPECT_EQ(std::memcmp(first.at("large").memory.get(), words.const_data_ptr(), words.nbytes()), 0);
  EXPECT_EQ(alias.const_data_ptr(), parameters.at("large").const_data_ptr()) << "all handles see the new words";
  auto second = optimizer.TakeRounded();
  EXPECT_EQ(second.at("large").checksum, weights::TensorChecksum(BytesOf(parameters.at("large"))));
  const std::byte* const memory = first.at("large").memory.get();
  first.clear();
  step();
  EXPECT_EQ(parameters.at("large").const_data_ptr(), memory) << "two buffers trade places";
}

TEST(AdamW, LeavesTheVersionsOfAnEarlierOptimizer) {
  at::manual_seed(6);
  std::map<std::string, at::Tensor> parameters = {{"w", at::randn({2, 64}).to(at::kBFloat16).requires_grad_(true)}};
  const auto step = [&](AdamW& optimizer) {
    parameters.at("w").mutable_grad() = at::ones({2, 64}, at::kBFloat16);
    optimizer.Step(0.1, 1.0);
    optimizer.ZeroGrad();
  };
  std::shared_ptr<std::byte[]> version;
  {
    AdamW optimizer(Options(), parameters);
    optimizer.TakeRounded();
    step(optimizer);
    version = optimizer.TakeRounded().at("w").memory;
  }
  ASSERT_EQ(version.get(), static_cast<std::byte*>(parameters.at("w").mutable_data_ptr()));
  const at::Tensor words = parameters.at("w").detach().clone();
  AdamW optimizer(Options(), parameters);
  step(optimizer);
  EXPECT_FALSE(parameters.at("w").equal(words));
  EXPECT_EQ(std::memcmp(version.get(), words.const_data_ptr(), words.nbytes()), 0);
}

TEST(AdamW, MarksAddUpUntilTheyAreTaken) {
  std::map<std::string, at::Tensor> parameters = {{"w", at::ones({2, 64}, at::kBFloat16).requires_grad_(true)}};
  OptimizerOptions options = Options();
  options.weight_decay = 0;
  AdamW optimizer(options, parameters);
  const auto propose = [&](int64_t word) {
    at::Tensor gradient = at::zeros({2, 64}, at::kBFloat16);
    gradient.view(-1)[word] = 1.0;
    parameters.at("w").mutable_grad() = gradient;
    optimizer.Propose(0.1, 1.0);
  };
  const at::Tensor start = parameters.at("w").detach().clone();
  propose(3);
  optimizer.TakeBack();  // as it was: its marks stay all the same
  EXPECT_TRUE(parameters.at("w").equal(start));
  optimizer.ZeroGrad();
  propose(77);
  optimizer.Commit();
  const auto changes = optimizer.TakeRounded();
  EXPECT_EQ(changes.at("w").changes.entries()[0], uint64_t{1} << 3);
  EXPECT_EQ(changes.at("w").changes.entries()[1], uint64_t{1} << 13);
  EXPECT_NE(parameters.at("w")[1][13].item<float>(), 1.0f);
}

}  // namespace
}  // namespace ingot::trainer
