#include "kernels/torch/softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

namespace ingot::kernels {
namespace {

TEST(Policy, EqualRowsGiveEqualBitsWhateverTheBatch) {
  for (const int64_t vocabulary : {7, 260, 1000, 32003}) {
    const at::Tensor logits = at::randn({37, vocabulary}) * 4;
    const at::Tensor temperature = at::rand({37}) + 0.5;
    const Policy policy(logits, temperature);
    const at::Tensor all = policy.LogSoftmax();
    for (const int64_t r : {0, 17, 36}) {
      const at::Tensor row = logits.narrow(0, r, 1), want = all.narrow(0, r, 1);
      EXPECT_TRUE(at::equal(Policy(row, temperature.narrow(0, r, 1)).LogSoftmax(), want));
      EXPECT_TRUE(at::equal(Policy(row, temperature[r]).LogSoftmax(), want));
      EXPECT_EQ(Policy(row, temperature[r]).LogProbs({{0, 0}, {5, 6}}),
                (std::vector<double>{want[0][5].item<float>(), want[0][6].item<float>()}));
    }
    const at::Tensor want = at::log_softmax(logits.to(at::kDouble) / temperature.unsqueeze(1), -1);
    // A few units in the last place of the largest number.
    EXPECT_LT((all - want).abs().max().item<double>(), 4e-7 * want.abs().max().item<double>());
    EXPECT_LT((policy.LogNormalizers() - (logits.to(at::kDouble) / temperature.unsqueeze(1)).logsumexp(1))
                  .abs()
                  .max()
                  .item<double>(),
              1e-5);
    EXPECT_TRUE(at::equal(policy.LogSoftmax(/*overwrite_logits=*/true), all));
    EXPECT_TRUE(at::equal(logits, all));
  }
}

// Against autograd in fp64: log-probs, one of them twice, and entropies.
TEST(Policy, GradientIsAutograds) {
  const at::Tensor logits = at::randn({9, 300}, at::kDouble) * 3;
  const at::Tensor temperature = at::rand({9}, at::kDouble) + 0.5;
  const PolicyTokens tokens{{0, 0, 2, 2, 2, 8}, {3, 299, 7, 7, 0, 150}};
  const std::vector<double> by_logprob = {0.3, -1, 2, 0.5, -0.25, 1};
  const std::vector<double> by_entropy = {0.1, 0, -2, 0, 0.3, 0, 0, 0, 1};
  for (const bool entropy : {false, true}) {
    const at::Tensor leaf = logits.clone().requires_grad_(true);
    const at::Tensor logp = at::log_softmax(leaf / temperature.unsqueeze(1), -1);
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (size_t i = 0; i < by_logprob.size(); ++i) loss = loss + by_logprob[i] * logp[tokens.row[i]][tokens.token[i]];
    const at::Tensor entropies = -(logp.exp() * logp).sum(1);
    if (entropy) loss = loss + (entropies * at::tensor(by_entropy, at::kDouble)).sum();
    loss.backward();
    const Policy policy(logits, temperature);
    EXPECT_LT((policy.entropy() - entropies).abs().max().item<double>(), 1e-13);
    const std::vector<double> none;
    const at::Tensor got = policy.Gradient(tokens, by_logprob, entropy ? by_entropy : none, at::empty_like(logits));
    EXPECT_LT((got - leaf.grad()).abs().max().item<double>(), 1e-13);
    const at::Tensor in_place = logits.clone();
    EXPECT_TRUE(
        at::equal(Policy(in_place, temperature).Gradient(tokens, by_logprob, entropy ? by_entropy : none, {}), got));
    EXPECT_TRUE(at::equal(in_place, got));
  }
}

TEST(Policy, RejectsTensorsThatDoNotFit) {
  const at::Tensor logits = at::randn({3, 10}), one = at::ones({});
  EXPECT_THROW(Policy(at::randn({10}), one), c10::Error);
  EXPECT_THROW(Policy(logits, at::ones({2})), c10::Error);
  EXPECT_THROW(Policy(at::randn({3, 10}).requires_grad_(true), one), c10::Error);
  const Policy policy(logits, one);
  EXPECT_THROW(policy.LogProbs({{0}, {10}}), c10::Error);
  EXPECT_THROW(policy.LogProbs({{3}, {0}}), c10::Error);
  EXPECT_THROW(policy.LogProbs({{1, 0}, {0, 0}}), c10::Error);
  EXPECT_THROW(policy.LogProbs({{1, 2}, {0}}), c10::Error);
  const std::vector<double> derivative = {1}, none;
  EXPECT_THROW(policy.Gradient({{0}, {0}}, none, none, {}), c10::Error);
  EXPECT_THROW(policy.Gradient({{0}, {0}}, derivative, derivative, {}), c10::Error);
  EXPECT_THROW(policy.Gradient({{0}, {0}}, derivative, none, at::empty({3, 9})), c10::Error);
  EXPECT_THROW(policy.Gradient({{0}, {0}}, derivative, none, at::empty({3, 10}, at::kHalf)), c10::Error);
}

}  // namespace
}  // namespace ingot::kernels
