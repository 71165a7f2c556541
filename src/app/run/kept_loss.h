// RUN/custom_loss.json: the graph of the custom loss (loss_trace.h), written when a run starts. Every trainer rank
// reads it, so all ranks use the same loss, and none of them needs Python or the user's file.
#pragma once

#include <string>

#include "app/run/run_dir.h"
#include "base/status.h"
#include "trainer/options.h"

namespace ingot::app {

// Writes options.custom.graph. Does nothing without a custom loss. Call before any role starts.
absl::Status KeepLoss(const trainer::TrainerOptions& options, const RunDir& dir);

// Returns whether the operations in options.custom.graph differ from those in the run's file. Ignores line numbers in
// the user's file. Returns false if either is missing.
bool LossChanged(const trainer::TrainerOptions& options, const std::string& run_dir);

// Reads the file into options.custom.graph, if the options have a custom loss. Returns FAILED_PRECONDITION if it cannot
// be read.
absl::Status UseKeptLoss(const std::string& run_dir, trainer::TrainerOptions& options);

}  // namespace ingot::app
