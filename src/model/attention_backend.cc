#include "model/attention_backend.h"

namespace ingot::model {

at::Tensor AttentionBackend::Recur(int64_t layer, const RecurrentInput&) {
  TORCH_CHECK(false, "layer ", layer, " is recurrent, but its backend computes only attention");
}

std::optional<kernels::PageRows> AttentionBackend::Pages(int64_t, at::ScalarType) { return std::nullopt; }

at::Tensor AttentionBackend::PassThrough(int64_t, const at::Tensor& gate) { return gate; }

}  // namespace ingot::model
