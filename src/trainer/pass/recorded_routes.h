// Provides the experts that engines recorded for the loss-bearing rows of a packed forest (v1::Segment::routes).
//
// Engines that are not bit-identical to the trainer choose different experts for some tokens, so the ratio of the two
// policies then compares two different networks. Replay uses the recorded experts in the trainer's forward pass, with
// weights from the trainer's own router, so the router still trains. This is rollout routing replay (R3, arXiv
// 2510.11370). R3 also replays prompts. Here, rows without loss have no record, so the trainer's router routes
// them.
//
// A merged row has one choice. If calls that share a row recorded different choices, the first call's choice is used.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "model/block.h"
#include "model/config.h"
#include "tree/forest.h"

namespace ingot::trainer {

class RecordedRoutes {
 public:
  // `calls` must outlive this object. REQUIRES: their routes match the model (CheckCall).
  RecordedRoutes(const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
                 const model::ModelConfig& config, bool replay);

  // Sets the records for rows [begin, end) in `aux`, for a layer with experts, and whether to replay them.
  void Report(int64_t layer, int32_t begin, int32_t end, at::Device device, model::Aux& aux) const;

  bool replays() const { return replay_ && rows_with_routes_ > 0; }
  bool empty() const { return rows_with_routes_ == 0; }
  // Returns the number of rows where a call's record differs from an earlier call's.
  int64_t conflicts() const { return conflicts_; }

 private:
  const int64_t per_token_;
  std::vector<int64_t> places_;  // per layer: index of its first route in a row's routes
  const bool replay_;
  std::vector<const uint16_t*> of_rows_;  // per row: the routes for all layers; null = none
  int64_t rows_with_routes_ = 0, conflicts_ = 0;
};

}  // namespace ingot::trainer
