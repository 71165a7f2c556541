// How closely the trainer's log-probs equal those that rollout recorded. A plain value: configuration and options
// include this header.
#pragma once

namespace ingot::kernels {

// kFast: to rounding (fp32: 1e-5); the trainer cuts attention's tiles from the packed stream. kExact: to the bit, with
// trees, radix cache, prompts in pieces and any batch, in fp32 and bf16, on the CPU; it cuts them along each path.
// Rollout is the same in both: what it records never depends on the batch, the cache or the threads.
enum class Numerics { kFast, kExact };

}  // namespace ingot::kernels
