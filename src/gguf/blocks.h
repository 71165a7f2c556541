// Decodes GGUF tensor data types. A tensor is a sequence of blocks. A block stores a fixed number of values in a fixed
// number of bytes, including its scales. Layouts: ggml's ggml-common.h, starting with block_q4_0.
//
// Values are decoded in fp32 with the same operations in the same order as in the `gguf` Python package
// (gguf/quants.py), so they are bit-identical.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ingot::gguf {

struct BlockType {
  uint32_t id = 0;  // id in the file
  std::string_view name;
  uint64_t values = 0;  // values per block
  uint64_t bytes = 0;   // bytes per block
  // Decodes `blocks` blocks from `from` (any alignment) into blocks * values floats.
  void (*decode)(const uint8_t* from, uint64_t blocks, float* to) = nullptr;
};

// Returns the type with this id or name, or nullptr if it is not supported.
const BlockType* FindBlockType(uint32_t id);
const BlockType* FindBlockType(std::string_view name);
// Returns all supported types: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K.
const std::vector<BlockType>& BlockTypes();

}  // namespace ingot::gguf
