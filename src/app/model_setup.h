// The model of a run before any weights exist: its shape, its text parts, its device.
#pragma once

#include "app/run_config.h"
#include "app/text_parts.h"
#include "base/status.h"
#include "model/config.h"

namespace ingot::app {

struct ModelSetup {
  TextParts text;
  model::ModelConfig shape;
};

// Of model.path's folder, or of random weights at the configured shape with the tokenizer's vocabulary.
absl::StatusOr<ModelSetup> SetUpModel(const ModelOptions& options);

// OK if this build and machine have the device that the configuration names; `auto` always is. UNIMPLEMENTED and
// UNAVAILABLE say what is missing.
absl::Status CheckDevice(const std::string& device);

}  // namespace ingot::app
