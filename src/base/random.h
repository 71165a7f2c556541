// Unpredictable random numbers from the operating system, for keys, ids and seeds. base/rng.h draws repeatable ones.
// Thread safe. Ends the process if the system cannot supply random bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ingot::base {

// `bytes` random bytes in lower-case hexadecimal.
std::string RandomHex(size_t bytes);
uint64_t RandomSeed();

}  // namespace ingot::base
