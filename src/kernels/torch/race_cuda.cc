// Implements the race operator's CUDA kernel. Part of libingot_cuda.so, which registers it when it is loaded.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/cuda/draw_launch.h"
#include "kernels/torch/race.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

std::tuple<at::Tensor, at::Tensor> RaceOnCuda(const at::Tensor& log_weights, const at::Tensor& seeds) {
  CheckRace(log_weights, seeds);
  const c10::cuda::CUDAGuard guard(log_weights.device());
  const at::Tensor rows = log_weights.contiguous(), keys = seeds.contiguous();
  const at::Tensor winners = at::empty_like(keys), log_probs = at::empty({rows.size(0)}, rows.options());
  cuda::DrawArgs args{};
  args.log_weights = Read<float>(rows);
  args.rows = rows.size(0);
  args.count = rows.size(1);
  args.seeds = Read<uint64_t>(keys);
  const at::Tensor best = at::empty({args.rows * args.parts(), 2}, rows.options().dtype(at::kDouble));
  args.best = Write<cuda::DrawBest>(best);
  args.winners = Write<int64_t>(winners);
  args.log_probs = Write<float>(log_probs);
  C10_CUDA_CHECK(cuda::LaunchDraw(args, c10::cuda::getCurrentCUDAStream()));
  return {winners, log_probs};
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) { m.impl("race", RaceOnCuda); }

}  // namespace
}  // namespace ingot::kernels
