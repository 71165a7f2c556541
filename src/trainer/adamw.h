// AdamW (decoupled weight decay, arXiv 1711.05101) over named parameters, with its state in fp32 (fp64 for fp64
// parameters), on whatever device they are. Parameters of a narrower type have a master copy in fp32, which is what the
// update is applied to.
//
//   m = beta1 m + (1 - beta1) g        m' = m / (1 - beta1^t)
//   v = beta2 v + (1 - beta2) g^2      v' = v / (1 - beta2^t)
//   p = p (1 - lr weight_decay)  then  p = p - lr m' / (sqrt(v') + eps)
//
// Elementwise throughout, so that the result does not depend on threads. One thread at a time; throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/options.h"

namespace ingot::trainer {

class AdamW {
 public:
  // Shares the parameters' tensors and updates them in place. Moments start at 0.
  AdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters);

  // Adds the .grad of parameters of a narrower type to sums in fp32, and resets it: to be called after every backward
  // pass of several, whose sum would otherwise be rounded each time. Nothing for the others.
  void CollectGradients();

  // Adds `gradient`, of the parameter's shape and the state's type, to the sum for a parameter by its name, which keeps
  // it. Instead of .grad and CollectGradients, where gradients come from elsewhere.
  void AddGradient(const std::string& name, const at::Tensor& gradient);

  // What Step would go by, by name, shared; undefined: none.
  std::map<std::string, at::Tensor> Gradients() const;

  // Euclidean norm over all gradients; a parameter without one counts as zeros.
  double GradNorm() const;
  // The norm of each, by name.
  std::vector<double> GradNorms() const;

  // One update at `learning_rate` from the gradients: what was collected and the parameters' .grad. Scaled down to
  // options.grad_clip_norm if `grad_norm` is above it. The gradients are spent: ZeroGrad before the next.
  void Step(double learning_rate, double grad_norm);

  void ZeroGrad();

  // As newly made: moments 0, t 0. Masters stay.
  void Reset();

  int64_t steps() const { return steps_; }  // t of the last update

  // exp_avg.NAME, exp_avg_sq.NAME and, where there is one, master.NAME. Shares the tensors: to be saved, or to be read
  // into, beside the number of steps.
  std::map<std::string, at::Tensor> State() const;
  void SetSteps(int64_t steps) { steps_ = steps; }

 private:
  at::Tensor Gradient(size_t i) const;

  const OptimizerOptions options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_, master_, exp_avg_, exp_avg_sq_;  // one each per name; master_ is the parameter
                                                                        // itself where its type is wide enough
  std::vector<at::Tensor> collected_;                                   // gradients in fp32; undefined: none
  std::vector<at::Tensor> decayed_;                                     // of master_, the matrices
  int64_t steps_ = 0;
};

}  // namespace ingot::trainer
