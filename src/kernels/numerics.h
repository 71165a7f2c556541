// Selects how closely the trainer's log-probs match those recorded by rollout. Includes no other headers, because
// configurations and options include this one.
#pragma once

namespace ingot::kernels {

// kFast   Equal up to rounding (fp32: 1e-5). The trainer cuts attention's tiles from the packed stream.
// kExact  Bit-identical in fp32 and bf16, including trees, radix cache, chunked prompts, and any batch. The trainer cuts
//         attention's tiles along each path.
// On the CPU, rollout computes the same way in both modes: its log-probs never depend on the batch, the cache, or the
// threads. On CUDA, kExact also replaces cuBLAS in both (kernels/torch/exact.h), which chooses the order of a sum by the
// number of rows.
enum class Numerics { kFast, kExact };

}  // namespace ingot::kernels
