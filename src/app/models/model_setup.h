// The model of a run before any weights exist: its shape, its text parts, its device.
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
  std::string device = "cpu";                                // torch's name of the device (DeviceChoice::torch_name)
  std::shared_ptr<gateway::ScriptedModel> script = nullptr;  // the text that calls return; null = the model samples
};

// The text parts of model.path's folder or, without a path, of the byte tokenizer.
absl::StatusOr<TextParts> TextPartsOf(const ModelOptions& options);

// The setup of model.path's folder or, without a path, of random weights at the configured shape, with the vocabulary
// of the byte tokenizer.
absl::StatusOr<ModelSetup> SetUpModel(const ModelOptions& options, const std::string& device = "cpu");

// The script in a file (gateway/script.h).
absl::StatusOr<std::shared_ptr<gateway::ScriptedModel>> LoadScript(const std::string& path, const TextParts& text);

}  // namespace ingot::app
