// The secret of Checksum64 (checksum.h), for an implementation on a GPU.
#pragma once

#include <cstddef>
#include <span>

namespace ingot::base {

// Returns the 192 bytes that XXH3 uses without a seed.
std::span<const std::byte> ChecksumSecret();

}  // namespace ingot::base
