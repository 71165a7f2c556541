#include "app/checks/custom_loss_check.h"

#include "app/run/loss_trace.h"
#include "app/terminal/progress.h"
#include "trainer/custom_loss/custom_objective.h"

namespace ingot::app {

absl::StatusOr<std::string> CheckCustomLoss(const RunConfig& config) {
  if (!config.trainer.custom_loss()) return std::string();
  const Underway tracing("tracing the loss " + config.trainer.custom.function);
  trainer::TrainerOptions options = config.trainer;
  INGOT_ASSIGN_OR_RETURN(options.custom.graph, TraceLoss(options.custom, config.python));
  INGOT_RETURN_IF_ERROR(trainer::MakeCustomObjective(options).status());
  return options.custom.graph;
}

}  // namespace ingot::app
