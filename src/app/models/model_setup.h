// Sets up a run's model before any weights exist: its shape, text parts, and device.
#pragma once

#include <memory>
#include <string>

#include "app/models/text_parts.h"
#include "app/run/run_config.h"
#include "base/status.h"
#include "gateway/script.h"
#include "model/config.h"

namespace ingot::app {

struct ModelSetup {
  TextParts text;
  model::ModelConfig shape;
  std::string device = "cpu";                                // torch's name for the device (DeviceChoice::torch_name)
  std::shared_ptr<gateway::ScriptedModel> script = nullptr;  // scripted responses; null = the model generates them
};

// Loads the text parts from model.path. Without a path, creates those for the byte tokenizer.
absl::StatusOr<TextParts> TextPartsOf(const ModelOptions& options);

// Loads the setup from model.path. Without a path, uses random weights with the configured shape and the byte
// tokenizer's vocabulary.
absl::StatusOr<ModelSetup> SetUpModel(const ModelOptions& options, const std::string& device = "cpu");

// Loads a script from a file (gateway/script.h).
absl::StatusOr<std::shared_ptr<gateway::ScriptedModel>> LoadScript(const std::string& path, const TextParts& text);

}  // namespace ingot::app
