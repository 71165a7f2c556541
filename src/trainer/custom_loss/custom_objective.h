// The objective `custom`: a user's loss per token, written in Python and traced to a graph (loss_graph.h). w_t is a
// token's weight and l_t the function's result for it:
//
//   loss = sum_t w_t l_t       derivative_t = d loss / d logprob_t, by autograd
//
// With scope call, the function sees the tokens of one call at a time, and with scope batch, all tokens of the batch. If
// no operation of the graph combines tokens, both are the same, and no extra forward pass is needed (Scope::kToken).
//
// Tallies actor/custom/NAME, the mean of each of the function's metrics.
#pragma once

#include <memory>

#include "base/status.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"

namespace ingot::trainer {

// Creates the objective from options.custom.graph, and tries it on a few synthetic tokens. Returns FAILED_PRECONDITION
// if there is no graph; INTERNAL if an operation fails; and INVALID_ARGUMENT if the graph is not valid, the loss does
// not have the shape [T], the loss or its derivative is not finite there, or the loss does not depend on the log-probs.
absl::StatusOr<std::unique_ptr<Objective>> MakeCustomObjective(const TrainerOptions& options);

}  // namespace ingot::trainer
