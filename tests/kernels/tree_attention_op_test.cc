#include "kernels/torch/tree_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "kernels/attention_reference.h"

namespace ingot::kernels {
namespace {

at::Tensor VisibleEnd(std::vector<int32_t> values) { return at::tensor(values, at::kInt); }

TEST(TreeAttentionOp, IsRegisteredWithTheDispatcherAndDifferentiable) {
  std::mt19937_64 rng(1);
  const auto op = c10::Dispatcher::singleton().findSchema({"ingot::tree_attention", ""});
  ASSERT_TRUE(op.has_value());
  const at::Tensor q = at::randn({40, 4, 8}, at::kDouble).requires_grad_(true),
                   k = at::randn({40, 2, 8}, at::kDouble).requires_grad_(true),
                   v = at::randn({40, 2, 8}, at::kDouble).requires_grad_(true),
                   mix = at::randn({40, 4, 8}, at::kDouble);
  const at::Tensor end = VisibleEnd(testing::RandomForest(rng, 40, 0.2, 0.05));
  using Signature =
      at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, double);
  const at::Tensor out = op->typed<Signature>().call(q, k, v, end, 0.4);
  EXPECT_TRUE(at::equal(out, TreeAttention(q, k, v, end, 0.4)));
  (out * mix).sum().backward();

  const at::Tensor q2 = q.detach().clone().requires_grad_(true), k2 = k.detach().clone().requires_grad_(true),
                   v2 = v.detach().clone().requires_grad_(true);
  const at::Tensor i = at::arange(40).unsqueeze(1), j = at::arange(40).unsqueeze(0);
  const at::Tensor hidden = (j > i).logical_or(end.unsqueeze(0) <= i);
  const at::Tensor s = at::einsum("ihd,jhd->hij", {q2, k2.repeat_interleave(2, 1)}) * 0.4;
  const at::Tensor p = s.masked_fill(hidden.unsqueeze(0), -INFINITY).softmax(-1);
  const at::Tensor want = at::einsum("hij,jhd->ihd", {p, v2.repeat_interleave(2, 1)});
  (want * mix).sum().backward();
  EXPECT_LT((out - want).abs().max().item<double>(), 1e-13);
  EXPECT_LT((q.grad() - q2.grad()).abs().max().item<double>(), 1e-12);
  EXPECT_LT((k.grad() - k2.grad()).abs().max().item<double>(), 1e-12);
  EXPECT_LT((v.grad() - v2.grad()).abs().max().item<double>(), 1e-12);
}

TEST(TreeAttentionOp, TakesSlicesAndHalfPrecision) {
  const at::Tensor fused = at::randn({30, 3, 16});
  const at::Tensor q = fused.narrow(1, 0, 1), k = fused.narrow(1, 1, 1), v = fused.narrow(1, 2, 1);
  const at::Tensor want = TreeAttention(q.contiguous(), k.contiguous(), v.contiguous(), {}, 0.25);
  EXPECT_TRUE(at::equal(TreeAttention(q, k, v, {}, 0.25), want));
  const at::Tensor half = TreeAttention(q.to(at::kBFloat16), k.to(at::kBFloat16), v.to(at::kBFloat16), {}, 0.25);
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  EXPECT_LT((half.to(at::kFloat) - want).abs().max().item<double>(), 0.05);
}

std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(TreeAttentionOp, RefusesTensorsThatDoNotFit) {
  const at::Tensor q = at::zeros({5, 4, 8}), k = at::zeros({5, 2, 8});
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, at::zeros({4, 2, 8}), at::zeros({4, 2, 8}), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, at::zeros({5, 3, 8}), at::zeros({5, 3, 8}), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, at::zeros({5, 2, 9}), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, k.to(at::kDouble), {}, 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, k, VisibleEnd({1, 2, 3}), 1); }), "");
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, k, k, at::zeros({5}, at::kLong), 1); }), "");
  EXPECT_EQ(ErrorOf([&] { TreeAttention(q, k, k, {}, 1); }), "");
  EXPECT_EQ(TreeAttention(q.narrow(0, 0, 0), k.narrow(0, 0, 0), k.narrow(0, 0, 0), {}, 1).numel(), 0);
}

TEST(TreeAttentionOp, NamesADeviceWithoutAKernelInsteadOfFallingBack) {
  const at::Tensor q = at::zeros({5, 4, 8}, at::TensorOptions().device(at::kMeta));
  EXPECT_NE(ErrorOf([&] { TreeAttention(q, q, q, {}, 1); }).find("no kernel for device meta"), std::string::npos);
}

TEST(PagedTreeAttention, RefusesRowsAndPagesOutOfRange) {
  const at::Tensor q = at::zeros({4, 2, 8}), pages = at::zeros({3, 16, 1, 8}), out = at::zeros({4, 2, 8});
  const std::vector<int32_t> table = {2, 0};
  AttentionSequence good;
  good.q_count = 4;
  good.q_offset = 20;
  good.key_count = 24;
  good.block_table = table.data();
  const auto error = [&](const AttentionSequence& s) {
    return ErrorOf([&] { PagedTreeAttention(q, pages, pages, {&s, 1}, 1, out); });
  };
  EXPECT_EQ(error(good), "");
  AttentionSequence s = good;
  s.q_begin = 1;
  EXPECT_NE(error(s), "");
  s = good;
  s.key_count = 23;
  EXPECT_NE(error(s), "");
  const std::vector<int32_t> wild = {2, 3};
  s = good;
  s.block_table = wild.data();
  EXPECT_NE(error(s), "");
  s = good;
  s.block_table = nullptr;
  s.key_begin = 30;
  EXPECT_NE(error(s), "");
}

}  // namespace
}  // namespace ingot::kernels
