#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/torch/linear.h"

namespace ingot::kernels {
namespace {

double Distance(const at::Tensor& got, const at::Tensor& want) {
  return ((got.to(at::kDouble) - want).abs().max() / want.abs().max()).item<double>();
}

// Dense, transposed, a part of a larger matrix, and dense neither in rows nor in columns.
std::vector<at::Tensor> Forms(const at::Tensor& dense) {
  const at::Tensor wide = at::zeros({dense.size(0), 2 * dense.size(1)}, dense.options());
  wide.slice(1, 0, dense.size(1)).copy_(dense);
  const at::Tensor apart = at::zeros({dense.size(0), 2 * dense.size(1)}, dense.options());
  apart.slice(1, 0, 2 * dense.size(1), 2).copy_(dense);
  return {dense, dense.t().contiguous().t(), wide.slice(1, 0, dense.size(1)), apart.slice(1, 0, 2 * dense.size(1), 2)};
}

TEST(Product, EqualsAtensForEveryLayout) {
  // fp64 exactly; fp32 and bf16 up to the rounding of their sums, and bf16 also of the result.
  for (const auto& [type, tolerance] :
       {std::pair(at::kDouble, 1e-14), {at::kFloat, 2e-6}, {at::kBFloat16, 1.0 / 256}}) {
    const at::Tensor a = at::randn({70, 45}).to(type), b = at::randn({45, 33}).to(type);
    const at::Tensor want = at::mm(a.to(at::kDouble), b.to(at::kDouble));
    for (const at::Tensor& x : Forms(a)) {
      for (const at::Tensor& y : Forms(b)) {
        EXPECT_LT(Distance(Product(x, y), want), tolerance);
        at::Tensor all = at::zeros({80, 33}, a.options()), out = all.slice(0, 5, 75);
        Product(x, y, out);
        EXPECT_LT(Distance(out, want), tolerance);
        EXPECT_EQ(all.slice(0, 0, 5).abs().max().item<double>() + all.slice(0, 75).abs().max().item<double>(), 0);
        at::Tensor sum;
        AddProduct(sum, x, y);
        EXPECT_EQ(sum.scalar_type(), type == at::kBFloat16 ? at::kFloat : type);
        AddProduct(sum, x, y);
        EXPECT_LT(Distance(sum, 2 * want), tolerance);
      }
    }
  }
  at::Tensor none = Product(at::empty({3, 0}, at::kBFloat16), at::empty({0, 4}, at::kBFloat16));
  EXPECT_TRUE(at::equal(none, at::zeros({3, 4}, at::kBFloat16)));
}

TEST(Product, OfSeveralTermsIsTheirSum) {
  for (const auto& [type, tolerance] :
       {std::pair(at::kDouble, 1e-14), {at::kFloat, 2e-6}, {at::kBFloat16, 1.0 / 128}}) {
    std::vector<at::Tensor> a, b;
    at::Tensor want = at::zeros({70, 33}, at::kDouble);
    for (const int64_t depth : {45, 1, 1100}) {
      a.push_back(at::randn({depth, 70}).to(type).t());
      b.push_back(at::randn({depth, 33}).to(type));
      want += at::mm(a.back().to(at::kDouble), b.back().to(at::kDouble));
    }
    EXPECT_LT(Distance(SumOfProducts(a, b), want), tolerance);
    b.pop_back();
    EXPECT_THROW(SumOfProducts(a, b), c10::Error);
    a[1] = at::randn({69, 1}).to(type);
    a.pop_back();
    EXPECT_THROW(SumOfProducts(a, b), c10::Error);
  }
}

TEST(Product, RejectsMatricesThatDoNotFit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = at::randn({40, 50}).to(type), b = at::randn({50, 60}).to(type);
    EXPECT_THROW(Product(a, a), c10::Error);
    EXPECT_THROW(Product(a, b.to(at::kDouble)), c10::Error);
    at::Tensor narrow = at::zeros({40, 59}, at::kDouble);
    EXPECT_THROW(AddProduct(narrow, a, b), c10::Error);
  }
}

}  // namespace
}  // namespace ingot::kernels
