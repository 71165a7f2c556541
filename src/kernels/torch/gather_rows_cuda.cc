// Implements the CUDA kernel of gather_rows. Part of libingot_cuda.so, which registers it when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/gather_rows_launch.h"
#include "kernels/torch/layers_ops.h"
#include "kernels/torch/operands.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

void GatherRowsOnCuda(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows) {
  TORCH_CHECK(table.dim() == 2 && ids.dim() == 1, "gather_rows: the table must be [limit, width], and ids [rows], got ",
              table.sizes(), " and ", ids.sizes());
  CheckDense("gather_rows", "the table", table, table, table.sizes(), table.scalar_type());
  CheckDense("gather_rows", "ids", ids, table, ids.sizes(), at::kLong);
  CheckDense("gather_rows", "the result", rows, table, {ids.size(0), table.size(1)}, table.scalar_type());
  const c10::cuda::CUDAGuard guard(table.device());
  ByType(table, [&](auto zero) {
    using T = decltype(zero);
    C10_CUDA_CHECK(cuda::LaunchGatherRows<T>(
        {Read<T>(table), Read<int64_t>(ids), Write<T>(rows), ids.size(0), table.size(1), table.size(0)},
        c10::cuda::getCurrentCUDAStream()));
  });
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("gather_rows", GatherRowsOnCuda); }

}  // namespace
}  // namespace ingot::kernels
