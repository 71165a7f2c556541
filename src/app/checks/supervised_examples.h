// The training examples of data.sft and data.dpo: one function for the check before a run starts and for the stages that
// train on them, so that a file which passes the check can be trained on. Pure, but for reading the two files.
#pragma once

#include <cstdint>
#include <vector>

#include "app/models/text_parts.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "model/config.h"
#include "text/chat/concession.h"
#include "tree/forest.h"

namespace ingot::app {

// Of one stage.
struct StageExamples {
  std::vector<tree::CallPath> calls;
  int64_t count = 0;  // conversations or pairs
  text::ConcessionCounts concessions = {};
};

struct SupervisedExamples {
  StageExamples sft, dpo;  // a stage without a file has none
};

// Renders the conversations as the gateway renders the requests of this run. INVALID_ARGUMENT names key, file, line and
// message: an example is longer than the model's context, has ids outside its vocabulary, cannot be rendered, or was
// recorded with another tokenizer.
absl::StatusOr<SupervisedExamples> ReadSupervisedExamples(const RunConfig& config, const TextParts& text,
                                                          const model::ModelConfig& shape);

}  // namespace ingot::app
