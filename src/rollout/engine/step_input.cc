#include "rollout/engine/step_input.h"

#include <algorithm>
#include <cstddef>

namespace ingot::rollout {
namespace {

kernels::AttentionShape ShapeOf(const model::AttentionSpec& spec) {
  return {spec.heads, spec.kv_heads, spec.head_dim, spec.scale, spec.window};
}

// Returns whether layers of both shapes have the same plan.
bool SamePlan(const kernels::AttentionShape& a, const kernels::AttentionShape& b) {
  return a.heads / a.kv_heads == b.heads / b.kv_heads && a.window == b.window;
}

bool HasDecodeKernels(const model::LayerSpec& layer) {
  const model::AttentionSpec& spec = layer.attention;
  return !layer.recurrence.exists() && spec.soft_cap == 0 && spec.head_dim % 8 == 0 && spec.head_dim <= 128;
}

}  // namespace

int64_t StepInput::SumBytes(const model::AttentionSpec& spec) {
  return spec.heads * (spec.head_dim + 2) * static_cast<int64_t>(sizeof(float));
}

StepInput::StepInput(const std::vector<model::LayerSpec>& layers, int64_t blocks, int64_t block_tokens,
                     at::Device device)
    : blocks_(blocks), block_tokens_(block_tokens), device_(device) {
  if (device.is_cpu() || !std::all_of(layers.begin(), layers.end(), HasDecodeKernels)) return;
  for (const model::LayerSpec& layer : layers) {
    const kernels::AttentionShape shape = ShapeOf(layer.attention);
    const auto known =
        std::find_if(plans_.begin(), plans_.end(), [&](const ShapePlan& p) { return SamePlan(p.shape, shape); });
    ShapePlan& of_shape = known == plans_.end() ? plans_.emplace_back(shape) : *known;
    of_shape.sum_bytes = std::max(of_shape.sum_bytes, SumBytes(layer.attention));
  }
}

bool StepInput::IsDecodeStep(const ForwardBatch& batch) const {
  const auto rows = static_cast<int64_t>(batch.token_ids.size());
  if (rows == 0 || batch.sampled_rows.size() != batch.token_ids.size()) return false;
  int64_t next = 0;
  for (const kernels::AttentionSequence& s : batch.sequences) {
    if (s.q_begin != next || !kernels::cuda::CanDecode(s)) return false;
    next += s.q_count;
  }
  return next == rows;
}

bool StepInput::Plan(const ForwardBatch& batch) {
  batch_ = nullptr;
  if (!IsDecodeStep(batch)) return false;
  for (const kernels::AttentionSequence& s : batch.sequences) {
    for (int64_t page = 0; page < (s.q_offset + s.q_count + block_tokens_ - 1) / block_tokens_; ++page) {
      TORCH_CHECK(s.block_table[page] >= 0 && s.block_table[page] < blocks_, "a decode step: block ",
                  s.block_table[page], " of a sequence is outside the cache's ", blocks_);
    }
  }
  least_ = {static_cast<int64_t>(batch.token_ids.size()), 0};
  for (ShapePlan& p : plans_) {
    p.plan.clear();
    const int64_t entries = p.plan.emplace_back(p.shape, batch.sequences, block_tokens_).entries();
    if (entries * p.sum_bytes > kMostSumBytes) return false;
    least_.entries = std::max(least_.entries, entries);
  }
  batch_ = &batch;
  return true;
}

int64_t StepInput::bytes(const StepRoom& room) const {
  const kernels::cuda::DecodeRoom of_plan{room.rows, room.entries};
  return PlansAt(room.rows) + static_cast<int64_t>(plans_.size()) * of_plan.bytes(block_tokens_);
}

void StepInput::Upload(const StepRoom& room) {
  TORCH_CHECK(batch_ != nullptr && room.rows >= least_.rows && room.entries >= least_.entries,
              "a decode step does not fit into its room");
  const ForwardBatch& batch = *batch_;
  batch_ = nullptr;
  room_ = room;
  if (!memory_.defined() || memory_.numel() < bytes(room)) {
    memory_ = at::empty({bytes(room)}, at::dtype(at::kByte).device(device_));
  }
  const at::Tensor host = at::empty({bytes(room)}, at::dtype(at::kByte).pinned_memory(true));
  auto* const to = static_cast<std::byte*>(host.mutable_data_ptr());
  const auto longs = [&](int64_t index, const std::vector<int64_t>& values, int64_t rest) {
    auto* const begin = reinterpret_cast<int64_t*>(to) + index * room.rows;
    std::fill(std::copy(values.begin(), values.end(), begin), begin + room.rows, rest);
  };
  std::vector<int64_t> seeds;
  for (const RowRace& race : batch.races) seeds.push_back(static_cast<int64_t>(race.seed));
  longs(0, batch.token_ids, 0);
  longs(1, batch.positions, 0);
  longs(2, batch.slots, -1);
  longs(3, seeds, 0);
  auto* const temperatures = reinterpret_cast<float*>(reinterpret_cast<int64_t*>(to) + kLongs * room.rows);
  std::fill(std::copy(batch.temperatures.begin(), batch.temperatures.end(), temperatures), temperatures + room.rows,
            1.0f);
  int64_t at = PlansAt(room.rows), end = at;
  for (const ShapePlan& p : plans_) {
    end = at + p.plan[0].PackInto(RoomOfPlan(), to + at);
    at += RoomOfPlan().bytes(block_tokens_);
  }
  // torch's allocator of pinned memory uses the block again only after the copy.
  memory_.narrow(0, 0, end).copy_(host.narrow(0, 0, end), /*non_blocking=*/true);
}

at::Tensor StepInput::Longs(int64_t index) const {
  return memory_.narrow(0, index * room_.rows * 8, room_.rows * 8).view(at::kLong);
}

at::Tensor StepInput::temperatures() const {
  return memory_.narrow(0, kLongs * room_.rows * 8, room_.rows * 4).view(at::kFloat);
}

kernels::DecodeMemory StepInput::plan(const model::AttentionSpec& spec) const {
  const int64_t bytes = RoomOfPlan().bytes(block_tokens_);
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (!SamePlan(plans_[i].shape, ShapeOf(spec))) continue;
    return {memory_.narrow(0, PlansAt(room_.rows) + static_cast<int64_t>(i) * bytes, bytes), RoomOfPlan()};
  }
  TORCH_CHECK(false, "a decode step has no plan for a layer with ", spec.heads, " heads and a window of ", spec.window);
}

}  // namespace ingot::rollout
