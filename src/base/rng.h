// Generates counter-based random numbers. A seed's nth draw is a pure function of (seed, n). A stream can be resumed at
// any point, and streams are independent of each other. Uses the SplitMix64 finalizer (Steele et al., OOPSLA 2014).
#pragma once

#include <cstdint>

namespace ingot::base {

constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Returns a substream's seed: DeriveSeed(run_seed, kTasks), DeriveSeed(request_seed, token_index), ...
constexpr uint64_t DeriveSeed(uint64_t seed, uint64_t stream) {
  return Mix64(Mix64(seed) ^ (stream * 0xD1342543DE82EF95ull));
}

// Returns a uniform random number in [0, 1) with 53 bits of precision.
constexpr double UniformAt(uint64_t seed, uint64_t counter) {
  return static_cast<double>(DeriveSeed(seed, counter) >> 11) * 0x1.0p-53;
}

}  // namespace ingot::base
