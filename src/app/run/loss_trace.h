// Traces the user's loss (trainer.custom.function) into a graph that LibTorch runs (trainer/custom_loss/loss_graph.h).
//
//   TraceLoss ──FILE.py:NAME, the allowed operations──▶ the user's interpreter runs trace_loss.py ──JSON──▶ the graph
//
// The function runs only here, in a process of this user, outside any sandbox and without the run's secrets. Training
// needs no Python.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"
#include "trainer/options.h"

namespace ingot::app {

// Source code of the program that the interpreter runs (trace_loss.py).
extern const std::string_view kTraceLossText;

// Importing torch takes several seconds, and longer on a busy machine.
constexpr std::chrono::seconds kTraceTimeout{120};

// Returns the graph as JSON. `python` is the interpreter; empty = reward::UserPython. Blocks for at most `timeout`.
// Errors start with the key: INVALID_ARGUMENT if the interpreter does not start or has no torch, the function cannot be
// loaded or raises an exception (with its stack trace), uses an operation outside the list or a tensor's value (with the
// file and line), or does not return [T]; DEADLINE_EXCEEDED after `timeout`.
absl::StatusOr<std::string> TraceLoss(const trainer::CustomLossOptions& custom, const std::string& python,
                                      std::chrono::milliseconds timeout = kTraceTimeout);

}  // namespace ingot::app
