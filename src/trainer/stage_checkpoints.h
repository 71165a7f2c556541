// How far a supervised stage has come: checkpoints (checkpoint.h) in a folder of its own, numbered by the optimizer
// steps taken. A stage that goes on from one is bit-identical to one that never stopped.
//
// Beside each stands stage.json: the checksums of the data and of the weights that the stage began with, so that it is
// not continued with others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/transformer.h"
#include "trainer/adamw.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

class StageCheckpoints {
 public:
  // In `root`; empty: none are kept. `model` as the stage finds it; `model` and `optimizer` outlive this.
  static absl::StatusOr<StageCheckpoints> Open(const std::string& root, const TrainerOptions& options,
                                               const model::Transformer& model, AdamW& optimizer,
                                               const std::vector<tree::CallPath>& calls);

  // Puts the newest one's weights and optimizer state in place. Returns its steps; 0: there is none, nothing changed.
  // FAILED_PRECONDITION: it is of other data or other first weights; others as ReadCheckpoint.
  absl::StatusOr<int64_t> Restore() const;

  absl::Status Save(int64_t steps) const;

 private:
  StageCheckpoints(std::string root, const TrainerOptions& options, const model::Transformer& model, AdamW& optimizer)
      : root_(std::move(root)), options_(&options), model_(&model), optimizer_(&optimizer) {}

  std::string root_;
  const TrainerOptions* options_;
  const model::Transformer* model_;
  AdamW* optimizer_;
  std::string began_with_;  // stage.json
};

// Steps of the newest one in `root`; 0: there is none.
absl::StatusOr<int64_t> StageSteps(const std::string& root);

}  // namespace ingot::trainer
