// Implements the CUDA kernel of add_rows. Part of libingot_cuda.so, which registers it when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/add_rows_launch.h"
#include "kernels/torch/add_rows.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

void AddRowsOnCuda(const at::Tensor& sums, const at::Tensor& ids, const at::Tensor& rows) {
  CheckAddRows(sums, ids, rows);
  const c10::cuda::CUDAGuard guard(sums.device());
  const at::Tensor dense = rows.contiguous();
  const auto [targets, order] = at::sort(ids, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const int64_t width = sums.dim() == 1 ? 1 : sums.size(1);
  const cuda::AddRowsArgs args{Read<int64_t>(targets),
                               Read<int64_t>(order),
                               dense.const_data_ptr(),
                               sums.mutable_data_ptr(),
                               ids.size(0),
                               width,
                               sums.size(0)};
  ByType(sums, [&](auto zero) {
    C10_CUDA_CHECK(cuda::LaunchAddRows<decltype(zero)>(args, c10::cuda::getCurrentCUDAStream()));
  });
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("add_rows", AddRowsOnCuda); }

}  // namespace
}  // namespace ingot::kernels
