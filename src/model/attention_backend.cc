#include "model/attention_backend.h"

namespace ingot::model {

at::Tensor AttentionBackend::Recur(int64_t layer, const RecurrentInput&) {
  TORCH_CHECK(false, "layer ", layer, " is recurrent, and what runs it computes attention alone");
}

at::Tensor AttentionBackend::PassBy(int64_t, const at::Tensor& gate) { return gate; }

}  // namespace ingot::model
