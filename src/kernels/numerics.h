// Numerics says how closely the trainer's log-probs match the log-probs that rollout recorded. A plain value:
// configuration and options include this header.
#pragma once

namespace ingot::kernels {

// kFast   Equal up to rounding (fp32: 1e-5). The trainer cuts attention's tiles from the packed stream.
// kExact  Equal to the bit, on the CPU in fp32 and bf16, with trees, radix cache, prompts in pieces and any batch. The
//         trainer cuts attention's tiles along each path.
// Rollout computes the same way in both: its log-probs never depend on the batch, the cache or the threads.
enum class Numerics { kFast, kExact };

}  // namespace ingot::kernels
