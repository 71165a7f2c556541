// The inputs of a decode step on a GPU: ids, positions, slots, the draws' seeds, temperatures, and the plans of attention,
// packed into one block of pinned memory, which one copy brings to the device.
//
// The block's place on the device and its layout depend only on the room (rows, and pairs of a row and a chunk of keys),
// so every step of the same room has its inputs at the same addresses. Places beyond the step's rows are empty: they
// write no key, and attention leaves their rows as they are.
//
// A decode step is a batch whose sequences the decode kernels compute (kernels/cuda/decode_plan.h), with a draw for each
// row. Used by the step thread.
#pragma once

#include <ATen/ATen.h>

#include <compare>
#include <cstdint>
#include <vector>

#include "kernels/torch/decode_step.h"
#include "model/layer_spec.h"
#include "rollout/engine/model_runner.h"

namespace ingot::rollout {

struct StepRoom {
  int64_t rows = 0, entries = 0;
  auto operator<=>(const StepRoom&) const = default;
};

class StepInput {
 public:
  static constexpr int64_t kMostSumBytes = 256 << 20;
  // Returns the bytes that attention needs per entry of a step's room, for its sums.
  static int64_t SumBytes(const model::AttentionSpec& spec);

  // `layers`: those of the model. `blocks`: of the cache.
  StepInput(const std::vector<model::LayerSpec>& layers, int64_t blocks, int64_t block_tokens, at::Device device);

  // Returns whether the model has decode steps: attention layers alone, with heads that the decode kernels compute.
  bool possible() const { return !plans_.empty(); }
  // Plans a batch, which must outlive the Upload. Returns false if it is no decode step, or if its attention would need
  // too much memory for sums (kMostSumBytes). Throws c10::Error if a block is outside the cache. REQUIRES: possible().
  bool Plan(const ForwardBatch& batch);
  const StepRoom& least() const { return least_; }
  // Queues the copy of the planned batch. Throws c10::Error. REQUIRES: `room` is at least the least one.
  void Upload(const StepRoom& room);

  // On the device, valid until the next Upload; its work must be queued before.
  at::Tensor ids() const { return Longs(0); }
  at::Tensor positions() const { return Longs(1); }
  at::Tensor slots() const { return Longs(2); }
  at::Tensor seeds() const { return Longs(3); }
  at::Tensor temperatures() const;
  kernels::DecodeMemory plan(const model::AttentionSpec& spec) const;

  // Returns the bytes of the block for a room.
  int64_t bytes(const StepRoom& room) const;
  // Frees the memory on the device.
  void Release() { memory_.reset(); }

 private:
  // One for all layers of the same shape.
  struct ShapePlan {
    explicit ShapePlan(const kernels::AttentionShape& s) : shape(s) {}
    kernels::AttentionShape shape;
    int64_t sum_bytes = 0;                        // the most of its layers
    std::vector<kernels::cuda::DecodePlan> plan;  // of the batch; one
  };

  static constexpr int64_t kLongs = 4;  // arrays of int64

  at::Tensor Longs(int64_t index) const;
  kernels::cuda::DecodeRoom RoomOfPlan() const { return {room_.rows, room_.entries}; }
  static int64_t PlansAt(int64_t rows) { return (rows * (kLongs * 8 + 4) + 15) / 16 * 16; }
  bool IsDecodeStep(const ForwardBatch& batch) const;

  const int64_t blocks_, block_tokens_;
  const at::Device device_;
  std::vector<ShapePlan> plans_;
  const ForwardBatch* batch_ = nullptr;  // between Plan and Upload
  StepRoom least_, room_;
  at::Tensor memory_;  // uint8, at least bytes(room_)
};

}  // namespace ingot::rollout
