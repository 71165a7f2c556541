// Linear layers of one input and the residual norm as autograd sees them, against ATen's formulas in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"

namespace ingot::kernels {
namespace {

constexpr int64_t kRows = 40, kIn = 37;

at::Tensor Leaf(at::IntArrayRef sizes, at::ScalarType type) { return at::randn(sizes).to(type).requires_grad_(true); }

// A leaf of the same numbers in fp64.
at::Tensor Wide(const at::Tensor& leaf) { return leaf.detach().to(at::kDouble).requires_grad_(true); }

void ExpectNear(const at::Tensor& got, const at::Tensor& want, double tolerance, const char* what) {
  ASSERT_TRUE(got.defined()) << what;
  EXPECT_LT(((got.to(at::kDouble) - want).abs().max() / want.abs().max()).item<double>(), tolerance) << what;
}

struct Case {
  at::ScalarType type;
  double tolerance;
};
// bf16: the rounding of a result, and for gradients also the rounding of the incoming gradients.
const std::vector<Case> kCases = {{at::kDouble, 1e-13}, {at::kFloat, 4e-6}, {at::kBFloat16, 1.0 / 100}};

TEST(Linears, AreTheLayersAndTheirGradients) {
  at::manual_seed(3);
  for (const Case& c : kCases) {
    const at::Tensor x = Leaf({kRows, kIn}, c.type);
    const std::vector<at::Tensor> weights = {Leaf({50, kIn}, c.type), Leaf({20, kIn}, c.type), Leaf({33, kIn}, c.type)};
    const std::vector<at::Tensor> biases = {Leaf({50}, c.type), at::Tensor(), Leaf({33}, c.type)};
    const std::vector<at::Tensor> y = LinearsOp(x, weights, biases);
    ASSERT_EQ(y.size(), 3u);
    std::vector<at::Tensor> grads, want_y, want_leaves;
    const at::Tensor wide_x = Wide(x);
    for (size_t i = 0; i < 3; ++i) {
      grads.push_back(at::randn_like(y[i]));
      want_leaves.push_back(Wide(weights[i]));
      want_y.push_back(at::mm(wide_x, want_leaves.back().t()));
      ExpectNear(y[i].detach(),
                 (want_y[i] + (biases[i].defined() ? biases[i].to(at::kDouble) : at::zeros({1}))).detach(), c.tolerance,
                 "y");
    }
    torch::autograd::backward(y, grads);
    torch::autograd::backward(want_y, {grads[0].to(at::kDouble), grads[1].to(at::kDouble), grads[2].to(at::kDouble)});
    ExpectNear(x.grad(), wide_x.grad(), c.tolerance, "x");
    for (size_t i = 0; i < 3; ++i) {
      ExpectNear(weights[i].grad(), want_leaves[i].grad(), c.tolerance, "weight");
      if (biases[i].defined()) ExpectNear(biases[i].grad(), grads[i].to(at::kDouble).sum(0), c.tolerance, "bias");
    }
  }
}

TEST(Linears, IgnoreResultsThatTheLossDoesNotUse) {
  at::manual_seed(4);
  const at::Tensor x = Leaf({kRows, kIn}, at::kFloat), used = Leaf({20, kIn}, at::kFloat),
                   unused = Leaf({30, kIn}, at::kFloat);
  const std::vector<at::Tensor> y = LinearsOp(x, {unused, used});
  y[1].sum().backward();
  EXPECT_FALSE(unused.grad().defined());
  ExpectNear(used.grad(), x.detach().sum(0).to(at::kDouble).expand({20, kIn}), 1e-5, "weight");
  ExpectNear(x.grad(), used.detach().sum(0).to(at::kDouble).expand({kRows, kIn}), 1e-5, "x");

  const at::Tensor frozen = at::randn({20, kIn});
  const at::Tensor z = LinearsOp(x.detach(), {frozen, used})[0];
  EXPECT_TRUE(at::equal(z.detach(), LinearOp(x.detach(), frozen, {})));
}

TEST(ResidualNorm, IsTheSumAndItsNormAndTheirGradients) {
  at::manual_seed(5);
  for (const Case& c : kCases) {
    for (const bool plus_there : {false, true}) {
      const at::Tensor x = Leaf({kRows, kIn}, c.type), plus = plus_there ? Leaf({kRows, kIn}, c.type) : at::Tensor();
      const at::Tensor weight = Leaf({kIn}, c.type);
      const Residual got = ResidualNormOp(x, plus, weight, 1e-5);
      const at::Tensor wide_x = Wide(x), wide_weight = Wide(weight);
      const at::Tensor sum = plus_there ? wide_x + plus.detach().to(at::kDouble) : wide_x * 1;
      const at::Tensor normed = sum * at::rsqrt(sum.square().mean(-1, true) + 1e-5) * wide_weight;
      ExpectNear(got.sum.detach(), sum.detach(), c.tolerance, "sum");
      ExpectNear(got.normed.detach(), normed.detach(), c.tolerance, "normed");
      const at::Tensor by_sum = at::randn_like(got.sum), by_normed = at::randn_like(got.normed);
      torch::autograd::backward({got.sum, got.normed}, {by_sum, by_normed});
      torch::autograd::backward({sum, normed}, {by_sum.to(at::kDouble), by_normed.to(at::kDouble)});
      ExpectNear(x.grad(), wide_x.grad(), c.tolerance, "x");
      EXPECT_TRUE(!plus_there || at::equal(plus.grad(), x.grad()));
      ExpectNear(weight.grad(), wide_weight.grad(), c.tolerance, "weight");
    }
  }
}

// A loss that reads only one of the two results.
TEST(ResidualNorm, TakesTheGradientOfOneResultAlone) {
  at::manual_seed(6);
  const at::Tensor x = Leaf({kRows, kIn}, at::kFloat), plus = Leaf({kRows, kIn}, at::kFloat),
                   weight = Leaf({kIn}, at::kFloat);
  ResidualNormOp(x, plus, weight, 1e-5).sum.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones_like(x)));
  EXPECT_TRUE(at::equal(plus.grad(), at::ones_like(x)));
  EXPECT_FALSE(weight.grad().defined());

  const at::Tensor alone = Leaf({kRows, kIn}, at::kFloat), same = alone.detach().clone().requires_grad_(true);
  const at::Tensor grad = at::randn_like(alone);
  RmsNormOp(alone, weight, 1e-5).backward(grad);
  ResidualNormOp(same, at::zeros_like(same), weight, 1e-5).normed.backward(grad);
  EXPECT_TRUE(at::equal(alone.grad(), same.grad()));
}

TEST(ResidualNorm, RejectsTensorsThatDoNotFit) {
  const at::Tensor x = at::randn({4, 6}), weight = at::randn({6});
  EXPECT_THROW(ResidualNormOp(x, at::randn({4, 5}), weight, 1e-5), c10::Error);
  EXPECT_THROW(ResidualNormOp(x, at::randn({4, 6}, at::kDouble), weight, 1e-5), c10::Error);
  EXPECT_THROW(LinearsOp(x, {at::randn({3, 6}), at::randn({3, 5})}), c10::Error);
  EXPECT_THROW(LinearsOp(x, {at::randn({3, 6})}, {at::randn({3}), at::randn({3})}), c10::Error);
  EXPECT_THROW(LinearsOp(x, {}), c10::Error);
}

}  // namespace
}  // namespace ingot::kernels
