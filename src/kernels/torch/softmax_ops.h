// The CUDA kernels of softmax.h as torch operators, registered with the dispatcher under `ingot`. softmax.cc has their
// schemas, and libingot_cuda.so implements them; on the CPU, softmax.cc calls kernels/softmax.h. logits are fp32 or
// fp64 [rows, vocab]. temperature, top, log_sum, and entropy are [rows], of the same type. All tensors are dense. They
// write into the given tensors, and throw c10::Error if tensors do not match.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace ingot::kernels {

using PolicySumsSignature = void(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                                 const at::Tensor& log_sum, const at::Tensor& entropy);
// out [count, vocab] has the log-probs of `rows` (int64 [count]), or of all rows; then it may be the logits.
using PolicyLogProbsSignature = void(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                                     const at::Tensor& log_sum, const std::optional<at::Tensor>& rows,
                                     const at::Tensor& out);
// out [count] has the log-probs of tokens in rows (int64 [count] each).
using PolicyTokenLogProbsSignature = void(const at::Tensor& logits, const at::Tensor& temperature,
                                          const at::Tensor& top, const at::Tensor& log_sum, const at::Tensor& rows,
                                          const at::Tensor& tokens, const at::Tensor& out);
// The gradient (PolicyGradient in kernels/softmax.h), of the logits' type or bf16; it may be the logits.
using PolicyBackwardSignature = void(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& top,
                                     const at::Tensor& log_sum, const at::Tensor& of_p, const at::Tensor& of_plogp,
                                     const at::Tensor& first, const at::Tensor& token, const at::Tensor& addend,
                                     double soft_cap, const at::Tensor& out);

}  // namespace ingot::kernels
