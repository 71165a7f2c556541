// The KV cache of the torch runner: pages of keys and values, and recurrent states, on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/torch/attention_plans.h"
#include "kernels/torch/gated_delta.h"
#include "model/attention_backend.h"
#include "model/config.h"
#include "model/layer_spec.h"
#include "rollout/cache/kv_pages.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/step_input.h"

namespace ingot::rollout {

// Returns the configured type for the weights, which arrive later.
at::ScalarType CacheType(const model::ModelConfig& config);

// Names everything besides the weights and the configuration that may change the bits of KV on the CPU. Another build
// may round differently. The first call reads this program.
const std::string& Numerics();

// Returns the whole memory pages inside a tensor to the system, and their number of bytes. They are zero afterwards.
int64_t ReleasePages(const at::Tensor& tensor);

// Holds every layer's key and value pages (shared if keys are values) and the batch being computed. Attention computes
// in the model's type, like the trainer: bf16 on bf16 pages, everything else on fp32.
//
// A recurrent layer has a state per block instead of pages: the state after the last row written into the block. A row
// continues from the state of the block that holds the previous row. Requests share only whole blocks and never write
// into a shared block, so a cached prompt continues from the state after its last shared block.
class PagedCache final : public model::AttentionBackend, public KvPages {
 public:
  // Neither allocates the pages.
  PagedCache(const model::ModelConfig& config, int64_t blocks, int64_t block_tokens, at::Device device);
  // A cache of other layers than the configuration's. Attend is called with `first` for the first of them.
  PagedCache(const model::ModelConfig& config, std::vector<model::LayerSpec> layers, int64_t first, int64_t blocks,
             int64_t block_tokens, at::Device device);

  bool on_cpu() const { return device_.is_cpu(); }
  // Allocates the pages. Otherwise, the first pass does, also after a Release. Throws c10::Error.
  void Allocate();
  // Fixes the type of the pages, and allocates them if there are none. Every pass begins with this. Throws c10::Error.
  void Use(at::ScalarType model);

  // Returns whether the device has kernels for decode steps of models of this type. Allocates as Use.
  bool HasDecodeSteps(at::ScalarType model);

  // KvPages.
  const std::vector<int64_t>& block_bytes() const override { return block_bytes_; }
  std::span<std::byte> Block(size_t plane, int32_t block) override;
  std::string dtype() const override { return dtype_ == at::kBFloat16 ? "BF16" : "F32"; }
  std::string model() const override { return model_; }
  std::string numerics() const override { return Numerics(); }

  // Must be followed by the layers of a forward pass over the batch, which must outlive them. `step`: the batch, already
  // on the device; null = it is no decode step.
  void Begin(const ForwardBatch& batch, const StepInput* step = nullptr);

  // Layers on a device write their keys and values to the pages themselves if the pages have their type.
  std::optional<kernels::PageRows> Pages(int64_t layer, at::ScalarType type) override;
  at::Tensor Attend(int64_t layer, const model::AttentionInput& input) override;

  // Sets a slot's keys and values to zero.
  void Clear(int64_t slot);

  // Returns the pages of all layers to the system, or to torch's allocator of a device. They are zero when they are
  // used again. Returns their number of bytes.
  int64_t Release();

  at::Tensor Recur(int64_t layer, const model::RecurrentInput& input) override;

 private:
  // Plans the rows' parents and the rows after which a block stores its state: the last row of each block.
  void PlanStates();

  // Writes row i of the keys and values to slot i.
  void Write(int64_t layer, const at::Tensor& k, const at::Tensor& v);
  void WriteOnHost(const at::Tensor& rows, at::Tensor& pages) const;

  void Free();

  void ListPlanes();

  const int64_t blocks_, block_tokens_, first_;
  const std::vector<model::LayerSpec> layers_;
  const bool recurs_;
  const at::Device device_;
  const std::string model_;
  at::ScalarType dtype_;            // first the configuration's, which is only a guess; the first weights determine it
  std::vector<at::Tensor> planes_;  // [blocks, ...]: keys, values, and states of all layers; empty = none allocated
  std::vector<int64_t> block_bytes_;  // by plane
  std::vector<at::Tensor> k_, v_;
  std::vector<kernels::DeltaStates> states_;  // for recurrent layers, by block
  const ForwardBatch* batch_ = nullptr;
  const StepInput* step_ = nullptr;
  c10::intrusive_ptr<kernels::AttentionPlans> plans_;  // of the batch
  at::Tensor slots_;                                   // on the device; unused on the CPU
  std::vector<int32_t> parents_;
  std::vector<kernels::KeptState> kept_;
  bool used_ = false;
};

}  // namespace ingot::rollout
