// Defines the options for training a draft head (model/draft_head.h) with the policy (`draft` section). Plain values
// without torch.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::trainer {

struct DraftOptions {
  bool enabled = false;
  int64_t vocabulary = 32768;    // number of predicted ids; 0 = all
  std::string loss = "topk_kl";  // draft_pass.h
  int64_t top_k = 32;
  int64_t depths = 3;  // consecutive ids predicted during training
  double learning_rate = 1e-3;
  double grad_clip_norm = 1.0;
  int64_t rows_per_step = 8192;  // loss tokens per step
  int64_t publish_every = 4;     // publishing interval, in versions
  std::string start;             // set by the run, not by a key: model folder with the initial head
  int64_t warmup_steps = 0;      // steps before the first version, with a frozen policy
  bool shadow = false;           // versions also contain the first version's head, for comparison

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, DraftOptions& options);

}  // namespace ingot::trainer
