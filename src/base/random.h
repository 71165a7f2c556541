// Generates unpredictable keys, ids, and seeds with the operating system's random source. See base/rng.h for
// reproducible random numbers. Thread safe. Exits the process if the system cannot supply random bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ingot::base {

// Returns this many random bytes in lowercase hexadecimal.
std::string RandomHex(size_t bytes);
uint64_t RandomSeed();

}  // namespace ingot::base
