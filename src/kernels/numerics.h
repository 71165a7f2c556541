// Selects how closely the trainer's log-probs match those recorded by rollout. Includes no other headers, because
// configurations and options include this one.
#pragma once

namespace ingot::kernels {

// kFast   Equal up to rounding (fp32: 1e-5). The trainer cuts attention's tiles from the packed stream.
// kExact  Bit-identical, on the CPU in fp32 and bf16, including trees, radix cache, chunked prompts, and any batch. The
//         trainer cuts attention's tiles along each path.
// Rollout computes the same way in both modes. Its log-probs never depend on the batch, the cache, or the threads.
enum class Numerics { kFast, kExact };

}  // namespace ingot::kernels
