// Implements AdamW (decoupled weight decay, arXiv 1711.05101) over named parameters. State and sums are fp32, or fp64
// for fp64 parameters, and are stored on the parameters' device. A parameter with a narrower type has an fp32 master
// copy. The update changes the master and rounds it to the parameter.
//
//   m = beta1 m + (1 - beta1) g        m' = m / (1 - beta1^t)
//   v = beta2 v + (1 - beta2) g^2      v' = v / (1 - beta2^t)
//   p = p (1 - lr weight_decay)  then  p = p - lr m' / (sqrt(v') + eps)
//
// Operations are elementwise, so results do not depend on the number of threads. Not thread safe. Throws c10::Error.
//
// When an update rounds a bf16 parameter, it also marks the words that changed (weights/change_mask.h). The version codec
// can then skip the comparison. On the CPU, it also computes the checksum, and a published version shares memory with
// such a parameter. The parameter has two buffers, and the next update writes to the buffer without readers.
//
// On other devices, a kernel reads and writes each tensor once (kernels/cuda/adamw.cuh). Its bits differ from the CPU's
// by the rounding of products that torch's operators may fuse. It marks the words of bf16 parameters and the numbers of
// fp32 ones. A version then needs only the marked elements from the device (kernels/torch/changes.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/torch/adamw.h"
#include "kernels/torch/changes.h"
#include "trainer/options.h"
#include "weights/buffer_pool.h"
#include "weights/change_mask.h"

namespace ingot::trainer {

// A rounded parameter, or a parameter that updates never change.
struct RoundedParameter {
  weights::ChangeMask changes;  // changes since they were last taken, or since creation; of fp32, a bit per number
  // The new values of the marked elements, in order. nullopt = not gathered.
  std::optional<std::vector<std::byte>> values = std::nullopt;
  bool of_words = true;  // whether an element is a two-byte word
  std::shared_ptr<std::byte[]> memory =
      nullptr;  // the parameter's memory, no longer modified; null = allocated by torch
  // weights::TensorChecksum of the parameter, with `memory` or `values`; 0 = unknown. Shows whether a mark is missing.
  uint64_t checksum = 0;
};

// Gathers the changes of parameters on a device and their checksums, by name, and clears their marks.
std::map<std::string, RoundedParameter> TakeMarked(const std::map<std::string, kernels::MarkedTensor>& marked);

class AdamW {
 public:
  // Shares the parameters' tensors and updates them in place. Moments start at 0.
  AdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters);

  // Moves the .grad of each parameter that has a master into its fp32 sum and leaves .grad undefined. Leaves the .grad
  // of other parameters alone, because torch accumulates it in their own type. If a step has several backward passes,
  // call this after each one, because a narrow sum would be rounded each time.
  void CollectGradients();

  // Adds `gradient` to the sum of the named parameter and may keep the tensor. `gradient` has the parameter's shape and
  // the state's type. Used for gradients from other ranks, instead of .grad and CollectGradients.
  void AddGradient(const std::string& name, const at::Tensor& gradient);

  // Returns the gradients that Step would apply, by name. Shares the tensors; undefined = no gradient.
  std::map<std::string, at::Tensor> Gradients() const;

  // Returns the Euclidean norm over all gradients. A parameter without a gradient contributes 0.
  double GradNorm() const;
  // Returns the norm of each gradient, in name order.
  std::vector<double> GradNorms() const;

  // Applies one update at `learning_rate`, from the collected sums and the parameters' .grad. Scales gradients down to
  // options.grad_clip_norm if `grad_norm` is above it. Step consumes the gradients, so call ZeroGrad before the next
  // backward pass.
  void Step(double learning_rate, double grad_norm);

  // Applies the same update as Step in two phases. Propose changes only the weights and saves a copy of the old ones in
  // the masters' type. Then call Halve any number of times, and Commit or TakeBack once. Propose and Commit give the same
  // bits as Step.
  void Propose(double learning_rate, double grad_norm);
  // Halves the change to the weights, including weight decay.
  void Halve();
  // Updates the moments and t with the full gradient, whether or not the step was halved.
  void Commit();
  // Restores the weights. Moments and t are as they were before Propose.
  void TakeBack();

  void ZeroGrad();

  // Resets the moments and t to 0. Does not change the masters.
  void Reset();

  int64_t steps() const { return steps_; }  // t of the last update

  // Returns the marked parameters by name. On the CPU, the next update moves each of them to different memory; on other
  // devices, `changes`, `values`, and `checksum` are set. Omits parameters that updates do not mark.
  std::map<std::string, RoundedParameter> TakeRounded();
  // Same, but all parameters are as on other devices: none moves to different memory.
  std::map<std::string, RoundedParameter> TakeValues();
  // Takes the changes of one parameter on the CPU, which TakeRounded then omits. Returns an empty mask if updates do not
  // mark the parameter.
  weights::ChangeMask TakeChanges(const std::string& name);
  // Returns the marked parameters on a device, by name. Shares the tensors. The caller may take the changes and clear the
  // marks. Empty on the CPU.
  std::map<std::string, kernels::MarkedTensor> MarkedOnDevice();
  void ClearMarksOnDevice();
  // Returns whether updates mark parameters of this type on this device.
  static bool MarksType(const at::Tensor& parameter);

  // Returns exp_avg.NAME, exp_avg_sq.NAME, and, if there is a master, master.NAME. Shares the tensors. A checkpoint
  // saves them or reads into them, along with the step count.
  std::map<std::string, at::Tensor> State() const;
  void SetSteps(int64_t steps) { steps_ = steps; }

 private:
  size_t IndexOf(const std::string& name) const;
  at::Tensor Gradient(size_t i) const;
  // Returns all gradients, scaled down to options.grad_clip_norm, with zeros where undefined.
  std::vector<at::Tensor> ClippedGradients(double grad_norm) const;
  // A parameter with changes that are marked during rounding.
  struct MarkedParameter {
    weights::ChangeMask changes;          // empty until an update marks a word
    std::shared_ptr<std::byte[]> memory;  // the parameter's memory; null = torch allocated it, and it has no digests
    std::vector<uint64_t> slices;         // digests of the memory (weights/tensor_checksum.h)
    bool taken = false;                   // true = the next update rounds into `next`
    std::shared_ptr<std::byte[]> next;    // null = not allocated yet
    at::Tensor on_device;  // entries of a ChangeMask, on the parameter's device; undefined = no update yet, or a CPU
  };
  // Returns the marks of a parameter on a device.
  const at::Tensor& MarksOf(size_t i);

  void TakeMemory();       // allocates the output of RoundParameters; throws StatusError if out of memory
  void RoundParameters();  // rounds the parameters from the masters
  void RoundAndMark(size_t i);
  // Applies an update by the kernel, and rounds the parameter if the weights change. An undefined gradient = only rounds.
  void UpdateOnDevice(size_t i, const at::Tensor& gradient, const kernels::AdamWUpdate& update);
  bool on_device() const { return !parameters_.empty() && !parameters_[0].is_cpu(); }
  // Returns the numbers of update `t` for parameter i.
  kernels::AdamWUpdate NumbersOf(size_t i, double learning_rate, int64_t t) const;

  const OptimizerOptions options_;
  std::vector<std::string> names_;
  // One entry per name. master_ is the parameter itself if its type is wide enough.
  std::vector<at::Tensor> parameters_, master_, exp_avg_, exp_avg_sq_;
  std::vector<at::Tensor> collected_;    // fp32 gradients; undefined = none
  std::vector<at::Tensor> decayed_;      // masters of the matrices, to which weight decay applies
  std::vector<MarkedParameter> marked_;  // one per name
  weights::BufferPool buffers_;          // buffers for marked parameters
  int64_t steps_ = 0;
  // Set between Propose and Commit or TakeBack: the old masters, and the gradients that Propose applied.
  std::vector<at::Tensor> before_, proposed_;
};

}  // namespace ingot::trainer
