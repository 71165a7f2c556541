// AdamW (decoupled weight decay, arXiv 1711.05101) over named parameters. State and sums are fp32, or fp64 for fp64
// parameters, on the parameters' device. A parameter of a narrower type has a master copy in fp32: the update changes
// the master, and the parameter is rounded from it.
//
//   m = beta1 m + (1 - beta1) g        m' = m / (1 - beta1^t)
//   v = beta2 v + (1 - beta2) g^2      v' = v / (1 - beta2^t)
//   p = p (1 - lr weight_decay)  then  p = p - lr m' / (sqrt(v') + eps)
//
// Every operation is elementwise, so that the result does not depend on the number of threads. One thread at a time;
// throws c10::Error.
//
// While it rounds a bf16 parameter on the CPU, an update marks the words that change (weights/change_mask.h) and
// computes the checksum. So the codec of published versions need not compare them. A version shares the memory of such
// a parameter: two buffers trade places, and the next update rounds into the buffer without readers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/options.h"
#include "weights/buffer_pool.h"
#include "weights/change_mask.h"

namespace ingot::trainer {

// A parameter as updates have rounded it, or a parameter that no update changes.
struct RoundedParameter {
  weights::ChangeMask changes;          // since it was last taken, or since the start
  std::shared_ptr<std::byte[]> memory;  // the parameter's own, which no update changes again; null = torch's
  uint64_t checksum = 0;                // weights::TensorChecksum of the memory
};

class AdamW {
 public:
  // Shares the parameters' tensors and updates them in place. Moments start at 0.
  AdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters);

  // Moves the .grad of each parameter with a master into its fp32 sum; .grad is undefined afterwards. REQUIRES: called
  // after every backward pass where several make a step, for a narrow sum would be rounded each time. Other parameters'
  // .grad stays: torch adds it up in their own type.
  void CollectGradients();

  // Adds `gradient`, of the parameter's shape and the state's type, to the sum of the parameter of that name, and may
  // keep the tensor. For gradients from other ranks, in place of .grad and CollectGradients.
  void AddGradient(const std::string& name, const at::Tensor& gradient);

  // The gradients that Step would apply, by name, shared; undefined = none.
  std::map<std::string, at::Tensor> Gradients() const;

  // Euclidean norm over all gradients; a parameter without a gradient counts as zeros.
  double GradNorm() const;
  // The norm of each gradient, in the order of the names.
  std::vector<double> GradNorms() const;

  // One update at `learning_rate`, from the collected sums and the parameters' .grad. Gradients are scaled down to
  // options.grad_clip_norm if `grad_norm` is above it. Step spends the gradients: call ZeroGrad before the next.
  void Step(double learning_rate, double grad_norm);

  // The same update in two stages. Propose changes only the weights and holds a copy of the earlier weights, in the
  // type of the masters. Then call Halve any number of times, and Commit or TakeBack once. On the CPU Propose and
  // Commit give Step's bits.
  void Propose(double learning_rate, double grad_norm);
  // Halves the change of the weights, weight decay included.
  void Halve();
  // Updates the moments and t with the whole gradient, halved or not.
  void Commit();
  // Restores the weights; moments and t are as before Propose.
  void TakeBack();

  void ZeroGrad();

  // Moments and t become 0; masters stay.
  void Reset();

  int64_t steps() const { return steps_; }  // t of the last update

  // By name. The next update gives each parameter other memory. A parameter that updates do not mark is missing: it is
  // not bf16, or it is on a device.
  std::map<std::string, RoundedParameter> TakeRounded();
  // The changes of one parameter, which TakeRounded then lacks; empty if updates do not mark it.
  weights::ChangeMask TakeChanges(const std::string& name);

  // exp_avg.NAME, exp_avg_sq.NAME and, where there is a master, master.NAME. Shares the tensors: a checkpoint saves
  // them or reads into them, along with the number of steps.
  std::map<std::string, at::Tensor> State() const;
  void SetSteps(int64_t steps) { steps_ = steps; }

 private:
  size_t IndexOf(const std::string& name) const;
  at::Tensor Gradient(size_t i) const;
  // All gradients, zeros where undefined, scaled down to options.grad_clip_norm.
  std::vector<at::Tensor> ClippedGradients(double grad_norm) const;
  // A parameter that is marked while it is rounded.
  struct MarkedParameter {
    weights::ChangeMask changes;          // empty until an update marks a word
    std::shared_ptr<std::byte[]> memory;  // the parameter's; null = torch allocated it, and it has no digests
    std::vector<uint64_t> slices;         // digests of the memory (weights/tensor_checksum.h)
    bool taken = false;                   // the next update rounds into other memory:
    std::shared_ptr<std::byte[]> next;    // this one, once allocated
  };

  void TakeMemory();       // for RoundParameters to write; changes nothing else. Throws StatusError: out of memory.
  void RoundParameters();  // from the masters
  void RoundAndMark(size_t i);

  const OptimizerOptions options_;
  std::vector<std::string> names_;
  // One each per name; master_ is the parameter itself where its type is wide enough
  std::vector<at::Tensor> parameters_, master_, exp_avg_, exp_avg_sq_;
  std::vector<at::Tensor> collected_;    // gradients in fp32; undefined = none
  std::vector<at::Tensor> decayed_;      // the masters of matrices: weight decay applies to them
  std::vector<MarkedParameter> marked_;  // one per name
  weights::BufferPool buffers_;          // of marked parameters
  int64_t steps_ = 0;
  // Between Propose and its end: the masters before it, and the gradients that it applied.
  std::vector<at::Tensor> before_, proposed_;
};

}  // namespace ingot::trainer
