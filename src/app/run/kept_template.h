// RUN/chat_template.jinja: the copy of model.chat_template that a run's start makes. Roles that start later use the copy,
// so a file that changed or disappeared in the meantime does not affect them. Commands that read the run use
// models/kept_tokenizer.h.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Copies the file; without model.chat_template it does nothing. To be called before a role starts.
absl::Status KeepChatTemplate(const ModelOptions& model, const RunDir& dir);

// True: the file differs from the run's copy. False also without a file or a copy.
bool ChatTemplateChanged(const ModelOptions& model, const std::string& run_dir);

// Makes the configuration name the copy instead of the file, if the run has a copy.
void UseKeptTemplate(const std::string& run_dir, ModelOptions& model);

}  // namespace ingot::app
