// How closely rollout and trainer must agree. A plain value: configuration and options include this header.
#pragma once

namespace ingot::kernels {

// kFast: log-probs of rollout and trainer agree to rounding (fp32: 1e-5). kExact: to the bit, with trees, radix cache,
// prompts in pieces and any batch, in fp32 and bf16, on the CPU. Both sides of a run must use the same one.
enum class Numerics { kFast, kExact };

}  // namespace ingot::kernels
