// Checks the operators' arguments, for the kernels of all devices. All functions throw c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/torch/tree_attention_ops.h"

namespace ingot::kernels {

// Checks shapes, dtypes, and devices of q, k, v, and sinks (undefined = none), the scale, the window, and the soft cap.
void CheckNumbers(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale, int64_t window,
                  double soft_cap, const at::Tensor& sinks);

// Owns the arrays to which the sequences refer, in host memory.
struct Batch {
  at::Tensor visible_end, positions, block_table, table;
  std::vector<AttentionSequence> sequences;
};

// Returns the sequences that the operators' arguments describe, after checking their bounds against the memory. Integer
// arrays are on the CPU.
Batch MakeBatch(const at::Tensor& q, const at::Tensor& k, const OptionalTensor& visible_end,
                std::optional<int64_t> q_offset, const OptionalTensor& positions, const OptionalTensor& block_table,
                const OptionalTensor& sequences);

// Converts the tensor to the form that the kernels use: dense, fp16 converted to fp32, and sinks in the accumulator
// type (undefined = none).
at::Tensor Computable(const at::Tensor& t);
at::Tensor ComputableSinks(const OptionalTensor& sinks, const at::Tensor& q);

// Creates the out and lse tensors for a forward pass. every_row false = some rows may not belong to a sequence; they
// remain 0 and -inf.
std::tuple<at::Tensor, at::Tensor> MakeResults(const at::Tensor& q, bool every_row);

// Checks grad, out, and lse of a backward pass against q. REQUIRES: all are results of Computable.
void CheckGradient(const at::Tensor& grad, const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q);

}  // namespace ingot::kernels
