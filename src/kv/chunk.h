// Defines the names and headers of chunks. A chunk is the KV of `chunk_tokens` tokens at a multiple of chunk_tokens.
// Its key identifies its tokens and all earlier tokens, and its root everything else that determines its bits.
//
//   key of chunk 0 = H(root, ids of chunk 0)      key of chunk i = H(key of chunk i-1, ids of chunk i)
//
// H is XXH3-128. Keys may collide, so for each chunk in the chain, a reader compares the root, the parent's key, the
// position, and the ids in the file's header with its own.
//
// A chunk's bytes are planes. An attention layer has a plane of keys and a plane of values. A recurrent layer has a
// plane of states, with one state per KV block. A plane has a fixed size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"

namespace ingot::kv {

// Everything that determines a chunk's bits, except its tokens. Two engines share chunks only if all fields are equal.
struct Root {
  uint64_t policy_checksum = 0;  // identifies the weights, because a resumed run reuses version numbers
  std::string model;             // the model's configuration
  std::string numerics;          // device, instruction set, and build, which affect rounding
  std::string dtype;
  int32_t chunk_tokens = 0;
  int32_t block_tokens = 0;          // tokens per state
  std::vector<int64_t> plane_bytes;  // per chunk

  // Returns the fields as one line of JSON: the contents of root.json.
  std::string Text() const;
  base::Key128 Key() const { return base::ContentKey128(Text()); }
};

struct Chunk {
  base::Key128 root{}, parent{}, key{};  // the parent of the first chunk is the root
  int64_t first = 0;                     // position of its first token
  std::vector<int32_t> ids;              // [chunk_tokens]
};

// Returns the complete chunks in `ids`.
std::vector<Chunk> ChainOf(const base::Key128& root, std::span<const int32_t> ids, int32_t chunk_tokens);

// The memory of a chunk's planes. Each plane is a list of pieces, in order.
using PlanesToRead = std::vector<std::vector<std::span<std::byte>>>;
using PlanesToWrite = std::vector<std::vector<std::span<const std::byte>>>;

// The file's layout, little-endian:
//
//   "INGOTKV1" | u32 header bytes | u32 0 | u64 Checksum64(everything below) | root 16 B | parent 16 B | key 16 B |
//   i64 first position | u32 tokens | u32 planes | i32 ids[tokens] | {u64 offset, u64 bytes, u64 Checksum64}[planes]
//   planes, each at a multiple of 4096 bytes
struct FileLayout {
  int64_t header_bytes = 0;
  std::vector<int64_t> offsets;  // offset of each plane
  int64_t file_bytes = 0;
};
FileLayout LayoutOf(const Chunk& chunk, std::span<const int64_t> plane_bytes);

// Returns the header of a chunk whose planes have these checksums.
std::string EncodeHeader(const Chunk& chunk, std::span<const int64_t> plane_bytes,
                         std::span<const uint64_t> plane_checksums);

// Reads the planes' checksums from a header. Returns false unless the header belongs to exactly this chunk.
bool ReadHeader(std::string_view header, const Chunk& chunk, std::span<const int64_t> plane_bytes,
                std::vector<uint64_t>& plane_checksums);

}  // namespace ingot::kv
