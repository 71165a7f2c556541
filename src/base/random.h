// Random bytes that nobody can guess, from the operating system: keys, ids, seeds. What must be repeatable draws from
// base/rng.h. Thread safe; ends the process when the system gives none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ingot::base {

// `bytes` of them in lower-case hexadecimal.
std::string RandomHex(size_t bytes);
uint64_t RandomSeed();

}  // namespace ingot::base
