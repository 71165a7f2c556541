// The experts that engines recorded for the loss-bearing rows of a packed forest (v1::Segment::routes).
//
// Engines that are not bit-identical to the trainer choose other experts for some tokens, and then the ratio of two
// policies is one of two different networks. Replay takes the recorded experts in the trainer's forward pass, with the
// weights that its own router gives them, so that the router still learns: rollout routing replay (R3, arXiv
// 2510.11370). R3 replays prompts too; here rows that bear no loss have no record, and are routed by the trainer's
// router.
//
// A merged row has one choice. If calls that share a row recorded different choices, the first call's counts.
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
  // `calls` outlive this. REQUIRES: their routes fit the model (CheckCall).
  RecordedRoutes(const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
                 const model::ModelConfig& config, bool replay);

  // Gives a layer with experts the records of rows [begin, end), and whether to replay them.
  void Report(int64_t layer, int32_t begin, int32_t end, at::Device device, model::Aux& aux) const;

  bool replays() const { return replay_ && rows_with_routes_ > 0; }
  bool empty() const { return rows_with_routes_ == 0; }
  // Records of rows that differ from an earlier call's record.
  int64_t conflicts() const { return conflicts_; }

 private:
  const int64_t per_token_;
  std::vector<int64_t> places_;  // by layer, of its first route among a row's routes
  const bool replay_;
  std::vector<const uint16_t*> of_rows_;  // by row, the routes of all layers; null = none
  int64_t rows_with_routes_ = 0, conflicts_ = 0;
};

}  // namespace ingot::trainer
