// The memory of a KV cache's blocks, by plane: a layer's keys or its values, or a recurrent layer's states. Used on the
// step thread, between two forward passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::rollout {

class KvPages {
 public:
  virtual ~KvPages() = default;

  // Returns the bytes of one block, by plane.
  virtual const std::vector<int64_t>& block_bytes() const = 0;
  // Returns a block's memory in a plane.
  virtual std::span<std::byte> Block(size_t plane, int32_t block) = 0;

  // The fields of kv::Root that the model's runner knows.
  virtual std::string dtype() const = 0;  // of the planes' elements, such as "BF16"
  virtual std::string model() const = 0;
  virtual std::string numerics() const = 0;
};

}  // namespace ingot::rollout
