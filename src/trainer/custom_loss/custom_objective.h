// Implements the `custom` objective: a user's per-token loss, written in Python and traced to a graph (loss_graph.h).
// w_t is a token's weight, and l_t is the function's result for it:
//
//   loss = sum_t w_t l_t       derivative_t = d loss / d logprob_t, by autograd
//
// With scope `call`, the function gets one call's tokens at a time; with `batch`, all tokens in the batch. If no
// operation in the graph combines tokens, both are equivalent and need no extra forward pass (Scope::kToken).
//
// Tallies actor/custom/NAME, the mean of each of the function's metrics.
#pragma once

#include <memory>

#include "base/status.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"

namespace ingot::trainer {

// Creates the objective from options.custom.graph, and tests it on a few synthetic tokens. Returns FAILED_PRECONDITION
// if there is no graph; INTERNAL if an operation fails; and INVALID_ARGUMENT if the graph is invalid, the loss does not
// have shape [T] or depend on the log-probs, or the loss or its derivative is not finite in the test.
absl::StatusOr<std::unique_ptr<Objective>> MakeCustomObjective(const TrainerOptions& options);

}  // namespace ingot::trainer
