// RUN/chat_template.jinja: the copy of model.chat_template that is made when a run starts. Roles that start later use
// the copy, so they are not affected if the file changes or disappears in the meantime. Commands that read the run use
// models/kept_tokenizer.h.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Copies the file. Does nothing if model.chat_template is empty. Call before any role starts.
absl::Status KeepChatTemplate(const ModelOptions& model, const RunDir& dir);

// Returns whether the file differs from the run's copy. Returns false if either is missing.
bool ChatTemplateChanged(const ModelOptions& model, const std::string& run_dir);

// Changes the configuration to use the copy, if the run has one.
void UseKeptTemplate(const std::string& run_dir, ModelOptions& model);

}  // namespace ingot::app
