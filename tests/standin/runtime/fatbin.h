#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

// Reads the fat binaries that nvcc embeds: a header and entries, each with a kind (PTX or machine code), an architecture, and data that is
// plain or compressed by LZ4 or Zstandard. The layout is not documented; it was read from nvcc 13.0's files in each of its compression
// modes, which the test compiles again.
namespace ingot::standin {

// Returns the PTX with the highest architecture that is at most `capability` (80 = sm_80), or nothing if there is none. Ends the process for
// a file that it cannot read.
std::optional<std::string> FindPtx(std::span<const std::byte> fatbin, int capability);

// The bytes of the fat binary at `data`, by the length in its header. Empty if its mark is missing.
std::span<const std::byte> FatbinAt(const void* data);

// Decodes one LZ4 block. Returns nothing unless it yields exactly `bytes` (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md).
std::optional<std::string> DecodeLz4(std::span<const std::byte> block, size_t bytes);

}  // namespace ingot::standin
