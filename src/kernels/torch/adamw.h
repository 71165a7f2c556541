// Updates a tensor by AdamW on a device (cuda/adamw.cuh), as a torch operator that libingot_cuda.so implements. On the
// CPU, trainer/adamw.cc uses torch's operators. Throws c10::Error.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <optional>

namespace ingot::kernels {

// The numbers of one update; see trainer/adamw.h.
struct AdamWUpdate {
  double beta1 = 0, beta2 = 0, eps = 0;
  double root = 1;                      // sqrt(1 - beta2^t)
  double decay = 1;                     // 1 - learning rate * weight decay
  double step = 0;                      // -learning rate / (1 - beta1^t)
  bool weights = true, moments = true;  // which of them change

  std::array<double, 6> Numbers() const { return {beta1, beta2, eps, root, decay, step}; }
};

// A bf16 parameter, which the master is rounded to, and the parameter's marks.
struct AdamWRounding {
  at::Tensor parameter;  // bf16, dense; undefined = the master is the parameter, or is not rounded
  // int64 [numel / 64, rounded up]: the entries of a weights::ChangeMask, to which bits are added. Undefined = no marks,
  // only without `parameter`.
  at::Tensor changes;
};

// Applies an update to a master and its moments (fp32 or fp64, dense, of one type and device), and rounds the master. If
// `gradient` is undefined, only rounds.
void AdamWOp(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
             const at::Tensor& gradient, const AdamWRounding& rounding, const AdamWUpdate& update);

using AdamWSignature = void(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                            const std::optional<at::Tensor>& gradient, const std::optional<at::Tensor>& parameter,
                            const std::optional<at::Tensor>& changes, at::ArrayRef<double> numbers, bool weights,
                            bool moments);

}  // namespace ingot::kernels
