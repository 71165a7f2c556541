// RUN/chat_template.jinja: the copy of model.chat_template that a run's start makes. Roles that start later and commands
// that read the run take the copy, so that they do not see a file that was changed or removed meanwhile.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Copies the file; without model.chat_template it does nothing. To be called before a role starts.
absl::Status KeepChatTemplate(const ModelOptions& model, const RunDir& dir);

// True: the file says something else than the run's copy. False also without a file or a copy.
bool ChatTemplateChanged(const ModelOptions& model, const std::string& run_dir);

// Names the copy in place of the file, if the run has one.
void UseKeptTemplate(const std::string& run_dir, ModelOptions& model);

}  // namespace ingot::app
