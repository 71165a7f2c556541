// config.json's keys of attention through a window.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "model/config.h"
#include "model/families/family.h"

namespace ingot::model {

// REQUIRES: the layers and max_position_embeddings are read. A window as long as the context counts as none.
absl::Status ReadWindow(const base::json::value& json, const Family& family, ModelConfig* config);
void WriteWindow(const ModelConfig& config, const Family& family, base::json::object* json);

}  // namespace ingot::model
