// An embedding's gradient, against ATen's in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/torch/add_rows.h"
#include "kernels/torch/layers.h"

namespace ingot::kernels {
namespace {

constexpr int64_t kTokens = 9, kWidth = 5;

// ATen's result in fp64 for the same numbers and the same earlier gradient.
at::Tensor Want(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& before) {
  at::Tensor sums = at::zeros({kTokens, kWidth}, at::kDouble);
  if (before.defined()) sums.copy_(before);
  return sums.index_add_(0, ids, grad.to(at::kDouble));
}

TEST(EmbeddingGradient, IsTheSumOverOccurrencesAddedToTheEarlierGradient) {
  at::manual_seed(1);
  const at::Tensor ids = at::tensor({3, 0, 3, 8, 3}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor weight = at::randn({kTokens, kWidth}).to(type).requires_grad_(true);
    const at::Tensor grad = at::randn({5, kWidth}).to(type);
    AddEmbeddingGradient(ids, grad, weight);
    // Each sum is rounded to the type once.
    const at::Tensor first = weight.grad().clone(), want = Want(ids, grad, {});
    const double tolerance = type == at::kBFloat16 ? 0x1p-8 : type == at::kFloat ? 1e-6 : 1e-14;
    EXPECT_TRUE(at::allclose(first.to(at::kDouble), want, tolerance, tolerance)) << type;
    EXPECT_TRUE(at::equal(first.index_select(0, at::tensor({1, 2, 4, 5, 6, 7}, at::kLong)),
                          at::zeros({6, kWidth}, weight.options().requires_grad(false))));
    AddEmbeddingGradient(ids, grad, weight);
    EXPECT_TRUE(at::allclose(weight.grad().to(at::kDouble), Want(ids, grad, first), tolerance, tolerance)) << type;
  }
}

// In bf16 itself 1 + 1 + ... stops at 256.
TEST(EmbeddingGradient, ThousandsOfOneTokenAreSummedInFp32) {
  const at::Tensor weight = at::zeros({kTokens, kWidth}, at::kBFloat16).requires_grad_(true);
  const at::Tensor ids = at::full({2000}, 4, at::kLong), grad = at::ones({2000, kWidth}, at::kBFloat16);
  AddEmbeddingGradient(ids, grad, weight);
  EXPECT_EQ(weight.grad()[4][0].item<float>(), 2000);
  AddEmbeddingGradient(ids, grad, weight);
  EXPECT_EQ(weight.grad()[4][0].item<float>(), 4000);
  EXPECT_EQ(weight.grad().to(at::kFloat).sum().item<float>(), 4000 * kWidth);
}

TEST(AddRows, AddsNumbersInOrder) {
  const at::Tensor sums = at::tensor({1.0f, 0.0f, 2.0f});
  // In another order, 1 would be lost.
  AddRows(sums, at::tensor({2, 0, 2, 2}, at::kLong), at::tensor({1e9f, 5.0f, -1e9f, 1.0f}));
  EXPECT_TRUE(at::equal(sums, at::tensor({6.0f, 0.0f, 1.0f})));
}

TEST(AddRows, RejectsWhatDoesNotMatch) {
  const at::Tensor sums = at::zeros({3, 4}), ids = at::zeros({2}, at::kLong), rows = at::zeros({2, 4});
  EXPECT_THROW(AddRows(sums, ids, at::zeros({2, 5})), c10::Error);
  EXPECT_THROW(AddRows(sums, ids, at::zeros({3, 4})), c10::Error);
  EXPECT_THROW(AddRows(sums, ids.to(at::kInt), rows), c10::Error);
  EXPECT_THROW(AddRows(sums, ids, rows.to(at::kDouble)), c10::Error);
  EXPECT_THROW(AddRows(at::zeros({4, 3}).t(), ids, rows), c10::Error);
}

}  // namespace
}  // namespace ingot::kernels
