// Reads the training examples in data.sft and data.dpo. The check before a run and the supervised stages use the same
// function, so a file that passes the check can be trained on. Has no side effects and reads only these two files.
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

// The examples of one stage.
struct StageExamples {
  std::vector<tree::CallPath> calls;
  int64_t count = 0;  // conversations or pairs
  text::ConcessionCounts concessions = {};
};

struct SupervisedExamples {
  StageExamples sft, dpo;  // a stage without a file has no examples
};

// Renders the conversations as the gateway renders the run's requests. Returns INVALID_ARGUMENT, naming the key, file,
// line, and message, if an example is longer than the model's context, has ids outside its vocabulary, cannot be
// rendered, or was recorded with another tokenizer.
absl::StatusOr<SupervisedExamples> ReadSupervisedExamples(const RunConfig& config, const TextParts& text,
                                                          const model::ModelConfig& shape);

}  // namespace ingot::app
