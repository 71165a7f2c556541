#include "trainer/pass/recorded_routes.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace ingot::trainer {

RecordedRoutes::RecordedRoutes(const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
                               const model::ModelConfig& config, bool replay)
    : per_token_(config.experts.per_token), replay_(replay), of_rows_(forest.size(), nullptr) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    places_.push_back(config.expert_layers_before(layer) * per_token_);
  const int64_t width = config.routes_per_token();
  for (const tree::LossEntry& entry : forest.entries) {
    const std::vector<uint16_t>& routes = calls[static_cast<size_t>(entry.call)].routes;
    if (routes.empty() || width == 0) continue;
    const uint16_t* own = routes.data() + entry.offset * width;
    const uint16_t*& known = of_rows_[static_cast<size_t>(entry.row)];
    if (known == nullptr) {
      known = own;
      ++rows_with_routes_;
    } else if (!std::equal(own, own + width, known)) {
      ++conflicts_;
    }
  }
}

void RecordedRoutes::Report(int64_t layer, int32_t begin, int32_t end, at::Device device, model::Aux& aux) const {
  if (empty()) return;
  at::Tensor recorded = at::full({end - begin, per_token_}, -1, at::kLong);
  auto* to = recorded.mutable_data_ptr<int64_t>();
  for (int32_t row = begin; row < end; ++row, to += per_token_) {
    const uint16_t* from = of_rows_[static_cast<size_t>(row)];
    if (from != nullptr) std::copy_n(from + places_[static_cast<size_t>(layer)], per_token_, to);
  }
  aux.recorded = recorded.to(device);
  aux.replay = replay_;
}

}  // namespace ingot::trainer
