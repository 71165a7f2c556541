// Provides the race (kernels/draws/race.h) as a torch operator, registered with the dispatcher under `ingot`:
//
//   race(log_weights, seeds) -> (winners, log_probs)
//
// log_weights is fp32 [rows, count] with count > 0, and seeds int64 [rows] on the same device, whose bits are the race's
// seeds. winners is int64 [rows]; -1 = nothing can be sampled. log_probs is fp32 [rows], the winners' entries; -infinity
// without a winner. The results are the same bits on every device. CPU is built in, and libingot_cuda.so adds CUDA.
#pragma once

#include <ATen/ATen.h>

#include <tuple>

namespace ingot::kernels {

using RaceSignature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& log_weights, const at::Tensor& seeds);

// Calls the operator. Throws c10::Error.
std::tuple<at::Tensor, at::Tensor> RaceRows(const at::Tensor& log_weights, const at::Tensor& seeds);

// Checks the operator's arguments, for the kernels of all devices. Throws c10::Error.
inline void CheckRace(const at::Tensor& log_weights, const at::Tensor& seeds) {
  TORCH_CHECK(log_weights.dim() == 2 && log_weights.size(1) > 0 && log_weights.scalar_type() == at::kFloat,
              "race takes fp32 log-weights [rows, count] with at least one entry per row, got ",
              log_weights.scalar_type(), " ", log_weights.sizes());
  TORCH_CHECK(seeds.dim() == 1 && seeds.size(0) == log_weights.size(0) && seeds.scalar_type() == at::kLong &&
                  seeds.device() == log_weights.device(),
              "race takes int64 seeds [", log_weights.size(0), "] on ", log_weights.device(), ", got ",
              seeds.scalar_type(), " ", seeds.sizes(), " on ", seeds.device());
}

}  // namespace ingot::kernels
