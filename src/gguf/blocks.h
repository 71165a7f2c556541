// The number formats of GGUF's tensors. A tensor is a sequence of blocks; a block holds a fixed number of values in a
// fixed number of bytes, its scales included. Layouts: ggml's ggml-common.h, block_q4_0 and the blocks after it.
//
// Values are decoded in fp32 with the operations, and in the order, of the `gguf` Python package (gguf/quants.py), so
// that they are equal to its values bit for bit.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ingot::gguf {

struct BlockType {
  uint32_t id = 0;  // as the file writes it
  std::string_view name;
  uint64_t values = 0;  // of a block
  uint64_t bytes = 0;   // of a block
  // Decodes `blocks` blocks from `from` (any alignment) into blocks * values floats.
  void (*decode)(const uint8_t* from, uint64_t blocks, float* to) = nullptr;
};

// The type with that id or name; nullptr: the type is not supported.
const BlockType* FindBlockType(uint32_t id);
const BlockType* FindBlockType(std::string_view name);
// All supported types: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K.
const std::vector<BlockType>& BlockTypes();

}  // namespace ingot::gguf
