// Implements the CUDA kernel of rows_to_pages. Part of libingot_cuda.so, which registers it when it is loaded.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/pages_launch.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/pages.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

using Maybe = std::optional<at::Tensor>;

void RowsToPagesOnCuda(const Maybe& q, const at::Tensor& k, const Maybe& v, const Maybe& q_weight,
                       const Maybe& k_weight, double eps, const Maybe& cos, const Maybe& sin, const Maybe& positions,
                       const at::Tensor& slots, const Maybe& y, const at::Tensor& k_pages, const Maybe& v_pages) {
  const at::ScalarType type = k.scalar_type();
  const auto check = [&](const char* what, const at::Tensor& t, at::IntArrayRef sizes, at::ScalarType of) {
    CheckDense("rows_to_pages", what, t, k, sizes, of);
  };
  TORCH_CHECK(k.dim() == 3 && k_pages.dim() == 4, "rows_to_pages: k must be [rows, kv_heads, head_dim], and pages ",
              "[pages, page_size, kv_heads, head_dim], got ", k.sizes(), " and ", k_pages.sizes());
  const bool turns = q.has_value();
  TORCH_CHECK(v.has_value() == v_pages.has_value() && y.has_value() == turns && cos.has_value() == turns &&
                  sin.has_value() == turns && positions.has_value() == turns &&
                  (turns || (!q_weight.has_value() && !k_weight.has_value())),
              "rows_to_pages: values belong to pages, and tables, positions, norms, and a result to queries");
  const int64_t rows = k.size(0), kv_heads = k.size(1), depth = k.size(2);
  check("k", k, k.sizes(), type);
  check("the pages of keys", k_pages, {k_pages.size(0), k_pages.size(1), kv_heads, depth}, type);
  check("slots", slots, {rows}, at::kLong);
  if (v.has_value()) {
    check("v", *v, k.sizes(), type);
    check("the pages of values", *v_pages, k_pages.sizes(), type);
  }
  if (turns) {
    TORCH_CHECK(q->dim() == 3 && depth % 2 == 0 && cos->dim() == 2, "rows_to_pages: q must be [rows, heads, head_dim] ",
                "with an even head_dim, and tables [positions, head_dim / 2], got ", q->sizes(), " and ", cos->sizes());
    check("q", *q, {rows, q->size(1), depth}, type);
    check("the result", *y, q->sizes(), type);
    check("cos", *cos, {cos->size(0), depth / 2}, type);
    check("sin", *sin, cos->sizes(), type);
    check("positions", *positions, {rows}, at::kLong);
    if (q_weight.has_value()) check("the queries' weight", *q_weight, {depth}, type);
    if (k_weight.has_value()) check("the keys' weight", *k_weight, {depth}, type);
  }
  const c10::cuda::CUDAGuard guard(k.device());
  const auto of = [](const Maybe& t) { return t.value_or(at::Tensor()); };
  ByType(k, [&](auto zero) {
    using T = decltype(zero);
    const cuda::PagesArgs<T> args{rows,
                                  turns ? q->size(1) : 0,
                                  kv_heads,
                                  depth,
                                  Read<T>(of(q)),
                                  Read<T>(k),
                                  Read<T>(of(v)),
                                  Read<T>(of(q_weight)),
                                  Read<T>(of(k_weight)),
                                  static_cast<Accumulator<T>>(eps),
                                  Read<T>(of(cos)),
                                  Read<T>(of(sin)),
                                  Read<int64_t>(of(positions)),
                                  turns ? cos->size(0) : 0,
                                  Write<T>(of(y)),
                                  Read<int64_t>(slots),
                                  k_pages.size(0) * k_pages.size(1),
                                  Write<T>(k_pages),
                                  Write<T>(of(v_pages))};
    C10_CUDA_CHECK(cuda::LaunchPages(args, c10::cuda::getCurrentCUDAStream()));
  });
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("rows_to_pages", RowsToPagesOnCuda); }

}  // namespace
}  // namespace ingot::kernels
